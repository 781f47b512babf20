// The page of a training's curves: a hair line through all of them, and the values under it.
'use strict';

const record = JSON.parse(document.getElementById('record').textContent);
document.getElementById('title').textContent = record.title;
document.getElementById('headline').textContent = record.headline;

const svg = document.querySelector('#drawing svg');
const readout = document.getElementById('readout');
const names = {loss: 'loss', valid_loss: 'validation loss', valid_bleu: 'BLEU', learning_rate: 'learning rate',
               tokens_per_second: 'tokens/s', gradient_norm: 'gradient norm'};
const hair = document.createElementNS('http://www.w3.org/2000/svg', 'line');
hair.setAttribute('class', 'hair');
hair.setAttribute('y1', record.top);
hair.setAttribute('y2', record.bottom);
hair.setAttribute('visibility', 'hidden');
svg.append(hair);

const read = (event) => {
  const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  const update = record.first + (at.x - record.left) / (record.right - record.left) * (record.last - record.first);
  const parts = [];
  let nearest = null;
  for (const [key, points] of Object.entries(record.series)) {
    let best = null;
    for (const point of points) if (best === null || Math.abs(point[0] - update) < Math.abs(best[0] - update)) best = point;
    if (best === null) continue;
    if (nearest === null || Math.abs(best[0] - update) < Math.abs(nearest - update)) nearest = best[0];
    parts.push(`${names[key]} ${Number(best[1].toPrecision(5))}`);
  }
  if (nearest === null) return;
  const x = record.left + (nearest - record.first) / Math.max(1, record.last - record.first) * (record.right - record.left);
  hair.setAttribute('x1', x);
  hair.setAttribute('x2', x);
  hair.setAttribute('visibility', 'visible');
  readout.textContent = `update ${nearest.toLocaleString('en')}: ${parts.join(' · ')}`;
};
svg.addEventListener('pointermove', read);
svg.addEventListener('pointerdown', read);
svg.addEventListener('pointerleave', () => hair.setAttribute('visibility', 'hidden'));
