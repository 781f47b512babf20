// The page as people use it: what it opens on, what it says, with mouse, keyboard and finger.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "heed/inspect.h"
#include "inspect/browser.h"
#include "inspect/payloads.h"
#include "inspect/sample_record.h"

namespace heed::inspect {
namespace {

class PageUse : public Browser {};

// Rows of `head` give most of their weight to one column.
void align(Tensor& weights, int64_t head, const std::vector<int64_t>& columns, float weight) {
  for (size_t i = 0; i < columns.size(); ++i) {
    float* row = weights.data<float>() + (head * weights.size(1) + static_cast<int64_t>(i)) * weights.size(2);
    for (int64_t j = 0; j < weights.size(2); ++j)
      row[j] = j == columns[i] ? weight : (1 - weight) / static_cast<float>(weights.size(2) - 1);
  }
}

// Heads of the upper layers agree which word is which; head 6 of layer 3 says it best: 火车 is "rail".
Record aligned_record() {
  Record record = chinese_record();
  const std::vector<int64_t> columns = {3, 8, 5, 7, 1, 0, 8, 9};
  for (size_t layer : {1, 2})
    for (int64_t head = 0; head < 8; ++head) align(record.cross[layer].weights, head, columns, 0.4f);
  align(record.cross[2].weights, 5, columns, 0.75f);
  align(record.cross[2].weights, 5, {3, 8, 5}, 0.95f);
  align(record.cross[2].weights, 5, {3, 8}, 0.9f);
  return record;
}

Record long_record(size_t tokens = 98) {
  std::vector<std::string> source, target, output;
  for (size_t i = 0; i < tokens; ++i) {
    source.push_back("▁source" + std::to_string(i));
    target.push_back("ziel" + std::to_string(i));
    output.push_back("ziel" + std::to_string(i + 1));
  }
  return sample_record(source, target, output, 2, 4);
}

constexpr const char* kCell = R"(
  // The browser's clock is wound on by hand in these tests; frames and files that are written beside it would not be waited for.
  window.requestAnimationFrame = (draw) => setTimeout(draw, 1);
  const frame = () => wait(20);
  const saved = [];
  window.Blob = function (parts) { this.text = parts[0]; };
  URL.createObjectURL = (blob) => { saved.push(blob); return 'blob:null/0'; };
  HTMLCanvasElement.prototype.toBlob = function (done) { done({text: atob(this.toDataURL().split(',')[1])}); };
  HTMLAnchorElement.prototype.click = function () { saved.at(-1).name = this.download; };
  const cell = (row, column) => {
    const at = document.querySelector('.map canvas').getBoundingClientRect();
    const rows = rowTokens(state.part).length, columns = columnTokens(state.part).length;
    return {clientX: at.left + (column + 0.5) / columns * at.width, clientY: at.top + (row + 0.5) / rows * at.height};
  };
  const hover = async (row, column) => {
    document.querySelector('.map canvas').dispatchEvent(
        new PointerEvent('pointermove', {...cell(row, column), bubbles: true, pointerType: 'mouse'}));
    await frame();
  };
  const text = (id) => document.getElementById(id).textContent;
)";

TEST_F(PageUse, OpensOnTheMostTellingHeadAndSaysItInWords) {
  const Record record = aligned_record();
  const auto found = run(to_html(record), "", std::string(kCell) + R"(
    const out = {heading: text('heading'), words: text('readout'), hash: location.hash};
    for (const part of ['encoder', 'decoder']) {
      document.getElementById('tab-' + part).click();
      out[part] = text('heading');
    }
    document.querySelector('.thumb[data-layer="0"][data-head="1"]').click();
    document.getElementById('tab-cross').click();
    out.back = text('heading');
    document.getElementById('tab-decoder').click();
    out.kept = text('heading');
    out.details = document.querySelector('details').textContent;
    return out;)");
  EXPECT_EQ(found["heading"].get<std::string>().find("Cross-attention · layer 3 · head 6"), 0u) << found;
  EXPECT_EQ(found["words"].get<std::string>().find("To say 火车 it read rail, 95 %"), 0u) << found;
  // The page chooses as the library does.
  for (const Part part : {Part::encoder, Part::decoder}) {
    const Place place = most_telling(record, part);
    const std::string name = part == Part::encoder ? "encoder" : "decoder";
    EXPECT_NE(found[name].get<std::string>().find(
                  "layer " + std::to_string(place.layer + 1) + " · " +
                  (place.head < 0 ? std::string("mean over heads") : "head " + std::to_string(place.head + 1))),
              std::string::npos)
        << found << place.layer << place.head;
  }
  EXPECT_EQ(found["back"], found["heading"]);
  EXPECT_NE(found["kept"].get<std::string>().find("layer 1 · head 2"), std::string::npos) << found;
  for (const char* word : {"sharpness", "agreement", "coverage", "highest score"})
    EXPECT_NE(found["details"].get<std::string>().find(word), std::string::npos) << word;
}

// One head of each kind that has a name, in words.
TEST_F(PageUse, SaysWhatKindOfHeadItIs) {
  Record record = chinese_record();
  for (auto* maps : {&record.encoder, &record.decoder, &record.cross}) maps->resize(1);
  Tensor &encoder = record.encoder[0].weights, &decoder = record.decoder[0].weights, &cross = record.cross[0].weights;
  align(encoder, 0, {9, 9, 9, 9, 9, 9, 9, 9, 9, 9}, 0.9f);
  align(encoder, 1, {0, 0, 1, 2, 3, 4, 5, 6, 7, 8}, 0.9f);
  align(encoder, 2, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 0.9f);
  align(encoder, 3, {1, 2, 3, 4, 5, 6, 7, 8, 9, 9}, 0.9f);
  align(encoder, 4, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0.1f);
  align(decoder, 0, {0, 0, 0, 0, 0, 0, 0, 0}, 1.0f);
  align(cross, 0, {9, 9, 9, 9, 9, 9, 9, 9}, 0.8f);
  const auto found = run(to_html(record), "", std::string(kCell) + R"(
    const out = {};
    for (const [part, head] of [['encoder', 0], ['encoder', 1], ['encoder', 2], ['encoder', 3], ['encoder', 4],
                                ['decoder', 0], ['cross', 0]]) {
      select(part, 0, head);
      out[part + head] = text('readout');
    }
    return out;)");
  const std::map<std::string, std::string> expected = {
      {"encoder0", "90 % of the weight rests on the last token, </s>"},
      {"encoder1", "Each token looks mostly at the one before it"},
      {"encoder2", "Each token looks mostly at itself: 90 %"},
      {"encoder3", "Each token looks mostly at the one after it: 90 %"},
      {"encoder4", "The weight is spread almost evenly"},
      {"decoder0", "100 % of the weight rests on the first token, <s>"},
      {"cross0", "80 % of the weight rests on the last token, </s>"}};
  for (const auto& [head, words] : expected)
    EXPECT_NE(found[head].get<std::string>().find(words), std::string::npos) << found[head];
}

TEST_F(PageUse, ACellNamesTheTokenSaid) {
  const auto found = run(to_html(aligned_record()), "", std::string(kCell) + R"(
    await hover(2, 5);
    return {tip: text('tip'), shown: !document.getElementById('tip').hidden, readout: text('readout')};)");
  EXPECT_TRUE(found["shown"].get<bool>());
  EXPECT_EQ(found["tip"].get<std::string>().find("火车 ← rail"), 0u) << found;
  EXPECT_NE(found["tip"].get<std::string>().find("95 % · weight 0.95, rank 1 of 10"), std::string::npos) << found;
  EXPECT_EQ(found["readout"].get<std::string>().find("To say 火车, after 的, it read rail, 95 %"), 0u) << found;
}

TEST_F(PageUse, NumbersHaveFourDigits) {
  Record record;
  record.target_tokens = {"a", "b"};
  record.source_tokens = {"c", "d"};
  record.output_tokens = {"b", "</s>"};
  record.cross.push_back({.path = "cross",
                          .weights = Tensor::from({0.1f, 0.9f, 0.3f, 0.7f,  //
                                                   0.2f, 0.8f, 0.6f, 0.4f},
                                                  {2, 2, 2})});
  // 0.1 + 0.2 is 0.30000000000000004; half of it 0.15000000000000002.
  const auto found = run(to_html(record), "#cross/1/mean", std::string(kCell) + R"(
    await hover(0, 0);
    document.getElementById('save-json').click();
    return {sum: String((0.1 + 0.2) / 2), tip: text('tip'), readout: text('readout'), json: saved[0].text};)");
  EXPECT_EQ(found["sum"], "0.15000000000000002");
  for (const char* place : {"tip", "readout", "json"}) {
    EXPECT_NE(found[place].get<std::string>().find("0.15"), std::string::npos) << found;
    EXPECT_EQ(found[place].get<std::string>().find("0000000"), std::string::npos) << found;
  }
}

TEST_F(PageUse, ArraysAreCountedAsTheLabelsSay) {
  Record record;
  record.title = "a.npz";
  record.source = "2 queries, 3 keys";
  record.target_tokens = {"q0", "q1"};
  record.source_tokens = {"k0", "k1", "k2"};
  record.arrays.push_back({.path = "", .weights = sample_weights(2, 2, 3, 0, false)});
  const auto found = run(to_html(record), "", std::string(kCell) + R"(
    await hover(1, 2);
    return {page: document.body.innerText, readout: text('readout')};)");
  const std::string page = found["page"];
  EXPECT_EQ(page.find("∅"), std::string::npos);
  for (const char* words :
       {"queries, from 0", "keys, from 0", "Queries and keys are counted from 0", "batch rows and heads from 1"})
    EXPECT_NE(page.find(words), std::string::npos) << words;
  EXPECT_EQ(found["readout"].get<std::string>().find("q1 looks at k2, "), 0u) << found;
}

TEST_F(PageUse, TheViewThatIsSeenIsSaved) {
  const auto found = run(to_html(chinese_record()), "#cross/2/3", std::string(kCell) + R"(
    const out = {};
    for (const view of ['map', 'lines']) {
      document.getElementById('view-' + view).click();
      document.getElementById('save-svg').click();
      const drawn = new DOMParser().parseFromString(saved.at(-1).text, 'image/svg+xml');
      out[view] = {paths: drawn.querySelectorAll('path').length, cells: drawn.querySelectorAll('rect').length - 1,
                   texts: [...drawn.querySelectorAll('text')].map((t) => t.textContent),
                   width: Number(drawn.documentElement.getAttribute('width')),
                   height: Number(drawn.documentElement.getAttribute('height'))};
      document.getElementById('save-png').click();
      const png = new DataView(Uint8Array.from(saved.at(-1).text.slice(0, 24), (c) => c.charCodeAt(0)).buffer);
      out[view].png = [png.getUint32(16), png.getUint32(20)];
    }
    out.names = saved.map((file) => file.name);
    return out;)");
  EXPECT_EQ(found["map"]["paths"], 0);
  EXPECT_EQ(found["map"]["cells"], 80);
  EXPECT_GT(found["lines"]["paths"], 20);
  EXPECT_EQ(found["lines"]["cells"], 0);
  for (const char* view : {"map", "lines"}) {
    const auto texts = found[view]["texts"].get<std::vector<std::string>>();
    EXPECT_EQ(texts[0].find("Cross-attention · layer 2 · head 3"), 0u);
    for (const char* token : {"火车 → 站", "▁station", "</s>"})
      EXPECT_TRUE(std::find(texts.begin(), texts.end(), token) != texts.end()) << view << " lacks " << token;
    EXPECT_EQ(found[view]["png"][0], std::floor(2 * found[view]["width"].get<double>()));
    EXPECT_EQ(found[view]["png"][1], std::floor(2 * found[view]["height"].get<double>()));
  }
  EXPECT_EQ(found["names"], nlohmann::json::parse(R"(["cross-layer2-head3.svg", "cross-layer2-head3.png",
                                                      "cross-layer2-head3-lines.svg", "cross-layer2-head3-lines.png"])"));
}

TEST_F(PageUse, OnAPhoneTheMapIsOnTheScreen) {
  for (const Record& record : {chinese_record(), long_record()}) {
    const auto found = run(to_html(record), "", std::string(kCell) + R"(
      const thumb = document.querySelector('.thumb[data-layer="1"][data-head="2"]');
      for (const type of ['pointerenter', 'pointerdown', 'pointerup', 'pointerleave'])
        thumb.dispatchEvent(new PointerEvent(type, {pointerType: 'touch'}));
      thumb.click();
      await wait(500);
      const canvas = document.querySelector('.map canvas').getBoundingClientRect();
      const words = document.getElementById('readout').getBoundingClientRect();
      return {left: canvas.left, right: canvas.right, top: canvas.top, bottom: canvas.bottom, words: words.top,
              width: document.documentElement.scrollWidth, heading: text('heading')};)",
                           390, 844);
    EXPECT_NE(found["heading"].get<std::string>().find("layer 2 · head 3"), std::string::npos);
    EXPECT_GE(found["left"], 0);
    EXPECT_LE(found["right"], 390) << found;
    EXPECT_GE(found["top"], 0) << found;
    EXPECT_GE(found["words"], 0) << found;
    EXPECT_LE(found["bottom"], 844) << found;
    EXPECT_LE(found["width"], 390) << found;
  }
}

