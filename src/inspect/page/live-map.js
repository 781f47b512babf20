// Long texts: one head as a picture whose dots stand for many weights. What is in sight is asked for at its own resolution.

const longPart = () => (live.model.task === 'fill' ? 'encoder' : 'decoder');
const longBody = (more) => ({model: live.model.id, text: live.long.text, part: longPart(), layer: live.long.layer, head: live.long.head, ...more});
const kSmallestView = 16;
const openLong = async (text) => {
  const {ids, tokens} = await ask('tokenize', {model: live.model.id, text, side: isCausal() ? 'target' : 'source'}, 'tokenize-long');
  const n = ids.length, layers = longPart() === 'encoder' ? live.model.encoder_layers : live.model.decoder_layers;
  // A middle layer, and the head that sees farthest where positions are ALiBi: the last of a power of two of them.
  const was = live.long ?? {layer: layers >> 1, head: 2 ** Math.floor(Math.log2(live.model.heads)) - 1, largest: false};
  live.long = {...was, text, n, tokens, layer: Math.min(was.layer, layers - 1), head: Math.min(was.head, live.model.heads - 1), rows: [0, n], columns: [0, n], picture: null, row: null};
  setRecordAway(true);
  drawLongFrame(layers);
  growText();
  await loadMap();
  loadThumbs(live.long);
};
const setRecordAway = (awayNow) => {
  record = null;
  $('views').hidden = awayNow;
  $('output').replaceChildren();
  $('answer').hidden = awayNow;
  $('long').hidden = !awayNow;
};
const closeLong = () => {
  if (!live.long) return;
  live.long = null;
  clearTimeout(mapTimer);
  clearTimeout(rowTimer);
  for (const key of ['map', 'row', 'thumb']) flights.get(key)?.abort();
  $('long').replaceChildren();
  setRecordAway(false);
  $('views').hidden = true;
  growText();
};
const drawLongFrame = (layers) => {
  const {long} = live;
  const chooser = (name, values, key) => {
    const select = choice(name, values, long[key]);
    select.id = `long-${key}`;
    listen(select, 'change', () => chooseLong({[key]: Number(select.value)}));
    return el('label', {}, `${name} `, select);
  };
  $('long').replaceChildren(
    div('fields', el('b', {}, `${many(long.n)} tokens`), chooser('Layer', upTo(layers), 'layer'), chooser('Head', upTo(live.model.heads), 'head'),
      el('button', {id: 'largest', 'aria-pressed': long.largest, click: () => { long.largest = !long.largest; setPressed($('largest'), long.largest); loadMap(); }}, 'largest weight of each dot'),
      el('button', {'aria-label': 'Closer', click: () => zoomLong(0.5)}, '+'), el('button', {'aria-label': 'Farther', click: () => zoomLong(2)}, '−'), press(() => { Object.assign(long, {rows: [0, long.n], columns: [0, long.n]}); loadMap(); }, 'All of it'),
      el('button', {id: 'long-as-table', 'aria-pressed': Boolean(long.table), title: 'T', click: toggleLongTable}, 'Table')),
    div('long-view',
      div('long-map',
        el('canvas', {id: 'long-canvas', tabindex: 0, role: 'application', 'aria-roledescription': 'heat map', 'aria-label': 'Pooled weights: arrow keys move, plus and minus zoom, 0 shows all of it, Enter reads the middle row', width: 512, height: 512}),
        el('canvas', {id: 'long-entropy', role: 'img', 'aria-label': 'Entropy of the rows; the table has its numbers', width: 28, height: 512}),
        el('canvas', {id: 'long-received', role: 'img', 'aria-label': 'What the columns received; the table has its numbers', width: 512, height: 28}),
        el('p', {class: 'note', id: 'long-where', role: 'status'})),
      longHeads(layers),
      el('div', {class: 'long-row', id: 'long-row', 'aria-live': 'polite'}, note('Point at a row for the keys that it looks at most. Wheel or + − zoom, drag or arrow keys move.'))), el('div', {id: 'long-table', class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Table of the map', hidden: ''}));
  markThumbs();
  const canvas = $('long-canvas');
  let held = null;
  listen(canvas, 'wheel', (event) => {
    event.preventDefault();
    zoomLong(event.deltaY > 0 ? 1.25 : 0.8, longAt(event));
  }, {passive: false});
  listen(canvas, 'pointerdown', (event) => { held = [event.clientX, event.clientY]; canvas.setPointerCapture(event.pointerId); });
  listen(canvas, 'pointerup', () => { held = null; });
  listen(canvas, 'pointermove', (event) => {
    if (!held) {
      readRow(Math.floor(long.rows[0] + longAt(event)[0] * (long.rows[1] - long.rows[0])));
      return;
    }
    const box = canvas.getBoundingClientRect();
    moveLong((held[1] - event.clientY) / box.height, (held[0] - event.clientX) / box.width);
    held = [event.clientX, event.clientY];
  });
};
const longAt = (event) => {
  const box = $('long-canvas').getBoundingClientRect();
  return [(event.clientY - box.top) / box.height, (event.clientX - box.left) / box.width].map((v) => Math.max(0, Math.min(0.9999, v)));
};
// A piece [from, to) of n tokens, moved and cut so that it stays inside.
const inside = (from, size, n) => {
  const length = Math.max(Math.min(n, kSmallestView), Math.min(n, Math.round(size))), begin = Math.max(0, Math.min(n - length, Math.round(from)));
  return [begin, begin + length];
};
const zoomLong = (factor, at = [0.5, 0.5]) => {
  const {long} = live;
  ['rows', 'columns'].forEach((side, k) => {
    const size = (long[side][1] - long[side][0]) * factor;
    long[side] = inside(long[side][0] + at[k] * (long[side][1] - long[side][0]) - at[k] * size, size, long.n);
  });
  soonMap();
};
const moveLong = (down, right) => {
  const {long} = live;
  [['rows', down], ['columns', right]].forEach(([side, share]) => {
    const size = long[side][1] - long[side][0];
    long[side] = inside(long[side][0] + share * size, size, long.n);
  });
  soonMap();
};
let mapTimer = null;
const soonMap = () => {
  paintLong();
  clearTimeout(mapTimer);
  mapTimer = setTimeout(loadMap, 90);
};
// A picture's strongest colour: what one in two hundred of its dots exceeds.
const strongestOfDots = (weights) => {
  const sorted = Float32Array.from(weights).sort();
  return Math.max(1e-6, sorted[Math.floor(sorted.length * 0.995)], sorted.at(-1) / 20);
};
const paintDots = (canvas, weights, strong) => {
  const context = canvas.getContext('2d'), image = context.createImageData(canvas.width, canvas.height);
  readRamp();
  weights.forEach((weight, at) => image.data.set([...ramp[Math.max(0, Math.min(1023, Math.round(1023 * weight / strong)))], 255], at * 4));
  context.putImageData(image, 0, 0);
  canvas.again = () => paintDots(canvas, weights, strong);
};
hooks.redraw = () => {
  if (!live.long) return;
  for (const canvas of [live.long.picture?.canvas, ...longThumbs().map((thumb) => thumb.firstChild)]) canvas?.again?.();
  paintLong();
};
const loadMap = () => (flights.get('thumb')?.abort(), live.long.asked = attempt(async () => {
  const {long} = live, {rows, columns, largest} = long;
  const side = Math.min(512, rows[1] - rows[0]), across = Math.min(512, columns[1] - columns[0]);
  const answer = await request('map', longBody({rows, columns, size: [side, across], largest}), 'map');
  const {header, numbers} = readBytes(await answer.arrayBuffer(), false);
  if (live.long !== long) return;
  const size = header.rows * header.columns;
  long.picture = {rows, columns, largest, height: header.rows, width: header.columns, weights: numbers.subarray(0, size),
                  entropy: header.entropy ? numbers.subarray(size, size + header.rows) : [], received: header.received ? numbers.subarray(size + (header.entropy ? header.rows : 0)) : []};
  long.full = strongestOfDots(long.picture.weights);
  long.picture.canvas = el('canvas', {width: header.columns, height: header.rows});
  paintDots(long.picture.canvas, long.picture.weights, long.full);
  paintLong();
  drawLongTable();
}));
const paintLong = () => {
  const {long} = live, {picture: p} = long;
  if (!p) return;
  const canvas = $('long-canvas'), context = canvas.getContext('2d'), [h, w] = [long.rows[1] - long.rows[0], long.columns[1] - long.columns[0]];
  context.imageSmoothingEnabled = false;
  context.fillStyle = css(ramp[0]);
  context.fillRect(0, 0, 512, 512);
  context.drawImage(p.canvas, (p.columns[0] - long.columns[0]) / w * 512, (p.rows[0] - long.rows[0]) / h * 512, (p.columns[1] - p.columns[0]) / w * 512, (p.rows[1] - p.rows[0]) / h * 512);
  const strip = (id, values, most, down) => {
    const c = $(id).getContext('2d');
    c.clearRect(0, 0, 512, 512);
    c.fillStyle = css(ramp[600]);
    values.forEach((value, k) => {
      const from = Math.floor(k * 512 / values.length), size = Math.ceil(512 / values.length), length = 28 * Math.min(1, value / most);
      if (down) c.fillRect(from, 0, size, length);
      else c.fillRect(0, from, length, size);
    });
  };
  strip('long-entropy', p.entropy, Math.max(1e-9, Math.log2(long.n)), false);
  strip('long-received', p.received, Math.max(1e-9, ...p.received), true);
  $('long-where').textContent = `Layer ${long.layer + 1}, head ${long.head + 1}. Rows ${many(long.rows[0])} to ${many(long.rows[1] - 1)}, columns ${many(long.columns[0])} to ${many(long.columns[1] - 1)}; a dot is ${Math.max(1, Math.round(h / p.height))} × ${Math.max(1, Math.round(w / p.width))} weights; ` +
    `strongest colour: ${Number(long.full.toPrecision(2))}. Right: entropy of the rows, up to ${number(Math.log2(long.n), 1)} bits. Below: what the columns received.`;
};
let rowTimer = null;
const readRow = (row) => {
  if (row === live.long.row) return;
  live.long.row = row;
  clearTimeout(rowTimer);
  rowTimer = setTimeout(() => attempt(async () => {
    const {long} = live;
    const answer = await ask('row', longBody({row, count: 12}));
    if (live.long !== long) return;
    const around = el('p', {class: 'around'}, ...list(answer.around).flatMap((token, k) => [answer.first + k === row ? el('b', {}, label(token)) : label(token), ' ']));
    $('long-row').replaceChildren(title(`Row ${many(row)}`), around, note(`Entropy ${number(answer.entropy, 2)} bits. It looks most at:`),
      tableOf('', ['token', 'place', 'weight'], answer.keys.map((key) => [label(key.token), many(key.column), exact(key.weight)])));
  }), 60);
};
const longKey = (event) => {
  const step = {ArrowLeft: [0, -0.2], ArrowRight: [0, 0.2], ArrowUp: [-0.2, 0], ArrowDown: [0.2, 0]}[event.key];
  if (event.key.toLowerCase() === 't') return toggleLongTable();
  if (document.activeElement !== $('long-canvas')) return false;
  if (step) moveLong(...step);
  else if (event.key === '+' || event.key === '-') zoomLong(event.key === '+' ? 0.5 : 2);
  else if (event.key === '0') { Object.assign(live.long, {rows: [0, live.long.n], columns: [0, live.long.n]}); loadMap(); }
  else if (event.key === 'Enter') readRow(Math.floor((live.long.rows[0] + live.long.rows[1]) / 2));
  else return false;
  return true;
};

// ---- Thumbnails of all heads, over the whole text: one after the other, whenever the view itself asks for nothing -------
const kThumb = 32;
const longThumbs = () => [...document.querySelectorAll('#long-heads .thumb')];
const longHeads = (layers) => {
  const heads = live.model.heads, grid = el('div', {id: 'long-heads', class: 'grid', role: 'group', 'aria-label': 'Heads over the whole text: arrow keys move between them'});
  grid.style.gridTemplateColumns = `20px repeat(${heads}, minmax(18px, 44px))`;
  grid.append(el('span'), ...upTo(heads).map(([, name]) => span('label', name)));
  for (let layer = 0; layer < layers; ++layer) {
    grid.append(span('label side', String(layer + 1)), ...upTo(heads).map(([head]) =>
      el('button', {class: 'thumb', 'data-layer': layer, 'data-head': head, 'aria-label': `layer ${layer + 1}, head ${head + 1}`, click: () => chooseLong({layer, head})}, el('canvas', {width: kThumb, height: kThumb}))));
  }
  return grid;
};
const chooseLong = (more) => {
  Object.assign(live.long, more);
  markThumbs();
  loadMap();
};
const markThumbs = () => {
  const {layer, head} = live.long;
  $('long-layer').value = layer;
  $('long-head').value = head;
  for (const thumb of longThumbs()) {
    const on = Number(thumb.dataset.layer) === layer && Number(thumb.dataset.head) === head;
    setPressed(thumb, on);
    thumb.tabIndex = on ? 0 : -1;
  }
};
const loadThumbs = (long) => attempt(async () => {
  for (const thumb of longThumbs()) {
    for (let found = null; !found;) {
      await long.asked;
      if (live.long !== long) return;
      try {
        const answer = await request('map', {...longBody({layer: Number(thumb.dataset.layer), head: Number(thumb.dataset.head)}), size: [kThumb, kThumb]}, 'thumb');
        found = readBytes(await answer.arrayBuffer(), false);
      } catch (error) {
        if (error.name !== 'AbortError') throw error;  // the view asked for something: this waits for it
      }
      if (!found) continue;
      const {rows, columns} = found.header, weights = found.numbers.subarray(0, rows * columns), entropy = found.numbers.subarray(rows * columns, rows * columns + rows);
      Object.assign(thumb.firstChild, {width: columns, height: rows});
      paintDots(thumb.firstChild, weights, strongestOfDots(weights));
      thumb.title = `layer ${Number(thumb.dataset.layer) + 1}, head ${Number(thumb.dataset.head) + 1}: mean entropy ${number(entropy.reduce((a, b) => a + b, 0) / rows, 2)} bits`;
      thumb.setAttribute('aria-label', thumb.title);
    }
  }
});

// ---- The same in numbers -------------------------------------------------------------------------------------------------
const kTableSide = 16;
const toggleLongTable = () => {
  live.long.table = !live.long.table;
  setPressed($('long-as-table'), live.long.table);
  drawLongTable();
  return true;
};
const drawLongTable = () => {
  const {long} = live, {picture: p} = long, box = $('long-table');
  box.hidden = !long.table;
  if (!long.table || !p) return;
  // The parts of `count` dots that stand for tokens [from, to).
  const parts = (count, [from, to]) => Array.from({length: Math.min(kTableSide, count)}, (_, k) => {
    const [a, b] = [k, k + 1].map((at) => Math.floor(at * count / Math.min(kTableSide, count))), [first, end] = [a, b].map((at) => from + Math.floor(at * (to - from) / count));
    return {a, b, name: spanOf(first, end)};
  });
  const mean = (values) => values.reduce((x, y) => x + y, 0) / values.length;
  const rows = parts(p.height, p.rows), columns = parts(p.width, p.columns);
  const dots = (r, c) => Array.from({length: r.b - r.a}, (_, i) => [...p.weights.subarray((r.a + i) * p.width + c.a, (r.a + i) * p.width + c.b)]).flat();
  const most = [...p.received.keys()].sort((x, y) => p.received[y] - p.received[x]).slice(0, 12);
  box.replaceChildren(
    tableOf(`${p.largest ? 'Largest' : 'Mean'} weight of each part, the entropy of the rows in bits, and what the columns received`, ['rows', ...columns.map(({name}) => name), 'entropy'],
      [...rows.map((r) => [r.name, ...columns.map((c) => exact(p.largest ? Math.max(...dots(r, c)) : mean(dots(r, c)))), number(mean([...p.entropy.subarray(r.a, r.b)]), 2)]),
       ['received', ...columns.map((c) => exact(mean([...p.received.subarray(c.a, c.b)]))), '']]),
    tableOf('The keys most looked at', ['keys', 'tokens', 'received'], most.map((k) => {
      const [first, end] = [k, k + 1].map((at) => p.columns[0] + Math.floor(at * (p.columns[1] - p.columns[0]) / p.width));
      return [spanOf(first, end), long.tokens.slice(first, Math.min(end, first + 24)).map((token) => label(token)).join(end - first > 1 ? ' ' : ''), exact(p.received[k])];
    })));
};
const spanOf = (first, end) => (end - first > 1 ? `${many(first)}–${many(end - 1)}` : many(first));
const moveThumb = (key) => {
  const all = longThumbs(), [down, right] = kSteps[key], next = all[all.indexOf(document.activeElement) + down * live.model.heads + right];
  next?.focus();
};
