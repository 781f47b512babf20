"""Browser tests of the live page: several heads, lines, two records side by side, long texts, paper."""
import json

from browser_case import check, choose_text, fresh, test
from served import LONG


def choose_heads(page, *heads):
    """Heads of the part in view, counted from 0: the first by a click, the others with Shift."""
    for k, (layer, head) in enumerate(heads):
        page.click_on(f'.thumb[data-layer="{layer}"][data-head="{head}"]', modifiers=8 if k else 0)
    page.settle(0.1)


def press_button(page, text, inside="body"):
    page.run(f"[...document.querySelectorAll({json.dumps(inside + ' button')})].find((b) => b.textContent === {json.dumps(text)}).click()")


def box_of(page, selector):
    return page.run(f"(({{left, right, top, bottom}}) => ({{left, right, top, bottom}}))(document.querySelector({json.dumps(selector)}).getBoundingClientRect())")


MEAN = """(() => { const maps = chosenHere().map(({part, layer, head}) => record[part][layer].weights[head]);
    return Math.max(...current().flatMap((row, i) => row.map((w, j) => Math.abs(w - maps.reduce((s, m) => s + m[i][j], 0) / maps.length)))); })()"""


@test
def mean_over_chosen_heads(page, server):
    fresh(page, server)
    choose_text(page, "I have known him for ten years.")
    page.run("openTab('cross')")
    choose_heads(page, (0, 1), (1, 2), (2, 0))
    press_button(page, "mean of them")
    check("mean of them" in page.run("$('heading').textContent"), "the heading says what is shown")
    check(page.run(MEAN) < 1e-12, "the weights are the mean of the three heads")
    shown = page.run("[...document.querySelectorAll('#stage canvas')].length")
    check(shown == 1, "as a map")
    page.press("l")
    check(page.run("document.querySelectorAll('.lines path').length") ==
          page.run("current().flat().filter((w) => w / full >= 0.01).length"), "lines of the mean")
    check(page.run("[...document.querySelectorAll('.lines path')].every((p) => !p.style.stroke)"), "in one colour")
    press_button(page, "in colours")
    colours = page.run("[...new Set([...document.querySelectorAll('.lines path')].map((p) => p.style.stroke))]")
    dots = page.run("[...document.querySelectorAll('#chosen .dot')].map((d) => d.style.background)")
    check(sorted(colours) == sorted(dots) and len(dots) == 3, f"lines in the colours of the heads: {colours}, {dots}")
    check(page.run("document.querySelectorAll('.lines path').length") ==
          page.run("chosenHere().flatMap((c) => record.cross[c.layer].weights[c.head].flat()).filter((w) => w / full >= 0.01).length"), "lines of each head")
    saved = page.run("toSvg(picture()).querySelectorAll('path[stroke]').length === document.querySelectorAll('.lines path').length"
                     " && new Set([...toSvg(picture()).querySelectorAll('path')].map((p) => p.getAttribute('stroke'))).size === 3")
    check(saved, "the saved picture has the same lines in the same colours")
    page.press("t")
    check(page.run("[...document.querySelectorAll('#table caption')].map((c) => c.textContent.match(/layer (.) . head (.)/).slice(1).join('.')).join()") == "1.2,2.3,3.1", "a table for each head")
    page.press("t")
    press_button(page, "one head again")
    check(page.run("$('chosen').hidden && [...document.querySelectorAll('.lines path')].every((p) => !p.style.stroke)"), "one head again")


@test
def heads_sorted_by_name_and_measure(page, server):
    fresh(page, server)
    choose_text(page, "I have known him for ten years.")
    page.run("openTab(parts.find((part) => live.record.names[part].flat().some(({name}) => name)))")
    count = page.run("document.querySelectorAll('#grid .thumb:not(.mean)').length")
    before = page.run("[...document.querySelectorAll('#grid .thumb:not(.mean)')].map((t) => t.dataset.layer + '.' + t.dataset.head)")
    press_button(page, "sort by name", "#named")
    groups = page.run("""(() => { const out = []; for (const e of $('grid').children) {
        if (e.className === 'group-name') out.push([e.textContent, []]);
        else if (e.classList.contains('thumb')) out.at(-1)[1].push(live.record.names[state.part][e.dataset.layer][e.dataset.head]); }
        return out; })()""")
    check(sum(len(members) for _, members in groups) == count, f"all heads are there: {groups}")
    check(len(groups) > 1 and groups[-1][0] == "without a name", f"groups: {[name for name, _ in groups]}")
    sizes = [len(members) for name, members in groups[:-1]]
    check(sizes == sorted(sizes, reverse=True), f"the largest group comes first: {sizes}")
    for name, members in groups:
        check(all(member["name"] == (name if name != "without a name" else "") for member in members), f"{name}: {members}")
        measures = [member["measure"] for member in members]
        check(measures == sorted(measures, reverse=True), f"{name}: by measure: {measures}")
    press_button(page, "sort by name", "#named")
    check(page.run("[...document.querySelectorAll('#grid .thumb:not(.mean)')].map((t) => t.dataset.layer + '.' + t.dataset.head)") == before, "back to layers")


