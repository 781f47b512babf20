// The heat map with the tokens on both axes.

const measure = make('canvas').getContext('2d');
const textWidth = (text, font) => {
  measure.font = font;
  return measure.measureText(text).width;
};
const family = () => getComputedStyle(document.documentElement).fontFamily;
const rowLabel = (part, i) => {
  const spoken = said(part)[i];
  return label(rowTokens(part)[i], 24) + (spoken === undefined ? '' : ` \u2192 ${label(spoken, 24)}`);
};
let map = null;  // geometry of the map on the stage
const kAngle = 50 * Math.PI / 180;

const layoutMap = (w, part, room) => {
  const rows = w.length, columns = rows ? w[0].length : 0;
  const font = `13px ${family()}`;
  const left = Math.min(230, 14 + Math.max(20, ...w.map((_, i) => textWidth(rowLabel(part, i), font))));
  const longest = Math.min(170, Math.max(10, ...columnTokens(part).map((token) => textWidth(label(token, 24), font))));
  const cellRoom = Math.min((room.width - left - 8) / Math.max(1, columns), Math.max(15, (room.height - 70) / Math.max(1, rows)));
  const cell = Math.max(2, Math.floor(Math.max(3, Math.min(48, cellRoom)) * room.zoom));
  const flat = longest + 4 <= cell;
  const top = flat ? 24 : Math.ceil(longest * Math.sin(kAngle)) + 16;
  const overhang = flat ? 0 : Math.max(0, Math.ceil(longest * Math.cos(kAngle)) + 10 - cell / 2);
  return {rows, columns, left: Math.ceil(left), top, cell, flat, overhang, longest,
          width: Math.ceil(left) + columns * cell + overhang + 2, height: top + rows * cell + 2,
          every: Math.max(1, Math.ceil(13 / cell))};
};
const paintCells = (context, w, g, x0, y0, table = ramp) => {
  const gap = g.cell >= 9 ? 1 : 0;
  const size = Math.min(12, g.cell * 0.32);
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  context.font = `${size}px ${family()}`;
  w.forEach((row, i) => row.forEach((weight, j) => {
    const rgb = colour(weight, table);
    context.fillStyle = css(rgb);
    context.fillRect(x0 + j * g.cell, y0 + i * g.cell, g.cell - gap, g.cell - gap);
    if (g.cell >= 28 && (weight === null || weight >= 0.0095)) {
      context.fillStyle = inkOn(rgb);
      context.globalAlpha = 0.8;
      context.fillText(weight === null ? 'NaN' : weight >= 0.995 ? '1' : weight.toFixed(2).slice(1), x0 + (j + 0.5) * g.cell, y0 + (i + 0.5) * g.cell + 0.5);
      context.globalAlpha = 1;
    }
  }));
};
const drawMap = () => {
  const w = current();
  const stage = $('stage');
  const room = {width: Math.max(240, stage.clientWidth - 4), height: Math.max(320, window.innerHeight - stage.getBoundingClientRect().top - window.scrollY - 44), zoom: state.zoom};
  const g = layoutMap(w, state.part, room);
  const box = make('div', 'map');
  box.tabIndex = 0;
  box.setAttribute('role', 'img');
  box.setAttribute('aria-label', 'Heat map of the weights; with the keyboard, use the token lists above');
  box.style.width = `${g.width}px`;
  box.style.height = `${g.height}px`;
  const canvas = make('canvas');
  const scale = Math.min(window.devicePixelRatio || 1, 8192 / Math.max(1, g.columns * g.cell), 8192 / Math.max(1, g.rows * g.cell));
  canvas.width = Math.max(1, g.columns * g.cell * scale);
  canvas.height = Math.max(1, g.rows * g.cell * scale);
  canvas.style.left = `${g.left}px`;
  canvas.style.top = `${g.top}px`;
  canvas.style.width = `${g.columns * g.cell}px`;
  canvas.style.height = `${g.rows * g.cell}px`;
  const context = canvas.getContext('2d');
  context.scale(scale, scale);
  paintCells(context, w, g, 0, 0);
  box.append(canvas);
  const rowNames = [], columnNames = [];
  for (let i = 0; i < g.rows; i += g.every) {
    const name = make('span', 'name row');
    const spoken = said(state.part)[i];
    name.append(tokenText('', rowTokens(state.part)[i]));
    if (spoken !== undefined) name.append(make('span', 'mark', ' \u2192 '), tokenText('said', spoken));
    name.style.left = '0px';
    name.style.width = `${g.left}px`;
    name.style.top = `${g.top + (i + 0.5) * g.cell - 9}px`;
    name.style.lineHeight = '18px';
    rowNames[i] = name;
    box.append(name);
  }
  for (let j = 0; j < g.columns; j += g.every) {
    const name = tokenText(g.flat ? 'name column flat' : 'name column', columnTokens(state.part)[j]);
    if (g.flat) {
      name.style.left = `${g.left + j * g.cell}px`;
      name.style.width = `${g.cell}px`;
      name.style.top = `${g.top - 19}px`;
    } else {
      name.style.left = `${g.left + (j + 0.5) * g.cell + 3}px`;
      name.style.top = `${g.top - 20}px`;
      name.style.transform = 'rotate(-50deg)';
      name.style.maxWidth = `${g.longest + 4}px`;
    }
    columnNames[j] = name;
    box.append(name);
  }
  const band = make('div', 'band'), post = make('div', 'band');
  band.hidden = post.hidden = true;
  box.append(band, post);
  map = {...g, box, band, post, rowNames, columnNames};
  box.addEventListener('pointermove', (event) => {
    const {row, column} = cellAt(event);
    point(row, column);
    showTip(event, w, row, column);
  });
  box.addEventListener('pointerleave', () => { point(null, null); $('tip').hidden = true; });
  box.addEventListener('click', (event) => { const {row, column} = cellAt(event); lock(row, column); });
  stage.replaceChildren(box);
};
const cellAt = (event) => {
  const at = map.box.getBoundingClientRect();
  const x = event.clientX - at.left - map.left, y = event.clientY - at.top - map.top;
  const inside = (value, count) => (value >= 0 && value < count * map.cell ? Math.floor(value / map.cell) : null);
  const row = inside(y, map.rows), column = inside(x, map.columns);
  return {row: x < map.columns * map.cell ? row : null, column: y < 0 && x < 0 ? null : column};
};
const showTip = (event, w, row, column) => {
  const tip = $('tip');
  tip.hidden = row === null || column === null;
  if (tip.hidden) return;
  const pair = make('span', 'pair');
  pair.append(make('span', '', label(rowTokens(state.part)[row])), make('i', '', '\u2192'),
              make('span', '', label(columnTokens(state.part)[column])));
  tip.replaceChildren(pair, make('span', 'amount', `${exact(w[row][column])}  \u00b7  rank ${rank(w[row], column)} of ${w[row].length}`));
  const size = tip.getBoundingClientRect();
  tip.style.left = `${Math.min(event.clientX + 16, window.innerWidth - size.width - 8)}px`;
  tip.style.top = `${Math.max(8, event.clientY - size.height - 12)}px`;
};
const paintMapPoint = (row, column) => {
  if (!map) return;
  const place = (element, show, x, y, width, height) => {
    element.hidden = !show;
    Object.assign(element.style, {left: `${x - 1}px`, top: `${y - 1}px`, width: `${width + 1}px`, height: `${height + 1}px`});
  };
  place(map.band, row !== null, map.left, map.top + (row ?? 0) * map.cell, map.columns * map.cell, map.cell);
  place(map.post, column !== null, map.left + (column ?? 0) * map.cell, map.top, map.cell, map.rows * map.cell);
  map.rowNames.forEach((name, i) => name.classList.toggle('on', i === row));
  map.columnNames.forEach((name, j) => name.classList.toggle('on', j === column));
};
