// The head in focus as a file: SVG, PNG, JSON.

const fileName = (ending) => {
  const {layer, head} = shown();
  return `${state.part}-layer${layer + 1}-${head < 0 ? 'mean' : 'head' + (head + 1)}.${ending}`;
};
const save = (blob, ending) => {
  const link = make('a');
  link.href = URL.createObjectURL(blob);
  link.download = fileName(ending);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};
const picture = () => {
  const table = makeRamp(kLight);
  const g = layoutMap(current(), state.part, {width: 1400, height: 1400, zoom: 1});
  g.cell = Math.min(g.cell, 28);
  g.every = Math.max(1, Math.ceil(13 / g.cell));
  g.flat = false;
  g.top = Math.ceil(g.longest * Math.sin(kAngle)) + 44;
  g.width = g.left + g.columns * g.cell + Math.ceil(g.longest * Math.cos(kAngle)) + 16;
  g.height = g.top + g.rows * g.cell + 16;
  return {g, table, title: $('heading').firstChild.textContent};
};
const saveSvg = () => {
  const {g, table, title} = picture();
  const svg = makeSvg('svg', {width: g.width, height: g.height, viewBox: `0 0 ${g.width} ${g.height}`, 'font-family': 'sans-serif', 'font-size': 13, fill: '#1c2529'});
  svg.append(makeSvg('title', {}, title), makeSvg('rect', {width: g.width, height: g.height, fill: '#ffffff'}),
             makeSvg('text', {x: 8, y: 20, fill: '#5d6a70'}, title));
  for (let j = 0; j < g.columns; j += g.every) {
    const x = g.left + (j + 0.5) * g.cell + 3, y = g.top - 7;
    svg.append(makeSvg('text', {x, y, transform: `rotate(-50 ${x} ${y})`}, label(columnTokens(state.part)[j], 24)));
  }
  current().forEach((row, i) => {
    if (i % g.every === 0) svg.append(makeSvg('text', {x: g.left - 8, y: g.top + (i + 0.5) * g.cell + 4.5, 'text-anchor': 'end'}, rowLabel(state.part, i)));
    row.forEach((weight, j) => {
      const rect = makeSvg('rect', {x: g.left + j * g.cell, y: g.top + i * g.cell, width: g.cell - 1, height: g.cell - 1, fill: `rgb(${colour(weight, table).join(',')})`});
      rect.append(makeSvg('title', {}, `${label(rowTokens(state.part)[i])} \u2192 ${label(columnTokens(state.part)[j])}: ${exact(weight)}`));
      svg.append(rect);
    });
  });
  save(new Blob([new XMLSerializer().serializeToString(svg)], {type: 'image/svg+xml'}), 'svg');
};
const savePng = () => {
  const {g, table, title} = picture();
  const canvas = make('canvas');
  const scale = Math.min(2, 16000 / g.width, 16000 / g.height);
  canvas.width = g.width * scale;
  canvas.height = g.height * scale;
  const context = canvas.getContext('2d');
  context.scale(scale, scale);
  context.fillStyle = '#ffffff';
  context.fillRect(0, 0, g.width, g.height);
  paintCells(context, current(), g, g.left, g.top, table);
  context.font = `13px ${family()}`;
  context.textBaseline = 'middle';
  context.textAlign = 'left';
  context.fillStyle = '#5d6a70';
  context.fillText(title, 8, 18);
  context.fillStyle = '#1c2529';
  for (let j = 0; j < g.columns; j += g.every) {
    context.save();
    context.translate(g.left + (j + 0.5) * g.cell, g.top - 8);
    context.rotate(-kAngle);
    context.fillText(label(columnTokens(state.part)[j], 24), 0, 0);
    context.restore();
  }
  context.textAlign = 'right';
  for (let i = 0; i < g.rows; i += g.every) context.fillText(rowLabel(state.part, i), g.left - 8, g.top + (i + 0.5) * g.cell);
  canvas.toBlob((blob) => save(blob, 'png'), 'image/png');
};
const saveJson = () => {
  const {layer, head} = shown();
  const data = {title: record.title, part: state.part, layer: layer + 1, head: head < 0 ? 'mean' : head + 1,
                path: record[state.part][layer].path, rows: rowTokens(state.part), columns: columnTokens(state.part),
                output: said(state.part), weights: current()};
  save(new Blob([JSON.stringify(data)], {type: 'application/json'}), 'json');
};
