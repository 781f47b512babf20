#!/usr/bin/env python3
"""The page of `heed serve` in a real browser, as people use it.

    browser_test.py HEED MODEL        starts HEED serve MODEL
    browser_test.py --at ADDRESS      uses a server that is there (without the tests that stop it)
"""
import json
import os
import sys
import time

import browser_languages  # noqa: F401 (its tests are added to TESTS)
import browser_views  # noqa: F401
import chromium
from browser_case import READY, SETTLED, TESTS, check, choose_model, choose_text, fresh, test
from served import LONG, Server


@test
def typing_shows_the_attention(page, server):
    fresh(page, server)
    page.run("$('text').focus(); $('text').select()")
    page.run("""window.seen = []; new MutationObserver(() => {
        const n = document.querySelectorAll('#output .word:disabled').length;
        if (n) seen.push(n); }).observe($('output'), {childList: true})""")
    page.type("Where is my bag?")
    page.wait("live.record.source === 'Where is my bag?'")
    page.settle()
    check(page.run("$('output').textContent.length > 2"), "the output has no text")
    check(page.run("document.querySelectorAll('#grid .thumb').length") ==
          page.run("live.model.encoder_layers && record[state.part].length * (live.model.heads + 1)"), "thumbnails of all heads")
    check(page.run("JSON.stringify([state.layer, state.head])") ==
          page.run("(({layer, head}) => JSON.stringify([layer, head]))(bestPlace(state.part))"), "the most telling head is open")
    check(page.run("seen.length") > 0, "tokens streamed in")
    # A word is pasted in place of another: what is new is marked. (While somebody types, how many texts are read in between
    # depends on how busy the machine is.)
    page.run("$('text').value = 'Where is my book?'; $('text').dispatchEvent(new Event('input', {bubbles: true}))")
    page.wait("live.record.source === 'Where is my book?'")
    page.settle()
    check(page.run("document.querySelectorAll('.changed:not(#marks *)').length") > 0, "new tokens are marked")
    check(not page.run("$('marks').hidden"), "the legend tells of the marks")
    own = page.run("(async () => { const t = performance.now(); show(toRecord(live.done, await askAttention(withChanges({})))); "
                   "await new Promise((r) => requestAnimationFrame(() => setTimeout(r))); return performance.now() - t; })()")
    print(f"    weights asked for, drawn and on the screen in {own:.0f} ms")


@test
def another_token(page, server):
    fresh(page, server)
    choose_text(page, "The train arrived on time.")
    page.click_on("#output .word:nth-child(2)")
    page.wait("document.querySelectorAll('.next-token').length === 10")
    check("bits" in page.run("$('panel-body').textContent"), "entropy is said")
    check(abs(page.run("[...document.querySelectorAll('.next-token .next-number:not(.soft)')].reduce((s, e) => s + parseFloat(e.textContent), 0)") - 100) < 100, "probabilities")
    page.run("(() => { const s = document.querySelectorAll('.sliders input')[1]; s.value = 2; s.dispatchEvent(new Event('input', {bubbles: true})); })()")
    page.wait("document.querySelectorAll('.next-token.cut').length === 8", what="top-k 2 leaves two")
    before = page.run("live.done.output.join()")
    page.click_on(".next-token[aria-current=false]")
    page.wait(f"live.done.output.join() !== {json.dumps(before)} && {SETTLED}")
    page.settle()
    check(page.run("live.prefix.length") == 2, "the prefix holds the token")
    check(page.run("live.done.output[1] === live.prefix[1]"), "the model went on from the token")
    check("prefix=" in page.run("location.hash"), "the address holds the token")


@test
def one_weight(page, server):
    fresh(page, server)
    x, y = page.run("""(() => { const c = document.querySelector('.map canvas'); c.scrollIntoView({block: 'center'});
        const r = c.getBoundingClientRect(); return [r.left + 1.5 * r.width / map.columns, r.top + 1.5 * r.height / map.rows]; })()""")
    page.click(x, y)
    page.wait("document.querySelectorAll('.product').length > 3")
    a = page.run("(({products, dot, weight, logsumexp, score, query, rivals}) => ({sum: products.reduce((s, p) => s + p.product, 0), dot, weight, again: Math.exp(score - logsumexp), d: query.length, total: rivals.reduce((s, r) => s + r.weight, 0)}))(live.explained)")
    check(abs(a["sum"] - a["dot"]) < 1e-3 * max(1, abs(a["dot"])), f"products add up: {a}")
    check(abs(a["again"] - a["weight"]) < 1e-3, f"softmax: {a}")
    check(abs(a["total"] - 1) < 1e-3, f"the row adds up: {a}")
    shown = page.run("current()[1][1]")
    check(abs(shown - a["weight"]) < 2e-3, f"map {shown}, explained {a['weight']}")


