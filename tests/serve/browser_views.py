"""Browser tests of the live page: several heads, lines, two records side by side, long texts, paper."""
import json

from browser_case import check, choose_model, choose_text, fresh, test
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
    choose_model(page, 1, "The quick brown")
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
    choose_model(page, 3, "The quick brown fox")
    page.wait("live.record.encoder.length === 2")
    page.run("openPanel('layers')")
    page.wait("document.querySelectorAll('.layer').length === 3", what="the embedding and two layers")
    # The last layer's guess is what the model itself says at this token.
    check(page.run("document.querySelector('.layer:last-child .guess').textContent").startswith(page.run("live.done.output_tokens[live.row]")), "the last layer says what the model says")
    check(page.run("[...document.querySelectorAll('.layer .added')].map((e) => e.childElementCount).join()") == "0,2,2", "self-attention and feed-forward")
    check(page.run("document.querySelectorAll('.panel-layers td').length") > 8, "a table")
    page.run("lock(1, null)")
    page.wait("live.row === 1 && document.querySelector('.panel-layers .note')?.textContent.includes(plain(live.done.output_tokens[1]))")
    page.run("openPanel('next')")
    page.wait("document.querySelector('.panel-next .note')?.textContent.startsWith(`At ${plain(live.done.source_tokens[1])} the model said `)",
              what="an encoder says something at a token, not after it")


@test
def the_sign_for_a_space_is_explained_where_it_is(page, server):
    fresh(page, server)
    choose_text(page, "Where is my bag?")
    check(page.run("!$('sign').hidden && $('sign').textContent.includes('\u2581')"), "SentencePiece's space")
    page.run("(record.source_tokens.fill('cat'), record.target_tokens.fill('##s'), live.folded = false, live.record = record, redraw())")
    check(page.run("$('sign').hidden"), "BERT's tokens have no such sign")


@test
def words_of_wordpiece_begin_without_a_mark(page, server):
    fresh(page, server)
    choose_text(page, "Where is my bag?")
    check(page.run("live.model.tokenizer") == "sentencepiece", "the page knows the kind of tokenizer")
    tokens = "foldRecord({...live.record, source_tokens: ['[CLS]', 'the', 'animal', '##s', '.'], target_tokens: [], output_tokens: [], encoder: [], decoder: [], cross: [], tokenizer: KIND}).source_tokens.join()"
    for kind in "wordpiece", "wordlevel":
        check(page.run(tokens.replace("KIND", f"'{kind}'")) == "[CLS],the,animals,.", f"## alone goes on with a word of {kind}")
    check(page.run(tokens.replace("KIND", "live.record.tokenizer")) == "[CLS],theanimals,.", "letters go on with a word")


def open_long(page, text=LONG):
    choose_model(page, 1, "The quick brown")
    page.run(f"void setText({json.dumps(text)})")
    page.wait("live.long && live.long.picture")


def extent(page):
    return page.run("({rows: live.long.rows, columns: live.long.columns})")


LOADED = "live.long.picture.rows.join() === live.long.rows.join() && live.long.picture.columns.join() === live.long.columns.join()"


@test
def long_text_zoomed_and_moved(page, server):
    if not server.process:
        return
    fresh(page, server)
    open_long(page)
    n = page.run("live.long.n")
    box = box_of(page, "#long-canvas")
    at = [(1 - s) * box[a] + s * box[b] for s, a, b in ((0.25, "left", "right"), (0.75, "top", "bottom"))]
    for _ in range(6):
        page.wheel(*at, -100)
    page.wait(f"live.long.rows[1] - live.long.rows[0] < {0.4 * n} && {LOADED}", what="the wheel zooms")
    seen = extent(page)
    for side, share in (("rows", 0.75), ("columns", 0.25)):  # what lies under the pointer stays there
        begin, end = seen[side]
        check(abs(begin + share * (end - begin) - share * n) < 0.03 * n, f"{side}: {begin} to {end} of {n}")
    wide = box["right"] - box["left"]
    middle = [(box["left"] + box["right"]) / 2, (box["top"] + box["bottom"]) / 2]
    page.drag(middle, [middle[0] - wide / 4, middle[1] + wide / 4])
    page.wait(LOADED)
    moved, size = extent(page), seen["rows"][1] - seen["rows"][0]
    check(abs(moved["columns"][0] - seen["columns"][0] - size / 4) < 0.05 * size, f"the map follows the pointer: {seen} {moved}")
    check(abs(moved["rows"][0] - seen["rows"][0] + size / 4) < 0.05 * size, f"the map follows the pointer: {seen} {moved}")
    page.run("scrollTo(0, 0)")
    for _ in range(12):
        page.wheel(*at, 100)
    page.wait(f"live.long.rows.join() === '0,{n}' && {LOADED}", what="the wheel zooms out to all of it")
    check(page.run("scrollY") == 0, "the page does not scroll with the map")


