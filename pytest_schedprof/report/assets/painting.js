// Draw a view of the tree on a canvas, without the boxes that are too narrow to be visible.

const ROW = 18, NARROWEST = 0.4, PADDING = 4;

const styleOf = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function paletteOf(tree) {
  const owners = tree.data.owners.map(owner => styleOf(`--o-${owner}`) || styleOf("--o-other"));
  return {
    owners, none: styleOf("--o-foreign"), ink: styleOf("--ink"), dim: styleOf("--dim"),
    paper: styleOf("--paper"), focus: styleOf("--focus"),
    light: styleOf("--l"), chroma: styleOf("--c"), more: styleOf("--more"), less: styleOf("--less"),
    font: `11.5px ${styleOf("--mono")}`,
  };
}

// Callers stand above what they called: in a graph of callers the root is the lowest row.
const topOf = (graph, node) => ROW * (graph.isOfCallers
  ? graph.levels - graph.tree.depth[node] : graph.tree.depth[node]);

// Every visible node with its place. Ancestors of the zoomed node fill the whole row.
function* visibleNodes(graph) {
  const { tree, layout, zoomed, width } = graph;
  for (let node = tree.parent[zoomed]; node >= 0; node = tree.parent[node])
    yield { node, x: 0, width, isAbove: true };
  const scale = width / (layout.width[zoomed] || 1), origin = layout.start[zoomed];
  for (let node = zoomed; node < tree.end[zoomed];) {
    const wide = layout.width[node] * scale;
    if (wide < NARROWEST) { node = tree.end[node]; continue; }
    yield { node, x: (layout.start[node] - origin) * scale, width: wide, isAbove: false };
    node++;
  }
}