TEST_F(PageUse, OnAPhoneLinesBetweenLongNamesAreOnTheScreen) {
  Record record = chinese_record();
  for (auto* const tokens : {&record.source_tokens, &record.target_tokens, &record.output_tokens})
    std::fill(tokens->begin(), tokens->end(), "▁Donaudampfschifffahrtsgesellschaft");
  const auto found = run(to_html(record), "", R"(
    const out = {};
    setView('lines');
    for (const part of parts) {
      openTab(part);
      await wait(100);
      out[part] = {width: document.documentElement.scrollWidth, lines: document.querySelector('.lines').clientWidth};
    }
    return out;)",
                         390, 844);
  EXPECT_EQ(found.size(), 3u) << found;
  for (const auto& part : found) {
    EXPECT_LE(part["width"], 390) << found;
    EXPECT_GT(part["lines"], 250) << found;
  }
}

// A name is higher than a small cell; what stands above the map must not cover the first one.
TEST_F(PageUse, TheFirstRowsNameIsSeenAboveSmallCells) {
  const auto found = run(to_html(long_record()), "", R"(
    document.getElementById('stage').scrollIntoView();
    await wait(500);
    const name = document.querySelector('.map .row'), at = name.getBoundingClientRect();
    const covered = [];
    for (let y = -5; y <= 4; ++y)
      if (!name.contains(document.elementFromPoint(at.right - 12, at.top + at.height / 2 + y))) covered.push(y);
    return {covered, cell: map.cell};)",
                         390, 844);
  EXPECT_LT(found["cell"], 9) << found;
  EXPECT_EQ(found["covered"].size(), 0u) << found;
}

