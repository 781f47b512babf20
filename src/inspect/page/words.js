// The head in focus, in words: what kind of picture it is, or its clearest examples.

const isWord = {
  row: (part, i) => (part === 'encoder' ? record.words.source : part === 'cross' && said(part).length > 0 ? record.words.output : record.words.target)[i],
  column: (part, j) => (part === 'decoder' ? record.words.target : record.words.source)[j],
};
// The same cells as the score's.
const counts = (part, i, j) => part === 'arrays' || (isWord.row(part, i) && isWord.column(part, j) &&
  (part === 'cross' || (part === 'encoder' ? Math.abs(i - j) >= 2 : j >= 1 && j <= i - 2)));
const clearest = remember((w, part) => {
  const found = [];
  w.forEach((row, i) => {
    let most = null;
    row.forEach((weight, j) => {
      if (counts(part, i, j) && weight > 0 && (most === null || weight > row[most])) most = j;
    });
    if (most !== null) found.push({weight: row[most], i, j: most});
  });
  return found.sort((a, b) => b.weight - a.weight).slice(0, 3);
});
const strong = (text) => make('b', '', text);
// "To say 火车, after ▁, it read"; names of rows in bold.
const beginning = (part, i, short) => {
  const spoken = said(part)[i], token = strong(plain(spoken ?? rowTokens(part)[i]));
  if (part === 'arrays') return [token, ' looks at '];
  if (spoken === undefined) return ['From ', token, ' it looks at '];
  const after = short ? [' '] : [', after ', plain(rowTokens(part)[i]), ', '];
  return ['To say ', token, ...after, part === 'cross' ? 'it read ' : 'it looked back at '];
};
const rowName = (part, i) => plain(said(part)[i] ?? rowTokens(part)[i]);
const columnName = (part, j) => plain(columnTokens(part)[j]);

// A sentence for the shape of the map (docs/reading-attention.md), or null. A decoder's first row has one column only, so it
// does not count for the first token.
const kind = (w, part) => {
  const s = summary(w, part), rows = w.length, columns = columnTokens(part);
  const noun = part === 'arrays' ? 'key' : 'token';
  const rests = (share, where, token) => [`${percent(share)} of the weight rests on the ${where} ${noun}, `, strong(plain(token)),
                                          part === 'arrays' ? '.' : '. Heads rest there when they find nothing to read.'];
  const looks = (share, where) => [`Each token looks mostly at ${where}: ${percent(share)} of the weight.`];
  if (columns.length < 3 || rows < 2) return null;
  const first = part === 'decoder' ? (s.first * rows - w[0][0]) / (rows - 1) : s.first;
  if (s.evenness > 0.93) return [`The weight is spread almost evenly: no ${noun} stands out.`];
  if (s.previous > 0.5) return looks(s.previous, 'the one before it');
  if (s.itself > 0.5) return looks(s.itself, 'itself');
  if (s.next > 0.5) return looks(s.next, 'the one after it');
  if (first > 0.5) return rests(first, 'first', columns[0]);
  if (s.last > 0.5) return rests(s.last, 'last', columns.at(-1));
  return null;
};
const inWords = (w, part) => {
  const named = kind(w, part);
  const [first, ...more] = clearest(w, part);
  if (!first || (named && first.weight < 0.5)) return named ?? ['No word looks at another word here.'];
  const out = [...beginning(part, first.i, true), strong(columnName(part, first.j)), `, ${percent(first.weight)}.`];
  if (named) return [...out, ' ', ...named];
  more.forEach(({weight, i, j}, k) =>
    out.push(k === 0 ? ' Also ' : ', ', strong(rowName(part, i)), ' ← ', strong(columnName(part, j)), ` ${percent(weight)}`));
  return more.length > 0 ? [...out, '.'] : out;
};