@test
def names_several_heads_and_words(page, server):
    fresh(page, server)
    choose_text(page, "I have known him for ten years.")
    page.run("openTab(parts.find((part) => live.record.names[part].flat().some(({name}) => name)) ?? 'decoder')")
    check(page.run("document.querySelectorAll('#named .chip').length") > 0, "no head has a name")
    page.click_on("#named .chip")
    check(page.run("document.querySelectorAll('.thumb.faded').length") > 0, "the filter fades the others")
    page.click_on("#named .chip")
    page.click_on('.thumb[data-layer="0"][data-head="1"]')
    page.click_on('.thumb[data-layer="1"][data-head="2"]', modifiers=8)
    page.settle()
    check(page.run("document.querySelectorAll('.thumb.picked').length") == 2, "two heads are chosen")
    check("in colours" in page.run("$('heading').textContent"), "overlay")
    page.press("x")
    page.run("live.chosen = []; drawChosen(); redraw()")
    pieces = page.run("rowTokens('encoder').length")
    page.press("w")
    check(page.run("rowTokens('encoder').length") <= pieces, "words are fewer than pieces")
    rows = page.run("current().map((r) => r.reduce((s, x) => s + x, 0))")
    check(all(abs(r - 1) < 0.01 for r in rows), f"rows of words add up to 1: {rows}")
    page.press("w")


@test
def experiments(page, server):
    fresh(page, server)
    choose_text(page, "The train arrived on time.")
    page.run("openTab('cross')")
    page.click_on("#head-off")
    page.wait("live.experiment && document.querySelectorAll('.effect').length > 3")
    page.wait("document.querySelectorAll('.reached').length > 3")
    reach = page.run("live.experiment.reach.map((r) => r.changed)")
    check(reach[0] == 0, f"nothing before the head changed: {reach}")
    check(any(reach), f"something after it changed: {reach}")
    check(page.run("$('active').textContent.includes('off')"), "the list of changes")
    page.press("Escape")
    page.run("void addChange({kind: 'layer', part: 'decoder', layer: state.layer})")
    page.wait("!$('problem').hidden || live.changes.length === 2")
    page.settle(0.1)
    page.console[:] = [line for line in page.console if "400" not in line]  # refused: the head is in that layer
    page.run("void setChanges([])")
    page.wait("live.changes.length === 0 && !live.experiment")
    page.run("void addChange({kind: 'token', side: 'source', position: 1})")
    page.wait("live.experiment && live.changes.length === 1")
    page.settle()
    check(page.run("record.cross[0].weights[0].every((row) => row[1] === 0)"), "nobody looks at a hidden token")
    page.run("void setChanges([{kind: 'edge', part: 'cross', layer: 0, head: 0, row: 1, column: 0}])")
    page.wait("live.experiment && live.changes[0].kind === 'edge' && record.cross[0].weights[0][1][0] === 0")
    # The state of another text.
    page.run("void setChanges([])")
    page.wait("live.changes.length === 0 && !live.experiment")
    page.settle()
    page.run("openPanel('change')")
    page.wait("!!document.querySelector('#panel-body input[type=text]')")
    # In one go: the panel may be drawn anew between two.
    page.run("""(document.querySelector('#panel-body details').open = true,
        document.querySelector('#panel-body input[type=text]').value = 'He is a doctor.',
        [...document.querySelectorAll('#panel-body button')].find((b) => b.textContent === 'Replace').click())""")
    page.wait("live.experiment && live.changes[0]?.kind === 'state'")
    # What can be taken along.
    page.run("""window.saved = []; URL.createObjectURL = (blob) => { saved.push(blob); return 'blob:x'; };
        HTMLAnchorElement.prototype.click = function () { saved.at(-1).name = this.download; }""")
    page.run("saveExperiment('json'); saveExperiment('csv'); saveSvg(); saveJson(); savePng(); void saveOffline()")
    page.wait("saved.length === 6 && saved.every((b) => b.name)")
    sizes = page.run("Promise.all(saved.map(async (b) => [b.name, (await b.text()).slice(0, 15), b.size]))")
    check({name.split(".")[-1] for name, _, _ in sizes} == {"json", "csv", "svg", "png", "html"}, f"files: {sizes}")
    check(all(size > 100 for _, _, size in sizes), f"files: {sizes}")
    check(any(begin.lower().startswith("<!doctype html") for _, begin, _ in sizes), f"the offline page: {sizes}")


