// The tabs, the legend, and the thumbnails of every layer and head.

// ---- Tabs, legend -----------------------------------------------------------------------------------------
const drawTabs = () => {
  $('tabs').replaceChildren(...parts.map((part) => {
    const tab = make('button', '', names[part]);
    tab.type = 'button';
    tab.id = 'tab-' + part;
    tab.setAttribute('role', 'tab');
    tab.setAttribute('aria-controls', 'focus');
    listen(tab, 'click', () => openTab(part));
    return tab;
  }));
};
const drawLegend = () => {
  full = strongest();
  setPressed($('relative'), isRelative());
  $('legend-name').textContent = isRelative() ? `weight; strongest colour: ${full} and more` : 'weight';
  $('ticks').replaceChildren(...[0, 0.05, 0.2, 0.5, 1].map((at) => {
    const tick = make('span', '', String(Number((at * full).toPrecision(2))));
    tick.style.left = `${Math.sqrt(at) * 100}%`;
    return tick;
  }));
  const context = $('ramp').getContext('2d');
  for (let x = 0; x < 180; ++x) {
    context.fillStyle = css(colour((x / 179) ** 2 * full));
    context.fillRect(x, 0, 1, 10);
  }
};

// ---- Thumbnails ----------------------------------------------------------------------------------------------------
// At most 72 pixels a side; longer ones show the strongest weight of each block.
const paintThumb = (canvas, w) => {
  const rows = w.length, columns = rows ? w[0].length : 0;
  const height = Math.max(1, Math.min(72, rows)), width = Math.max(1, Math.min(72, columns));
  canvas.width = width;
  canvas.height = height;
  if (!rows || !columns) return;
  const most = new Float64Array(width * height);
  w.forEach((row, i) => {
    const base = Math.floor(i * height / rows) * width;
    row.forEach((weight, j) => {
      const at = base + Math.floor(j * width / columns);
      if (weight > most[at]) most[at] = weight;
    });
  });
  const context = canvas.getContext('2d');
  const image = context.createImageData(width, height);
  most.forEach((weight, at) => image.data.set([...colour(weight), 255], at * 4));
  context.putImageData(image, 0, 0);
};
const drawGrid = () => {
  const grid = $('grid');
  const layers = record[state.part];
  const heads = Math.max(...layers.map((map) => map.weights.length));
  const w = layers[0].weights[0];
  const ratio = w && w.length && w[0].length ? w.length / w[0].length : 1;
  const main = $('main').style;
  main.setProperty('--heads', heads);
  main.setProperty('--side', columnTokens(state.part).length > kManyColumns ? '300px' : '380px');
  const room = grid.clientWidth - 6 - 26 - 9;  // less the side labels and the mean's distance
  const gap = heads > 10 ? 2 : 5;
  const width = Math.max(4, Math.min(64, Math.floor(room / (heads + 1)) - gap - 4));
  const height = Math.max(width * 0.5, Math.min(width * 1.6, width * ratio));
  grid.replaceChildren();
  grid.style.gap = `${Math.max(3, gap)}px ${gap}px`;
  grid.style.gridTemplateColumns = `26px repeat(${heads}, ${width + 4}px) ${width + 13}px`;
  grid.append(make('span', 'label side', ''));
  for (let head = 0; head < heads; ++head) grid.append(make('span', 'label', String(head + 1)));
  grid.append(make('span', 'label', 'mean'));
  layers.forEach((map, layer) => {
    const side = make('span', 'label side', String(layer + 1));
    side.title = layerName(state.part, layer) + (map.path && `: ${visible(map.path)}`);
    grid.append(side);
    for (let k = 0; k <= heads; ++k) {
      const head = k === heads ? -1 : k;
      if (head >= map.weights.length) {
        grid.append(make('span'));
        continue;
      }
      const button = make('button', head < 0 ? 'thumb mean' : 'thumb');
      button.type = 'button';
      button.dataset.layer = layer;
      button.dataset.head = head;
      button.setAttribute('aria-label', `${layerName(state.part, layer)}, ${headName(head)}`);
      button.style.height = `${height + 4}px`;
      const canvas = make('canvas');
      paintThumb(canvas, weightsOf(state.part, layer, head));
      button.append(canvas);
      button.title = `${layerName(state.part, layer)}, ${headName(head)}`;
      listen(button, 'click', (event) => {
        if (hooks.choose?.(layer, head, event)) return;
        select(state.part, layer, head);
        showFocus();
      });
      listen(button, 'pointerenter', (event) => event.pointerType !== 'touch' && preview({layer, head}));
      listen(button, 'pointerleave', () => state.preview && preview(null));
      grid.append(button);
    }
  });
  hooks.grid?.();
};
const markGrid = () => {
  for (const button of document.querySelectorAll('.thumb')) {
    const on = Number(button.dataset.layer) === state.layer && Number(button.dataset.head) === state.head;
    setPressed(button, on);
    button.tabIndex = on ? 0 : -1;
  }
  for (const part of parts) {
    $('tab-' + part).setAttribute('aria-selected', part === state.part);
    $('tab-' + part).tabIndex = part === state.part ? 0 : -1;
  }
};