@test
def long_text_has_thumbnails_and_tables(page, server):
    if not server.process:
        return
    fresh(page, server)
    open_long(page)
    page.wait("longThumbs().length === 8 && longThumbs().every((t) => t.title.includes('mean entropy'))", what="all heads of the long text")
    painted = page.run("""longThumbs().map(({firstChild: c}) => new Set([...new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)]).size)""")
    check(all(colours > 3 for colours in painted), f"thumbnails with colours: {painted}")
    own = page.run("""(async () => { const c = longThumbs()[6].firstChild, again = el('canvas', {width: c.width, height: c.height});
        const answer = await request('map', longBody({layer: 1, head: 2, size: [32, 32]}), 'test');
        const {numbers} = readBytes(await answer.arrayBuffer(), false), weights = numbers.subarray(0, 1024);
        paintDots(again, weights, strongestOfDots(weights)); return again.toDataURL() === c.toDataURL() && c.toDataURL() !== longThumbs()[5].firstChild.toDataURL(); })()""")
    check(own, "each has its own head, as the server pools it")
    # What the view asks for comes first: a thumbnail on its way is called off, and asked for again.
    page.run("""(async () => { longThumbs().forEach((t) => { t.title = ''; }); const was = flights.get('thumb'); void loadThumbs(live.long);
        while (flights.get('thumb') === was) await 0;
        const called = flights.get('thumb').signal; void loadMap(); window.calledOff = called.aborted; })()""")
    check(page.run("calledOff"), "the thumbnail gives way")
    page.wait("longThumbs().every((t) => t.title.includes('mean entropy'))", what="all heads after all")
    page.click_on('#long-heads .thumb[data-layer="0"][data-head="2"]')
    page.wait("live.long.layer === 0 && live.long.head === 2 && $('long-layer').value === '0' && $('long-head').value === '2'")
    page.run("live.long.asked")
    entropy = page.run("live.long.picture.entropy.reduce((a, b) => a + b, 0) / live.long.picture.height")
    named = page.run("document.querySelector('#long-heads .thumb[aria-pressed=true]').title")
    check("layer 1, head 3" in named and abs(float(named.split("entropy ")[1].split()[0]) - entropy) < 0.05, f"{named}, the map has {entropy}")
    page.run("document.querySelector('#long-heads .thumb[aria-pressed=true]').focus()")
    page.press("ArrowDown")
    page.press("Enter")
    page.wait("live.long.layer === 1 && live.long.head === 2", what="arrow keys and Enter choose a head")
    page.run("live.long.asked")
    page.run("$('long-canvas').focus()")
    page.press("t")
    found = page.run("""(() => { const [map, keys] = $('long-table').querySelectorAll('table'), p = live.long.picture;
        const numbers = (row) => [...row.querySelectorAll('td')].map((d) => Number(d.textContent));
        const rows = [...map.querySelectorAll('tbody tr')].map(numbers);
        return {rows, keys: [...keys.querySelectorAll('tbody tr')].map((r) => [r.cells[0].textContent, Number(r.cells[2].textContent)]),
                mean: p.weights.reduce((a, b) => a + b, 0) / p.weights.length, entropy: p.entropy.reduce((a, b) => a + b, 0) / p.height, most: Math.max(...p.received),
                at: p.received.indexOf(Math.max(...p.received)), each: (p.columns[1] - p.columns[0]) / p.width}; })()""")
    rows, each = found["rows"], found["each"]
    check(len(rows) == 17 and all(len(row) == 17 for row in rows), "16 x 16 parts, the entropy and what was received")
    check(abs(sum(sum(row[:16]) for row in rows[:16]) / 256 / found["mean"] - 1) < 2e-3, f"the table's mean is the map's: {found['mean']}")
    check(abs(sum(row[16] for row in rows[:16]) / 16 - found["entropy"]) < 0.01, "the table's entropy is the strip's")
    check(len(found["keys"]) == 12 and abs(found["keys"][0][1] / found["most"] - 1) < 1e-3, f"the key most looked at comes first: {found['keys'][:2]}")
    check(found["keys"][0][0].split("–")[0].replace(",", "") == str(int(found["at"] * each)), f"and has its place: {found['keys'][0]}, {found['at']} of {each}")
    page.press("t")
    check(page.run("$('long-table').hidden"), "t closes the table")
    page.media(prefers_color_scheme="dark")
    page.settle(0.2)
    corner = page.run("[...$('long-canvas').getContext('2d').getImageData(510, 1, 1, 1).data].slice(0, 3).join()")
    check(corner == page.run("(readRamp(), ramp[0].join())"), f"a map in the dark has the dark's colours: {corner}")


