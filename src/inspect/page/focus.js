// The head in focus: its name, its numbers, the token strips, and what is said of the token pointed at.

const drawHeading = () => {
  const {layer, head} = shown();
  const heading = $('heading');
  heading.textContent = `${longNames[state.part]} \u00b7 ${layerName(state.part, layer)} \u00b7 ${headName(head)}`;
  heading.append(make('small', '', label(record[state.part][layer].path, 80)));
  $('mean').setAttribute('aria-pressed', head < 0);
  const short = current().length <= kLongestLines && (current()[0] || []).length <= kLongestLines;
  $('view-lines').disabled = !short;
  $('view-lines').title = short ? '' : `for up to ${kLongestLines} tokens`;
  const view = short ? state.view : 'map';
  $('view-map').setAttribute('aria-pressed', view === 'map');
  $('view-lines').setAttribute('aria-pressed', view === 'lines');
  $('strips').hidden = view === 'lines';
  $('smaller').disabled = $('larger').disabled = view === 'lines';
  return view;
};
const drawNumbers = () => {
  const self = state.part === 'encoder' || state.part === 'decoder';
  const s = summary(current(), self);
  const list = [['Entropy', `${number(s.entropy, 2)} bits`, `of at most ${number(s.limit, 2)}`],
                [self ? 'Mean distance' : 'Off the diagonal', `${number(s.distance, 2)} tokens`, ''],
                ['On the first token', `${number(s.first * 100, 1)} %`, ''],
                ['On the last token', `${number(s.last * 100, 1)} %`, '']];
  if (self) list.push(['On the previous token', `${number(s.previous * 100, 1)} %`, '']);
  $('numbers').replaceChildren(...list.flatMap(([name, value, note]) => {
    const dd = make('dd', '', value);
    if (note) dd.append(make('small', '', note));
    return [make('dt', '', name), dd];
  }));
};
const makeStrip = (box, tokens, saids, kind) => {
  box.classList.toggle('dense', tokens.length > 30);
  box.replaceChildren(...tokens.map((token, index) => {
    const button = make('button', 'token');
    button.type = 'button';
    button.dataset.index = index;
    button.title = label(token, 200);
    const text = tokenText('text', token);
    if (saids[index] !== undefined) {
      text.append(make('span', 'mark', ' \u2192 '), tokenText('said', saids[index]));
      button.title += ` \u2192 ${label(saids[index], 200)}`;
    }
    button.append(text, make('span', 'weight'));
    const over = (on) => point(kind === 'row' ? (on ? index : null) : null, kind === 'column' ? (on ? index : null) : null);
    button.addEventListener('pointerenter', () => over(true));
    button.addEventListener('pointerleave', () => over(false));
    button.addEventListener('focus', () => over(true));
    button.addEventListener('blur', () => over(false));
    button.addEventListener('click', () => lock(kind === 'row' ? index : null, kind === 'column' ? index : null));
    button.tabIndex = index === 0 ? 0 : -1;
    return button;
  }));
};
const drawStrips = () => {
  $('rows-name').textContent = said(state.part).length > 0 ? 'read \u2192 said' : 'reading from';
  $('columns-name').textContent = 'looks at';
  makeStrip($('rows'), rowTokens(state.part), said(state.part), 'row');
  makeStrip($('columns'), columnTokens(state.part), [], 'column');
};
const focusPoint = () => ({
  row: state.row ?? (state.column === null ? state.lockedRow : null),
  column: state.column ?? (state.row === null ? state.lockedColumn : null),
});
const paintTokens = (box, values, on) => {
  [...box.children].forEach((button, index) => {
    const value = values ? values[index] : undefined;
    button.classList.toggle('on', index === on);
    button.lastChild.textContent = value === undefined ? '' : short(value);
    button.style.background = value === undefined ? '' : css(colour(value));
    button.style.color = value === undefined ? '' : inkOn(colour(value));
    const spoken = button.querySelector('.said');
    if (spoken) spoken.style.color = value === undefined ? '' : 'inherit';
  });
};
const drawPoint = () => {
  const w = current();
  const {row, column} = focusPoint();
  const received = () => (w[0] || []).map((_, j) => w.reduce((sum, r) => sum + (r[j] ?? 0), 0) / w.length);
  paintTokens($('rows'), row === null && column !== null ? w.map((r) => r[column]) : null, row);
  paintTokens($('columns'), row !== null ? w[row] : column !== null ? null : received(), column);
  $('columns-name').textContent = row === null && column === null ? 'looks at (mean)' : 'looks at';
  drawReadout(w, row, column);
  paintMapPoint(row, column);
  paintLinesPoint(row, column);
};
const best = (values, count = 3) =>
  values.map((weight, at) => [weight, at]).filter(([weight]) => weight > 0).sort((a, b) => b[0] - a[0] || a[1] - b[1]).slice(0, count);
const rank = (row, column) => 1 + row.filter((weight, j) => weight > row[column] || (weight === row[column] && j < column)).length;
const drawReadout = (w, row, column) => {
  const out = $('readout');
  out.replaceChildren();
  if (row === null && column === null) {
    out.textContent = 'Point at a token to see its weights, at a cell for one weight; click to keep it.';
    return;
  }
  if (state.lockedRow !== null || state.lockedColumn !== null) out.append(make('span', 'lock', '\u25cf kept'));
  const rows = rowTokens(state.part), columns = columnTokens(state.part);
  if (row !== null && column !== null) {
    out.append(make('b', '', label(rows[row])), ' looks at ', make('b', '', label(columns[column])),
               ` with weight ${exact(w[row][column])}, rank ${rank(w[row], column)} of ${w[row].length}`);
    return;
  }
  const values = row !== null ? w[row] : w.map((r) => r[column]);
  const others = row !== null ? columns : rows;
  out.append(make('b', '', label(row !== null ? rows[row] : columns[column])),
             row !== null ? ' looks most at ' : ' is looked at most by ');
  const top = best(values);
  if (top.length === 0) out.append('nothing');
  top.forEach(([weight, at], k) =>
    out.append(k > 0 ? ', ' : '', make('b', '', label(others[at])), ` ${short(weight)}`));
};
const exact = (weight) => (weight === null ? 'NaN' : String(weight));
