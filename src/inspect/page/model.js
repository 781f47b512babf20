// The page of a Record (heed/inspect.h): its data, colours and state. The files of this folder are one script, in the order
// model, overview, words, focus, map, lines, save, main; then offline, or the live page's live-*.js (src/inspect/page.cc).
// Token text reaches the page through textContent and setAttribute alone.
'use strict';

let record = null;  // setRecord()
let parts = [];     // the kinds of attention it has
const $ = (id) => document.getElementById(id);
const names = {encoder: 'Encoder', decoder: 'Decoder', cross: 'Cross', arrays: 'Attention'};
const longNames = {encoder: 'Encoder self-attention', decoder: 'Decoder self-attention', cross: 'Cross-attention', arrays: 'Attention'};
const kLongestLines = 64;  // tokens on a side beyond which lines are only a tangle

// ---- Small things ------------------------------------------------------------------------------------------------
const make = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};
const makeSvg = (tag, attributes, text) => {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
};
const listen = (element, event, act, first) => element.addEventListener(event, act, first);
const setPressed = (button, pressed) => button.setAttribute('aria-pressed', pressed);
const number = (value, digits = 3) => (value === null || value === undefined ? 'NaN' : value.toFixed(digits).replace('-', '\u2212'));
// A weight with four digits, whatever additions left behind them: 0.053149999999999996 is 0.05315.
const exact = (weight) => (weight === null ? 'NaN' : String(Number(weight.toPrecision(4))));
const percent = (weight) => {
  if (weight === null) return 'NaN';
  const value = weight * 100;
  return `${value >= 9.95 || value === 0 ? Math.round(value) : value >= 0.1 ? Number(value.toFixed(1)) : Number(value.toPrecision(1))} %`;
};
const short = (value) => {
  if (value === null) return 'NaN';
  if (value >= 0.9995) return '1';
  return value < 0.0005 ? '0' : value.toFixed(value < 0.0995 ? 3 : 2).slice(1);
};
// Control and direction characters become visible, as escape_terminal() does it; a new line as \u21b5. Joiners (U+200C, U+200D)
// are spelling where they stand between characters that can be seen.
const unseen = /[\0-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}\ud800-\udfff\p{NChar}]/u;
const isSeen = (c) => c > ' ' && !unseen.test(c);
const visible = (text) => [...text].map((c, i, all) => {
  const code = c.codePointAt(0);
  if (!unseen.test(c) || (/[\u200c\u200d]/.test(c) && isSeen(all[i - 1]) && isSeen(all[i + 1]))) return c;
  if (code === 10) return '↵';
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return '\u2421';
  if (/[\ud800-\udfff]/u.test(c)) return '\ufffd';
  return `<U+${code.toString(16).toUpperCase().padStart(4, '0')}>`;
}).join('');
const label = (text, limit = 40) => {
  const all = [...visible(text)];
  if (all.length === 0) return '∅';
  const cut = all.length > limit ? all.slice(0, limit - 1).join('') + '…' : all.join('');
  return cut.trim() === '' ? cut.replace(/ /g, '␣') : cut;
};
// Without SentencePiece's word mark: for sentences.
const plain = (text) => label(text).replace(/^▁+(?=.)/, '');
// With the mark set back: for lists and axes.
const mark = (text) => {
  const span = make('span', 'mark', text);
  span.setAttribute('aria-hidden', true);
  return span;
};
const tokenText = (className, text) => {
  const span = make('span', className);
  const shown = label(text);
  if (shown.length > 1 && shown.startsWith('▁')) {
    span.append(mark('▁'), shown.slice(1));
  } else {
    span.textContent = shown;
  }
  return span;
};

// ---- Colour: the same colour is the same weight in all heads of a tab; the root of the weight, so that small ones show ---
let ramp = [];
let onPaper = false;  // a printed page has the light colours
const parse = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const makeRamp = (stops) => {
  const colours = stops.map(parse);
  return Array.from({length: 1024}, (_, i) => {
    const at = Math.sqrt(i / 1023) * (colours.length - 1);
    const low = Math.min(colours.length - 2, Math.floor(at));
    return colours[low].map((c, k) => Math.round(c + (colours[low + 1][k] - c) * (at - low)));
  });
};
const kLight = ['#f1f5f5', '#d2e7e5', '#9ccfcb', '#57adac', '#27868e', '#125c6e', '#0a334d'];
const readRamp = () => {
  const stops = getComputedStyle(document.documentElement).getPropertyValue('--ramp').trim().split(/\s+/);
  ramp = makeRamp(stops.length > 1 && !onPaper ? stops : kLight);
};
let full = 1;  // the weight with the strongest colour: strongest() of the tab
const colour = (weight, table = ramp) =>
  weight === null ? [200, 60, 60] : table[Math.max(0, Math.min(1023, Math.round(weight * (1023 / full))))];
const css = (rgb) => `rgb(${rgb[0]} ${rgb[1]} ${rgb[2]})`;
const luminance = (rgb) =>
  rgb.reduce((sum, c, k) => sum + [0.2126, 0.7152, 0.0722][k] * (c <= 10 ? c / 3294.6 : ((c / 255 + 0.055) / 1.055) ** 2.4), 0);
