// Events, and the address.

const drawFocus = () => {
  const view = drawHeading();
  drawNumbers();
  map = lines = null;
  if (view === 'map') drawMap();
  else drawLines();
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
const point = (row, column) => {
  if (row === state.row && column === state.column) return;
  state.row = row;
  state.column = column;
  drawPoint();
};
const lock = (row, column) => {
  const same = state.lockedRow === row && state.lockedColumn === column;
  state.lockedRow = same ? null : row;
  state.lockedColumn = same ? null : column;
  writeHash();
  drawPoint();
};
const preview = (head) => {
  state.preview = head;
  drawFocus();
};
const select = (part, layer, head) => {
  const changed = part !== state.part;
  if (changed) state.lockedRow = state.lockedColumn = null;
  state.part = part;
  state.layer = Math.max(0, Math.min(layer, record[part].length - 1));
  state.head = Math.max(-1, Math.min(head, record[part][state.layer].weights.length - 1));
  if (state.head >= 0) state.lastHead = state.head;
  state.preview = null;
  state.row = state.column = null;
  writeHash();
  if (changed) {
    drawGrid();
    drawStrips();
  }
  markGrid();
  drawFocus();
};

// The address says what is shown: #cross/2/3 is layer 2, head 3 (from 1); #cross/2/mean; #cross/2/3/row/4 keeps a token.
const writeHash = () => {
  let hash = `#${state.part}/${state.layer + 1}/${state.head < 0 ? 'mean' : state.head + 1}`;
  if (state.lockedRow !== null) hash += `/row/${state.lockedRow + 1}`;
  if (state.lockedColumn !== null) hash += `/column/${state.lockedColumn + 1}`;
  if (hash !== location.hash) history.replaceState(null, '', hash);
};
const readHash = () => {
  const [part, layer, head, ...rest] = location.hash.slice(1).split('/');
  if (!parts.includes(part)) return;
  const at = (text, count) => (/^\d{1,6}$/.test(text || '') && text >= 1 && text <= count ? text - 1 : null);
  const w = record[part][at(layer, record[part].length) ?? 0].weights;
  state.part = part;
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
const moveHead = (key) => {
  const heads = record[state.part][state.layer].weights.length;
  const column = state.head < 0 ? heads : state.head;
  const step = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[key];
  const next = Math.max(0, Math.min(heads, column + step[1]));
  select(state.part, state.layer + step[0], next === heads ? -1 : next);
  const button = document.querySelector('.thumb[aria-pressed=true]');
  if (button && $('grid').contains(document.activeElement)) button.focus();
};
const moveIn = (box, key) => {
  const all = [...box.children];
  const at = all.indexOf(document.activeElement) + (key === 'ArrowRight' || key === 'ArrowDown' ? 1 : -1);
  if (all[at]) all[at].focus();
};
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const active = document.activeElement;
  if (event.key.startsWith('Arrow')) {
    const strip = [$('rows'), $('columns'), $('tabs')].find((box) => box.contains(active));
    if (strip) moveIn(strip, event.key);
    else if (active === document.body || $('grid').contains(active)) moveHead(event.key);
    else return;
    event.preventDefault();
  } else if (event.key === 'm' || event.key === 'M') {
    toggleMean();
  } else if (event.key === 'Escape') {
    lock(null, null);
  }
});
$('mean').addEventListener('click', toggleMean);
$('view-map').addEventListener('click', () => { state.view = 'map'; drawFocus(); });
$('view-lines').addEventListener('click', () => { state.view = 'lines'; drawFocus(); });
$('smaller').addEventListener('click', () => { state.zoom = Math.max(0.25, state.zoom / 1.25); drawFocus(); });
$('larger').addEventListener('click', () => { state.zoom = Math.min(8, state.zoom * 1.25); drawFocus(); });
$('save-svg').addEventListener('click', saveSvg);
$('save-png').addEventListener('click', savePng);
$('save-json').addEventListener('click', saveJson);
window.addEventListener('hashchange', () => { readHash(); drawAll(); });
window.addEventListener('resize', () => drawFocus());
window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);

drawHeader();
readHash();
drawAll();
