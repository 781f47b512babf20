"""Browser tests of the live page: a model of several languages."""
import json

from browser_case import check, choose_model, choose_text, fresh, test
from served import LANGUAGES

SEVERAL = 5  # its number among the models that are served
TEXT = "Where is the station?"


def choose_language(page, side, code):
    """As people do it: the page hears of a change."""
    page.run(f"(() => {{ const s = $('{side}'); s.value = {json.dumps(code)}; s.dispatchEvent(new Event('change')); }})()")


def written(page, source, target):
    """What the server writes when it is asked for these languages."""
    body = {"text": TEXT, "max_tokens": 64} | ({"source_language": source} if source else {}) | ({"target_language": target} if target else {})
    return page.run(f"runToEnd({{model: live.models[{SEVERAL}].id, ...{json.dumps(body)}}}, 'test').then(({{source, output}}) => JSON.stringify([source, output]))")


SHOWN = "JSON.stringify([live.done.source, live.done.output])"


@test
def languages(page, server):
    fresh(page, server)
    check(page.run("$('languages').hidden"), "a model of one pair of languages has no choosers")
    choose_model(page, SEVERAL, TEXT)
    check(page.run("!$('languages').hidden && $('from').checkVisibility() && $('to').checkVisibility()"), "two choosers")
    names = page.run("['from', 'to'].map((id) => [...$(id).options].map((o) => `${o.value}|${o.textContent}`).join())")
    check(names == ["zho_Hans|Chinese (zho_Hans),|English (eng_Latn),fra_Latn|French (fra_Latn)",
                    "zho_Hans|Chinese (zho_Hans),eng_Latn|English (eng_Latn),fra_Latn|French (fra_Latn)"], f"names of languages: {names}")
    check(page.run("$('to').value") == "fra_Latn", "the folder does not say what to write, and the text is English: French")
    check(page.run(SHOWN) == written(page, "", "fra_Latn"), "at first: French")
    seen = {page.run(SHOWN)}
    for source, target in (("", "zho_Hans"), ("zho_Hans", "fra_Latn"), ("zho_Hans", "eng_Latn")):
        choose_language(page, "from", source)
        choose_language(page, "to", target)
        page.wait(f"live.done.output[0] === {57 + LANGUAGES.index(target)} && live.done.source[0] === {57 + LANGUAGES.index(source or 'eng_Latn')} && {SHOWN} !== {json.dumps(list(seen)[-1])}")
        check(page.run(SHOWN) == written(page, source, target), f"{source} to {target}: as the server writes it")
        seen.add(page.run(SHOWN))
    check(len(seen) == 4, "each choice shows")
    check(page.run("$('examples').textContent.includes('火车站在哪里？')"), "examples are in the language that is read")
    # A head switched off, and the search: in these languages too.
    page.run("void setChanges([{kind: 'head', part: 'cross', layer: 0, head: 0}])")
    page.wait("live.experiment?.output")
    check(page.run("live.experiment.output.output[0]") == 57, "an experiment writes the same language")
    page.run("setChanges([]).then(() => void openPanel('beam'))")
    page.wait("!!document.querySelector('.beam .node')")
    check("eng_Latn" in page.run("document.querySelector('.beam .node').textContent"), "the search begins with the language")
    # The link, Back, and a language that is not there.
    page.wait("location.hash === addressOf()")
    link = page.run("addressOf()")
    check("from=zho_Hans" in link and "to=eng_Latn" in link, f"the link has the languages: {link}")
    choose_language(page, "to", "fra_Latn")
    page.wait("live.done.output[0] === 58 && location.hash.includes('to=fra_Latn')")
    page.run("history.back()")
    page.wait("live.done.output[0] === 57 && $('to').value === 'eng_Latn' && $('from').value === 'zho_Hans'", what="Back brings the language back")
    fresh(page, server, link)
    check(page.run("[$('from').value, $('to').value, live.done.source[0], live.done.output[0]].join()") == "zho_Hans,eng_Latn,59,57", "the link opens in its languages")
    page.run("window.saved = null; URL.createObjectURL = (blob) => { saved = blob.text(); return 'data:,'; }; HTMLAnchorElement.prototype.click = () => {}; void saveOffline()")
    page.wait("saved")
    check("several, from zho_Hans to eng_Latn" in page.run("saved"), "the offline page says them")
    page.go("about:blank")
    page.go(server.address + link.replace("eng_Latn", "xx"))
    page.wait("typeof live === 'object' && !$('problem').hidden")
    check(page.run("$('problem').textContent") == 'target_language: expected one of eng_Latn fra_Latn zho_Hans; found "xx"', "a language that is not there is one clear line")
    check(all("400" in line for line in page.console), f"the browser's own line about it: {page.console}")
    page.console.clear()
    choose_language(page, "to", "fra_Latn")
    page.wait("live.done?.output[0] === 58 && $('problem').hidden", what="another language mends it")
    # Another model: none of it is left.
    choose_model(page, 0, TEXT)
    check(page.run("$('languages').hidden && !addressOf().includes('from=') && !addressOf().includes('to=')"), "another model has no languages")
    choose_text(page, "The train arrived on time.")


@test
def languages_by_the_keyboard_and_on_a_phone(page, server):
    fresh(page, server)
    choose_model(page, SEVERAL, TEXT)
    page.run("$('from').focus()")
    page.press("Tab")
    check(page.run("document.activeElement.id") == "to", "Tab goes from one to the other")
    page.press("ArrowUp")
    page.wait("live.done.output[0] === 57", what="arrow keys choose a language")
    names = page.run("['from', 'to'].map((id) => $(id).labels[0].textContent.trim().split(' ')[0])")
    check(names == ["From", "To"], f"labels: {names}")
    page.size(390, 844)
    page.settle(0.2)
    boxes = page.run("['from', 'to', 'text'].map((id) => { const {left, right, top, bottom} = $(id).getBoundingClientRect(); return [left, right, top, bottom]; })")
    check(all(0 <= left < right <= 390 for left, right, _, _ in boxes) and boxes[1][3] <= boxes[2][2], f"inside a phone, above the text: {boxes}")