@test
def two_texts_side_by_side(page, server):
    fresh(page, server)
    page.size(1280, 800)
    choose_text(page, "I have known him for ten years.")
    page.run("other.text = 'She gave the book to her brother.'; openPanel('compare'); void loadOther()")
    page.wait("!$('second').hidden && !!document.querySelector('#second svg')")
    check(page.run("document.querySelectorAll('#second svg rect').length") == page.run("other.record.cross[0].weights[0].flat().length"), "all cells of the second map")
    for width in (1000, 1280, 1720):
        page.size(width, 1400)
        page.run("drawAll()")
        first, second, panel = (box_of(page, s) for s in ("#stage canvas", "#second svg", "#panel"))
        check(second["left"] >= first["right"] and abs(second["top"] - box_of(page, "#stage")["top"]) < 2, f"{width}: beside the first: {first} {second}")
        check(second["right"] <= width and page.run("document.documentElement.scrollWidth") <= width, f"{width}: inside the window: {second}")
        check(width < 1240 or panel["left"] >= second["right"], f"{width}: the panel is on the right: {panel}")
    page.size(1280, 800)
    page.run("drawAll(); void openPanel('next')")
    page.wait("document.querySelectorAll('.next-token').length === 10")
    check(0 < box_of(page, "#grid")["top"] - box_of(page, "#focus")["bottom"] < 60, "the heads follow the maps, however long the panel is")
    page.size(390, 844)
    page.run("drawAll()")
    first, second = box_of(page, "#stage canvas"), box_of(page, "#second svg")
    check(second["top"] >= first["bottom"] and second["right"] <= 390, f"on a phone below it: {first} {second}")
    page.size(1280, 800)
    page.run("setView('lines')")
    check(page.run("document.querySelectorAll('#stage path').length > 4 && document.querySelectorAll('#second path').length > 4"), "both as lines")
    page.run("setView('map')")
    page.press("t")
    cells = page.run("[...document.querySelectorAll('#table table')].map((t) => [...t.querySelectorAll('td')].map((d) => Number(d.textContent)))")
    right = page.run("[current(), other.record[state.part][state.layer].weights[state.head]].map((w) => w.flat())")
    check(len(cells) == 2 and all(abs(a - b) <= 1e-3 * b + 1e-9 for k in (0, 1) for a, b in zip(cells[k], right[k], strict=True)), f"a table of both: {cells}")
    page.press("t")
    press_button(page, "close", "#second")
    check(page.run("$('second').hidden && !$('main').classList.contains('pair')"), "closed")
    check(box_of(page, "#stage canvas")["left"] > box_of(page, "#grid")["right"], "the heads are on the left again")


@test
def a_second_model(page, server):
    if not server.process:
        return
    fresh(page, server)
    page.run("(chooseModel(live.models[1].name), void setText('The quick brown'))")
    page.wait("live.record && live.record.title === live.models[1].name")
    page.run("openPanel('compare')")
    page.wait("!!document.querySelector('#panel-body select')")
    check(page.run("[...document.querySelectorAll('#panel-body option')].map((o) => o.textContent).join()") ==
          page.run("[live.models[1].name, live.models[2].name].join()"), "models of the same kind")
    page.run("(() => { const s = document.querySelector('#panel-body select'); s.value = s.options[1].value; s.dispatchEvent(new Event('change')); })()")
    page.wait("other.record && !!document.querySelector('#second svg')")
    check(page.run("$('second').textContent.includes(live.models[2].name) && !$('second').textContent.includes(live.models[1].name + ':')"), "its name stands over its map")
    apart = page.run("Math.max(...live.record.decoder[0].weights[0].flatMap((row, i) => row.map((w, j) => Math.abs(w - (other.record.decoder[0].weights[0][i]?.[j] ?? w)))))")
    check(apart > 1e-3, f"another model has other weights: {apart}")
    written = page.run("(async () => (await runToEnd({model: live.models[2].id, text: live.text, max_tokens: 64}, 'test')).text === other.record.output)()")
    check(written, "it writes its own text")
    alone = page.run("""(async () => { const {model, source, target} = {model: live.models[2].id, ...other.record.ids};
        const found = await askAttention({model, source, target, changes: []}); return JSON.stringify(toRecord(other.record.ids, found).decoder) === JSON.stringify(other.record.decoder); })()""")
    check(alone, "they are the second model's own")


@test
def layers_of_an_encoder(page, server):
    if not server.process:
        return
    fresh(page, server)
    page.run("(chooseModel(live.models[3].name), void setText('The quick brown fox'))")
    page.wait("live.record && live.record.encoder.length === 2 && live.record.title === live.models[3].name")
    page.run("openPanel('layers')")
    page.wait("document.querySelectorAll('.layer').length === 3", what="the embedding and two layers")
    # The last layer's guess is what the model itself says at this token.
    check(page.run("document.querySelector('.layer:last-child .guess').textContent").startswith(page.run("live.done.output_tokens[live.row]")), "the last layer says what the model says")
    check(page.run("[...document.querySelectorAll('.layer .added')].map((e) => e.childElementCount).join()") == "0,2,2", "self-attention and feed-forward")
    check(page.run("document.querySelectorAll('.panel-layers td').length") > 8, "a table")
    page.run("lock(1, null)")
    page.wait("live.row === 1 && document.querySelector('.panel-layers .note')?.textContent.includes(plain(live.done.output_tokens[1]))")