TEST_F(PageUse, LongSentences) {
  const auto found = run(to_html(long_record()), "#cross/1/1", std::string(kCell) + R"(
    const out = {legend: text('legend'), ticks: text('ticks')};
    const full = strongest();
    out.full = full;
    const colours = () => colour(full).join() === ramp[1023].join();
    out.strongest = colours();
    out.nested = [...document.querySelectorAll('body *')].filter((e) =>
        ['auto', 'scroll'].some((value) => [getComputedStyle(e).overflowX, getComputedStyle(e).overflowY].includes(value))).map((e) => e.className);
    const box = document.querySelector('.map');
    for (let k = 0; k < 9; ++k) document.getElementById('larger').click();
    await frame();
    const canvas = () => document.querySelector('.map canvas').getBoundingClientRect();
    window.scrollTo(window.scrollX + canvas().left + canvas().width / 2, window.scrollY + canvas().top + canvas().height / 2);
    await frame();
    const inSight = (name) => {
      const at = name.getBoundingClientRect();
      const top = document.elementFromPoint(at.left + at.width / 2, at.top + at.height / 2);
      return name.contains(top);
    };
    out.scrolled = [window.scrollX, window.scrollY];
    out.rows = [...document.querySelectorAll('.map .row')].filter(inSight).length;
    out.columns = [...document.querySelectorAll('.map .column')].filter(inSight).length;
    await hover(60, 60);
    out.readout = text('readout');
    document.getElementById('relative').click();
    out.absolute = text('legend');
    out.pressed = document.getElementById('relative').getAttribute('aria-pressed');
    return out;)");
  EXPECT_NE(found["legend"].get<std::string>().find("strongest colour: "), std::string::npos) << found;
  EXPECT_LT(found["full"], 0.9);
  EXPECT_GE(found["full"], 0.04);
  EXPECT_NE(found["ticks"].get<std::string>().find(found["full"].dump()), std::string::npos) << found;
  EXPECT_TRUE(found["strongest"].get<bool>());
  EXPECT_EQ(found["nested"].size(), 0u) << found["nested"];
  EXPECT_GT(found["scrolled"][0], 300) << found;
  EXPECT_GT(found["scrolled"][1], 300) << found;
  EXPECT_GT(found["rows"], 10) << found;
  EXPECT_GT(found["columns"], 10) << found;
  EXPECT_EQ(found["readout"].get<std::string>().find("To say ziel61, after ziel60, it read source60"), 0u) << found;
  EXPECT_EQ(found["absolute"].get<std::string>().find("strongest"), std::string::npos) << found;
  EXPECT_EQ(found["pressed"], "false");
}

