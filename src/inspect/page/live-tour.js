// The guided tour: each stop sets the page's state, looks at it and tells the numbers that it found.

const tour = {at: 0, language: /^zh/i.test(navigator.language) ? 'zh' : 'en', found: {}, cell: null, mine: 0};
const kTourText = 'The train arrived on time.';
const tourPart = () => ['cross', 'decoder', 'encoder'].find((part) => live.record[part].length > 0);
const strongestCell = (w) => {
  let best = {i: 0, j: 0, weight: -1};
  w.forEach((row, i) => row.forEach((weight, j) => { if (weight > best.weight) best = {i, j, weight}; }));
  return best;
};
// The clearest cell of the most telling head: most stops are about it.
const goHome = async () => {
  const text = isTranslator() ? kTourText : $('examples').firstChild.textContent;
  live.folded = false;
  setPressed($('fold'), false);
  live.chosen = [];
  filter = null;
  drawChosen();
  if (live.changes.length > 0 || live.text !== text || live.prefix?.length || live.long) {
    live.changes = [];
    live.experiment = null;
    await setText(text);
  }
  const part = tourPart(), {layer, head} = bestPlace(part);
  Object.assign(state, {lockedRow: null, lockedColumn: null, view: 'map'});
  select(part, layer, Math.max(0, head));
  const w = current(), {i, j, weight} = clearest(w, part)[0] ?? strongestCell(w);
  tour.cell = {part, layer, head: Math.max(0, head), i, j, weight, row: rowName(part, i), column: columnName(part, j)};
};
const keep = (row, column) => {
  if (state.lockedRow !== row || state.lockedColumn !== column) lock(row, column);
};
const cellOf = ({row, column, weight}) => ({row, column, weight: percent(weight)});
// Each begins at goHome().
const kStops = [
  {at: '#stage', go: () => { keep(tour.cell.i, tour.cell.j); return cellOf(tour.cell); }},
  {at: '#columns', go: () => {
    const {i, column} = tour.cell, row = current()[i];
    keep(i, null);
    return {column, count: row.length, sum: number(row.reduce((sum, weight) => sum + weight, 0), 3)};
  }},
  {at: '#panel', go: async () => {
    const {part, layer, head, i, j} = tour.cell;
    keep(i, j);
    await openPanel('why');
    const a = await ask('explain', withChanges({part, layer, head, row: i, column: j}), 'tour');
    const raw = a.rivals.map((r) => r.score / a.scale), most = Math.max(...raw), mine = Math.exp(a.score / a.scale - most) / raw.reduce((sum, s) => sum + Math.exp(s - most), 0);
    return {dot: number(a.dot, 2), scale: Number(a.scale.toPrecision(4)), scaled: number(a.scaled, 2), weight: percent(a.weight), unscaled: percent(mine)};
  }},
  {at: '#grid', go: () => {
    select(state.part, state.layer, -1);
    const all = ['encoder', 'decoder', 'cross'].flatMap((part) => live.record[part]);
    return {heads: all.reduce((sum, {weights}) => sum + weights.length, 0), layers: all.length, mean: percent(strongestCell(current()).weight),
            one: percent(Math.max(...live.record[state.part][state.layer].weights.map((w) => strongestCell(w).weight)))};
  }},
  {at: '#named', go: () => {
    const kinds = ['encoder', 'decoder', 'cross'], counts = {}, all = kinds.flatMap((part) => (live.record.names[part] ?? []).flatMap((heads, layer) => heads.map(({name}, head) => ({part, layer, head, name}))));
    for (const {name} of all) if (name) counts[name] = (counts[name] ?? 0) + 1;
    const entries = Object.entries(counts).sort((a, b) => b[1] - a[1]), first = all.find(({name}) => name && name === entries[0][0]);
    if (first) select(first.part, first.layer, first.head);
    return {named: entries.reduce((sum, [, n]) => sum + n, 0), heads: all.length, list: entries.map(([name, n]) => `${name} ${n}`).join(', ')};
  }},
  {at: '#stage', go: () => {
    return {cross: state.part === 'cross', pairs: clearest(current(), state.part).map(({i, j, weight}) => `${rowName(state.part, i)} ← ${columnName(state.part, j)} ${percent(weight)}`).join(', ')};
  }},
  {at: '#stage', go: () => {
    const part = live.record.decoder.length ? 'decoder' : tourPart();
    select(part, bestPlace(part).layer, Math.max(0, bestPlace(part).head));
    const w = current();
    let hidden = 0, sum = 0;
    w.forEach((row, i) => row.forEach((weight, j) => { if (j > i && part === 'decoder') { ++hidden; sum += weight; } }));
    return {hidden: many(hidden), all: many(w.length * w[0].length), sum: number(sum, 3)};
  }},
  {at: '#panel', go: async () => {
    live.row = Math.max(live.first, tour.cell.part === 'encoder' ? live.first : tour.cell.i);
    await openPanel('next');
    const a = await ask('next', withChanges({position: live.row, count: 10}), 'tour');
    return {token: plain(a.tokens[0].token), probability: percent(a.tokens[0].probability), entropy: number(a.entropy, 2)};
  }},
  {at: '#panel', go: async () => {
    const {part, layer, head} = tour.cell;
    await addChange({kind: 'head', part, layer, head});
    const all = effects(), most = all.reduce((a, b) => (Math.abs(b.change) > Math.abs(a.change) ? b : a), all[0]), {reach} = live.experiment, first = reach.findIndex((r) => r.changed > 0);
    const before = reach.slice(0, first < 0 ? reach.length : first), total = (key) => many(before.reduce((sum, r) => sum + r[key], 0));
    tour.effects = all;
    return {after: label(live.experiment.output?.text ?? '', 200), token: plain(most?.token ?? ''), change: number(most?.change ?? 0, 3), numbers: total('numbers'), changed: total('changed')};
  }},
  {at: '.caution', go: async () => {
    if (!live.experiment) {
        await addChange({kind: 'head', part: tour.cell.part, layer: tour.cell.layer, head: tour.cell.head});
      tour.effects = effects();
    }
    const row = tour.effects.find((e) => e.position === tour.cell.i) ?? tour.effects[0];
    return {...cellOf(tour.cell), change: number(row?.change ?? 0, 3)};
  }},
];
const drawTour = () => {
  const words = kTourWords[tour.language], [name, text] = kTour[tour.at][tour.language], v = tour.found[tour.at];
  const again = (act) => el('button', {click: act[1], id: act[2], disabled: act[3] ? '' : null}, act[0]);
  const box = $('tour');
  box.lang = tour.language === 'zh' ? 'zh-CN' : 'en';
  box.setAttribute('aria-label', words.name);
  const focused = box.contains(document.activeElement) ? document.activeElement.id : null;
  box.replaceChildren(el('p', {class: 'soft'}, `${tour.at + 1} / ${kTour.length}`), el('h3', {}, name), el('p', {id: 'tour-text', role: 'status', 'aria-busy': !v}, v ? text(v) : '…'),
    div('tools', again([words.back, () => openTour(tour.at - 1), 'tour-back', tour.at === 0]), again([tour.at + 1 < kTour.length ? words.next : words.end, () => (tour.at + 1 < kTour.length ? openTour(tour.at + 1) : closeTour()), 'tour-next']),
      again([words.other, () => { tour.language = tour.language === 'zh' ? 'en' : 'zh'; drawTour(); }, 'tour-language']), again([words.close, closeTour, 'tour-close'])));
  if (focused) (($(focused)?.disabled ? null : $(focused)) ?? $('tour-next')).focus();
};
const light = (selector) => {
  document.querySelectorAll('.lit').forEach((element) => element.classList.remove('lit'));
  const element = selector && document.querySelector(selector);
  if (!element) return;
  element.classList.add('lit');
  const {top, bottom} = element.getBoundingClientRect();
  if (top < 0 || bottom > window.innerHeight * 0.8) element.scrollIntoView({block: 'start', behavior: window.matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth'});
};
const openTour = (at) => attempt(async () => {
  if (!live.model?.guesses) return;
  const mine = ++tour.mine, fresh = $('tour').hidden;
  tour.at = Math.max(0, Math.min(kStops.length - 1, at));
  $('tour').hidden = false;
  document.body.classList.add('touring');
  tour.found[tour.at] = null;
  drawTour();
  if (fresh) $('tour-next').focus();
  if (!live.record || live.long) await setText(kTourText);
  if (tour.at < kStops.length - 1 || !live.experiment) await goHome();  // the last stop is about the experiment before it
  const found = await kStops[tour.at].go();
  if (mine !== tour.mine) return;
  tour.found[tour.at] = found;
  drawTour();
  light(kStops[tour.at].at);
});
const closeTour = () => {
  ++tour.mine;
  $('tour').hidden = true;
  document.body.classList.remove('touring');
  light(null);
  if (live.changes.length) setChanges([]);
  $('tour-open').focus();
};
const tourKey = (event) => {
  if (event.key === 'Escape') closeTour();
  else if (!$('tour').contains(document.activeElement)) return false;
  else if (event.key === 'ArrowRight') $('tour-next').click();
  else if (event.key === 'ArrowLeft') $('tour-back').click();
  else return false;
  event.preventDefault();
  return true;
};
