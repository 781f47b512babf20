// Events, and what the address says.

const drawFocus = () => {
  const view = drawHeading();
  drawNumbers();
  map = lines = null;
  if (view === 'map') drawMap();
  else drawLines();
  hooks.focus?.();
  drawPoint();
};
const drawAll = () => {
  readRamp();
  drawLegend();
  drawGrid();
  drawStrips();
  markGrid();
  drawFocus();
};
// A pointer moves more often than the window is drawn.
let waiting = null;
const soon = (draw) => {
  if (waiting === null) requestAnimationFrame(() => { const now = waiting; waiting = null; now(); });
  waiting = draw === drawFocus ? draw : waiting ?? draw;
};
const point = (row, column) => {
  if (row === state.row && column === state.column) return;
  Object.assign(state, {row, column});
  soon(drawPoint);
};
const lock = (row, column) => {
  const same = state.lockedRow === row && state.lockedColumn === column;
  state.lockedRow = same ? null : row;
  state.lockedColumn = same ? null : column;
  hooks.place?.(place());
  drawPoint();
};
const preview = (head) => {
  if (hooks.weights?.()) return;
  state.preview = head;
  soon(drawFocus);
};
const select = (part, layer, head) => {
  const changed = part !== state.part;
  if (changed) state.lockedRow = state.lockedColumn = null;
  state.part = part;
  state.layer = Math.max(0, Math.min(layer, record[part].length - 1));
  state.head = Math.max(-1, Math.min(head, record[part][state.layer].weights.length - 1));
  if (state.head >= 0) state.lastHead = state.head;
  state.places[part] = {layer: state.layer, head: state.head};
  state.preview = null;
  state.row = state.column = null;
  hooks.place?.(place());
  if (changed) {
    drawLegend();
    drawGrid();
    drawStrips();
  }
  markGrid();
  drawFocus();
};
// A tab opens on the head that was shown last, at first on the most telling one.
const openTab = (part) => {
  const {layer, head} = state.places[part] ?? bestPlace(part);
  select(part, layer, head);
};
// On a narrow screen the map is below the heads: bring it to where one looks.
const isNarrow = () => window.matchMedia('(max-width: 900px)').matches;
const showFocus = () => isNarrow() && $('stage').scrollIntoView({block: 'nearest'});
const setView = (view) => {
  state.view = view;
  hooks.place?.(place());
  drawFocus();
};
const zoomBy = (factor) => {
  state.zoom = Math.max(0.25, Math.min(8, state.zoom * factor));
  drawFocus();
};
const toggleRelative = () => {
  state.relative = !isRelative();
  drawAll();
};

// What is shown, for the address: cross/2/3 is layer 2, head 3 (from 1); cross/2/mean; cross/2/3/row/4 keeps a token;
// cross/2/3/view/lines.
const place = () => {
  let out = `${state.part}/${state.layer + 1}/${state.head < 0 ? 'mean' : state.head + 1}`;
  if (state.lockedRow !== null) out += `/row/${state.lockedRow + 1}`;
  if (state.lockedColumn !== null) out += `/column/${state.lockedColumn + 1}`;
  if (state.view === 'lines') out += '/view/lines';
  return out;
};
const readPlace = (text) => {
  const [part, layer, head, ...rest] = text.split('/');
  if (!parts.includes(part)) return;
  const at = (text, count) => (/^\d{1,6}$/.test(text || '') && text >= 1 && text <= count ? text - 1 : null);
  const w = record[part][at(layer, record[part].length) ?? 0].weights;
  state.part = part;
  if (layer === undefined) {
    Object.assign(state, bestPlace(part));
    return;
  }
  state.layer = at(layer, record[part].length) ?? 0;
  state.head = head === 'mean' ? -1 : at(head, w.length) ?? 0;
  state.lockedRow = state.lockedColumn = null;
  for (let k = 0; k + 1 < rest.length; k += 2) {
    if (rest[k] === 'row') state.lockedRow = at(rest[k + 1], w[0].length);
    if (rest[k] === 'column') state.lockedColumn = at(rest[k + 1], (w[0][0] || []).length);
    if (rest[k] === 'view' && rest[k + 1] === 'lines') state.view = 'lines';
  }
};

const toggleMean = () => select(state.part, state.layer, state.head < 0 ? state.lastHead : -1);
// Right of a layer's last head is the mean, and right of that the next layer.
const moveHead = ([down, right]) => {
  const layers = record[state.part];
  let layer = state.layer + down, head = (state.head < 0 ? layers[state.layer].weights.length : state.head) + right;
  if (head < 0) head = layer > 0 ? layers[--layer].weights.length : 0;
  if (layer < 0 || layer >= layers.length) return;
  const heads = layers[layer].weights.length;
  if (head > heads && layer + 1 < layers.length) select(state.part, layer + 1, 0);
  else select(state.part, layer, head >= heads ? -1 : head);
  const button = document.querySelector('.thumb[aria-pressed=true]');
  if (button && $('grid').contains(document.activeElement)) button.focus();
};
const moveIn = (box, key) => {
  const all = [...box.children];
  const at = all.indexOf(document.activeElement) + (key === 'ArrowRight' || key === 'ArrowDown' ? 1 : -1);
  if (all[at]) all[at].focus();
};
const kSteps = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};
const kKeys = {m: toggleMean, r: toggleRelative, '+': () => zoomBy(1.25), '-': () => zoomBy(0.8), Escape: () => lock(null, null)};
listen(document, 'keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const active = document.activeElement;
  if (!record || active.matches('input, textarea, select, dialog *')) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (kSteps[key]) {
    const strip = [$('rows'), $('columns'), $('tabs')].find((box) => box.contains(active));
    if (strip) moveIn(strip, key);
    else if (map && active === map.box) moveCell(kSteps[key]);
    else moveHead(kSteps[key]);
  } else if (key === 'Enter' && map && active === map.box) {
    if (state.row !== null) lock(state.row, state.column);
  } else if (kKeys[key]) {
    kKeys[key]();
  } else {
    return;
  }
  event.preventDefault();
});
for (const [id, act] of Object.entries({
  mean: toggleMean, relative: toggleRelative, 'view-map': () => setView('map'), 'view-lines': () => setView('lines'),
  smaller: kKeys['-'], larger: kKeys['+'], before: () => moveHead(kSteps.ArrowLeft), after: () => moveHead(kSteps.ArrowRight),
  'save-svg': saveSvg, 'save-png': savePng, 'save-json': saveJson,
})) {
  listen($(id), 'click', act);
}
listen(window, 'resize', () => record && drawAll());
const redrawAll = () => (record ? drawAll() : hooks.redraw?.());
listen(window.matchMedia('(prefers-color-scheme: dark)'), 'change', redrawAll);
for (const event of ['beforeprint', 'afterprint']) {
  listen(window, event, () => {
    onPaper = event === 'beforeprint';
    redrawAll();
  });
}