// Curves are drawn for a desk: on a phone the page scrolls, and the values stay in sight.
TEST_F(PageUse, CurvesOnAPhone) {
  std::ofstream log(folder_ / "log.jsonl");
  for (int update = 10; update <= 500; update += 10)
    log << R"({"update":)" << update << R"(,"loss":)" << 500.0 / update << R"(,"learning_rate":0.0005})" << '\n';
  log.close();
  const auto found = run(plot_log(folder_ / "log.jsonl"), "", R"(
    const svg = document.querySelector('#drawing svg').getBoundingClientRect();
    document.querySelector('#drawing svg').dispatchEvent(
        new PointerEvent('pointerdown', {clientX: svg.left + svg.width / 2, clientY: svg.top + 100, bubbles: true}));
    const tick = document.querySelector('.tick');
    window.scrollTo(100, 200);
    await wait(50);
    const readout = document.getElementById('readout'), at = readout.getBoundingClientRect();
    return {size: tick.getBoundingClientRect().height, words: readout.textContent, left: at.left, right: at.right, top: at.top};)",
                         390, 500);
  EXPECT_GT(found["size"], 9) << found;
  EXPECT_NE(found["words"].get<std::string>().find("learning rate 0.0005"), std::string::npos) << found;
  EXPECT_GE(found["left"], 0) << found;
  EXPECT_LE(found["right"], 390) << found;
  EXPECT_GE(found["top"], 0) << found;
}

