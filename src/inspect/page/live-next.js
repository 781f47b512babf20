// The panels beside the map; first, what the model would say next.

const panels = {};  // name: {title, draw(box), when()}
let panelTurn = 0;
// Draws into a fresh box: what comes too late is thrown away. `draw` gets the box and whether it is still wanted.
const refreshPanel = () => {
  if (!live.panel || !live.done) return undefined;
  if (!panels[live.panel].when()) live.panel = live.model.guesses ? 'next' : 'layers';
  const mine = ++panelTurn, box = el('div', {class: `panel-in panel-${live.panel}`});
  drawPanelTabs();
  return attempt(async () => {
    try {
      await panels[live.panel].draw(box);
    } catch (error) {
      if (mine === panelTurn) throw error;  // what comes too late may have lost its text
      return;
    }
    if (mine === panelTurn) $('panel-body').replaceChildren(box);
  });
};
const drawPanelTabs = () => {
  $('panel-tabs').replaceChildren(...Object.entries(panels).filter(([, {when}]) => when()).map(([name, {title}]) =>
    el('button', {role: 'tab', id: `panel-${name}`, 'aria-selected': name === live.panel, 'aria-controls': 'panel-body',
                  tabindex: name === live.panel ? 0 : -1, click: () => openPanel(name)}, title)));
  $('panel-body').setAttribute('aria-labelledby', `panel-${live.panel}`);
};
const openPanel = (name) => {
  live.panel = name;
  const had = $('panel-tabs').contains(document.activeElement);
  const done = refreshPanel();
  if (had) $(`panel-${name}`)?.focus();
  return done;
};
const bar = (share, className = '') => {
  const box = el('span', {class: `bar-box ${className}`, 'aria-hidden': 'true'}, span('bar-fill'));
  box.firstChild.style.width = `${(100 * Math.max(0, Math.min(1, share))).toFixed(1)}%`;
  return box;
};
const note = (...text) => el('p', {class: 'note'}, ...text);
const title = (...text) => el('h3', {}, ...text);
const rowSaid = (row) => plain(live.done.output_tokens?.[row] ?? rowsOf(live.done)[row] ?? '');

// ---- What next ----------------------------------------------------------------------------------------------------------
const kSliders = [
  {name: 'temperature', text: 'Temperature', min: 0.1, max: 2, step: 0.1, off: 1, says: 'below 1: the likely become likelier'},
  {name: 'top_k', text: 'Top-k', min: 0, max: 10, step: 1, off: 0, says: 'only the k likeliest; 0: all'},
  {name: 'top_p', text: 'Top-p', min: 0.05, max: 1, step: 0.05, off: 1, says: 'the likeliest that together have p'},
  {name: 'min_p', text: 'Min-p', min: 0, max: 0.5, step: 0.01, off: 0, says: 'at least this share of the likeliest'},
];
const sampling = Object.fromEntries(kSliders.map(({name, off}) => [name, off]));
// Rows of the text that was typed can be looked at; only what the model wrote can be written anew.
const isMine = () => live.model.task !== 'fill' && live.row >= live.first;
const nextList = (answer) => div('next', ...answer.tokens.map(({id, token, probability, kept}) => {
  const row = el('button', {class: `next-token${kept === 0 ? ' cut' : ''}`, 'aria-label': `Say ${plain(token)} here: probability ${percent(probability)}, kept ${percent(kept)}`,
                            'aria-current': live.done.output[live.row] === id, disabled: isMine() ? null : '', click: () => takeInstead(live.row, id)});
  row.append(tokenText('next-text', token), bar(probability), bar(kept, 'kept'),
             span('next-number', percent(probability)), span('next-number soft', kept === 0 ? 'cut off' : percent(kept)));
  return row;
}));
const askNext = () => ask('next', withChanges({position: live.row, count: 10, ...sampling}));
const drawNext = async (box) => {
  if (live.row === null) live.row = live.first;
  const answer = await askNext();
  const list = el('div', {id: 'next-list'}, nextList(answer));
  const redo = () => attempt(async () => list.replaceChildren(nextList(await askNext())));
  box.append(title('What next?'),
    note(live.model.task === 'fill' ? 'At ' : 'After ', strong(plain(rowsOf(live.done)[live.row])), live.done.output_tokens?.[live.row] !== undefined ? ' the model said ' : '', strong(rowSaid(live.row)), `. Entropy ${number(answer.entropy, 2)} bits: as undecided as between ${number(2 ** answer.entropy, 1)} equally likely tokens.${isMine() ? ' Choose another one, and the model goes on from there.' : ''}`),
    el('p', {class: 'next-head', 'aria-hidden': 'true'}, 'token', el('span', {}, 'probability'), span('kept-name', 'kept')), list,
    div('sliders', ...kSliders.map(({name, text, min, max, step, says}) => {
      const out = el('output', {}, String(sampling[name]));
      return el('label', {title: says}, el('span', {}, text), el('input', {type: 'range', min, max, step, value: sampling[name], 'aria-label': `${text}: ${says}`,
        input: (event) => { sampling[name] = Number(event.target.value); out.textContent = event.target.value; redo(); }}), out);
    })),
    div('tools', ...(live.model.task === 'fill' ? [] : [
      press(() => start(false, {...sampling, seed: live.seed = (live.seed ?? 0) + 1}), 'Write once more with these settings'),
      live.prefix?.length ? press(() => { live.prefix = []; start(true); }, 'Back to the model’s own choice') : null,
      press(() => openPanel('layers'), 'Layer by layer')])));
};
panels.next = {title: 'Next', draw: drawNext, when: () => live.model.guesses};
