// The heat map with the tokens on both axes. The page scrolls, not the map: the names stick to the window's edges.

const measure = make('canvas').getContext('2d');
const textWidth = (text, font) => {
  measure.font = font;
  return measure.measureText(text).width;
};
const family = () => getComputedStyle(document.documentElement).fontFamily;
const rowLabel = (part, i, narrow) => {
  const most = narrow ? 14 : 24, read = label(rowTokens(part)[i], most), spoken = said(part)[i];
  return spoken === undefined ? read : (narrow ? '' : `${read} → `) + label(spoken, most);
};
let map = null;  // geometry of the map on the stage
const kPaper = 600;  // pixels that fit on a sheet
const kAngle = 50 * Math.PI / 180;

// The map may grow beyond the window, and the panel with it: its room is what the window leaves.
const stageRoom = () => {
  const stage = $('stage'), main = $('main');
  const padding = parseFloat(getComputedStyle($('focus')).paddingRight);
  const all = main.clientWidth - (stage.offsetLeft - main.offsetLeft) - padding - (hooks.beside?.() ?? 0);
  const width = onPaper ? kPaper : Math.max(200, hooks.room?.(all) ?? all);
  const narrow = width < 480;
  const below = Math.min(120, $('strips').offsetHeight);
  return {width, narrow, zoom: onPaper ? 1 : state.zoom, height: Math.max(narrow ? 420 : 320, window.innerHeight - stage.offsetTop - below - 60)};
};
const layoutMap = (w, part, room) => {
  const rows = w.length, columns = rows ? w[0].length : 0;
  const font = `13px ${family()}`;
  const widths = columnTokens(part).map((token) => Math.min(room.narrow ? 90 : 170, textWidth(label(token, 24), font)));
  const longest = Math.max(10, ...widths);
  const left = Math.ceil(Math.min(room.narrow ? room.width * 0.32 : 230,
                                  14 + Math.max(20, ...w.map((_, i) => textWidth(rowLabel(part, i, room.narrow), font)))));
  const g = {rows, columns, left, longest};
  const most = Math.max(15, (room.height - 70) / Math.max(1, rows));
  const fit = (width) => {
    g.cell = Math.max(2, Math.floor(Math.max(2, Math.min(48, most, width / Math.max(1, columns))) * room.zoom));
    g.flat = longest + 4 <= g.cell;
    const over = widths.map((text, j) => text * Math.cos(kAngle) + 14 - (columns - j - 0.5) * g.cell);
    g.overhang = g.flat ? 0 : Math.max(0, Math.ceil(Math.max(0, ...over)));
  };
  fit(room.width - left - 2);
  if (g.overhang > 0) fit(room.width - left - 2 - g.overhang);
  g.top = g.flat ? 24 : Math.ceil(longest * Math.sin(kAngle)) + 18;
  return {...g, width: left + columns * g.cell + g.overhang + 2, height: g.top + rows * g.cell + 2,
          every: Math.max(1, Math.ceil(13 / g.cell))};
};
const cellText = (weight) => (weight === null ? 'NaN' : weight >= 0.995 ? '1' : weight < 0.0095 ? '' : weight.toFixed(2).slice(1));
const paintCells = (context, w, g) => {
  const gap = g.cell >= 9 ? 1 : 0;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  context.font = `${Math.min(12, g.cell * 0.32)}px ${family()}`;
  w.forEach((row, i) => row.forEach((weight, j) => {
    const rgb = hooks.cell?.(i, j) ?? colour(weight);
    context.fillStyle = css(rgb);
    context.fillRect(j * g.cell, i * g.cell, g.cell - gap, g.cell - gap);
    if (g.cell < 28) return;
    context.fillStyle = inkOn(rgb);
    context.fillText(cellText(weight), (j + 0.5) * g.cell, (i + 0.5) * g.cell + 0.5);
  }));
  hooks.cells?.(context, w, g);
};
const drawMap = () => {
  const w = current(), room = stageRoom();
  const g = layoutMap(w, state.part, room);
  const box = make('div', 'map'), above = make('div', 'above'), beside = make('div', 'beside'), corner = make('div', 'corner');
  const place = (element, box) => {
    for (const [side, value] of Object.entries(box)) element.style[side] = `${value}px`;
  };
  box.tabIndex = 0;
  box.setAttribute('role', 'application');
  box.setAttribute('aria-roledescription', 'heat map');
  box.setAttribute('aria-label', 'Weights: a row looks at the columns. Arrow keys move from cell to cell, Enter keeps one');
  place(box, {width: g.width, height: g.height});
  const lip = Math.min(7, Math.max(0, 9 - g.cell / 2));  // for the first row's name, which is higher than a small cell
  place(above, {height: g.top - lip, marginBottom: lip});
  place(beside, {width: g.left, height: g.rows * g.cell});
  place(corner, {width: g.left, height: g.top - lip});
  const canvas = make('canvas');
  const width = Math.max(1, g.columns * g.cell), height = Math.max(1, g.rows * g.cell);
  const scale = Math.min(window.devicePixelRatio || 1, 8192 / width, 8192 / height);
  canvas.width = Math.max(1, width * scale);
  canvas.height = Math.max(1, height * scale);
  place(canvas, {left: g.left, top: g.top, width, height});
  const context = canvas.getContext('2d');
  context.scale(scale, scale);
  paintCells(context, w, g);
  // Where there is no room for every name, the others show when they are pointed at.
  const style = (name, index) => {
    if (g.cell < 13) name.classList.add('small');
    if (index % g.every !== 0) name.classList.add('rest');
    return name;
  };
  const rowNames = w.map((_, i) => {
    const name = style(make('span', 'name row'), i), spoken = said(state.part)[i];
    if (spoken === undefined || !room.narrow) name.append(tokenText('', rowTokens(state.part)[i]));
    if (spoken !== undefined) name.append(room.narrow ? '' : mark(' → '), tokenText('said', spoken));
    place(name, {top: (i + 0.5) * g.cell - 9});
    return name;
  });
  const columnNames = Array.from({length: g.columns}, (_, j) => {
    const name = style(tokenText(g.flat ? 'name column flat' : 'name column', columnTokens(state.part)[j]), j);
    place(name, g.flat ? {left: g.left + j * g.cell, width: g.cell, top: g.top - 19}
                       : {left: g.left + (j + 0.5) * g.cell + 3, top: g.top - 20, maxWidth: g.longest + 8});
    return name;
  });
  beside.append(...rowNames);
  above.append(corner, ...columnNames);
  const band = make('div', 'band'), post = make('div', 'band');
  band.hidden = post.hidden = true;
  box.append(above, beside, canvas, band, post);
  map = {...g, box, band, post, above, beside, rowNames, columnNames, row: null, column: null};
  listen(box, 'pointermove', (event) => {
    const {row, column} = cellAt(event);
    point(row, column);
    showTip(event, w, row, column);
  });
  listen(box, 'pointerleave', () => { point(null, null); $('tip').hidden = true; });
  listen(box, 'blur', () => point(null, null));
  listen(box, 'click', (event) => { const {row, column} = cellAt(event); lock(row, column); });
  $('stage').replaceChildren(box);
};
const cellAt = (event) => {
  const at = map.box.getBoundingClientRect();
  const inside = (value, count) => (value >= 0 && value < count * map.cell ? Math.floor(value / map.cell) : null);
  const row = inside(event.clientY - at.top - map.top, map.rows), column = inside(event.clientX - at.left - map.left, map.columns);
  if (map.above.contains(event.target)) return {row: null, column};
  if (map.beside.contains(event.target)) return {row, column: null};
  return row === null || column === null ? {row: null, column: null} : {row, column};
};
const moveCell = ([down, right]) => {
  if (!map.rows || !map.columns) return;
  const next = (at, step, count) => (at === null ? 0 : Math.max(0, Math.min(count - 1, at + step)));
  point(next(state.row, down, map.rows), next(state.column, right, map.columns));
};
const showTip = (event, w, row, column) => {
  const tip = $('tip');
  tip.hidden = row === null || column === null || event.pointerType === 'touch';
  if (tip.hidden) return;
  tip.replaceChildren(make('span', 'pair', `${rowName(state.part, row)} ← ${columnName(state.part, column)}`),
                      make('span', 'pair', `${percent(w[row][column])} · ${exactly(w[row], column)}`));
  const size = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(event.clientX + 16, window.innerWidth - size.width - 8))}px`;
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
  map.rowNames[map.row]?.classList.remove('on');
  map.columnNames[map.column]?.classList.remove('on');
  map.rowNames[row]?.classList.add('on');
  map.columnNames[column]?.classList.add('on');
  Object.assign(map, {row, column});
};
