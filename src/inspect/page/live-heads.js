// Heads with names, several heads at once, and pieces folded into words.

// ---- Names: badges, filter, order ---------------------------------------------------------------------------------------
const kNames = {
  previous: 'looks at the token before', next: 'looks at the token after', same: 'looks at the token itself', first: 'rests on the first token',
  end: 'rests on the last token', diagonal: 'follows the order of the words', broad: 'spreads its weight evenly',
  induction: 'looks at what came after the same token before',
};
const nameOf = (layer, head, part = state.part) => (head < 0 ? null : live.record?.names[part]?.[layer]?.[head]) || {name: '', measure: 0};
const isOff = (layer, head) => live.changes.some((c) => c.kind === 'head' && c.part === state.part && c.layer === layer && c.head === head);
let filter = null, sorted = false;
const decorateGrid = () => {
  const grid = $('grid'), thumbs = [...grid.querySelectorAll('.thumb')];
  const place = (thumb) => [Number(thumb.dataset.layer), Number(thumb.dataset.head)];
  const counts = {}, wide = thumbs[0]?.clientWidth ?? 0;
  for (const thumb of thumbs) {
    const [layer, head] = place(thumb), {name, measure} = nameOf(layer, head);
    if (wide >= 20) {
      thumb.style.height = `${parseFloat(thumb.style.height) + 11}px`;
      thumb.append(el('span', {class: 'badge', 'aria-hidden': 'true'}, wide < 40 ? name.slice(0, 4) : name));
    }
    if (name) {
      counts[name] = (counts[name] ?? 0) + 1;
      thumb.title += ` · ${name}: ${kNames[name] ?? ''} (${percent(measure)})`;
      thumb.setAttribute('aria-label', `${thumb.getAttribute('aria-label')}, ${name}`);
    }
    thumb.classList.toggle('faded', filter !== null && name !== filter);
    const at = live.chosen.findIndex((c) => c.part === state.part && c.layer === layer && c.head === head);
    if (at >= 0) {
      thumb.classList.add('picked');
      thumb.style.setProperty('--pick', css(hueOf(at)));
      thumb.setAttribute('aria-label', `${thumb.getAttribute('aria-label')}, chosen`);
    }
    thumb.classList.toggle('off', isOff(layer, head));
  }
  const entries = Object.entries(counts).sort((a, b) => b[1] - a[1]);
  if (filter && !counts[filter]) filter = null;
  $('named').replaceChildren(...entries.map(([name, count]) => el('button', {
    class: 'chip', title: kNames[name] ?? '', 'aria-pressed': filter === name,
    click: () => { filter = filter === name ? null : name; drawGrid(); markGrid(); },
  }, `${name} ${count}`)), ...(entries.length ? [el('button', {class: 'chip', 'aria-pressed': sorted, click: () => { sorted = !sorted; drawGrid(); markGrid(); }}, 'sort by name')] : []));
  if (!sorted || !entries.length) return;
  // By name: the grid's labels give way to one line for each name.
  const width = grid.style.gridTemplateColumns;
  const groups = [...entries.map(([name]) => name), ''].map((name) => [name, thumbs.filter((t) => t.dataset.head >= 0 && nameOf(...place(t)).name === name)]);
  grid.replaceChildren();
  grid.style.gridTemplateColumns = width.replace(/^26px /, '26px ');
  for (const [name, members] of groups) {
    if (!members.length) continue;
    members.sort((a, b) => nameOf(...place(b)).measure - nameOf(...place(a)).measure);
    grid.append(span('group-name', name || 'without a name'), el('span'), ...members);
    const heads = Number(getComputedStyle($('main')).getPropertyValue('--heads'));
    for (let k = (members.length + 1) % (heads + 2); k !== 0 && k < heads + 2; ++k) grid.append(el('span'));
  }
};

