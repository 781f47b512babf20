// The head in focus as a file: SVG and PNG of the view on the page, JSON.

const fileName = (ending) => {
  const {layer, head} = shown();
  return `${state.part}-layer${layer + 1}-${head < 0 ? 'mean' : 'head' + (head + 1)}${lines && ending !== 'json' ? '-lines' : ''}.${ending}`;
};
const save = (blob, ending) => {
  const link = make('a');
  link.href = URL.createObjectURL(blob);
  link.download = fileName(ending);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};

// A picture is shapes in the light colours: rectangles {x, y, width, height, fill, title}, texts {x, y, text, anchor, turn,
// fill, size} and curves {d, stroke, opacity}.
const mapPicture = (table = makeRamp(kLight), room = {width: 1400, height: 1400, zoom: 1, cell: 28}) => {
  const w = current(), shapes = [];
  const g = layoutMap(w, state.part, room), flat = g.flat && !room.cell;
  g.cell = Math.min(g.cell, room.cell ?? g.cell);
  g.every = Math.max(1, Math.ceil(13 / g.cell));
  g.top = flat ? 50 : Math.ceil(g.longest * Math.sin(kAngle)) + 44;
  const text = (text, x, y, more) => shapes.push({text, x, y, ...more});
  for (let j = 0; j < g.columns; j += g.every)
    text(label(columnTokens(state.part)[j], 24), g.left + (j + 0.5) * g.cell + (flat ? 0 : 3), g.top - 7, flat ? {anchor: 'middle'} : {turn: -50});
  w.forEach((row, i) => {
    const y = g.top + i * g.cell;
    if (i % g.every === 0) text(rowLabel(state.part, i, room.narrow), g.left - 8, y + g.cell / 2 + 4.5, {anchor: 'end'});
    row.forEach((weight, j) => {
      const rgb = hooks.cell?.(i, j) ?? colour(weight, table), x = g.left + j * g.cell;
      shapes.push({x, y, width: g.cell - 1, height: g.cell - 1, fill: `rgb(${rgb.join(',')})`,
                   title: `${rowName(state.part, i)} ← ${columnName(state.part, j)}: ${exact(weight)}`});
      if (g.cell >= 28) text(cellText(weight), x + g.cell / 2, y + g.cell / 2 + 3, {anchor: 'middle', size: Math.min(12, g.cell * 0.32), fill: inkOn(rgb)});
    });
  });
  return {shapes, width: g.left + g.columns * g.cell + (room.cell ? Math.ceil(g.longest * Math.cos(kAngle)) + 16 : g.overhang + 2), height: g.top + g.rows * g.cell + 16};
};
const linesPicture = (room = {width: 900, height: 900}) => {
  const g = layoutLines(current(), room), down = 34;
  const shapes = g.curves.map(({d, strength, width, colour}) => ({d, strength, stroke: width, colour}));
  for (let i = 0; i < g.rows; ++i) shapes.push({text: g.names.row[i], x: g.left - 8, y: g.y(i, g.rows) + 4.5, anchor: 'end'});
  for (let j = 0; j < g.columns; ++j) shapes.push({text: g.names.column[j], x: g.left + g.middle + 8, y: g.y(j, g.columns) + 4.5});
  return {shapes, down, width: g.width, height: g.height + down};
};
const picture = () => {
  const made = lines ? linesPicture() : mapPicture();
  const title = $('heading').firstChild.textContent + (isRelative() ? ` (strongest colour: ${full} and more)` : '');
  return {down: 0, ...made, title, width: Math.max(made.width, 20 + textWidth(title, `13px ${family()}`))};
};
const kInk = '#1c2529', kLine = '#27868e';
const toSvg = ({shapes, title, width, height, down}) => {
  const svg = makeSvg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, 'font-family': 'sans-serif', 'font-size': 13, fill: kInk});
  const group = makeSvg('g', {transform: `translate(0 ${down})`});
  for (const {d, text, x, y, strength, ...shape} of shapes) {
    if (d) {
      group.append(makeSvg('path', {d, fill: 'none', stroke: shape.colour ?? kLine, 'stroke-width': shape.stroke.toFixed(2), 'stroke-opacity': strength.toFixed(3)}));
    } else if (text !== undefined) {
      const {anchor, turn, fill, size} = shape;
      group.append(makeSvg('text', {x, y, ...(anchor && {'text-anchor': anchor}), ...(turn && {transform: `rotate(${turn} ${x} ${y})`}),
                                    ...(fill && {fill}), ...(size && {'font-size': size})}, text));
    } else {
      const rect = makeSvg('rect', {x, y, width: shape.width, height: shape.height, fill: shape.fill});
      rect.append(makeSvg('title', {}, shape.title));
      group.append(rect);
    }
  }
  svg.append(makeSvg('title', {}, title), makeSvg('rect', {width, height, fill: '#ffffff'}), makeSvg('text', {x: 8, y: 20, fill: '#5d6a70'}, title), group);
  return svg;
};
const saveSvg = () => save(new Blob([new XMLSerializer().serializeToString(toSvg(picture()))], {type: 'image/svg+xml'}), 'svg');
const savePng = () => {
  const {shapes, title, width, height, down} = picture();
  const canvas = make('canvas');
  const scale = Math.min(2, 16000 / width, 16000 / height);
  canvas.width = width * scale;
  canvas.height = height * scale;
  const context = canvas.getContext('2d');
  context.scale(scale, scale);
  context.fillStyle = '#ffffff';
  context.fillRect(0, 0, width, height);
  const write = ({text, x, y, anchor = 'start', turn = 0, fill = kInk, size = 13}) => {
    context.save();
    context.translate(x, y);
    context.rotate(turn * Math.PI / 180);
    context.font = `${size}px ${family()}`;
    context.textAlign = anchor === 'middle' ? 'center' : anchor;
    context.fillStyle = fill;
    context.fillText(text, 0, 0);
    context.restore();
  };
  write({text: title, x: 8, y: 20, fill: '#5d6a70'});
  context.translate(0, down);
  for (const shape of shapes) {
    if (shape.text !== undefined) {
      write(shape);
    } else if (shape.d) {
      context.globalAlpha = shape.strength;
      context.strokeStyle = shape.colour ?? kLine;
      context.lineWidth = shape.stroke;
      context.stroke(new Path2D(shape.d));
      context.globalAlpha = 1;
    } else {
      context.fillStyle = shape.fill;
      context.fillRect(shape.x, shape.y, shape.width, shape.height);
    }
  }
  canvas.toBlob((blob) => save(blob, 'png'), 'image/png');
};
const saveJson = () => {
  const {layer, head} = shown();
  const data = {title: record.title, part: state.part, layer: layer + 1, head: head < 0 ? 'mean' : head + 1,
                path: record[state.part][layer].path, rows: rowTokens(state.part), columns: columnTokens(state.part),
                output: said(state.part), weights: current().map((row) => row.map((weight) => (weight === null ? null : Number(exact(weight)))))};
  save(new Blob([JSON.stringify(data)], {type: 'application/json'}), 'json');
};