// Every text on the page against what is behind it, as WCAG 2 counts it. Word marks and arrows are decoration.
TEST_F(PageUse, TextCanBeRead) {
  const std::string script = std::string(kCell) + R"(
    const parts = (value) => value.match(/[\d.]+/g).map(Number);
    const over = (front, back) => front.slice(0, 3).map((c, k) => c * (front[3] ?? 1) + back[k] * (1 - (front[3] ?? 1)));
    const luminance = (rgb) => rgb.reduce((sum, c, k) => sum + [0.2126, 0.7152, 0.0722][k] *
        (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4), 0);
    const rest = getComputedStyle(document.documentElement).getPropertyValue('--paper').trim();
    const hex = [1, 3, 5].map((at) => parseInt(rest.slice(at, at + 2), 16));
    const behind = (element) => {
      if (!element) return hex;
      const colour = parts(getComputedStyle(element).backgroundColor);
      return (colour[3] ?? 1) === 1 ? colour.slice(0, 3) : over(colour, behind(element.parentElement));
    };
    const bad = [];
    let texts = 0;
    const look = (where) => {
      const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      while (walk.nextNode()) {
        const node = walk.currentNode, element = node.parentElement;
        if (!node.data.trim() || element.closest('[aria-hidden], script, pre, :disabled') || !element.checkVisibility({visibilityProperty: true})) continue;
        const style = getComputedStyle(element), back = behind(element);
        let colour = parts(element instanceof SVGElement ? style.fill : style.color), seen = colour[3] ?? 1;
        for (let e = element; e; e = e.parentElement) seen *= Number(getComputedStyle(e).opacity);
        const [a, b] = [luminance(over([...colour.slice(0, 3), seen], back)), luminance(back)];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        ++texts;
        if (contrast < 4.5) bad.push([where, node.data, Number(contrast.toFixed(2)), element.className.baseVal ?? element.className]);
      }
    };
    document.querySelector('details').open = true;
    look('map');
    document.querySelectorAll('#rows .token')[3].click();
    await hover(2, 5);
    look('row');
    document.getElementById('view-lines').click();
    look('lines');
    const inks = ramp.map((rgb) => {
      const [a, b] = [luminance(parts(inkOn(rgb) === '#ffffff' ? '255 255 255' : '0 0 0')), luminance(rgb)];
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    });
    return {texts, bad, inks: Math.min(...inks)};)";
  for (const char* theme : {"", kDarkTheme}) {
    const auto found = run(to_html(chinese_record()), "#cross/2/3", script, 0, 0, theme);
    EXPECT_GT(found["texts"], 150);
    EXPECT_EQ(found["bad"].size(), 0u) << theme << found["bad"];
    EXPECT_GE(found["inks"], 4.5);
  }
}