@test
def layers_and_search(page, server):
    fresh(page, server)
    page.run("openPanel('layers')")
    page.wait("document.querySelectorAll('.layer').length === live.model.decoder_layers + 1")
    last = page.run("document.querySelector('.layer:last-child .guess').textContent")
    page.run("openPanel('beam')")
    page.wait("document.querySelectorAll('.beam .node').length > 4")
    check(page.run("document.querySelectorAll('.node.best').length") > 1, "the best branch is marked")
    check(last, "a guess")


@test
def long_texts_and_training(page, server):
    if not server.process:
        return
    fresh(page, server)
    choose_model(page, 1, "The quick brown")
    page.wait("live.record.decoder.length === 2")
    page.run("openPanel('training')")
    page.wait("document.querySelectorAll('#curves .curve').length === 2", what="curves of loss and validation loss")
    page.run("void showCheckpoint(0)")
    page.wait("!!document.querySelector('#second svg')")
    check("At update" in page.run("$('second').textContent"), "the checkpoint has its name")
    page.run(f"void setText({json.dumps(LONG)})")
    page.wait("live.long && live.long.picture")
    check(page.run("!$('long').hidden && $('views').hidden"), "a long text has its own view")
    check(page.run("live.long.picture.weights.length") == 512 * 512, "pooled to 512 x 512")
    page.run("$('long-canvas').focus()")
    page.press("+")
    page.press("+")
    page.wait("live.long.picture.rows[1] - live.long.picture.rows[0] < live.long.n / 3", what="the part in sight")
    check(page.run("live.long.picture.rows[1] - live.long.picture.rows[0] === live.long.picture.height"), "at its own resolution")
    page.press("ArrowLeft")
    page.press("Enter")
    page.wait("document.querySelectorAll('#long-row td').length > 5")
    page.run("void setText('The lazy dog')")
    page.wait("!live.long && live.record && !$('views').hidden")


@test
def tour_in_both_languages(page, server):
    fresh(page, server)
    for language in ("en", "zh"):
        page.run(f"tour.language = '{language}'; void openTour(0)")
        seen = []
        for at in range(10):
            page.wait(f"tour.at === {at} && $('tour-text')?.getAttribute('aria-busy') === 'false'")
            text = page.run("$('tour').textContent")
            check("undefined" not in text and "NaN" not in text and "[object" not in text, f"{language} {at}: {text}")
            check(page.run("document.querySelectorAll('.lit').length") == 1, f"stop {at} shows nothing")
            seen.append(text)
            if at == 0:
                check(page.run("$('tour').contains(document.activeElement)"), "the keyboard is in the tour")
            if at < 9:
                page.press("ArrowRight") if at % 2 else page.click_on("#tour-next")
        check(len(set(seen)) == 10, "ten different stops")
        check(page.run("live.changes.length") == 1, "the experiment's stop switches a head off")
        page.press("ArrowLeft")
        page.wait("tour.at === 8 && $('tour-text')?.getAttribute('aria-busy') === 'false'")
        page.run("closeTour()")
        page.wait("live.changes.length === 0 && !live.experiment")


@test
def phone_and_dark(page, server):
    fresh(page, server)
    page.size(390, 844)
    page.settle()
    a = page.run("(() => { scrollTo(0, 0); const c = document.querySelector('.map canvas').getBoundingClientRect(), g = $('grid').getBoundingClientRect(); return {width: document.documentElement.scrollWidth, left: c.left, right: c.right, top: c.top, grid: g.top}; })()")
    check(a["width"] <= 390, f"the page is wider than the phone: {a} " + str(page.run("[...document.querySelectorAll(`body *`)].filter((e) => e.getBoundingClientRect().right > 391).map((e) => e.tagName + e.id + e.className)")))
    check(0 <= a["left"] and a["right"] <= 390 and a["top"] < 700 and a["grid"] > a["top"], f"the map comes first: {a}")
    page.size(720, 450)  # a window of 1440 x 900 at 200 %
    page.settle()
    check(page.run("document.documentElement.scrollWidth") <= 720, "at 200 % nothing is cut off")
    page.size(1440, 900)
    for scheme in ("light", "dark"):
        page.media(prefers_color_scheme=scheme)
        for panel in ("next", "why", "layers", "change", "beam", "compare"):
            page.run(f"lock(null, null); openPanel('{panel}')")
            page.settle(0.4)
            bad = page.run(CONTRAST)
            check(not bad, f"{scheme}, {panel}: {bad[:6]}")


