// A second text or a second model under the first: two maps of the same head.

const other = {text: '', model: null, record: null};
const withRecord = (next, act) => {
  const was = record;
  setRecord(next);
  try {
    return act();
  } finally {
    setRecord(was);
  }
};
const drawSecond = () => {
  const box = $('second'), second = live.step ?? other.record;
  box.hidden = !second || !record;
  if (box.hidden) return;
  const folded = live.folded ? foldRecord(second) : second, {layer, head} = shown(), maps = folded[state.part];
  const caption = el('p', {class: 'second-name'}, `${label(folded.title, 60)}: `, el('bdi', {}, label(folded.source || folded.output, 120)), folded.output && folded.source ? el('span', {class: 'said'}, ` → ${label(folded.output, 120)}`) : '',
    el('button', {class: 'chip', click: () => { other.record = live.step = null; drawSecond(); refreshPanel(); }}, 'close'));
  if (!maps?.[layer] || head >= maps[layer].weights.length) {
    box.replaceChildren(caption, note('It has no such head.'));
    return;
  }
  const svg = withRecord(folded, () => {
    const {cell, weights} = hooks;
    hooks.cell = hooks.weights = null;
    try {
      const made = mapPicture(ramp);
      return toSvg({down: 0, ...made, title: ''});
    } finally {
      Object.assign(hooks, {cell, weights});
    }
  });
  svg.setAttribute('class', 'copy');
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', `The same head for: ${folded.source || folded.output}`);
  svg.querySelectorAll('svg > rect').forEach((rect) => rect.remove());
  svg.setAttribute('viewBox', `0 24 ${svg.getAttribute('width')} ${svg.getAttribute('height') - 24}`);
  svg.style.maxWidth = `${svg.getAttribute('width')}px`;
  svg.removeAttribute('width');
  svg.removeAttribute('height');
  box.replaceChildren(caption, svg);
};
const loadOther = () => attempt(async () => {
  const model = other.model ?? live.model, text = other.text || live.text;
  const done = await runToEnd({model: model.id, text, max_tokens: 64}, 'other');
  const found = await askAttention({model: model.id, source: done.source ?? [], target: done.target ?? [], changes: []}, 'other-attention');
  other.record = {...toRecord(done, found), title: model.name, source: text};
  live.step = null;
  drawSecond();
  refreshPanel();
});
let comparing = null;
const drawCompare = (box) => {
  const text = el('textarea', {rows: 2, 'aria-label': 'Second text', input: (event) => { other.text = event.target.value; clearTimeout(comparing); comparing = setTimeout(loadOther, 400); }});
  text.value = other.text;
  text.placeholder = live.text;
  const same = live.models.filter((m) => m.task === live.model.task);
  const model = choice('Second model', same.map((m) => [m.id, label(m.name, 60)]), (other.model ?? live.model).id);
  model.addEventListener('change', () => { other.model = same.find((m) => String(m.id) === model.value); loadOther(); });
  box.append(title('Side by side'), note('A second text, or the same text in a second model. Its map of the same head is drawn under the first one, in the same colours.'),
    el('div', {class: 'fields wide'}, text, model, el('button', {click: loadOther}, 'Compare')));
  if (!other.record) return;
  const maps = other.record[state.part]?.[state.layer]?.weights[state.head], mine = live.record[state.part][state.layer].weights[state.head];
  if (!maps || !mine) return;
  const a = summary(mine, state.part), b = withRecord(other.record, () => summary(maps, state.part));
  const rows = [['Entropy, bits', 'entropy', 2], ['Mean distance', 'distance', 2], ['On the first token', 'first', 3], ['On the last token', 'last', 3]];
  box.append(tableOf('This head in both', ['', 'first', 'second'], rows.map(([name, key, digits]) => [name, number(a[key], digits), number(b[key], digits)])));
};
panels.compare = {title: 'Compare', draw: drawCompare, when: () => true};
