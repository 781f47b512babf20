// A text from the keyboard to the attention on the screen; what changed since the last one; and the address.

const kExamples = {
  translate: ['Where is the station?', 'The train arrived on time.', 'I have known him for ten years.', 'She gave the book to her brother.'],
  translateChinese: ['火车站在哪里？', '他昨天给我写了一封信。'],
  continue: ['Once upon a time', 'The king said to his', 'My lord,'],
  continueChinese: ['从前有一个', '今天天气很'],
  fill: ['The train [MASK] on time.', '今天天气很[MASK]。'],
};
const isCausal = () => live.model.task === 'continue';
const isTranslator = () => live.model.task === 'translate';
// Row i of the decoder wrote output[i]; an encoder-only model says something at each token of its source.
const rowsOf = (done) => (live.model.task === 'fill' ? done.source_tokens : done.target_tokens);
const idsOf = (done = live.done) => ({model: live.model.id, ...spoken(), source: done.source ?? [], target: done.target ?? []});
const withChanges = (more) => ({...idsOf(), changes: live.changes, ...more});

// The languages of a request, where the model knows several.
const kSides = Object.entries({from: 'source', to: 'target'});
const spoken = ({id, languages: all} = live.model) => Object.fromEntries(kSides.map(([at, side]) =>
  [`${side}_language`, all && (id === live.model.id || all[side].includes(live[at])) && live[at] || all?.[`first_${side}`]])
  .filter((one) => one[1]));
// "fra_Latn", "fr_XX" and "fr" in words: "French (fra_Latn)".
const languageName = (code) => {
  let name;
  try {
    const {language, script, baseName} = new Intl.Locale(code.replace(/_[A-Z]{2}$/, '').replace('_', '-'));
    const usual = new Intl.Locale(language).maximize();
    name = new Intl.DisplayNames('en', {type: 'language'}).of(usual.script === script ? language : baseName);
  } catch {}
  return name && name !== code ? `${name} (${code})` : code || 'not said';
};
const drawLanguages = () => {
  const all = live.model.languages;
  $('languages').hidden = !all;
  for (const [at, side] of kSides) {
    const usual = all?.[`usual_${side}`] ?? '', first = all?.[`first_${side}`];
    const codes = [...new Set(all?.[side]).add(first || usual)];
    live[at] ||= first || '';
    const options = codes.map((code) => [languageName(code), code === usual ? '' : code]).sort((a, b) => (usual ? 0 : !b[1] - !a[1]) || a[0].localeCompare(b[0], 'en'));
    $(at).replaceChildren(...options.map(([name, value]) => el('option', {value}, name)));
    $(at).parentNode.hidden = codes.length < 2 && !usual;
    if (live[at] === usual) live[at] = '';
    $(at).value = live[at];
  }
};
const takeModels = (models) => {
  const same = models.map((m) => m.name).join('\n') === live.models.map((m) => m.name).join('\n');
  live.models = models;
  if (!same) $('model').replaceChildren(...models.map((m, k) => el('option', {value: k}, label(m.name, 60))));
  chooseModel(live.model?.name, false);
};
const chooseModel = (name, changed = true) => {
  const at = Math.max(0, live.models.findIndex((m) => m.name === name));
  live.model = live.models[at];
  $('model').value = at;
  const m = live.model, layers = [m.encoder_layers && `${m.encoder_layers} encoder`, m.decoder_layers && `${m.decoder_layers} decoder`].filter(Boolean);
  $('about').textContent = `${layers.join(' + ')} layers · ${m.heads} heads · width ${m.width} · ${m.parameters < 1e6 ? many(m.parameters) : `${number(m.parameters / 1e6, 1)} M`} parameters`;
  changed ||= $('examples').childNodes.length === 0;
  if (!changed) return;
  live.from = live.to = '';
  drawLanguages();
  drawExamples();
  $('file-label').hidden = m.task === 'translate';
  $('tour-open').hidden = !m.guesses;
  // What is still on its way belongs to the model before.
  ++turn;
  ++changeTurn;
  ++panelTurn;
  live.previous = live.record = live.marks = live.step = other.record = other.model = live.base = live.done = live.experiment = live.row = null;
  live.changes = [];
  drawChanges();
  live.pinned = false;
  live.places = state.places = {};
};
const drawExamples = () => {
  const m = live.model, from = live.from || m.languages?.usual_source;
  const reads = (from ? /^(zh|zho)(_|$)/ : /(^|[^a-z])(zh|chinese)[-_]?(2|to)?[-_]?en/i).test(from || m.name) ? 'Chinese' : '';
  const all = m.guesses ? kExamples[m.task + reads] ?? kExamples[m.task] : kExamples.translate;
  const texts = all.map((text) => (m.mask ? text.replace('[MASK]', m.mask) : text));
  $('examples').replaceChildren(...texts.map((text) => chip(() => setText(text), text)));
};
const chooseLanguages = () => {
  Object.assign(live, {from: $('from').value, to: $('to').value, prefix: []});
  drawExamples();
  forgetPlaces();
  return start(true);
};
const growText = () => {
  const box = $('text');
  box.style.height = 'auto';
  box.style.height = `${Math.min(live.long ? 74 : 160, box.scrollHeight + 2)}px`;
};
const setText = (text, push = true) => {
  $('text').value = text;
  growText();
  live.prefix = [];
  forgetPlaces();
  return start(push);
};
// Edges and hidden tokens belong to one text; heads and layers that are off stay off.
const forgetPlaces = () => {
  live.changes = live.changes.filter(({kind}) => kind === 'head' || kind === 'layer');
  drawChanges();
};

