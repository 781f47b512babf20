// The words of the guided tour, in English and Chinese. Every number in them comes from the page: v is what the stop found.

const kTour = [
  {en: ['One weight', (v) => `To say ${v.row}, this head read ${v.column}: weight ${v.weight}. An attention weight says how much of one place flows into another.`],
   zh: ['一个权重', (v) => `说出 ${v.row} 时，这个头读了 ${v.column}：权重 ${v.weight}。注意力权重表示一个位置有多少内容流向另一个位置。`]},
  {en: ['Its row', (v) => `A row is one query. Its ${v.count} weights are positive and add up to ${v.sum}. What ${v.column} gets, the others do not get.`],
   zh: ['它所在的行', (v) => `一行是一个查询。这一行的 ${v.count} 个权重都是正数，加起来是 ${v.sum}。${v.column} 得到的，别的位置就得不到。`]},
  {en: ['The scale', (v) => `Query and key are multiplied place by place and summed: ${v.dot}. Times the scale ${v.scale} that is ${v.scaled}; the softmax makes it ${v.weight}. Without it the weight would be ${v.unscaled}: such sharp rows are hard to train.`],
   zh: ['缩放', (v) => `查询和键逐位相乘再求和：${v.dot}。乘以缩放系数 ${v.scale} 得到 ${v.scaled}，经过 softmax 变成 ${v.weight}。如果不缩放，权重会是 ${v.unscaled}：这么尖锐的行很难训练。`]},
  {en: ['Many heads', (v) => `The model has ${v.heads} heads in ${v.layers} layers, each with its own view. The map now shows the mean of this layer's heads. Its largest weight is ${v.mean}, while one head alone reaches ${v.one}.`],
   zh: ['许多头', (v) => `这个模型在 ${v.layers} 层里共有 ${v.heads} 个头，各看各的。现在图上是这一层所有头的平均：最大权重 ${v.mean}，而单个头可达 ${v.one}。`]},
  {en: ['Heads with names', (v) => `Some shapes return in every model. Here ${v.named} of ${v.heads} heads have a clear shape: ${v.list || 'none'}. The name describes the map, not what the head is for.`],
   zh: ['有名字的头', (v) => `有些形状每个模型都有。这里 ${v.heads} 个头中有 ${v.named} 个形状清楚：${v.list || '没有'}。名字描述的是图的形状，不是这个头的用途。`]},
  {en: ['Alignment', (v) => (v.cross ? `Between the two languages, one dark cell in a row says which word is being translated: ${v.pairs}. Attention was invented for this.` : `In a translator one dark cell in a row says which word is being translated. This model reads one text only; its clearest cells are ${v.pairs}.`)],
   zh: ['对齐', (v) => (v.cross ? `在两种语言之间，一行中颜色最深的格子表示正在翻译哪个词：${v.pairs}。注意力就是为此发明的。` : `在翻译模型中，一行中颜色最深的格子表示正在翻译哪个词。这个模型只读一段文字，最清楚的格子是 ${v.pairs}。`)]},
  {en: ['The causal mask', (v) => `A decoder writes from left to right and may not see what comes later. ${v.hidden} of the ${v.all} cells are masked; their weights add up to ${v.sum}.`],
   zh: ['因果掩码', (v) => `解码器从左往右写，不能看到后面的内容。${v.all} 个格子中有 ${v.hidden} 个被遮住，它们的权重之和是 ${v.sum}。`]},
  {en: ['What next?', (v) => `At each row the model has a probability for every token. Here ${v.token} has ${v.probability}, and the entropy is ${v.entropy} bits. Click another token and the model goes on from there.`],
   zh: ['下一个词', (v) => `在每一行，模型给每个词元一个概率。这里 ${v.token} 的概率是 ${v.probability}，熵是 ${v.entropy} 比特。点另一个词元，模型就从那里接着写。`]},
  {en: ['An experiment', (v) => `The head with the clearest cells is now off. The model says “${v.after}”. The log-probability of ${v.token} changed most, by ${v.change}. Of ${v.numbers} numbers computed before this head, ${v.changed} changed.`],
   zh: ['做个实验', (v) => `现在关掉了格子最清楚的那个头。模型说“${v.after}”。变化最大的是 ${v.token} 的对数概率：${v.change}。在这个头之前算出的 ${v.numbers} 个数里，${v.changed} 个变了。`]},
  {en: ['What weights do not tell', (v) => `That head gave ${v.column} a weight of ${v.weight} to say ${v.row}. Without the head, the log-probability of ${v.row} changed by ${v.change}. A weight says where a head read, not how much it mattered: values, other heads and the residual stream matter too. To know, switch it off.`],
   zh: ['权重没有说的', (v) => `那个头为了说 ${v.row}，给 ${v.column} 的权重是 ${v.weight}。关掉它，${v.row} 的对数概率变化是 ${v.change}。权重说明一个头读了哪里，不说明它有多重要：值、其他的头和残差流同样重要。想知道，就把它关掉。`]},
];
const kTourWords = {en: {next: 'Next', back: 'Back', close: 'Close', other: '中文', name: 'Guided tour', end: 'Done'},
                    zh: {next: '下一步', back: '上一步', close: '关闭', other: 'English', name: '导览', end: '完成'}};
