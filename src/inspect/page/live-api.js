// The live page (docs/serve.md). This file talks to the server: JSON, streams of events, weights in bytes; and it waits
// while nobody answers.

const live = {
  models: [], model: null,
  base: null,      // what the model read and wrote: the last event of a run
  done: null,      // the same with the changes
  record: null,    // its attention, in pieces; `record` may be folded into words
  previous: null,  // the attention of the text before
  first: 0,        // the first row that the model wrote itself
  row: null,       // the row of the token that the panels are about
  from: '', to: '',  // languages; '': what the model's folder says
  changes: [], chosen: [], folded: false, long: null,
  pinned: false,   // somebody chose a head: a new text keeps it
};

// Elements in one expression: el('button', {class: 'a', 'aria-label': 'b', click: act}, 'text', child).
const el = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  if (tag === 'button') element.type = 'button';
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') listen(element, name, value);
    else if (value !== null && value !== undefined && (value !== false || name.startsWith('aria-'))) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
};
const div = (name, ...children) => el('div', {class: name}, ...children);
const span = (name, ...children) => el('span', {class: name}, ...children);
const many = (value) => value.toLocaleString('en');
const tableOf = (caption, columns, rows) =>
  el('table', {}, el('caption', {}, caption), el('thead', {}, el('tr', {}, ...columns.map((name) => el('th', {scope: 'col'}, name)))),
     el('tbody', {}, ...rows.map((row) => el('tr', {}, ...row.map((cell, k) => (k ? el('td', {}, cell) : el('th', {scope: 'row'}, cell)))))));
const press = (click, ...children) => el('button', {click}, ...children);
const chip = (click, ...children) => el('button', {class: 'chip', click}, ...children);
const scroller = (name, child, low) => el('div', {class: low ? 'scroll low' : 'scroll', tabindex: 0, role: 'region', 'aria-label': name}, child);
const folded = (name, ...children) => el('details', {}, el('summary', {}, name), ...children);

// ---- Requests ----------------------------------------------------------------------------------------------------
const kToken = 'heed-token';
let secret = null;
const takeToken = () => {
  const at = new URLSearchParams(location.hash.slice(1));
  try {
    if (at.has('token')) sessionStorage.setItem(kToken, at.get('token'));
    secret = sessionStorage.getItem(kToken);
  } catch {
    secret = at.get('token');
  }
  if (!at.has('token')) return;
  at.delete('token');
  history.replaceState(null, '', '#' + at);
};
const say = (text) => {
  $('problem').textContent = text ? visible(text) : '';
  $('problem').hidden = !text;
};
class Refusal extends Error {}
class Gone extends Error {}
const flights = new Map();  // of each kind of request the one under way: the next one calls it off
const request = async (path, body, key) => {
  let signal;
  if (key) {
    flights.get(key)?.abort();
    const control = new AbortController();
    flights.set(key, control);
    signal = control.signal;
  }
  const headers = {};
  if (body) headers['Content-Type'] = 'application/json';
  if (secret) headers.Authorization = `Bearer ${secret}`;
  let response;
  try {
    response = await fetch('api/v1/' + path, {method: body ? 'POST' : 'GET', headers, signal, cache: 'no-store', body: body && JSON.stringify(body)});
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Gone();
  }
  if (response.ok) return response;
  let text = `The server answered ${response.status}.`;
  try {
    text = (await response.json()).error ?? text;
  } catch {}
  throw new Refusal(text);
};
const ask = async (path, body, key = path) => (await request(path, body, key)).json();
// Runs something that asks the server. What it refuses is one line on the page; what was called off is nothing.
const attempt = async (act) => {
  try {
    return await act();
  } catch (error) {
    if (error.name === 'AbortError') return undefined;
    if (error instanceof Gone || error instanceof TypeError && /fetch|network/i.test(error.message)) serverGone();
    else say(error.message);
    if (!(error instanceof Gone || error instanceof Refusal)) throw error;
    return undefined;
  }
};
// Calls act(event, data) for each event of a stream.
const stream = async (path, body, key, act) => {
  const reader = (await request(path, body, key)).body.getReader(), decoder = new TextDecoder();
  let text = '';
  for (;;) {
    let step;
    try {
      step = await reader.read();
    } catch (error) {
      throw error.name === 'AbortError' ? error : new Gone();
    }
    text += step.done ? decoder.decode() + '\n\n' : decoder.decode(step.value, {stream: true});
    text = text.replace(/\r/g, '');
    for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
      let event = 'message', data = '';
      for (const line of text.slice(0, end).split('\n')) {
        if (line.startsWith('event:')) event = line.slice(6).trim();
        if (line.startsWith('data:')) data += line.slice(5).trim();
      }
      if (!data) continue;
      const value = JSON.parse(data);
      if (event === 'error') throw new Refusal(value.error);
      act(event, value);
    }
    if (step.done) return;
  }
};
const runToEnd = async (body, key) => {
  let done = null;
  await stream('run', body, key, (event, data) => { if (event === 'done') done = data; });
  return done;
};

