// The live page begins: events, keys, the address.

let opened = null;  // the cell that the panel explains
hooks.place = () => {
  live.pinned = true;
  const cell = cellChosen(), name = cell && JSON.stringify(cell), was = live.row;
  writeAddress();
  if (state.lockedRow !== null && (state.part !== 'encoder' || live.model.task === 'fill') && !live.folded) markRow(state.lockedRow);
  if (name && name !== opened) openPanel('why');
  else if ({why: name !== opened, next: was !== live.row, layers: was !== live.row, compare: true, change: true}[live.panel]) refreshPanel();
  opened = name;
};
hooks.focus = () => {
  drawTableView();
  drawSecond();
  markNames();
};
hooks.beside = () => {
  const panel = $('panel');
  return panel.offsetTop < $('focus').offsetTop + 40 && panel.offsetLeft > $('focus').offsetLeft ? panel.offsetWidth + 26 : 0;
};
listen($('text'), 'input', (event) => { if (!event.isComposing) typed(); });
listen($('text'), 'compositionend', typed);
listen($('text'), 'change', () => { if (live.done) writeAddress(true); });
listen($('text'), 'keydown', (event) => {
  if (event.key === 'Escape') $('text').blur();
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  start(true);
});
listen($('model'), 'change', () => {
  chooseModel(live.models[$('model').value].name);
  setText($('examples').firstChild.textContent);
});
for (const [side] of kSides) listen($(side), 'change', chooseLanguages);
listen($('file'), 'change', async () => {
  const file = $('file').files[0];
  if (file) setText(await file.text());
  $('file').value = '';
});
for (const [id, act] of Object.entries({
  fold: toggleFold, 'head-off': toggleHeadOff, 'tour-open': () => openTour(0), 'share-open': toggleShare, 'help-open': openHelp,
  'view-table': () => { live.table = !live.table; drawTableView(); }, skip: (event) => { event.preventDefault(); $('text').focus(); },
})) {
  listen($(id), 'click', act);
}
Object.assign(kKeys, {
  w: toggleFold, o: toggleHeadOff, t: () => $('view-table').click(), l: () => setView(state.view === 'lines' ? 'map' : 'lines'), n: () => openPanel('next'), y: () => openPanel('why'),
  x: () => state.head >= 0 && toggleHead(state.layer, state.head),
});
listen(document, 'keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const active = document.activeElement, key = event.key.toLowerCase();
  if (!$('tour').hidden && tourKey(event)) return;
  if (active.matches('input, textarea, select, dialog *')) return;
  const lists = [$('panel-tabs'), $('output'), document.querySelector('.next'), document.querySelector('.rivals'), $('named'), $('long-heads')];
  const box = kSteps[event.key] && lists.find((one) => one?.contains(active));
  if (box?.id === 'long-heads') moveThumb(event.key);
  else if (box) moveIn(box, event.key);
  else if (live.long && longKey(event)) ;
  else if (key === '/') $('text').focus();
  else if (key === '?') openHelp();
  else if (key === 'g') openTour(0);
  else return;
  event.preventDefault();
}, true);
listen(window, 'popstate', () => {
  readAddress();
  start();
});

takeToken();
live.panel = 'next';
attempt(async () => {
  const answer = await ask('models', null, 'look');
  takeModels(answer.models);
  readAddress();
  await start();
});
