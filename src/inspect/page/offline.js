// The page that carries its record: one file, and the address says what it shows.

hooks.place = (place) => {
  if ('#' + place !== location.hash) history.replaceState(null, '', '#' + place);
};
const readHash = () => readPlace(location.hash.slice(1));
window.addEventListener('hashchange', () => { readHash(); drawAll(); });

openRecord(JSON.parse($('record').textContent));
drawHeader();
readHash();
state.lastHead = Math.max(0, state.head);
drawAll();