// ---- Weights in bytes ---------------------------------------------------------------------------------------------
let halves = null;
const halfTable = () => {
  if (halves) return halves;
  halves = new Float64Array(65536);
  for (let bits = 0; bits < 65536; ++bits) {
    const exponent = bits >> 10 & 31, fraction = bits & 1023;
    const value = exponent === 31 ? (fraction ? NaN : Infinity) : exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : fraction * 2 ** -24;
    halves[bits] = bits >> 15 ? -value : value;
  }
  return halves;
};
const readBytes = (buffer, half) => {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const bytes = buffer.slice(4 + length);
  if (!half) return {header, numbers: new Float32Array(bytes)};
  const table = halfTable();
  return {header, numbers: Float64Array.from(new Uint16Array(bytes), (bits) => table[bits])};
};
const cutRows = (numbers, at, rows, columns) => Array.from({length: rows}, (_, i) =>
  Array.from(numbers.subarray(at + i * columns, at + (i + 1) * columns), (weight) => (Number.isNaN(weight) ? null : weight)));
const list = (value) => value || [];
const toRecord = (done, {header, numbers}, model = live.model) => {
  const out = {title: model.name, tokenizer: model.tokenizer, source: live.text ?? '', output: done.text ?? '', encoder: [], decoder: [], cross: [], arrays: [],
               source_tokens: list(done.source_tokens), target_tokens: list(done.target_tokens), output_tokens: list(done.output_tokens),
               words: {source: list(done.source_words), target: list(done.target_words), output: list(done.output_words)},
               telling: {encoder: [], decoder: [], cross: [], arrays: []}, names: header.names ?? {}, ids: done};
  for (const map of header.maps) {
    const size = map.rows * map.columns;
    out[map.part].push({path: map.path, weights: map.heads.map((_, k) => cutRows(numbers, map.offset + k * size, map.rows, map.columns))});
  }
  for (const part of ['encoder', 'decoder', 'cross']) {
    out.telling[part] = header.telling?.[part] ?? out[part].map(({weights}) => weights.map(() => 0).concat(0));
  }
  return out;
};
const askAttention = async (body, key = 'attention') => {
  const answer = await request('attention', {dtype: 'f16', ...body}, key);
  return readBytes(await answer.arrayBuffer(), body.dtype !== 'f32');
};

// ---- The server is away, or comes back with another model ------------------------------------------------------------
const announce = (text) => {
  $('banner').textContent = text;
  $('banner').hidden = !text;
};
let away = false;
const kRetry = 2000;
const serverGone = () => {
  if (away) return;
  away = true;
  announce('The server does not answer. Trying again every two seconds.');
  setTimeout(look, kRetry);
};
// Asks for the models: whether the server is there, and whether they are still the same.
const look = async () => {
  let answer;
  try {
    answer = await ask('models', null, 'look');
  } catch (error) {
    if (away) setTimeout(look, kRetry);
    else if (error instanceof Gone) serverGone();
    return;
  }
  const was = live.model, returned = away;
  away = false;
  takeModels(answer.models);
  if (was && live.model && was.version !== live.model.version) {
    announce(`${was.name} has changed: loaded again.`);
    drawLanguages();
    say('');
    live.pinned = false;
    start();
  } else if (returned) {
    announce('');
    say('');
    start();
  }
};
setInterval(() => { if (!away && !document.hidden) look(); }, 3000);
