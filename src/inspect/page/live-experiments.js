// Experiments: what the model says with a head, a layer, an edge or a token switched off, or a state replaced.

const changeName = (c) => {
  const where = `${names[c.part] ?? ''}${c.layer === undefined ? '' : ` ${c.layer + 1}`}${c.head === undefined ? '' : `.${c.head + 1}`}`;
  const side = (part, at, rows) => plain((part === 'encoder' || (part === 'cross' && !rows) ? live.base?.source_tokens : live.base?.target_tokens)?.[at] ?? String(at));
  if (c.kind === 'head') return `head ${where} off`;
  if (c.kind === 'layer') return `${c.part} layer ${c.layer + 1} off`;
  if (c.kind === 'edge') return `${where}: ${side(c.part, c.row, true)} ↛ ${side(c.part, c.column, false)}`;
  if (c.kind === 'token') return `“${plain((c.side === 'source' ? live.base?.source_tokens : live.base?.target_tokens)?.[c.position] ?? String(c.position))}” hidden`;
  return `${c.part} layer ${c.layer + 1}, place ${c.position + 1} from another text`;
};
const sameChange = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const drawChanges = () => {
  $('active').hidden = live.changes.length === 0;
  $('active').replaceChildren(span('soft', 'Changed: '), ...live.changes.map((change) =>
    el('button', {class: 'chip on', 'aria-label': `Take back: ${changeName(change)}`, click: () => removeChange(change)}, `${changeName(change)} ×`)),
    live.changes.length > 1 ? chip(() => setChanges([]), 'take all back') : '');
};
const setChanges = (changes) => attempt(async () => {
  const before = live.changes;
  live.changes = changes;
  say('');
  try {
    await applyChanges();
    live.panel = 'change';
  } catch (error) {
    if (live.changes === changes) live.changes = before;  // refused: two changes that exclude each other
    throw error;
  } finally {
    drawChanges();
    writeAddress();
  }
  refreshPanel();
});
const addChange = (change) => setChanges([...live.changes, change]);
const removeChange = (change) => setChanges(live.changes.filter((c) => !sameChange(c, change)));
const toggleHeadOff = () => {
  const {layer, head} = shown(), change = {kind: 'head', part: state.part, layer, head};
  if (head < 0) return undefined;
  return live.changes.some((c) => sameChange(c, change)) ? removeChange(change) : addChange(change);
};
// The changed model reads the same text, and its own words are shown.
let changeTurn = 0;
const applyChanges = async () => {
  if (!live.base) return;
  const mine = ++changeTurn;
  drawChanges();
  flights.get('experiment')?.abort();
  if (live.changes.length === 0) {
    live.experiment = null;
    live.done = live.base;
  } else {
    const found = await ask('experiment', {...idsOf(live.base), changes: live.changes, search: {max_tokens: isCausal() ? Math.max(1, live.base.output.length - live.first - 1) : 64, keep: live.first + 1, prefix: live.prefix ?? []}});
    if (mine !== changeTurn) return;
    live.experiment = found;
    const {output, after} = live.experiment;
    live.done = {...live.base, log_probs: after.log_probs};
    if (output) live.done = {...live.base, ...output};
  }
  await loadAttention();
};
const effects = () => {
  const {before, after} = live.experiment;
  return before.output_tokens.flatMap((token, i) => (i < live.first ? [] : [{position: i, token, before: before.log_probs[i], after: after.log_probs[i], change: after.log_probs[i] - before.log_probs[i], says: after.likeliest_tokens?.[i]}]));
};
const saveText = (text, type, name) => {
  const link = el('a', {href: URL.createObjectURL(new Blob([text], {type})), download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};
const csvCell = (value) => `"${String(value ?? '').replaceAll('"', '""').replace(/^([=+@\t\r-])/, "'$1")}"`;
const saveExperiment = (kind) => {
  if (kind === 'json') {
    saveText(JSON.stringify({model: live.model.name, version: live.model.version, text: live.text, ...spoken(), changes: live.changes, ...live.experiment}, null, 1), 'application/json', 'experiment.json');
    return;
  }
  const rows = effects().map((e) => [e.position, csvCell(e.token), e.before, e.after, e.change, csvCell(e.says)].join(','));
  saveText(['position,token,log_prob_before,log_prob_after,change,likeliest_after', ...rows].join('\n') + '\n', 'text/csv', 'experiment.csv');
};
const choice = (name, values, value) => el('select', {'aria-label': name}, ...values.map(([v, text]) => el('option', {value: v, selected: String(v) === String(value) ? '' : null}, text)));
const upTo = (count) => Array.from({length: count}, (_, k) => [k, String(k + 1)]);
const drawMore = () => {
  const stacks = [['encoder', live.model.encoder_layers], ['decoder', live.model.decoder_layers]].filter(([, layers]) => layers > 0);
  const sides = [['source', live.base.source_tokens], ['target', live.base.target_tokens]].filter(([, tokens]) => tokens?.length);
  const stack = stacks.flatMap(([part, layers]) => upTo(layers).map(([k, text]) => [`${part}/${k}`, `${part} layer ${text}`]));
  const tokens = sides.flatMap(([side, all]) => all.map((token, k) => [`${side}/${k}`, `${plain(token)} (${side} ${k + 1})`]));
  const layer = choice('Layer to switch off', stack), token = choice('Token to hide', tokens);
  const where = choice('Layer whose state is replaced', stack), at = el('input', {type: 'number', min: 1, value: 1, 'aria-label': 'Place in this text, from 1'});
  const text = el('input', {type: 'text', 'aria-label': 'Another text', placeholder: 'another text'}), from = el('input', {type: 'number', min: 1, value: 1, 'aria-label': 'Place in the other text, from 1'});
  const cut = (value) => { const [a, b] = value.split('/'); return [a, Number(b)]; };
  const replace = () => attempt(async () => {
    if (!text.value.trim()) return;
    const other = await runToEnd({model: live.model.id, text: text.value, ...spoken()}, 'other');
    const [part, k] = cut(where.value);
    await addChange({kind: 'state', part, layer: k, position: at.value - 1, from: {source: other.source ?? [], target: other.target ?? [], position: from.value - 1}});
  });
  return folded('More experiments', div('fields', layer, press(() => { const [part, k] = cut(layer.value); addChange({kind: 'layer', part, layer: k}); }, 'Layer off')),
    div('fields', token, press(() => { const [side, k] = cut(token.value); addChange({kind: 'token', side, position: k}); }, 'Hide from everybody')),
    el('p', {class: 'note'}, 'The state after a layer, taken from another text:'),
    div('fields', where, el('label', {}, 'place ', at), 'from', text, el('label', {}, 'place ', from), press(replace, 'Replace')));
};
const drawExperiments = (box) => {
  box.append(title('What if?'));
  const cell = cellChosen(), {layer, head} = state;
  const offered = div('tools', head >= 0 ? press(toggleHeadOff, `${isOff(layer, head) ? 'Switch on' : 'Switch off'} ${names[state.part].toLowerCase()} ${layer + 1}.${head + 1}`) : null,
    cell && head >= 0 && !live.folded ? press(() => addChange({kind: 'edge', ...cell}), 'Cut the kept edge') : null);
  if (!live.experiment) {
    box.append(note('Switch something off, and the model reads and writes the same text without it. Weights say where a head looks; an experiment says what that does.'), offered, drawMore());
    return;
  }
  const all = effects(), most = Math.max(1e-4, ...all.map((e) => Math.abs(e.change))), {reach, output} = live.experiment, same = output ? output.text === live.base.text : all.every((e) => (e.says ?? e.token) === e.token);
  const first = reach.find((r) => r.changed > 0), untouched = reach.filter((r, k) => reach.indexOf(first) < 0 || k < reach.indexOf(first));
  box.append(
    ...(output ? [el('dl', {class: 'numbers before-after'}, el('dt', {}, 'before'), el('dd', {}, el('bdi', {}, label(live.base.text ?? '', 400))), el('dt', {}, 'after'), el('dd', {}, el('bdi', {class: same ? '' : 'changed'}, label(output.text ?? '', 400))))] : []),
    note(!live.model.guesses ? 'This encoder says no tokens. ' : `The output is ${same ? 'the same' : 'another one'}. Log-probabilities of the tokens that were said before:`),
    el('div', {class: 'effects', role: 'table', 'aria-label': 'Change of the log-probability of each token'}, ...all.map((e) => el('div', {class: 'effect', role: 'row', title: `${number(e.before, 3)} before, ${number(e.after, 3)} after`},
      el('span', {role: 'cell'}, tokenText('', e.token)), el('span', {role: 'cell'}, both(e.change, most), span('hidden-text', '')), el('span', {role: 'cell'}, number(e.change, most < 0.1 ? 4 : 2)),
      el('span', {class: 'soft', role: 'cell'}, e.says !== undefined && e.says !== e.token ? tokenText('', e.says) : '')))),
    offered,
    el('h4', {}, 'How far it reaches'),
    first ? note(untouched.length ? `${untouched.reduce((sum, r) => sum + r.changed, 0)} of ${many(untouched.reduce((sum, r) => sum + r.numbers, 0))} numbers before ${first.name} changed. From there on:` : 'It begins at the first layer.') : note('Not one number changed.'),
    div('reach', ...reach.map((r) => el('div', {class: 'reached', title: `largest change ${Number(r.largest.toPrecision(3))}`}, span('soft', label(r.name, 60)), bar(r.changed / Math.max(1, r.numbers)), el('span', {}, `${many(r.changed)} of ${many(r.numbers)}`)))),
    div('tools', press(() => saveExperiment('json'), 'Save JSON'), press(() => saveExperiment('csv'), 'Save CSV'), press(() => setChanges([]), 'Take all back')),
    drawMore());
};
panels.change = {title: 'What if', draw: drawExperiments, when: () => true};