// ---- Several heads at once --------------------------------------------------------------------------------------------
// Six hues that people with any kind of colour vision tell apart (Okabe & Ito 2008).
const kHues = [[0, 114, 178], [230, 159, 0], [0, 158, 115], [204, 121, 167], [213, 94, 0], [86, 180, 233]];
const hueOf = (at) => kHues[at % kHues.length];
let together = 'overlay';
const chosenHere = () => live.chosen.filter(({part}) => part === state.part);
const chooseHead = (layer, head, event) => {
  live.pinned = true;
  if (!event || !(event.shiftKey || event.ctrlKey || event.metaKey)) {
    if (live.chosen.length > 0 && event) {
      live.chosen = [];
      drawChosen();
      drawGrid();
    }
    return false;
  }
  if (head < 0) return true;
  toggleHead(layer, head);
  return true;
};
const toggleHead = (layer, head) => {
  const same = (c) => c.part === state.part && c.layer === layer && c.head === head;
  if (live.chosen.length === 0 && state.head >= 0 && !(state.layer === layer && state.head === head)) live.chosen.push({part: state.part, layer: state.layer, head: state.head});
  if (live.chosen.some(same)) live.chosen = live.chosen.filter((c) => !same(c));
  else if (chosenHere().length < kHues.length) live.chosen.push({part: state.part, layer, head});
  else say(`At most ${kHues.length} heads at once.`);
  live.chosen = chosenHere();
  state.preview = null;
  drawChosen();
  drawGrid();
  markGrid();
  drawFocus();
};
const drawChosen = () => {
  const heads = chosenHere(), box = $('chosen');
  box.hidden = heads.length < 2;
  if (box.hidden) return;
  const mode = (name, text) => el('button', {class: 'chip', 'aria-pressed': together === name, click: () => { together = name; drawChosen(); drawFocus(); }}, text);
  box.replaceChildren(el('span', {}, 'Together: '), mode('overlay', 'in colours'), mode('mean', 'mean of them'), ...heads.map(({layer, head}, k) => {
    const one = el('button', {class: 'chip', 'aria-label': `Leave out layer ${layer + 1}, head ${head + 1}`, click: () => toggleHead(layer, head)},
                    span('dot'), `${layer + 1}.${head + 1} ×`);
    one.firstChild.style.background = css(hueOf(k));
    return one;
  }), chip(() => { live.chosen = []; drawChosen(); drawGrid(); markGrid(); drawFocus(); }, 'one head again'));
};
const meanOf = (maps) => maps[0].map((row, i) => row.map((_, j) => maps.reduce((sum, w) => sum + (w[i][j] ?? 0), 0) / maps.length));
let chosenMean = null;
const weightsTogether = () => {
  const heads = live.folded || live.record ? chosenHere() : [];
  if (heads.length < 2) return null;
  const maps = heads.map(({part, layer, head}) => record[part][layer].weights[head]);
  if (!chosenMean || chosenMean.maps.length !== maps.length || chosenMean.maps.some((w, k) => w !== maps[k])) chosenMean = {maps, mean: meanOf(maps)};
  return chosenMean.mean;
};
// The hues mixed in the share of their weights, on the colour of no weight, as strong as the largest of them.
const cellTogether = (i, j) => {
  if (together !== 'overlay' || state.preview || !weightsTogether()) return null;
  const all = chosenMean.maps.map((w) => w[i][j] ?? 0), sum = all.reduce((a, b) => a + b, 0);
  const strength = Math.sqrt(Math.min(1, Math.max(...all) / full)), ground = ramp[0];
  return ground.map((c, k) => Math.round(sum > 0 ? c + (all.reduce((mix, weight, n) => mix + weight * hueOf(n)[k], 0) / sum - c) * strength : c));
};

