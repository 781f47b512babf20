// The head in focus: its name, its numbers, the token strips, and what is said of the token pointed at.

const drawHeading = () => {
  const {layer, head} = shown();
  const heading = $('heading');
  heading.textContent = `${longNames[state.part]} · ${layerName(state.part, layer)} · ${headName(head)}`;
  hooks.heading?.(heading);
  const {path} = record[state.part][layer];
  if (path && (state.preview || !hooks.weights?.())) heading.append(make('small', '', label(path, 80)));
  setPressed($('mean'), head < 0);
  const few = current().length <= kLongestLines && (current()[0] || []).length <= kLongestLines;
  $('view-lines').disabled = !few;
  $('view-lines').title = few ? '' : `for up to ${kLongestLines} tokens`;
  const view = few ? state.view : 'map';
  setPressed($('view-map'), view === 'map');
  setPressed($('view-lines'), view === 'lines');
  $('smaller').disabled = $('larger').disabled = view === 'lines';
  $('strips').hidden = view === 'lines';
  return view;
};
const drawNumbers = () => {
  const {layer, head} = shown(), best = bestPlace(state.part);
  const s = summary(current(), state.part), self = isSelf(state.part);
  const noun = state.part === 'arrays' ? 'key' : 'token';
  const together = !state.preview && hooks.weights?.();
  const list = [...(together ? [] : [['Score', number(scoreOf(state.part, layer, head), 2), `highest: ${number(best.score, 2)}, ${layerName(state.part, best.layer)}, ${headName(best.head)}`]]),
                ['Entropy', `${number(s.entropy, 2)} bits`, `of at most ${number(s.limit, 2)}`],
                [self ? 'Mean distance' : 'Off the diagonal', `${number(s.distance, 2)} ${noun}s`, ''],
                [`On the first ${noun}`, `${number(s.first * 100, 1)} %`, ''],
                [`On the last ${noun}`, `${number(s.last * 100, 1)} %`, '']];
  if (self) list.push(['On the previous token', `${number(s.previous * 100, 1)} %`, '']);
  $('numbers').replaceChildren(...list.flatMap(([name, value, note]) => {
    const dd = make('dd', '', value);
    if (note) dd.append(make('small', '', note));
    return [make('dt', '', name), dd];
  }));
};
// A token of a list: pointing at it shows its weights, a click keeps them.
const follow = (element, kind, index) => {
  const at = kind === 'row' ? [index, null] : [null, index];
  for (const event of ['pointerenter', 'focus']) listen(element, event, () => point(...at));
  for (const event of ['pointerleave', 'blur']) listen(element, event, () => point(null, null));
  listen(element, 'click', () => lock(...at));
};
const makeStrip = (box, tokens, saids, kind) => {
  const dense = tokens.length > kManyColumns;  // colours alone: numbers would be too small to read
  box.classList.toggle('dense', dense);
  box.replaceChildren(...tokens.map((token, index) => {
    const button = make('button', 'token');
    button.type = 'button';
    button.title = label(token, 200);
    const text = tokenText('text', token);
    if (saids[index] !== undefined) {
      text.append(mark(' → '), tokenText('said', saids[index]));
      button.title += ` → ${label(saids[index], 200)}`;
    }
    button.append(text);
    if (!dense) button.append(make('span', 'weight'));
    follow(button, kind, index);
    button.tabIndex = index === 0 ? 0 : -1;
    return button;
  }));
};
const drawStrips = () => {
  const arrays = state.part === 'arrays';
  $('rows-name').textContent = arrays ? 'queries, from 0' : said(state.part).length > 0 ? 'read → said' : 'reading from';
  makeStrip($('rows'), rowTokens(state.part), said(state.part), 'row');
  makeStrip($('columns'), columnTokens(state.part), [], 'column');
};
const focusPoint = () => ({
  row: state.row ?? (state.column === null ? state.lockedRow : null),
  column: state.column ?? (state.row === null ? state.lockedColumn : null),
});
const paintTokens = (box, values, on) => {
  const dense = box.classList.contains('dense');
  [...box.children].forEach((button, index) => {
    const rgb = values ? colour(values[index]) : null;
    button.classList.toggle('on', index === on);
    button.classList.toggle('painted', rgb !== null);
    if (!dense) button.lastChild.textContent = rgb ? short(values[index]) : '';
    button.style.background = rgb ? css(rgb) : '';
    button.style.color = rgb ? inkOn(rgb) : '';
  });
};
const drawPoint = () => {
  const w = current();
  const {row, column} = focusPoint();
  const received = () => (w[0] || []).map((_, j) => w.reduce((sum, r) => sum + (r[j] ?? 0), 0) / w.length);
  paintTokens($('rows'), row === null && column !== null ? w.map((r) => r[column]) : null, row);
  paintTokens($('columns'), row !== null ? w[row] : column !== null ? null : received(), column);
  const one = row !== null || column !== null ? '' : ' (mean)';
  $('columns-name').textContent = (state.part === 'arrays' ? 'keys, from 0' : 'looked at') + one;
  drawReadout(w, row, column);
  paintMapPoint(row, column);
  paintLinesPoint(row, column);
  hooks.point?.(row, column);
};
const best = (values) =>
  values.map((weight, at) => [weight, at]).filter(([weight]) => weight > 0).sort((a, b) => b[0] - a[0] || a[1] - b[1]).slice(0, 3);
const rank = (row, column) => 1 + row.filter((weight, j) => weight > row[column] || (weight === row[column] && j < column)).length;
const exactly = (row, column) => `weight ${exact(row[column])}, rank ${rank(row, column)} of ${row.length}`;
const drawReadout = (w, row, column) => {
  const out = $('readout'), {part} = state;
  if (row === null && column === null) {
    out.replaceChildren(...inWords(w, part));
    return;
  }
  out.replaceChildren();
  if (state.lockedRow !== null || state.lockedColumn !== null) out.append(make('span', 'lock', '● kept'));
  if (row !== null && column !== null) {
    out.append(...beginning(part, row), strong(columnName(part, column)), `, ${percent(w[row][column])} (${exactly(w[row], column)})`);
    return;
  }
  const top = best(row !== null ? w[row] : w.map((r) => r[column]));
  if (row !== null) out.append(...beginning(part, row));
  else out.append(strong(columnName(part, column)), part === 'cross' && said(part).length > 0 ? ' was read to say ' : ' is looked at from ');
  if (top.length === 0) out.append('nothing');
  top.forEach(([weight, at], k) =>
    out.append(k > 0 ? ', ' : '', strong(row !== null ? columnName(part, at) : rowName(part, at)), ` ${percent(weight)}`));
};
