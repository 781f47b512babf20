// One weight, down to its numbers: query, key, products, sum, scale, bias, softmax, value, what it added.

// Numbers as a strip of cells: orange is below zero, blue above.
const strip = (values, name) => {
  const canvas = el('canvas', {class: 'vector', role: 'img', 'aria-label': `${name}: ${values.length} numbers, from ${number(Math.min(...values), 2)} to ${number(Math.max(...values), 2)}`});
  const most = Math.max(1e-9, ...values.map(Math.abs)), rows = Math.ceil(values.length / 64), columns = Math.ceil(values.length / rows);
  canvas.width = columns;
  canvas.height = rows;
  canvas.style.height = `${rows * 10}px`;
  const context = canvas.getContext('2d');
  values.forEach((value, k) => {
    context.fillStyle = value < 0 ? '#d55e00' : '#0072b2';  // over the ground of the style sheet, on paper too
    context.globalAlpha = Math.sqrt(Math.abs(value) / most);
    context.fillRect(k % columns, Math.floor(k / columns), 1, 1);
  });
  return canvas;
};
const both = (value, most) => {
  const box = el('span', {class: 'both', 'aria-hidden': 'true'}, el('span', {class: value < 0 ? 'minus' : 'plus'}));
  const width = 50 * Math.abs(value) / Math.max(1e-9, most);
  box.firstChild.style.width = `${width}%`;
  box.firstChild.style.left = `${value < 0 ? 50 - width : 50}%`;
  return box;
};
const cellChosen = () => (state.lockedRow !== null && state.lockedColumn !== null ? {part: state.part, layer: state.layer, head: state.head, row: state.lockedRow, column: state.lockedColumn} : null);
const drawExplain = async (box) => {
  const cell = cellChosen();
  box.append(title('How did this weight come about?'));
  if (live.folded || !cell || cell.head < 0 || live.chosen.length > 1) {
    box.append(note(live.folded ? 'Words are several pieces: switch “Words” off to open one weight.' : cell ? 'This is a mean of several heads. Choose one head to open one of its weights.'
      : 'Click a cell of the map. With the keyboard: Tab to the map, arrow keys, then Enter.'));
    return;
  }
  const answer = await ask('explain', {...withChanges(cell)});
  live.explained = answer;
  const {part, row, column} = cell, most = Math.abs(answer.products[0]?.product ?? 0);
  const rivals = answer.rivals.slice(0, 8);
  if (!rivals.some((r) => r.column === column)) rivals.push(answer.rivals.find((r) => r.column === column) ?? {column, score: answer.score, weight: answer.weight});
  const step = (name, value, text) => [el('dt', {}, name), el('dd', {}, el('b', {}, value), text ? el('small', {}, text) : null)];
  box.append(
    note(...beginning(part, row), strong(columnName(part, column)), `, ${percent(answer.weight)}.`),
    el('h4', {}, 'Query × key'),
    div('vectors', el('span', {}, 'query'), strip(answer.query, 'Query'), el('span', {}, 'key'), strip(answer.key, 'Key')),
    div('products', ...answer.products.slice(0, 8).map(({at, query, key, product}) =>
      div('product', span('soft', String(at)), el('span', {}, `${number(query, 2)} × ${number(key, 2)}`), both(product, most), el('span', {}, number(product, 2))))),
    folded(`All ${answer.products.length} products`, scroller('All products', tableOf('Products, by size', ['place', 'query', 'key', 'product'],
      answer.products.map(({at, query, key, product}) => [String(at), number(query, 4), number(key, 4), number(product, 4)])), true)),
    el('h4', {}, 'From the sum to the weight'),
    el('dl', {class: 'numbers sums'}, ...step('sum of the products', number(answer.dot)), ...step(`× scale ${Number(answer.scale.toPrecision(4))}`, number(answer.scaled), `1/√${answer.query.length}`),
      ...step(answer.masked ? '+ mask' : '+ bias', answer.masked ? '−∞' : number(answer.bias), answer.masked ? 'this query may not see this key' : ''), ...step('= score', answer.masked ? '−∞' : number(answer.score)),
      ...step(`e^(score − ${number(answer.logsumexp, 3)})`, exact(answer.weight), 'all weights of the row add up to 1')),
    el('h4', {}, 'Its rivals in the row'),
    div('rivals', ...rivals.map((r) => {
      const button = el('button', {class: 'rival', 'aria-current': r.column === column, 'aria-label': `${columnName(part, r.column)}: score ${number(r.score, 2)}, weight ${percent(r.weight)}`,
                                   click: () => { if (r.column !== column) lock(row, r.column); }});
      button.append(tokenText('', columnTokens(part)[r.column]), bar(r.weight), el('span', {}, `${number(r.score, 2)}`), el('span', {}, percent(r.weight)));
      return button;
    })),
    el('h4', {}, 'What it added'),
    div('vectors', el('span', {}, 'value'), strip(answer.value, 'Value'), el('span', {}, 'added'), strip(answer.added, 'Added to the stream')),
    folded('All numbers of both', scroller('Value and what it added', tableOf('Value, and what it added', ['place', 'value', 'added'],
      answer.added.map((added, k) => [String(k), k < answer.value.length ? number(answer.value[k], 4) : '', number(added, 4)])), true)),
    note(`Weight × value, through the output projection, has the norm ${number(answer.added_norm, 3)}. The whole layer added ${number(answer.row_norm, 3)} at this row, so this one weight has a share of ${percent(answer.share)}. A large weight times a small value is small.`),
    div('tools', press(() => addChange({kind: 'edge', ...cell}), 'Cut this edge'),
      press(() => addChange({kind: 'token', side: part === 'decoder' ? 'target' : 'source', position: column}), `Hide ${columnName(part, column)} from everybody`)));
};
panels.why = {title: 'Why', draw: drawExplain, when: () => true};