const inkOn = (rgb) => (luminance(rgb) < 0.179 ? '#ffffff' : '#000000');  // where both have the same contrast, 4.58

// ---- What is shown -----------------------------------------------------------------------------------------------
const state = {
  part: null,
  layer: 0, head: 0,             // head -1: the mean
  lastHead: 0,
  places: {},                    // of each tab: the head that was shown last
  relative: null,                // colours relative to the tab's strong weights; null: where there are many columns
  preview: null,                 // {layer, head} under the pointer
  row: null, column: null,       // under the pointer
  lockedRow: null, lockedColumn: null,
  view: 'map', zoom: 1,
};
// What the live page adds to the views: functions by name, called where they are there.
const hooks = {};
const rowTokens = (part) => (part === 'encoder' ? record.source_tokens : record.row_tokens ?? record.target_tokens);
const columnTokens = (part) => (part === 'decoder' ? record.target_tokens : record.source_tokens);
const said = (part) => (part === 'encoder' ? [] : record.output_tokens);
const isSelf = (part) => part === 'encoder' || part === 'decoder';
const shown = () => state.preview || {layer: state.layer, head: state.head};

const means = new Map();
const weightsOf = (part, layer, head) => {
  const all = record[part][layer].weights;
  if (head >= 0) return all[head];
  const key = part + layer;
  if (!means.has(key)) {
    means.set(key, all[0].map((row, i) => row.map((_, j) =>
      all.some((h) => h[i][j] === null) ? null : all.reduce((sum, h) => sum + h[i][j], 0) / all.length)));
  }
  return means.get(key);
};
const current = () => (!state.preview && hooks.weights?.()) || weightsOf(state.part, shown().layer, shown().head);
// The head a tab opens on: the first of the largest scores (telling_scores() of heed/inspect.h has the formula).
const bestPlace = (part) => {
  let best = {layer: 0, head: 0, score: 0};
  record.telling[part].forEach((scores, layer) => scores.forEach((score, k) => {
    if (score > best.score) best = {layer, head: k === scores.length - 1 ? -1 : k, score};
  }));
  return best;
};
const scoreOf = (part, layer, head) => record.telling[part][layer].at(head);  // the last is the mean's

// The weight with the strongest colour: 1. With relative colours: the weight that one in a hundred of the tab's weights
// exceeds, but at least four times the even share, so that even weights stay pale.
const kManyColumns = 48;
const isRelative = () => state.relative ?? columnTokens(state.part).length > kManyColumns;
const strongestOf = new Map();
const setRecord = (next) => {
  record = next;
  parts = ['encoder', 'decoder', 'cross', 'arrays'].filter((part) => record[part].length > 0);
  means.clear();
  strongestOf.clear();
};
const strongest = () => {
  if (!isRelative()) return 1;
  if (!strongestOf.has(state.part)) {
    const bins = new Uint32Array(1025);
    let count = 0, at = 1024;
    for (const {weights} of record[state.part]) {
      for (const head of weights) for (const row of head) for (const weight of row) ++bins[Math.round(Math.sqrt(Math.min(1, weight)) * 1024)];
    }
    const all = bins.reduce((sum, n) => sum + n, 0);
    while (at > 0 && (count += bins[at]) <= all / 100) --at;
    strongestOf.set(state.part, Number(Math.min(1, Math.max((at / 1024) ** 2, 4 / columnTokens(state.part).length)).toPrecision(2)));
  }
  return strongestOf.get(state.part);
};
// Computes once for each head.
const remember = (compute) => {
  const known = new WeakMap();
  return (w, part) => {
    if (!known.has(w)) known.set(w, compute(w, part));
    return known.get(w);
  };
};
const layerName = (part, layer) => `${part === 'arrays' ? 'batch row' : 'layer'} ${layer + 1}`;
const headName = (head) => (head < 0 ? 'mean over heads' : `head ${head + 1}`);

// Means over the rows: entropy, distance, and the weight on the first, last, previous, same and next token. `evenness` is
// the entropy divided by the largest there could be.
const summary = remember((w, part) => {
  const self = isSelf(part), rows = w.length, columns = rows ? w[0].length : 0;
  const out = {entropy: 0, distance: 0, first: 0, last: 0, previous: 0, itself: 0, next: 0, limit: Math.log2(Math.max(1, columns))};
  let most = 0;
  w.forEach((row, i) => {
    most += Math.log2(Math.max(1, part === 'decoder' ? i + 1 : columns));
    row.forEach((weight, j) => {
      if (!weight) return;
      out.entropy -= weight * Math.log2(weight);
      const at = self ? i : rows > 1 ? i * (columns - 1) / (rows - 1) : 0;
      out.distance += weight * Math.abs(at - j);
      if (j === 0) out.first += weight;
      if (j === columns - 1) out.last += weight;
      if (self && Math.abs(i - j) < 2) out[['previous', 'itself', 'next'][j - i + 1]] += weight;
    });
  });
  out.evenness = most > 0 ? out.entropy / most : 0;
  for (const key of ['entropy', 'distance', 'first', 'last', 'itself']) out[key] /= Math.max(1, rows);
  for (const key of ['previous', 'next']) out[key] /= Math.max(1, rows - 1);
  return out;
});