// ---- A run --------------------------------------------------------------------------------------------------------
// The first key after a rest is followed at once; of keys in a row, the last.
const kDebounce = 70, kRest = 300, kLongText = 256;
let typing = null, started = 0;
const typed = () => {
  growText();
  live.keyed = performance.now();
  live.prefix = [];
  clearTimeout(typing);
  typing = setTimeout(() => { forgetPlaces(); start(); }, live.keyed - started > kRest ? 0 : kDebounce);
};
const isLong = async (text) => {
  if (isTranslator() || text.length <= kLongText / 2) return false;
  const {ids} = await ask('tokenize', {model: live.model.id, text, side: isCausal() ? 'target' : 'source'});
  return ids.length > kLongText;
};
let turn = 0;  // of two runs the later one is shown
const start = (push = false, more = {}) => attempt(async () => {
  clearTimeout(typing);
  const text = $('text').value, mine = ++turn;
  started = performance.now();
  say('');
  if (!live.model || text.trim() === '') return;
  live.text = text;
  if (await isLong(text)) {
    if (mine !== turn) return;
    await openLong(text);
    writeAddress(push);
    return;
  }
  closeLong();
  let begin = null, done = null, heard = [];
  $('progress').textContent = 'reading';
  try {
    await stream('run', {model: live.model.id, text, ...spoken(), max_tokens: 64, prefix: live.prefix ?? [], ...more}, 'run', (event, data) => {
      if (mine !== turn) return;
      if (event === 'start') {
        begin = data;
      } else if (event === 'token') {
        heard.push(data);
        drawHeard(heard);
      } else if (event === 'done') {
        done = data;
      }
    });
  } finally {
    if (mine === turn) $('progress').textContent = '';
  }
  if (mine !== turn || !done) return;
  live.base = done;
  live.first = live.model.task === 'fill' ? 0 : Math.max(0, (begin?.target?.length ?? 1) - 1);
  live.done = done;
  live.experiment = null;
  await applyChanges();
  writeAddress(push);
});
const loadAttention = async () => {
  const done = live.done, mine = turn;
  if (!done) return;
  const found = await askAttention(withChanges({}));
  if (mine === turn) show(toRecord(done, found));
};
const show = (next) => {
  live.previous = live.record;
  live.record = next;
  live.marks = live.previous ? compareRecords(live.previous, next) : null;
  live.row = live.row === null ? null : Math.min(live.row, rowsOf(live.done).length - 1);
  live.chosen = live.chosen.filter(({part, layer, head}) => next[part][layer]?.weights[head]);
  $('views').hidden = false;
  live.step = null;
  redraw();
  refreshPanel();
  if (live.panel === 'training' && training.at !== null) showCheckpoint(training.at);
  if (live.keyed) live.shown = performance.now() - live.keyed;
  live.keyed = null;
};
// The record in pieces or in words, on the head that somebody chose or on the most telling one.
const redraw = () => {
  setRecord(live.folded ? foldRecord(live.record) : live.record);
  if (!parts.includes(state.part)) {
    state.part = ['cross', 'decoder', 'encoder'].find((part) => parts.includes(part));
    live.pinned = false;
  }
  if (!live.pinned) Object.assign(state, bestPlace(state.part));
  state.layer = Math.min(state.layer, record[state.part].length - 1);
  state.head = Math.min(state.head, record[state.part][state.layer].weights.length - 1);
  if (live.wanted) {
    readPlace(live.wanted);
    live.pinned = true;
    live.wanted = null;
  }
  const inside = (at, tokens) => (at !== null && at < tokens.length ? at : null);
  state.lockedRow = inside(state.lockedRow, rowTokens(state.part));
  state.lockedColumn = inside(state.lockedColumn, columnTokens(state.part));
  state.preview = state.row = state.column = null;
  state.lastHead = Math.max(0, state.head);
  drawTabs();
  drawOutput();
  drawAll();
  $('marks').hidden = !live.marks;
  $('sign').hidden = ![...record.source_tokens, ...record.target_tokens].some(([first]) => first === '▁');
  document.title = `${label(live.text, 60)} · heed`;
};

