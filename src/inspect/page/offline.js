// The page that carries its record: one file, and the address says what it shows.

const drawHeader = () => {
  $('title').textContent = label(record.title, 300);
  const h1 = $('sentences');
  const texts = [record.source, record.output];
  texts.forEach((text, i) => {
    if (!text) return;
    if (h1.childNodes.length > 0) h1.append(make('span', 'arrow', '→'));
    h1.append(make('bdi', i === 0 ? 'source' : 'output', label(text, 2000)));
  });
  if (!h1.childNodes.length) h1.textContent = 'Attention';
  drawTabs();
  if (parts.includes('arrays')) $('counting').textContent = ' Queries and keys are counted from 0, as in the arrays; batch rows and heads from 1.';
  h1.classList.toggle('long', h1.textContent.length > 120);
};
hooks.place = (place) => {
  if ('#' + place !== location.hash) history.replaceState(null, '', '#' + place);
};
const readHash = () => readPlace(location.hash.slice(1));
listen(window, 'hashchange', () => { readHash(); drawAll(); });

// On its most telling head.
setRecord(JSON.parse($('record').textContent));
state.part = ['cross', 'decoder', 'encoder', 'arrays'].find((part) => parts.includes(part));
Object.assign(state, bestPlace(state.part));
drawHeader();
readHash();
state.lastHead = Math.max(0, state.head);
drawAll();