TEST_F(PageUse, WithTheKeyboardAlone) {
  const auto found = run(to_html(chinese_record()), "#cross/2/7", std::string(kCell) + R"(
    const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
    const out = {heads: []};
    for (const key of ['ArrowRight', 'ArrowRight', 'ArrowRight', 'ArrowLeft', 'ArrowUp', 'ArrowUp', 'ArrowUp', 'm', 'm']) {
      press(key);
      out.heads.push(location.hash);
    }
    document.querySelector('.thumb[aria-pressed=true]').focus();
    press('ArrowDown');
    out.focused = document.activeElement.getAttribute('aria-label');
    out.outline = getComputedStyle(document.activeElement).outlineStyle;
    select('cross', 1, 2);
    document.querySelector('.map').focus();
    for (const key of ['ArrowDown', 'ArrowDown', 'ArrowRight']) press(key);
    await frame();
    out.cell = text('readout');
    press('Enter');
    out.kept = location.hash;
    press('Escape');
    out.free = location.hash;
    document.querySelector('#rows .token').focus();
    press('ArrowRight');
    await frame();
    out.token = text('readout');
    press('r');
    out.relative = document.getElementById('relative').getAttribute('aria-pressed');
    out.unnamed = [...document.querySelectorAll('button, [tabindex="0"], [role]')].filter((e) =>
        !(e.textContent.trim() || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby'))).map((e) => e.outerHTML);
    out.stops = document.querySelectorAll('.thumb[tabindex="0"]').length;
    return out;)");
  EXPECT_EQ(found["heads"], nlohmann::json::parse(R"(["#cross/2/8", "#cross/2/mean", "#cross/3/1", "#cross/2/mean",
      "#cross/1/mean", "#cross/1/mean", "#cross/1/mean", "#cross/1/1", "#cross/1/mean"])"))
      << found["heads"];
  EXPECT_EQ(found["focused"], "layer 2, mean over heads");
  EXPECT_EQ(found["outline"], "solid");
  EXPECT_EQ(found["cell"].get<std::string>().find("To say 的, after 最近, it read is, "), 0u) << found["cell"];
  EXPECT_EQ(found["kept"], "#cross/2/3/row/2/column/2");
  EXPECT_EQ(found["free"], "#cross/2/3");
  EXPECT_EQ(found["token"].get<std::string>().find("To say 的, after 最近, it read "), 0u) << found["token"];
  EXPECT_EQ(found["relative"], "true");
  EXPECT_EQ(found["unnamed"].size(), 0u) << found["unnamed"];
  EXPECT_EQ(found["stops"], 1);
}

TEST_F(PageUse, NothingMovesUnderThePointer) {
  for (const Record& record : {chinese_record(), long_record(60)}) {
    const auto found = run(to_html(record), "#cross/1/1", std::string(kCell) + R"(
      const places = () => JSON.stringify([...document.querySelectorAll('.map canvas, .thumb, #rows .token, #columns .token, .tools')]
          .map((e) => { const at = e.getBoundingClientRect(); return [at.left, at.top, at.width, at.height].map(Math.round); }));
      const before = places(), out = {moved: []};
      for (const [row, column] of [[0, 0], [3, 5], [7, 9]]) {
        await hover(row, column);
        if (places() !== before) out.moved.push([row, column]);
      }
      document.querySelector('.map').dispatchEvent(new PointerEvent('pointerleave'));
      for (const thumb of [...document.querySelectorAll('.thumb')].slice(0, 6)) {
        thumb.dispatchEvent(new PointerEvent('pointerenter', {pointerType: 'mouse'}));
        await frame();
        if (places() !== before) out.moved.push(thumb.title);
        thumb.dispatchEvent(new PointerEvent('pointerleave', {pointerType: 'mouse'}));
      }
      await frame();
      out.requests = performance.getEntriesByType('resource').map((e) => e.name);
      return out;)");
    EXPECT_EQ(found["moved"].size(), 0u) << found;
    EXPECT_EQ(found["requests"].size(), 0u) << found;  // nothing is loaded from anywhere
  }
}

// Sentences, tooltips and saved pictures of tokens that would rather be markup.
TEST_F(PageUse, HostileTokensStayTextInWhatIsSaid) {
  std::vector<std::string> hostile = payloads(60);
  for (size_t i = 0; i < 8; ++i) hostile[i] = "a" + hostile[i];  // words
  Record record = sample_record({hostile.begin(), hostile.begin() + 20}, {hostile.begin() + 20, hostile.begin() + 40},
                                {hostile.begin() + 40, hostile.end()}, 1, 4);
  record.title = hostile[0];
  const auto found = run(to_html(record), "", std::string(kCell) + R"(
    const tags = new Set(), title = document.title, wrong = [];
    const look = (element) => element.querySelectorAll('*').forEach((e) => {
      tags.add(e.tagName.toLowerCase());
      if ([...e.attributes].some((a) => a.name.startsWith('on') || a.name === 'src' || a.name === 'href')) wrong.push(e.outerHTML);
    });
    for (const part of ['encoder', 'decoder', 'cross']) {
      for (let head = -1; head < 4; ++head) {
        select(part, 0, head);
        look(document.getElementById('readout'));
      }
      for (let i = 0; i < 20; i += 3) {
        await hover(i, 19 - i);
        look(document.getElementById('tip'));
        look(document.getElementById('readout'));
      }
      document.querySelector('.map').dispatchEvent(new PointerEvent('pointerleave'));
    }
    const drawn = new Set();
    for (const view of ['map', 'lines']) {
      document.getElementById('view-' + view).click();
      document.getElementById('save-svg').click();
      const svg = new DOMParser().parseFromString(saved.at(-1).text, 'image/svg+xml');
      svg.querySelectorAll('*').forEach((e) => drawn.add(e.tagName));
    }
    return {tags: [...tags].sort(), drawn: [...drawn].sort(), wrong, same: document.title === title};)");
  EXPECT_EQ(found["tags"], (std::vector<std::string>{"b", "span"}));
  EXPECT_EQ(found["drawn"], (std::vector<std::string>{"g", "path", "rect", "svg", "text", "title"}));
  EXPECT_EQ(found["wrong"].size(), 0u) << found["wrong"];
  EXPECT_TRUE(found["same"].get<bool>());
}

}  // namespace
}  // namespace heed::inspect