// ---- Words ------------------------------------------------------------------------------------------------------------
// Pieces of one word are one column (their weights are added: a word got what its pieces got) and one row (the mean).
const isLatin = (text) => /\p{L}$/u.test(text) && !/[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}]/u.test(text);
const groupsOf = (tokens, kind) => {
  const groups = [];
  tokens.forEach((token, i) => {
    const before = i ? tokens[i - 1] : '', goesOn = !/^word/.test(kind) && isLatin(before) && /^[\p{L}\p{M}'’]/u.test(token) && isLatin(token);
    if (i && (token.startsWith('##') || before === '▁' || goesOn)) groups.at(-1).push(i);
    else groups.push([i]);
  });
  return groups;
};
const foldTokens = (tokens, groups) => groups.map((group) => group.map((i) => (i === group[0] ? tokens[i] : tokens[i].replace(/^##/, ''))).join(''));
const foldWeights = (w, rows, columns) => rows.map((group) => columns.map((keys) =>
  group.reduce((sum, i) => sum + keys.reduce((s, j) => s + (w[i][j] ?? 0), 0), 0) / group.length));
const foldRecord = (r) => {
  const [source, target, output] = [r.source_tokens, r.target_tokens, r.output_tokens].map((tokens) => groupsOf(tokens, r.tokenizer));
  const spoken = r.output_tokens.length === r.target_tokens.length ? output : target;
  const any = (words, groups) => groups.map((group) => Math.max(...group.map((i) => words[i] ?? 0)));
  const sides = {encoder: [source, source], decoder: [spoken, target], cross: [spoken, source]};
  const out = {...r, source_tokens: foldTokens(r.source_tokens, source), target_tokens: foldTokens(r.target_tokens, target),
               row_tokens: foldTokens(r.target_tokens, spoken), output_tokens: r.output_tokens.length ? foldTokens(r.output_tokens, spoken) : [],
               words: {source: any(r.words.source, source), target: any(r.words.target, target), output: any(r.words.output, spoken)}};
  for (const part of ['encoder', 'decoder', 'cross'])
    out[part] = r[part].map(({path, weights}) => ({path, weights: weights.map((w) => foldWeights(w, ...sides[part]))}));
  return out;
};
const toggleFold = () => {
  live.folded = !live.folded;
  setPressed($('fold'), live.folded);
  Object.assign(state, {lockedRow: null, lockedColumn: null});
  if (live.record) redraw();
  refreshPanel();
};

// ---- The views' hooks ---------------------------------------------------------------------------------------------------
const drawTableView = () => {
  const box = $('table');
  box.hidden = !live.table;
  setPressed($('view-table'), Boolean(live.table));
  if (!live.table || !record) return;
  const table = (caption, w = current()) => scroller('Table of weights',
    tableOf(caption, ['', ...columnTokens(state.part).map((token) => label(token, 24))], w.map((row, i) => [rowLabel(state.part, i), ...row.map((weight) => exact(weight))])));
  const name = $('heading').firstChild.textContent, second = secondRecord();
  box.replaceChildren(...(hooks.curves()?.map(({weights, name}) => table(name, weights)) ?? [table(name)]), ...(hasHead(second) ? [asSecond(second, () => table(`${name}, for the second: ${label(second.source || second.output, 120)}`))] : []));
};
// New tokens are underlined, on the axes too.
const markNames = () => {
  const {marks} = live;
  if (!marks || live.folded || !map) return;
  const rows = state.part === 'encoder' ? marks.source : marks.target, columns = state.part === 'decoder' ? marks.target : marks.source;
  map.rowNames.forEach((name, i) => name.classList.toggle('changed', rows[i] < 0));
  map.columnNames.forEach((name, j) => name.classList.toggle('changed', columns[j] < 0));
};
hooks.choose = chooseHead;
hooks.grid = decorateGrid;
hooks.weights = weightsTogether;
hooks.cell = cellTogether;
hooks.curves = () => (together === 'overlay' && !state.preview && weightsTogether() ? chosenMean.maps.map((weights, k) => ({weights, colour: css(hueOf(k)), name: `${longNames[state.part]} · ${layerName(state.part, chosenHere()[k].layer)} · ${headName(chosenHere()[k].head)}`})) : null);
hooks.heading = (heading) => {
  const {layer, head} = shown(), {name} = nameOf(layer, head);
  if (!state.preview && weightsTogether()) heading.textContent = `${longNames[state.part]} · ${chosenHere().map((c) => `${c.layer + 1}.${c.head + 1}`).join(', ')} · ${together === 'mean' ? 'mean of them' : 'in colours'}`;
  if (name && (state.preview || !weightsTogether())) heading.append(el('span', {class: 'name-tag', title: kNames[name] ?? ''}, name));
  const off = isOff(layer, head);
  $('head-off').textContent = off ? 'Switch on' : 'Switch off';
  $('head-off').disabled = head < 0;
};
hooks.cells = (context, w, g) => {
  if (state.preview || !live.marks || weightsTogether()) return;
  const size = Math.max(3, Math.min(8, g.cell / 3));
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--accent');
  w.forEach((row, i) => row.forEach((weight, j) => {
    if (!hasChanged(i, j)) return;
    context.beginPath();
    context.moveTo(j * g.cell, i * g.cell);
    context.lineTo(j * g.cell + size, i * g.cell);
    context.lineTo(j * g.cell, i * g.cell + size);
    context.fill();
  }));
};
