// A training in progress: its curves, read again every two seconds, and the chosen head at each checkpoint that was kept.

const training = {rows: [], checkpoints: [], running: false, model: null, at: null};
const kCurves = [['loss', 'loss', 'first'], ['valid_loss', 'validation loss', 'second'], ['valid_bleu', 'BLEU', 'second']];
const curvePicture = (keys, text) => {
  const series = keys.map(([key, name, kind]) => ({name, kind, points: training.rows.filter((row) => Number.isFinite(row[key])).map((row) => [row.update, row[key]])})).filter(({points}) => points.length > 0);
  if (series.length === 0) return null;
  const all = series.flatMap(({points}) => points), width = 360, height = 150, left = 40, bottom = 24;
  const [x0, x1] = [Math.min(...all.map((p) => p[0])), Math.max(...all.map((p) => p[0]))], [y0, y1] = [Math.min(...all.map((p) => p[1])), Math.max(...all.map((p) => p[1]))];
  const x = (u) => left + (u - x0) / Math.max(1, x1 - x0) * (width - left - 8), y = (v) => 10 + (1 - (v - y0) / Math.max(1e-9, y1 - y0)) * (height - bottom - 10);
  const svg = makeSvg('svg', {class: 'plot', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `${text}: ${series.map(({name, points}) => `${name} ${Number(points.at(-1)[1].toPrecision(4))} at update ${points.at(-1)[0]}`).join(', ')}`});
  svg.append(makeSvg('path', {class: 'axis', d: `M${left} 6V${height - bottom}H${width}`}), makeSvg('text', {x: left - 5, y: 14, 'text-anchor': 'end'}, String(Number(y1.toPrecision(3)))),
             makeSvg('text', {x: left - 5, y: height - bottom, 'text-anchor': 'end'}, String(Number(y0.toPrecision(3)))), makeSvg('text', {x: left, y: height - 7}, String(x0)), makeSvg('text', {x: width - 4, y: height - 7, 'text-anchor': 'end'}, `update ${x1}`));
  series.forEach(({points, kind}) => svg.append(makeSvg('path', {class: `curve ${kind}`, d: points.map(([u, v], k) => `${k ? 'L' : 'M'}${x(u).toFixed(1)} ${y(v).toFixed(1)}`).join('')}),
    ...(points.length < 30 ? points.map(([u, v]) => makeSvg('circle', {class: `spot ${kind}`, cx: x(u), cy: y(v), r: 2})) : [])));
  return el('figure', {}, el('figcaption', {}, ...series.map(({name, kind, points}) => el('span', {class: `key-${kind}`}, `${name} ${Number(points.at(-1)[1].toPrecision(4))} `))), svg);
};
const readTraining = async () => {
  if (training.model !== live.model.name) Object.assign(training, {rows: [], checkpoints: [], model: live.model.name, at: null});
  const answer = await ask(`training?model=${live.model.id}&after=${training.rows.length}`, null, 'training');
  training.rows.push(...answer.rows.map((row) => (row.type === 'valid' ? {update: row.update, valid_loss: row.loss, valid_bleu: row.bleu} : row.type === 'end' ? {} : row)));
  training.checkpoints = answer.checkpoints;
  training.running = answer.running;
  return answer.rows.length > 0;
};
// The chosen head as it was at a checkpoint, for the same tokens.
const showCheckpoint = (at) => attempt(async () => {
  const checkpoint = training.checkpoints[at];
  training.at = at;
  $('checkpoint-name').textContent = `update ${checkpoint.update}`;
  if (!live.done) return;
  const found = await askAttention({...idsOf(), model: checkpoint.model}, 'checkpoint');
  if (training.at !== at) return;
  live.step = {...toRecord(live.done, found), title: `At update ${checkpoint.update}`};
  drawSecond();
  drawTableView();
});
const drawTraining = async (box) => {
  await readTraining();
  const last = training.checkpoints.length - 1;
  const figures = [curvePicture(kCurves.slice(0, 2), 'Loss'), curvePicture(kCurves.slice(2), 'BLEU')].filter(Boolean);
  box.append(title('Training'), note(training.running ? 'The training is running; the curves grow by themselves.' : 'The training is not running.'), el('div', {id: 'curves'}, ...figures));
  if (last >= 0) {
    const at = training.at ?? last;
    box.append(el('h4', {}, 'The same head at each checkpoint'), el('label', {class: 'sliders'}, el('input', {type: 'range', min: 0, max: last, step: 1, value: at, 'aria-label': 'Checkpoint', input: (event) => showCheckpoint(Number(event.target.value))}), el('output', {id: 'checkpoint-name'}, `update ${training.checkpoints[at]?.update ?? ''}`)),
      note('Its map for the text above is drawn beside the present one (on a phone: below).'));
  }
  box.append(folded('Table', scroller('Table of the training', tableOf('Training', ['update', 'loss', 'validation loss'],
    training.rows.filter((row) => row.loss ?? row.valid_loss).slice(-200).map((row) => [String(row.update), ...['loss', 'valid_loss'].map((key) => row[key]?.toPrecision(5) ?? '')])), true)));
};
setInterval(() => {
  if (away || document.hidden || live.panel !== 'training' || !live.model?.training) return;
  const had = training.checkpoints.length;
  attempt(async () => {
    if (await readTraining()) $('curves')?.replaceChildren(...[curvePicture(kCurves.slice(0, 2), 'Loss'), curvePicture(kCurves.slice(2), 'BLEU')].filter(Boolean));
    if (training.checkpoints.length !== had) refreshPanel();
  });
}, 2000);
panels.training = {title: 'Training', draw: drawTraining, when: () => live.model.training};