@test
def a_text_file(page, server):
    if not server.process:
        return
    fresh(page, server)
    check(page.run("$('file-label').hidden"), "a translator reads sentences")
    choose_model(page, 1, "The quick brown")
    check(not page.run("$('file-label').hidden"), "files are for models that read long texts")
    file = server.folder_for_files() / "read.txt"
    file.write_text("The lazy dog jumps over the fox.", encoding="utf-8")
    page.choose_file("#file", file)
    page.wait("live.record.source === 'The lazy dog jumps over the fox.' && $('text').value === live.record.source")
    file.write_text(LONG, encoding="utf-8")
    page.choose_file("#file", file)
    page.wait("live.long && live.long.picture && live.long.text === $('text').value", what="a long file has the view of long texts")


@test
def on_paper(page, server):
    fresh(page, server)
    choose_text(page, "I have known him for ten years, and she gave the book to her brother when the train arrived on time.")
    page.size(1720, 1400)
    page.run("openTab('encoder'); zoomBy(1.25)")
    page.run("""window.paper = []; for (const event of ['beforeprint', 'afterprint']) addEventListener(event, () => paper.push([event, css(ramp[0]), map.width]));""")
    page.media(prefers_color_scheme="dark")
    page.settle(0.2)
    dark = page.run("css(ramp[0])")
    check(page.pdf()[:5] == b"%PDF-", "a PDF")
    before, after = page.run("paper")
    check(before[1] == page.run("css(makeRamp(kLight)[0])") and after[1] == dark, f"light colours on paper: {before}, {after}")
    check(before[2] <= 640 < after[2], f"the map fits on a sheet: {before}, {after}")
    page.run("openTab('cross')")
    page.run("void openPanel('why'); lock(2, 3)")
    page.wait("document.querySelectorAll('.product').length > 3")
    page.size(718, 1000)
    page.run("dispatchEvent(new Event('beforeprint'))")
    page.paper()
    try:
        shown = page.run("""['#stage canvas', '#heading', '#readout', '#text', '#output', '.legend .scale', '#rows', '.product', '.map .row', '.map .column'].filter((s) => !document.querySelector(s)?.checkVisibility())""")
        check(not shown, f"missing on paper: {shown}")
        left = page.run("""[...document.querySelectorAll('button, input, select, textarea, summary')].filter((e) => e.checkVisibility() && !e.matches('#model, #text, .word, .token, .rival')).map((e) => e.id || e.textContent)""")
        check(not left, f"controls on paper: {left}")
        names = page.run("map.rowNames.map((name, i) => { const r = name.getBoundingClientRect(), c = document.querySelector('#stage canvas').getBoundingClientRect(); return (r.top + r.bottom) / 2 - c.top - (i + 0.5) * map.cell; })")
        check(all(abs(apart) < 3 for apart in names), f"names stand beside their rows: {names}")
        check(page.run("document.documentElement.scrollWidth") <= 718, "nothing is cut off")
        check(page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)", "paper is white")
        page.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        dark = page.run("""[...document.querySelectorAll('.vector')].map((v) => { const pixels = v.getContext('2d').getImageData(0, 0, v.width, v.height).data;
            const ground = getComputedStyle(v).backgroundColor.match(/[\\d.]+/g).map(Number);
            let lightest = 0;
            for (let k = 0; k < pixels.length; k += 4) lightest = Math.max(lightest, Math.min(...[0, 1, 2].map((c) => ground[c] + (pixels[k + c] - ground[c]) * pixels[k + 3] / 255)));
            return lightest; })""")
        check(len(dark) == 4 and all(value > 120 for value in dark), f"strips of numbers lie on light paper: {dark}")
    finally:
        page.paper(False)
        page.run("dispatchEvent(new Event('afterprint'))")


