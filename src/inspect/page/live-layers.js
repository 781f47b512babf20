// The chosen token layer by layer: the likeliest token if this layer were the last, and how much each sublayer added.

const kSublayers = {self_attention: 'self-attention', cross_attention: 'cross-attention', feed_forward: 'feed-forward'};
const normPicture = (layers) => {
  const width = 320, height = 110, left = 34, bottom = 22, most = Math.max(1e-9, ...layers.map((l) => l.norm));
  const x = (k) => left + 8 + k * (width - left - 16) / Math.max(1, layers.length - 1), y = (norm) => 8 + (height - bottom - 8) * (1 - norm / most);
  const svg = makeSvg('svg', {class: 'plot', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `Norm of the stream, layer by layer: ${layers.map((l) => `${l.name} ${number(l.norm, 1)}`).join(', ')}`});
  svg.append(makeSvg('path', {class: 'axis', d: `M${left} 8V${height - bottom}H${width}`}),
             makeSvg('text', {x: left - 5, y: 14, 'text-anchor': 'end'}, number(most, 1)), makeSvg('text', {x: left - 5, y: height - bottom, 'text-anchor': 'end'}, '0'),
             makeSvg('path', {class: 'curve', d: layers.map((l, k) => `${k ? 'L' : 'M'}${x(k).toFixed(1)} ${y(l.norm).toFixed(1)}`).join('')}),
             ...layers.map((l, k) => makeSvg('circle', {class: 'spot', cx: x(k), cy: y(l.norm), r: 3})),
             ...layers.map((l, k) => makeSvg('text', {x: x(k), y: height - 6, 'text-anchor': 'middle'}, k ? String(k) : 'emb.')));
  return svg;
};
const drawLayers = async (box) => {
  if (live.row === null) live.row = live.first;
  const {layers} = await ask('layers', withChanges({position: live.row, count: 5}));
  const most = Math.max(1e-9, ...layers.flatMap((l) => l.added.map((a) => a.norm))), final = layers.at(-1)?.tokens[0]?.id;
  box.append(title('Layer by layer'),
    live.model.guesses ? note('The row that said ', strong(rowSaid(live.row)), '. What would the model say if it stopped after this layer?')
      : note('The row of ', strong(rowSaid(live.row)), '. This encoder gives states or classes: it says no tokens, so here are its norms alone.'),
    div('layers', ...layers.map((l) => div('layer',
      span('soft layer-name', l.name),
      span('guesses', ...l.tokens.slice(0, 3).map(({id, token, probability}, k) => {
        const guess = el('span', {class: `guess${id === final ? ' final' : ''}${k ? ' soft' : ''}`}, tokenText('', token), ` ${percent(probability)}`);
        return guess;
      })),
      span('added', ...l.added.map(({sublayer, norm}) => span('add', span('soft', kSublayers[sublayer] ?? sublayer), bar(norm / most), el('span', {}, number(norm, 2)))))))),
    el('h4', {}, 'Norm of the residual stream'), normPicture(layers),
    folded('Table', scroller('Table of layers', tableOf('Layer by layer', ['layer', 'likeliest', 'probability', 'norm', 'added'], layers.map((l) =>
      [l.name, label(l.tokens[0]?.token ?? ''), l.tokens[0] ? percent(l.tokens[0].probability) : '', number(l.norm, 2), l.added.map((a) => `${kSublayers[a.sublayer] ?? a.sublayer} ${number(a.norm, 2)}`).join(', ') || '–'])))),
    live.model.guesses ? div('tools', press(() => openPanel('next'), 'What next?')) : '');
};
panels.layers = {title: 'Layers', draw: drawLayers, when: () => live.model.task !== 'fill' || live.done.source?.length > 0};
