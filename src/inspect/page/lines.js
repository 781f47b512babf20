// Lines from each token to what it looks at: on the page as SVG, in a saved picture as SVG or on a canvas.

let lines = null;
const layoutLines = (w, room) => {
  const rows = w.length, columns = rows ? w[0].length : 0, most = Math.max(rows, columns);
  const font = `13.5px ${family()}`;
  const step = Math.max(24, Math.min(36, Math.floor(room.height / Math.max(1, most))));
  const widest = (texts) => Math.max(40, ...texts.map((text) => textWidth(text, font)));
  const names = {row: w.map((_, i) => rowLabel(state.part, i, room.narrow)), column: columnTokens(state.part).map((token) => label(token, room.narrow ? 14 : 24))};
  const side = room.narrow ? room.width * .43 : 280, [left, right] = [names.row, names.column].map((texts) => Math.min(side, widest(texts) + 60));
  const middle = Math.max(room.narrow ? 40 : 160, Math.min(440, room.width - left - right - 4));
  const y = (index, count) => 6 + (index + 0.5) * step + (most - count) * step / 2;
  const curves = [];
  // Several heads in colours: the lines of one pair of tokens lie beside each other.
  const heads = hooks.curves?.() ?? [{weights: w}];
  heads.forEach(({weights, colour}, k) => weights.forEach((row, i) => row.forEach((weight, j) => {
    if (!(weight / full >= 0.01)) return;
    const aside = (k - (heads.length - 1) / 2) * 2.5, y0 = y(i, rows) + aside, y1 = y(j, columns) + aside, x = left + middle / 2, strength = Math.min(1, weight / full);
    curves.push({i, j, strength, colour, width: 0.6 + 3.4 * strength, d: `M${left} ${y0}C${x} ${y0} ${x} ${y1} ${left + middle} ${y1}`});
  })));
  return {rows, columns, step, left, right, middle, y, curves, names, width: left + middle + right, height: most * step + 12};
};
const drawLines = () => {
  const w = current(), g = layoutLines(w, stageRoom());
  const svg = makeSvg('svg', {class: 'lines', width: g.width, height: g.height, role: 'img', 'aria-label': 'Weights as lines from each token to what it looks at'});
  const paths = g.curves.map(({i, j, strength, width, d, colour}) => {
    const path = makeSvg('path', {d, 'stroke-width': width.toFixed(2), 'stroke-opacity': strength.toFixed(3)});
    if (colour) path.style.stroke = colour;
    svg.append(path);
    return {path, i, j, strength};
  });
  const side = (kind, count, x, anchor, edge, width) => Array.from({length: count}, (_, index) => {
    const y = g.y(index, count);
    const box = makeSvg('rect', {class: 'box', x: edge, y: y - g.step / 2 + 1, width, height: g.step - 2, rx: 5});
    const name = makeSvg('text', {x, y: y + 4.5, 'text-anchor': anchor}, g.names[kind][index]);
    const amount = makeSvg('text', {class: 'amount', x: kind === 'row' ? edge + 6 : edge + width - 6, y: y + 4,
                                    'text-anchor': kind === 'row' ? 'start' : 'end'});
    const group = makeSvg('g');
    group.append(box, name, amount);
    follow(group, kind, index);
    svg.append(group);
    return {box, name, amount};
  });
  const rowSide = side('row', g.rows, g.left - 8, 'end', 0, g.left);
  const columnSide = side('column', g.columns, g.left + g.middle + 8, 'start', g.left + g.middle, g.right);
  lines = {paths, rowSide, columnSide};
  $('stage').replaceChildren(svg);
};
const paintLinesPoint = (row, column) => {
  if (!lines) return;
  const w = current();
  const any = row !== null || column !== null;
  for (const {path, i, j, strength} of lines.paths) {
    const on = (row === null || i === row) && (column === null || j === column);
    path.setAttribute('stroke-opacity', any ? (on ? Math.min(1, 0.25 + strength).toFixed(3) : '0.02') : strength.toFixed(3));
  }
  const paint = (side, at, value) => side.forEach(({box, name, amount}, index) => {
    const weight = value(index);
    box.setAttribute('class', index === at ? 'box on' : 'box');
    name.setAttribute('class', weight !== undefined && weight !== null && weight < 0.01 ? 'off' : '');
    amount.textContent = weight === undefined || (weight !== null && weight < 0.01) ? '' : short(weight);
  });
  paint(lines.rowSide, row, (i) => (row === null && column !== null ? w[i][column] : undefined));
  paint(lines.columnSide, column, (j) => (row !== null ? w[row][j] : undefined));
};
