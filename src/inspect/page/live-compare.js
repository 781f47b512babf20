// A second text or a second model beside the first: two maps of the same head.

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
// The views of the second record: one head, without what belongs to the first one.
const secondRecord = () => {
  const second = live.step ?? other.record;
  return second && live.folded ? foldRecord(second) : second;
};
const asSecond = (second, act) => withRecord(second, () => {
  const own = {...hooks};
  hooks.cell = hooks.weights = hooks.curves = null;
  try {
    return act();
  } finally {
    Object.assign(hooks, own);
  }
});
const hasHead = (second) => { const {layer, head} = shown(), map = second?.[state.part]?.[layer]; return map && head < map.weights.length; };
const sayRecord = (one) => [`${label(one.title, 60)}: `, el('bdi', {}, label(one.source || one.output, 120)), one.output && one.source ? span('said', ` → ${label(one.output, 120)}`) : ''];
const isPair = () => $('main').classList.contains('pair') && window.innerWidth > 900;
const drawSecond = () => {
  const box = $('second'), second = record && secondRecord(), was = $('main').classList.contains('pair');
  box.hidden = $('first-name').hidden = !second;
  $('main').classList.toggle('pair', Boolean(second));
  if (record && was !== Boolean(second)) return drawAll();  // the first map has other room now
  if (!second) return undefined;
  $('first-name').replaceChildren(...sayRecord(record));
  const caption = el('p', {class: 'second-name'}, chip(() => { other.record = live.step = null; drawSecond(); drawTableView(); refreshPanel(); }, 'close'), ...sayRecord(second));
  if (!hasHead(second)) return box.replaceChildren(caption, note('It has no such head.'));
  const room = stageRoom(), cut = lines ? 34 : 24;
  const svg = asSecond(second, () => toSvg({down: 0, ...(lines ? linesPicture(room) : mapPicture(ramp, room)), title: ''}));
  const [width, height] = ['width', 'height'].map((side) => svg.getAttribute(side));
  svg.setAttribute('class', 'copy');
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', `The same head for: ${second.source || second.output}`);
  svg.querySelectorAll('svg > rect').forEach((rect) => rect.remove());
  svg.setAttribute('viewBox', `0 ${cut} ${width} ${height - cut}`);
  svg.style.maxWidth = `${width}px`;
  svg.removeAttribute('width');
  svg.removeAttribute('height');
  return box.replaceChildren(caption, svg);
};
hooks.room = (width) => (isPair() ? width / 2 - 12 : width);
const loadOther = () => attempt(async () => {
  const model = other.model ?? live.model, text = other.text || live.text;
  const done = await runToEnd({model: model.id, text, ...spoken(model), max_tokens: 64}, 'other');
  const found = await askAttention({model: model.id, source: done.source ?? [], target: done.target ?? [], changes: []}, 'other-attention');
  other.record = {...toRecord(done, found, model), source: text};
  live.step = null;
  drawSecond();
  drawTableView();
  refreshPanel();
});
let comparing = null;
const drawCompare = (box) => {
  const text = el('textarea', {rows: 2, 'aria-label': 'Second text', input: (event) => { other.text = event.target.value; clearTimeout(comparing); comparing = setTimeout(loadOther, 400); }});
  text.value = other.text;
  text.placeholder = live.text;
  const same = live.models.filter((m) => m.task === live.model.task);
  const model = choice('Second model', same.map((m) => [m.id, label(m.name, 60)]), (other.model ?? live.model).id);
  listen(model, 'change', () => { other.model = same.find((m) => String(m.id) === model.value); loadOther(); });
  box.append(title('Side by side'), note('A second text, or the same text in a second model. Its map of the same head is drawn beside the first one (on a phone: below), in the same colours.'),
    div('fields wide', text, model, press(loadOther, 'Compare')));
  if (!other.record) return;
  const maps = other.record[state.part]?.[state.layer]?.weights[state.head], mine = live.record[state.part][state.layer].weights[state.head];
  if (!maps || !mine) return;
  const a = summary(mine, state.part), b = withRecord(other.record, () => summary(maps, state.part));
  const rows = [['Entropy, bits', 'entropy', 2], ['Mean distance', 'distance', 2], ['On the first token', 'first', 3], ['On the last token', 'last', 3]];
  box.append(tableOf('This head in both', ['', 'first', 'second'], rows.map(([name, key, digits]) => [name, number(a[key], digits), number(b[key], digits)])));
};
panels.compare = {title: 'Compare', draw: drawCompare, when: () => true};
