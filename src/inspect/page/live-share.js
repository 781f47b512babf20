// Take it with you: the view as a link, the offline page; and the list of keys.

const drawShare = () => {
  const link = el('input', {type: 'text', readonly: '', value: location.href.split('#')[0] + addressOf(), 'aria-label': 'Link to this view', focus: (event) => event.target.select()});
  const copied = el('span', {role: 'status', class: 'soft'});
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(link.value);
      copied.textContent = 'copied';
    } catch {
      link.select();
      copied.textContent = document.execCommand('copy') ? 'copied' : 'press Ctrl+C';
    }
  };
  $('share').replaceChildren(el('label', {}, 'Link ', link), press(copy, 'Copy link'), copied, el('button', {click: saveOffline, disabled: live.done && !live.long ? null : ''}, 'Offline page'),
    ...(live.long ? [] : [press(saveSvg, 'SVG'), press(savePng, 'PNG'), press(saveJson, 'JSON')]), press(() => window.print(), 'Print'));
};
const saveOffline = () => attempt(async () => {
  const answer = await request('page', withChanges({heading: live.text}), 'page');
  const link = el('a', {href: URL.createObjectURL(await answer.blob()), download: 'attention.html'});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
});
const toggleShare = () => {
  if (!live.model) return;
  const open = $('share').hidden;
  $('share').hidden = !open;
  $('share-open').setAttribute('aria-expanded', open);
  if (open) drawShare();
};
const kKeyList = [
  ['/', 'to the text'], ['Enter', 'in the text: keep it, so that Back returns to it'], ['← → ↑ ↓', 'other heads; on the map: cells; in a list: its entries'],
  ['Enter', 'on the map: open this weight'], ['Esc', 'let go; close'], ['M', 'mean over heads'], ['X', 'add this head to the chosen ones, or take it away'], ['W', 'words or pieces'],
  ['R', 'relative colours'], ['T', 'table'], ['L', 'lines or map'], ['+ −', 'size'], ['O', 'switch this head off, or on'], ['N', 'what next?'], ['Y', 'why this weight?'], ['G', 'guided tour'], ['?', 'this list'],
];
const openHelp = () => {
  const dialog = $('help');
  dialog.replaceChildren(el('h2', {}, 'Keys'), el('table', {}, el('tbody', {}, ...kKeyList.map(([keys, what]) => el('tr', {}, el('th', {scope: 'row'}, el('kbd', {}, keys)), el('td', {}, what))))),
    chip(() => dialog.close(), 'Close'));
  dialog.showModal();
};