@test
def nothing_moves_by_itself(page, server):
    for motion, expected in (("no-preference", "0.12s"), ("reduce", "0s")):
        fresh(page, server)
        page.media(prefers_reduced_motion=motion)
        page.run("void openPanel('next')")
        page.wait("document.querySelectorAll('.next-token').length === 10")
        times = page.run("[...new Set([...document.querySelectorAll('*')].flatMap((e) => [getComputedStyle(e).transitionDuration, getComputedStyle(e).animationDuration]))]")
        check(set(times) == {"0s", expected}, f"{motion}: {times}")
        check(page.run("getComputedStyle(document.querySelector('.bar-fill')).transitionDuration") == expected, motion)
        page.run("window.scrolled = []; Element.prototype.scrollIntoView = function (how) { scrolled.push(how.behavior); }")
        page.size(1280, 400)
        page.run("void openTour(0)")
        page.wait("$('tour-text')?.getAttribute('aria-busy') === 'false' && scrolled.length > 0")
        check(page.run("scrolled.at(-1)") == ("auto" if motion == "reduce" else "smooth"), motion)
        page.run("closeTour()")


@test
def pictures_of_one_weight_in_numbers(page, server):
    fresh(page, server)
    page.run("lock(1, 1); void openPanel('why')")
    page.wait("document.querySelectorAll('.product').length > 3")
    tables = page.run("""[...document.querySelectorAll('.panel-why table')].map((t) => [...t.querySelectorAll('tbody tr')].map((r) => [...r.cells].map((c) => Number(c.textContent.replace('\u2212', '-')))))""")
    given = page.run("(({products, value, added}) => ({products, value, added}))(live.explained)")
    check(len(tables) == 2 and len(tables[0]) == len(given["products"]) and len(tables[1]) == len(given["added"]), "all numbers of query, key, value and what was added")
    for (at, query, key, _), one in zip(tables[0], given["products"], strict=True):
        check(at == one["at"] and abs(query - one["query"]) < 1e-4 and abs(key - one["key"]) < 1e-4, f"{at}: {one}")
    for (k, value, added), right in zip(tables[1], given["added"], strict=True):
        check(abs(added - right) < 1e-4 and (k >= len(given["value"]) or abs(value - given["value"][int(k)]) < 1e-4), f"row {k}")


@test
def what_comes_too_late_is_thrown_away(page, server):
    if not server.process:
        return
    fresh(page, server)
    page.run("openPanel('next')")
    choose_model(page, 1, "The quick brown")
    page.wait("document.querySelectorAll('.next-token').length === 10")
    page.settle()
    check(page.run("$('problem').hidden"), page.run("$('problem').textContent"))