CONTRAST = r"""(() => {
  const parts = (value) => value.match(/[\d.]+/g).map(Number);
  const over = (front, back) => front.slice(0, 3).map((c, k) => c * (front[3] ?? 1) + back[k] * (1 - (front[3] ?? 1)));
  const luminance = (rgb) => rgb.reduce((sum, c, k) => sum + [0.2126, 0.7152, 0.0722][k] * (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4), 0);
  const hex = parts(getComputedStyle(document.body).backgroundColor);
  const behind = (e) => { if (!e) return hex; const c = parts(getComputedStyle(e).backgroundColor); return (c[3] ?? 1) === 1 ? c.slice(0, 3) : over(c, behind(e.parentElement)); };
  const bad = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, e = node.parentElement;
    if (!node.data.trim() || e.closest('[aria-hidden], script, option, :disabled') || !e.checkVisibility({visibilityProperty: true})) continue;
    const style = getComputedStyle(e), back = behind(e), colour = parts(e instanceof SVGElement ? style.fill : style.color);
    let seen = colour[3] ?? 1;
    for (let p = e; p; p = p.parentElement) seen *= Number(getComputedStyle(p).opacity);
    const [a, b] = [luminance(over([...colour.slice(0, 3), seen], back)), luminance(back)];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) bad.push([node.data, Number(contrast.toFixed(2)), String(e.className.baseVal ?? e.className)]);
  }
  return bad;
})()"""


@test
def keyboard_alone(page, server):
    fresh(page, server)
    page.run("document.activeElement.blur()")
    page.press("/")
    check(page.run("document.activeElement.id") == "text", "/ goes to the text")
    page.run("$('text').select()")
    page.type("He is a doctor.")
    page.press("Enter")
    page.wait("live.record.source === 'He is a doctor.'")
    page.press("Escape")
    before = page.run("[state.layer, state.head].join()")
    page.press("ArrowRight")
    check(page.run("[state.layer, state.head].join()") != before, "arrows move between heads")
    page.run("document.querySelector('.map').focus()")
    page.press("ArrowDown")
    page.press("ArrowRight")
    page.press("Enter")
    page.wait("document.querySelectorAll('.product').length > 3")
    page.press("n")
    page.wait("document.querySelectorAll('.next-token').length === 10")
    page.press("t")
    check(page.run("document.querySelectorAll('#table td').length") > 8, "t opens the table")
    page.press("t")
    page.press("?")
    check(page.run("$('help').open"), "? lists the keys")
    page.press("Escape")
    page.settle(0.1)
    check(not page.run("$('help').open"), "Escape closes the list")
    # Everything can be reached: Tab comes round to where it was.
    stops = set()
    page.run("document.body.focus()")
    for _ in range(90):
        page.press("Tab")
        stops.add(page.run("(document.activeElement.id || document.activeElement.className || document.activeElement.tagName)"))
    for needed in ("model", "text", "map", "fold", "tour-open", "panel-next"):
        check(needed in stops, f"Tab does not reach {needed}: {sorted(stops)}")


@test
def names_for_everybody(page, server):
    fresh(page, server)
    page.run("toggleShare()")
    roles = {"button", "textbox", "combobox", "slider", "tab", "link", "checkbox", "spinbutton", "img", "image", "application", "dialog", "searchbox"}
    for panel in ("next", "beam", "layers", "change", "compare"):
        page.run(f"openPanel('{panel}')")
        page.settle(0.4)
        page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        nodes = page.call("Accessibility.getFullAXTree")["nodes"]
        unnamed = [n for n in nodes if not n.get("ignored") and n.get("role", {}).get("value") in roles and not n.get("name", {}).get("value", "").strip()]
        check(not unnamed, f"{panel}: controls without a name: {[(n['role']['value'], n.get('properties')) for n in unnamed][:4]}")
    page.run("toggleShare()")


