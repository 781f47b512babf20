// The page of a Record (heed/inspect.h): its data, colours and state. The files of this folder are one script, in the order
// model, overview, focus, map, lines, save, main. Token text reaches the page through textContent and setAttribute alone.
'use strict';

const record = JSON.parse(document.getElementById('record').textContent);
const $ = (id) => document.getElementById(id);
const names = {encoder: 'Encoder', decoder: 'Decoder', cross: 'Cross', arrays: 'Attention'};
const longNames = {encoder: 'Encoder self-attention', decoder: 'Decoder self-attention', cross: 'Cross-attention', arrays: 'Attention'};
const parts = ['encoder', 'decoder', 'cross', 'arrays'].filter((part) => record[part].length > 0);
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
const number = (value, digits = 3) => (value === null ? 'NaN' : value.toFixed(digits));
const short = (value) => {
  if (value === null) return 'NaN';
  if (value >= 0.9995) return '1';
  return value < 0.0005 ? '0' : value.toFixed(value < 0.0995 ? 3 : 2).slice(1);
};
// Control and direction characters become visible, as escape_terminal() does it.
const visible = (text) => {
  let out = '';
  for (const c of text) {
    const code = c.codePointAt(0);
    if (code < 0x20) out += String.fromCodePoint(0x2400 + code);
    else if (code === 0x7f) out += '\u2421';
    else if ((code >= 0x80 && code < 0xa0) || code === 0xad || code === 0x61c || code === 0x180e || (code >= 0x200b && code <= 0x200f) ||
             (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) || code === 0xfeff ||
             (code >= 0xfff9 && code <= 0xfffb) || (code >= 0xe0000 && code <= 0xe007f) ||
             (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) === 0xfffe) {
      out += '<U+' + code.toString(16).toUpperCase().padStart(4, '0') + '>';
    } else if (code >= 0xd800 && code <= 0xdfff) out += '\ufffd';
    else out += c;
  }
  return out;
};
const label = (text, limit = 40) => {
  const all = [...visible(text)];
  if (all.length === 0) return '\u2205';
  const cut = all.length > limit ? all.slice(0, limit - 1).join('') + '\u2026' : all.join('');
  return cut.trim() === '' ? cut.replace(/ /g, '\u2423') : cut;
};
// A token's text with SentencePiece's word mark set back.
const tokenText = (className, text) => {
  const span = make('span', className);
  const shown = label(text);
  if (shown.length > 1 && shown.startsWith('\u2581')) {
    span.append(make('span', 'mark', '\u2581'), document.createTextNode(shown.slice(1)));
  } else {
    span.textContent = shown;
  }
  return span;
};

// ---- Colour: the same colour is the same weight everywhere; the root of the weight, so that small ones show ---------
let ramp = [];
const parse = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const makeRamp = (stops) => {
  const colours = stops.map(parse);
  return Array.from({length: 256}, (_, i) => {
    const at = Math.sqrt(i / 255) * (colours.length - 1);
    const low = Math.min(colours.length - 2, Math.floor(at));
    return colours[low].map((c, k) => Math.round(c + (colours[low + 1][k] - c) * (at - low)));
  });
};
const kLight = ['#f1f5f5', '#d2e7e5', '#9ccfcb', '#57adac', '#27868e', '#125c6e', '#0a334d'];
const readRamp = () => {
  const stops = getComputedStyle(document.documentElement).getPropertyValue('--ramp').trim().split(/\s+/);
  ramp = makeRamp(stops.length > 1 ? stops : kLight);
};
const colour = (weight, table = ramp) =>
  weight === null ? [200, 60, 60] : table[Math.max(0, Math.min(255, Math.round(weight * 255)))];
const css = (rgb) => `rgb(${rgb[0]} ${rgb[1]} ${rgb[2]})`;
const isDark = (rgb) => 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] < 116;
const inkOn = (rgb) => (isDark(rgb) ? '#ffffff' : '#14201f');

// ---- What is shown -----------------------------------------------------------------------------------------------
const state = {
  part: parts.includes('cross') ? 'cross' : parts[0],
  layer: 0, head: 0,             // head -1: the mean
  lastHead: 0,
  preview: null,                 // {layer, head} under the pointer
  row: null, column: null,       // under the pointer
  lockedRow: null, lockedColumn: null,
  view: 'map', zoom: 1,
};
const rowTokens = (part) => (part === 'encoder' ? record.source_tokens : record.target_tokens);
const columnTokens = (part) => (part === 'decoder' ? record.target_tokens : record.source_tokens);
const said = (part) => (part === 'encoder' ? [] : record.output_tokens);
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
const current = () => weightsOf(state.part, shown().layer, shown().head);
const layerName = (part, layer) => `${part === 'arrays' ? 'batch row' : 'layer'} ${layer + 1}`;
const headName = (head) => (head < 0 ? 'mean over heads' : `head ${head + 1}`);

const summary = (w, self) => {
  const rows = w.length, columns = rows ? w[0].length : 0;
  const out = {entropy: 0, distance: 0, first: 0, last: 0, previous: 0, limit: Math.log2(Math.max(1, columns))};
  let previous = 0;
  w.forEach((row, i) => row.forEach((weight, j) => {
    if (!weight) return;
    out.entropy -= weight * Math.log2(weight);
    const at = self ? i : rows > 1 ? i * (columns - 1) / (rows - 1) : 0;
    out.distance += weight * Math.abs(at - j);
    if (j === 0) out.first += weight;
    if (j === columns - 1) out.last += weight;
    if (self && j === i - 1) previous += weight;
  }));
  for (const key of ['entropy', 'distance', 'first', 'last']) out[key] /= Math.max(1, rows);
  out.previous = previous / Math.max(1, rows - 1);
  return out;
};