@test
def an_encoder_that_says_no_tokens(page, server):
    if not server.process:
        return
    fresh(page, server)
    choose_model(page, 4, "The quick brown fox")
    page.wait("live.record.encoder.length === 2")
    page.wait("document.querySelectorAll('.layer').length === 3", what="its norms, layer by layer")
    check("it says no tokens" in page.run("$('panel-body').textContent"), "one line says what it has not")
    check(page.run("!$('panel-next') && $('tour-open').hidden"), "it is not asked what comes next")
    page.press("n")
    page.press("g")
    page.settle()
    check(page.run("$('problem').hidden && $('tour').hidden"), page.run("$('problem').textContent"))
    page.click_on("#head-off")
    page.wait("live.experiment && document.querySelectorAll('.reached').length === 5")
    reach = page.run("live.experiment.reach.map((r) => r.changed)")
    check(reach[0] == 0 and reach[-1] > 0, f"how far it reaches: {reach}")
    text = page.run("$('panel-body').textContent")
    check("This encoder says no tokens" in text and "another one" not in text, text[:200])
    page.run("void setChanges([])")
    page.wait("live.changes.length === 0 && !live.experiment")
    choose_model(page, 0, "She is happy.")
    check(not page.run("$('tour-open').hidden"), "the tour is back")


@test
def an_experiment_with_masked_tokens(page, server):
    if not server.process:
        return
    fresh(page, server)
    choose_model(page, 3, "The quick [MASK] fox")
    page.wait("live.record.encoder.length === 2")
    edge = {"kind": "edge", "part": "encoder", "layer": 1, "head": 0, "row": 0, "column": 0}
    for change in (edge, {"kind": "layer", "part": "encoder", "layer": 0}):
        page.run(f"void setChanges([{json.dumps(change)}])")
        page.wait(f"live.experiment && live.changes[0]?.kind === '{change['kind']}' && document.querySelectorAll('.reached').length > 3")
        differs = page.run("live.experiment.before.output.some((id, i) => id !== live.experiment.after.likeliest[i])")
        text = page.run("$('panel-body').textContent")
        check(("The output is another one." if differs else "The output is the same.") in text, f"{change}: {text[:160]}")
        check(not differs or change is not edge, "one edge of one head is a small change")
    page.run("void setChanges([])")
    page.wait("live.changes.length === 0 && !live.experiment")


@test
def unknown_tokens_are_counted(page, server):
    fresh(page, server)
    check(not page.run("document.querySelector('#output .note')"), "nothing is said of a text that the model knows")
    choose_text(page, "火车站在哪里？")
    said = page.run("$('output').querySelector('.note').textContent")
    unknown = page.run("live.done.source_tokens.filter((token) => token === '<unk>').length")
    check(unknown > 0 and said == f"unknown to this model: {unknown} of the {page.run('live.done.source.length')} tokens that it reads", said)


@test
def everything_stays_inside(page, server):
    """Tables that are opened, and the controls beside the text: nothing is wider than what it lies in."""
    fresh(page, server)
    page.size(1280, 810)
    page.run("void openPanel('layers')")
    page.wait("!!document.querySelector('#panel-body details table')")
    page.run("document.querySelectorAll('#panel-body details').forEach((d) => { d.open = true; })")
    check(page.run("$('panel-body').scrollWidth <= $('panel-body').clientWidth"), "the table of the layers scrolls by itself")
    page.run("void addChange({kind: 'head', part: 'cross', layer: 2, head: 0})")
    page.wait("document.querySelectorAll('.reached').length > 3")
    cut = page.run("[...document.querySelectorAll('.reached > :first-child')].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent)")
    check(not cut, f"names of layers that are cut: {cut}")
    page.run("void setChanges([])")
    page.wait("!live.experiment && !!document.querySelector('#heading small')")
    heading, path = box_of(page, "#heading"), box_of(page, "#heading small")
    check(path["top"] < heading["top"] + 20 or abs(path["left"] - heading["left"]) < 1, f"the path begins where the heading does: {heading}, {path}")
    choose_model(page, 1, "The quick brown fox")
    page.size(390, 844)
    page.run("drawAll()")
    boxes = [box_of(page, s) for s in ("#text", "#file-label", "#model", "#help-open")]
    check(all(0 <= b["left"] < b["right"] <= 390 for b in boxes), f"controls of a phone: {boxes}")