function paint(graph) {
  const { canvas } = graph, { palette } = graph.panel;
  const ratio = window.devicePixelRatio || 1;
  graph.width = canvas.clientWidth;
  const height = ROW * (graph.levels + 1);
  canvas.width = Math.round(graph.width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.font = palette.font;
  pen.textBaseline = "middle";
  graph.letter = pen.measureText("m").width;
  for (const box of visibleNodes(graph)) paintBox(pen, graph, box);
  paintFocus(pen, graph);
}

function paintBox(pen, graph, { node, x, width, isAbove }) {
  const y = topOf(graph, node), { matches } = graph.panel;
  const isMatch = matches && matches.has(graph.tree.name[node]);
  pen.globalAlpha = isAbove ? 0.55 : matches && !isMatch ? 0.3 : 1;
  pen.fillStyle = colourOf(graph, node);
  pen.fillRect(x, y, Math.max(width - (width > 3 ? 1 : 0), NARROWEST), ROW - 1);
  pen.globalAlpha = isAbove || (matches && !isMatch) ? 0.7 : 1;
  if (isMatch) {
    pen.fillStyle = graph.panel.palette.ink;
    pen.fillRect(x, y + ROW - 3, Math.max(width - 1, 1), 2);
  }
  paintLabel(pen, graph, node, x, y, width);
  pen.globalAlpha = 1;
}

function paintLabel(pen, graph, node, x, y, width) {
  const room = Math.floor((width - 2 * PADDING) / graph.letter);
  if (room < 4) return;
  pen.fillStyle = graph.panel.palette.ink;
  pen.fillText(fitted(graph, node, room), x + PADDING, y + ROW / 2);
}

// The whole name if it fits, else its last part, which says more than the class.
function fitted(graph, node, room) {
  const name = nameOf(graph.tree, node), sign = signOf(graph, node);
  const label = sign + (sign.length + name.length > room ? lastPart(name) : name);
  return label.length > room ? label.slice(0, room - 1) + "…" : label;
}

const lastPart = name => name.slice(name.lastIndexOf(".") + 1) || name;

function signOf(graph, node) {
  const { view } = graph.panel;
  if (!view.word) return "";
  const { change, isNoise } = difference(graph.tree, view, node);
  return isNoise ? "" : `${view.word(change)} `;
}

function colourOf(graph, node) {
  const { tree } = graph, { palette, view, whole } = graph.panel;
  if (!view.word) return palette.owners[tree.owner[node]] ?? palette.none;
  const { change, isNoise } = difference(tree, view, node);
  if (isNoise) return palette.none;
  const most = Math.max(whole.after[0] * view.after, whole.before[0] * view.before);
  const strength = Math.sqrt(Math.min(1, Math.abs(change) / (0.1 * most)));
  const chroma = (0.3 + 1.4 * strength) * palette.chroma;
  return `oklch(${palette.light} ${chroma} ${change > 0 ? palette.more : palette.less})`;
}

function paintFocus(pen, graph) {
  if (document.activeElement !== graph.canvas) return;
  for (const box of visibleNodes(graph)) {
    if (box.node !== graph.focused) continue;
    pen.strokeStyle = graph.panel.palette.focus;
    pen.lineWidth = 2;
    pen.strokeRect(box.x + 1, topOf(graph, box.node) + 1, Math.max(box.width - 3, 1), ROW - 3);
  }
}

function nodeAt(graph, x, y) {
  const row = Math.floor(y / ROW), level = graph.isOfCallers ? graph.levels - row : row;
  const { tree, layout, zoomed, width } = graph;
  if (level <= tree.depth[zoomed]) return ancestorAt(tree, zoomed, level);
  const at = layout.start[zoomed] + x / width * layout.width[zoomed];
  for (let node = zoomed + 1; node < tree.end[zoomed];) {
    const isInside = layout.start[node] <= at && at < layout.start[node] + layout.width[node];
    if (isInside && tree.depth[node] === level) return node;
    node = isInside ? node + 1 : tree.end[node];
  }
  return -1;
}

function ancestorAt(tree, node, level) {
  while (tree.depth[node] > level) node = tree.parent[node];
  return node;
}

// Describe a node in words.

const percent = part => `${(part * 100).toFixed(1)}%`;
const samples = count => `${count.toLocaleString("en")} ${count === 1 ? "sample" : "samples"}`;

function element(tag, text, className) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function tell(graph, node) {
  const { panel, tree } = graph, isFunction = tree.name[node] >= 0;
  const name = element("div", "");
  if (isFunction) name.append(element("span", `${moduleOf(tree, node)}:`, "module"));
  name.append(element("b", nameOf(tree, node)));
  if (isFunction) name.append(" ", ownerMark(ownerOf(tree, node)));
  const words = panel.view.word ? changeWords(graph, node) : profileWords(graph, node);
  panel.words.replaceChildren(name, element("div", words));
}

function ownerMark(owner) {
  const mark = element("span", "", "owner"), swatch = element("i", "", "swatch");
  swatch.style.background = `var(--o-${owner}, var(--o-other))`;
  mark.append(" ", swatch, owner);
  return mark;
}

function profileWords({ panel, tree }, node) {
  const { cost, unit, isSampled } = panel.data, count = tree.after[node];
  const words = [`here ${percent(count / (panel.whole.after[0] || 1))}`];
  if (cost) words.push(`${amounts(count * cost, unit)} per task`);
  if (isSampled) words.push(samples(count));
  return tree.name[node] < 0 ? words.join(" · ") : `${words.join(" · ")}   —   ${everywhere(panel, tree.name[node])}`;
}

function everywhere({ data, whole }, name) {
  if (!data.bounds) return `in all stacks ${percent(partOf(whole, name))}, self ${percent(ownPartOf(whole, name))}`;
  const [share, low, high, own] = data.bounds.slice(4 * name, 4 * name + 4);
  if (!high) return "not in any stack of this side";
  const part = amount => percent(amount / 10000);
  return `in all stacks ${part(share)} (95% bounds ${part(low).slice(0, -1)} to ${part(high)}), self ${part(own)}`;
}

const partOf = (tree, name) => held(tree, new Set([name])) / (tree.after[0] || 1);
const ownPartOf = (tree, name) =>
  tree.own.reduce((sum, own, node) => tree.name[node] === name ? sum + own : sum, 0) / (tree.after[0] || 1);

function changeWords({ panel, tree }, node) {
  const { view } = panel, sides = difference(tree, view, node);
  const amount = view.unit ? value => `${amounts(value, view.unit)} per task` : percent;
  const relative = sides.before ? ` (${signed(sides.change, percent(Math.abs(sides.change) / sides.before))})` : "";
  const word = sides.isNoise ? "no more than chance: " : "";
  const change = `${word}${amount(sides.before)} → ${amount(sides.after)}, ${view.word(sides.change)}${relative}`;
  if (!panel.data.isSampled) return change;
  return `${change}   —   ${samples(tree.before[node])} before, ${samples(tree.after[node])} now`;
}