@test
def back_and_forward(page, server):
    fresh(page, server)
    choose_text(page, "I am tired.")
    choose_text(page, "She is happy.")
    page.run("history.back()")
    page.wait("live.record.source === 'I am tired.' && $('text').value === 'I am tired.'")
    page.run("history.forward()")
    page.wait("live.record.source === 'She is happy.'")
    link = page.run("(select('cross', 1, 1), location.hash)")
    fresh(page, server, link)
    page.wait("live.record.source === 'She is happy.'")
    check(page.run("[state.part, state.layer, state.head].join()") == "cross,1,1", "the link holds the head")
    fresh(page, server, "#token=secret&text=I+am+tired.")
    check("token" not in page.run("location.hash"), "the token left the address")
    check(page.run("sessionStorage.getItem('heed-token')") == "secret", "the token is kept")
    page.run("sessionStorage.clear()")


@test
def hostile_text_stays_text(page, server):
    fresh(page, server)
    choose_text(page, "<img src=x onerror=alert(1)> <script>alert(2)</script>")
    page.settle()
    check(page.run("document.querySelectorAll('img, script').length") == 1, "markup from a text")
    check(page.run("visible('a\\n\\t\\u202e')") == "a\u21b5\u2409<U+202E>", "control characters are visible")


@test
def others_need_the_token(page, server):
    if not server.process:
        return
    page.go("about:blank")
    server.stop()
    page.console.clear()
    server.start("--host", "0.0.0.0")
    try:
        page.go("about:blank")
        page.go(server.address)
        page.wait("!$('problem').hidden && $('views').hidden", what="one line that says what is missing")
        page.run("$('tour-open').click(); $('share-open').click()")
        page.go("about:blank")
        page.go(server.address + "#token=" + server.token())
        page.wait(READY)
        check("token" not in page.run("location.hash"), "the token left the address")
        page.go("about:blank")
        page.go(server.address)
        page.wait(READY, what="the token is kept in this tab")
        page.console[:] = [line for line in page.console if "401" not in line]
        page.run("sessionStorage.clear()")
        page.go("about:blank")
    finally:
        server.stop()
        server.start()


@test
def server_gone_and_back(page, server):
    if not server.process:
        return
    fresh(page, server)
    server.stop()
    page.wait("!$('banner').hidden && $('banner').textContent.includes('does not answer')", limit=15)
    page.run("$('text').value = 'I am tired.'; typed()")
    page.settle(1)
    server.start()
    page.wait("$('banner').hidden && live.record.source === 'I am tired.'", limit=20)
    page.console.clear()  # the browser itself reports connections that are refused


@test
def model_replaced(page, server):
    if not server.process:
        return
    fresh(page, server)
    was = page.run("live.model.version")
    config = server.model / "config.json"
    server.stop()
    config.write_text(config.read_text() + "\n")
    os.utime(config)
    server.start()
    page.wait("$('banner').textContent.includes('has changed')", limit=20)
    check(page.run("live.model.version") != was, "the version is new")
    page.wait(READY)
    page.console.clear()


def main():
    browser = chromium.find()
    if not browser:
        print("no chromium in PATH (Debian package chromium): the live page was not looked at")
        return 77
    arguments = sys.argv[1:]
    if len(arguments) >= 2 and arguments[0] == "--at":
        server = type("There", (), {"address": arguments[1], "process": None, "close": lambda self: None})()
    elif len(arguments) >= 2:
        server = Server(*arguments[:2])
    else:
        raise SystemExit(__doc__)
    wanted, failures = arguments[2:], 0
    page = chromium.Page(browser)
    try:
        for one in TESTS:
            if wanted and one.__name__ not in wanted:
                continue
            begin = time.monotonic()
            page.console.clear()
            try:
                one(page, server)
                noise = [line for line in page.console if line]
                check(not noise, f"said on the console: {noise[:3]}")
                result = "ok"
            except (AssertionError, chromium.Failed) as error:
                failures += 1
                result = f"FAILED: {error}; the page says: {page.run('document.getElementById(`problem`)?.textContent')}; console: {page.console[:2]}"
            print(f"{one.__name__}: {result} ({time.monotonic() - begin:.1f} s)", flush=True)
        others = sorted({url for url in page.requests if not url.startswith((server.address, "data:", "blob:", "about:"))})
        print("requests to other hosts:", others or "none")
        failures += bool(others)
    finally:
        page.close()
        server.close()
    print("failed" if failures else "passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
