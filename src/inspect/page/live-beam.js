// The tree of a beam search as a picture: time goes to the right, each hypothesis that lived on has its branch.

const kFates = {lives: 'went on', ended: 'finished', dropped: 'dropped', limit: 'alive at the end'};
let beamWidth = 4, lengthPenalty;
const beamPicture = (answer) => {
  const {nodes, hypotheses} = answer, best = new Set();
  for (let at = hypotheses[0]?.node ?? -1; at >= 0; at = nodes[at].parent) best.add(at);
  const steps = Math.max(0, ...nodes.map(({step}) => step)) + 1;
  const columns = Array.from({length: steps}, () => []);
  nodes.forEach((node, at) => columns[node.step].push(at));
  // Siblings stay together: each step in the order of the parents.
  const slot = new Map();
  columns.forEach((members) => {
    members.sort((a, b) => (slot.get(nodes[a].parent) ?? 0) - (slot.get(nodes[b].parent) ?? 0) || nodes[b].sum - nodes[a].sum);
    members.forEach((at, k) => slot.set(at, k));
  });
  const kWide = 108, kHigh = 36, tall = Math.max(1, ...columns.map((c) => c.length));
  const x = (node) => 24 + node.step * kWide, y = (at) => 18 + slot.get(at) * kHigh;
  const svg = makeSvg('svg', {class: 'beam', width: 40 + steps * kWide, height: tall * kHigh + 10, role: 'img', 'aria-label': 'Tree of the beam search; the table below says the same'});
  nodes.forEach((node, at) => {
    const fromX = node.parent < 0 ? 4 : x(nodes[node.parent]) + 76, fromY = node.parent < 0 ? 18 : y(node.parent);
    svg.append(makeSvg('path', {class: `branch ${node.fate}${best.has(at) ? ' best' : ''}`, d: `M${fromX} ${fromY}C${fromX + 14} ${fromY} ${x(node) - 14} ${y(at)} ${x(node)} ${y(at)}`}));
  });
  nodes.forEach((node, at) => {
    const group = makeSvg('g', {class: `node ${node.fate}${best.has(at) ? ' best' : ''}`});
    group.append(makeSvg('title', {}, `${plain(node.token)}: ${number(node.log_prob, 2)}, sum ${number(node.sum, 2)}, ${kFates[node.fate] ?? node.fate}` +
                         (node.behind === undefined ? '' : `; it would have needed ${number(node.behind, 2)}`)),
                 makeSvg('rect', {x: x(node), y: y(at) - 15, width: 78, height: 30, rx: 5}),
                 makeSvg('text', {x: x(node) + 39, y: y(at) - 1, 'text-anchor': 'middle'}, label(node.token, 9)),
                 makeSvg('text', {x: x(node) + 39, y: y(at) + 11, 'text-anchor': 'middle', class: 'sum'}, `${number(node.sum, 2)}${node.fate === 'ended' ? ' end' : node.fate === 'dropped' ? ' ×' : ''}`));
    svg.append(group);
  });
  return svg;
};
const drawBeam = async (box) => {
  const answer = await ask('beam', {model: live.model.id, text: live.text, ...spoken(), beam: beamWidth, length_penalty: lengthPenalty});
  const path = (node) => { const out = []; for (let at = node; at >= 0; at = answer.nodes[at].parent) out.unshift(answer.nodes[at].token); return out; };
  const choose = (name, value, values, act) => el('label', {}, `${name} `, el('select', {'aria-label': name, change: (event) => { act(Number(event.target.value)); refreshPanel(); }},
    ...values.map((v) => el('option', {value: v, selected: v === value ? '' : null}, String(v)))));
  box.append(title('The search'),
    note('A beam search keeps the best few beginnings and extends each of them. Numbers are sums of log-probabilities; × was dropped; the bold branch won.'),
    div('fields', choose('Beam', beamWidth, [1, 2, 3, 4, 5, 8], (v) => { beamWidth = v; }), choose('Length penalty', answer.length_penalty, [...new Set([0, 0.6, 1, 1.4, answer.length_penalty])], (v) => { lengthPenalty = v; })),
    scroller('Beam search', beamPicture(answer)),
    el('ol', {class: 'hypotheses'}, ...answer.hypotheses.map((h) => el('li', {}, el('bdi', {}, label(h.text, 200)), span('soft', ` score ${number(h.score, 3)} · sum ${number(h.sum, 2)} · ${h.length} tokens${h.finished ? '' : ' · not finished'}`)))),
    folded('Table', scroller('Table of the search', tableOf('Beam search', ['step', 'tokens so far', 'log-prob.', 'sum', 'fate'],
      answer.nodes.map((node, at) => [String(node.step + 1), label(path(at).join(' '), 60), number(node.log_prob, 3), number(node.sum, 3), (kFates[node.fate] ?? node.fate) + (node.behind === undefined ? '' : ` (needed ${number(node.behind, 2)})`)])))));
};
panels.beam = {title: 'Search', draw: drawBeam, when: () => isTranslator()};