// ---- What changed ---------------------------------------------------------------------------------------------------
// For each token of `next` its place in `before`, or -1: the longest common subsequence.
const align = (before, next) => {
  const n = before.length, m = next.length, length = Array.from({length: n + 1}, () => new Uint16Array(m + 1));
  for (let i = n - 1; i >= 0; --i) {
    for (let j = m - 1; j >= 0; --j) length[i][j] = before[i] === next[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
  }
  const out = new Array(m).fill(-1);
  for (let i = 0, j = 0; i < n && j < m;) {
    if (before[i] === next[j]) out[j++] = i++;
    else if (length[i + 1][j] >= length[i][j + 1]) ++i;
    else ++j;
  }
  return out;
};
const compareRecords = (before, next) => {
  const marks = {before, next, source: align(before.source_tokens, next.source_tokens), target: align(before.target_tokens, next.target_tokens),
                 output: align(before.output_tokens, next.output_tokens)};
  const changed = ['source', 'target', 'output'].some((side) => marks[side].some((at, k) => at !== k)) ||
                  ['encoder', 'decoder', 'cross'].some((part) => next[part].some(({weights}, layer) => weights.some((w, head) =>
                    w.some((row, i) => row.some((weight, j) => Math.abs(weight - (before[part][layer]?.weights[head]?.[i]?.[j] ?? 0)) > 0.05)))));
  // Of another text everything is new: that needs no marks.
  return changed && marks.source.concat(marks.target).filter((at) => at >= 0).length * 2 > next.source_tokens.length + next.target_tokens.length ? marks : null;
};
const kChanged = 0.05;
const hasChanged = (i, j) => {
  const {marks} = live, {layer, head} = shown();
  if (!marks || live.folded || head < 0) return false;
  const at = state.part === 'encoder' ? marks.source[i] : marks.target[i], to = state.part === 'decoder' ? marks.target[j] : marks.source[j];
  const was = at < 0 || to < 0 ? undefined : marks.before[state.part][layer]?.weights[head]?.[at]?.[to];
  return was !== undefined && Math.abs(was - marks.next[state.part][layer].weights[head][i][j]) > kChanged;
};

// ---- What the model wrote -------------------------------------------------------------------------------------------
const outputToken = (text, attributes) => {
  const button = el('button', attributes);
  button.append(tokenText('', text));
  return button;
};
const drawHeard = (heard) => {
  if (heard.length === 1) $('output').replaceChildren();
  const {token, log_prob} = heard.at(-1);
  $('output').append(outputToken(token, {class: 'word', title: `probability ${percent(Math.exp(log_prob))}`, disabled: ''}));
};
const drawOutput = () => {
  const {done, first, marks} = live, read = isCausal() ? list(done.target_tokens).slice(0, first + 1) : list(done.source_tokens), unknown = read.filter((token) => /^(<unk>|\[UNK\])$/.test(token)).length;
  $('output').replaceChildren(...list(done.output_tokens).flatMap((token, i) => {
    if (i < first) return [];
    const likely = done.log_probs?.[i] === undefined || done.log_probs[i] === null ? '' : `, probability ${percent(Math.exp(done.log_probs[i]))}`;
    const button = outputToken(token, {class: `word${marks && marks.output[i] < 0 ? ' changed' : ''}`, 'aria-pressed': i === live.row,
                                       'aria-label': `${plain(token)}${likely}`, click: () => chooseRow(i)});
    button.title = `${label(token)}${likely}`;
    if (likely) button.style.setProperty('--sure', Math.exp(done.log_probs[i]).toFixed(3));
    return [button];
  }), ...(unknown ? [span('note', `unknown to this model: ${unknown} of the ${read.length} tokens that it reads`)] : []));
};
const markRow = (row) => {
  live.row = row;
  $('output').querySelectorAll('.word').forEach((button, k) => setPressed(button, k + live.first === row));
};
const chooseRow = (row, name) => {
  markRow(row);
  if (record && !live.folded && state.part !== 'encoder' && row < rowTokens(state.part).length) {
    Object.assign(state, {lockedRow: row, lockedColumn: null});
    drawPoint();
    writeAddress();
  }
  openPanel(name ?? (['next', 'layers'].includes(live.panel) ? live.panel : 'next'));
};
// A token in the place of another, and what the model says after it.
const takeInstead = (row, id) => {
  live.prefix = list(live.base.output).slice(live.first, row).concat(id);
  live.row = row;
  return start(true);
};

// ---- The address: the view as a link ----------------------------------------------------------------------------------
const addressOf = () => {
  const at = new URLSearchParams();
  at.set('model', live.model.name);
  at.set('text', live.text ?? '');
  for (const [side] of kSides) if (live[side]) at.set(side, live[side]);
  if (live.prefix?.length) at.set('prefix', live.prefix.join('-'));
  if (live.pinned && record) at.set('at', place());
  if (live.changes.length) at.set('changes', JSON.stringify(live.changes));
  return '#' + at;
};
// A committed text is a step that the browser's Back takes back; a head or a cell is not.
const writeAddress = (push = false) => {
  if (!live.model) return;
  const next = addressOf();
  const text = (hash) => { const at = new URLSearchParams(hash.slice(1)); return ['model', 'text', 'from', 'to', 'prefix', 'changes'].map((name) => at.get(name)).join('\n'); };
  if (push && location.hash && text(live.committed ?? location.hash) !== text(next)) {
    if (live.committed && live.committed !== location.hash) history.replaceState(null, '', live.committed);
    history.pushState(null, '', next);
  } else if (next !== location.hash && next.length < 30000) {
    history.replaceState(null, '', next);
  }
  if (push || !live.committed) live.committed = next;
};
const readAddress = () => {
  const at = new URLSearchParams(location.hash.slice(1));
  const found = live.models.find((m) => m.name === at.get('model'));
  if (!live.model || (found && found.name !== live.model.name)) chooseModel(found?.name);
  for (const [side] of kSides) live[side] = (live.model.languages && at.get(side)) ?? '';
  drawLanguages();
  drawExamples();
  $('text').value = at.get('text') ?? $('examples').firstChild.textContent;
  live.prefix = (at.get('prefix') ?? '').split('-').filter((id) => /^\d+$/.test(id)).map(Number);
  live.wanted = at.get('at');
  if (!live.wanted) live.pinned = false;
  live.changes = [];
  try {
    const changes = JSON.parse(at.get('changes') ?? '[]');
    if (Array.isArray(changes)) live.changes = changes;
  } catch {}
  live.committed = location.hash || null;
  growText();
  drawChanges();
};
