// Lines from each token to what it looks at.

let lines = null;
const drawLines = () => {
  const w = current();
  const rows = w.length, columns = rows ? w[0].length : 0;
  const font = `13.5px ${family()}`;
  const step = Math.max(24, Math.min(36, Math.floor(window.innerHeight * 0.6 / Math.max(rows, columns))));
  const left = Math.min(300, Math.max(40, ...w.map((_, i) => textWidth(rowLabel(state.part, i), font))) + 60);
  const right = Math.min(260, Math.max(40, ...columnTokens(state.part).map((token) => textWidth(label(token, 24), font))) + 60);
  const middle = Math.max(160, Math.min(440, $('stage').clientWidth - left - right - 4));
  const height = Math.max(rows, columns) * step + 12;
  const svg = makeSvg('svg', {class: 'lines', width: left + middle + right, height, role: 'img', 'aria-label': 'Weights as lines from each token to what it looks at'});
  const y = (index, count) => 6 + (index + 0.5) * step + (Math.max(rows, columns) - count) * step / 2;
  const paths = [];
  w.forEach((row, i) => row.forEach((weight, j) => {
    if (!(weight >= 0.01)) return;
    const y0 = y(i, rows), y1 = y(j, columns);
    const path = makeSvg('path', {d: `M${left} ${y0}C${left + middle * 0.5} ${y0} ${left + middle * 0.5} ${y1} ${left + middle} ${y1}`,
                                  'stroke-width': (0.6 + 3.4 * weight).toFixed(2), 'stroke-opacity': weight.toFixed(3)});
    paths.push({path, i, j, weight});
    svg.append(path);
  }));
  const side = (kind, count, x, anchor, text, edge, width) => Array.from({length: count}, (_, index) => {
    const box = makeSvg('rect', {class: 'box', x: edge, y: y(index, count) - step / 2 + 1, width, height: step - 2, rx: 5});
    const name = makeSvg('text', {x, y: y(index, count) + 4.5, 'text-anchor': anchor}, text(index));
    const amount = makeSvg('text', {class: 'amount', x: kind === 'row' ? edge + 6 : edge + width - 6, y: y(index, count) + 4,
                                    'text-anchor': kind === 'row' ? 'start' : 'end'});
    const group = makeSvg('g');
    group.append(box, name, amount);
    const over = (on) => point(kind === 'row' && on ? index : null, kind === 'column' && on ? index : null);
    group.addEventListener('pointerenter', () => over(true));
    group.addEventListener('pointerleave', () => over(false));
    group.addEventListener('click', () => lock(kind === 'row' ? index : null, kind === 'column' ? index : null));
    svg.append(group);
    return {box, name, amount};
  });
  const rowSide = side('row', rows, left - 8, 'end', (i) => rowLabel(state.part, i), 0, left);
  const columnSide = side('column', columns, left + middle + 8, 'start', (j) => label(columnTokens(state.part)[j], 24), left + middle, right);
  lines = {paths, rowSide, columnSide};
  $('stage').replaceChildren(svg);
};
const paintLinesPoint = (row, column) => {
  if (!lines) return;
  const w = current();
  const any = row !== null || column !== null;
  for (const {path, i, j, weight} of lines.paths) {
    const on = (row === null || i === row) && (column === null || j === column);
    path.setAttribute('stroke-opacity', any ? (on ? Math.min(1, 0.25 + weight).toFixed(3) : '0.02') : weight.toFixed(3));
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
