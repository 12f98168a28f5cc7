// One canvas of a panel with one tree: what is zoomed, what has the focus, and the pointer.

function graphOn(panel, canvas, isOfCallers) {
  const graph = { panel, canvas, isOfCallers, hovered: -1 };
  const hit = event => nodeAt(graph, event.offsetX, event.offsetY);
  canvas.addEventListener("mousemove", event => { graph.hovered = hit(event); tell(graph, shown(graph)); });
  // The pointer also leaves a canvas that was hidden under it.
  canvas.addEventListener("mouseleave", () => { graph.hovered = -1; tell(panel.active, shown(panel.active)); });
  canvas.addEventListener("click", event => { const node = hit(event); if (node >= 0) zoom(graph, node); });
  canvas.addEventListener("focus", () => { panel.active = graph; paint(graph); tell(graph, shown(graph)); });
  canvas.addEventListener("blur", () => paint(graph));
  canvas.addEventListener("keydown", event => onKey(graph, event));
  new ResizeObserver(() => { if (graph.tree && canvas.clientWidth !== graph.width) paint(graph); }).observe(canvas);
  return graph;
}

const shown = graph => graph.hovered >= 0 ? graph.hovered : graph.focused;

// Draw another tree; null hides the canvas.
function plant(graph, tree) {
  graph.tree = tree;
  graph.canvas.hidden = !tree;
  graph.zoomed = graph.focused = 0;
  graph.hovered = -1;
  if (!tree) return;
  graph.levels = deepest(tree);
  graph.layout = layOut(tree, graph.panel.view);
}

function zoom(graph, node) {
  graph.zoomed = graph.focused = Math.max(0, node);
  graph.panel.active = graph;
  refresh(graph.panel);
  remember(graph.panel);
}

function focusOn(graph, node) {
  if (node < 0) return;
  const { tree } = graph;
  graph.focused = node;
  graph.hovered = -1;
  while (node < graph.zoomed || node >= tree.end[graph.zoomed]) graph.zoomed = tree.parent[graph.zoomed];
  graph.panel.active = graph;
  refresh(graph.panel);
}

// Search for functions whose module and name contain the typed text.

function find(panel) {
  const text = panel.search.value.trim().toLowerCase();
  panel.matches = text ? matching(panel.data, text) : null;
  panel.output.textContent = text ? matchWords(panel) : "";
}

function matching({ modules, functions }, text) {
  const matches = new Set();
  for (let i = 0; i < functions.length; i += 3)
    if (`${modules[functions[i]]}:${functions[i + 1]}`.toLowerCase().includes(text)) matches.add(i / 3);
  return matches;
}

// Number of samples whose stack contains any of the functions; each sample counts once.
function held(tree, matches) {
  let sum = 0;
  for (let node = 1; node < tree.size;) {
    if (!matches.has(tree.name[node])) { node++; continue; }
    sum += tree.after[node];
    node = tree.end[node];
  }
  return sum;
}

function matchWords({ whole, matches }) {
  if (!matches.size) return "no function";
  const part = percent(held(whole, matches) / (whole.after[0] || 1));
  return `${matches.size} ${matches.size === 1 ? "function" : "functions"}, ${part} of all samples`;
}

// The widest match, or the next narrower one if a match has the focus; -1 if there is none.
function nextFound(graph) {
  const { tree, layout, zoomed, focused } = graph, { matches } = graph.panel;
  const nodes = [];
  for (let node = zoomed; matches && node < tree.end[zoomed]; node++)
    if (matches.has(tree.name[node])) nodes.push(node);
  nodes.sort((a, b) => layout.width[b] - layout.width[a]);
  return nodes[(nodes.indexOf(focused) + 1) % nodes.length] ?? -1;
}

// Copy the stack of a box as text, its outermost function first.

function stackOf(graph) {
  const { tree } = graph;
  const names = pathTo(tree, shown(graph)).filter(node => tree.name[node] >= 0).map(node => fullName(tree, node));
  return tree.data.isInverted ? names.reverse() : names;
}

async function copyStack(panel) {
  const stack = stackOf(panel.active);
  if (!stack.length) { panel.output.textContent = "choose a box to copy its stack"; return; }
  try {
    await navigator.clipboard.writeText(stack.join("\n"));
  } catch {  // the browser gives scripts of files no clipboard
    copySelected(stack.join("\n"));
  }
  panel.output.textContent = `copied a stack of ${stack.length} ${stack.length === 1 ? "function" : "functions"}`;
}

function copySelected(text) {
  const area = element("textarea", text), focused = document.activeElement;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  focused?.focus({ preventScroll: true });
}

// The address of the page tells what is chosen, zoomed and searched, so that it opens the same view.

const DEFAULTS = { view: "calls", mode: "profile", subject: -1 };

function remember(panel) {
  const { state, search, data, figure } = panel, [main] = panel.graphs;
  const address = new URLSearchParams({ graph: figure.id });
  for (const key of ["view", "mode"])
    if (state[key] !== DEFAULTS[key]) address.set(key, state[key]);
  if (state.view === "sandwich") address.set("of", functionName(data, state.subject));
  if (main.zoomed) address.set("at", markOf(main.tree, main.zoomed));
  if (search.value) address.set("search", search.value);
  history.replaceState(null, "", `#${address}`);
}

// Return whether the address is about this panel.
function recall(panel) {
  const address = new URLSearchParams(location.hash.slice(1));
  if (address.get("graph") !== panel.figure.id) return false;
  const { state, data } = panel;
  Object.assign(state, DEFAULTS);
  if (has(panel, "views", address.get("view"))) state.view = address.get("view");
  if (has(panel, "modes", address.get("mode"))) state.mode = address.get("mode");
  state.subject = numberOf(data, address.get("of"));
  if (state.view === "sandwich" && state.subject < 0) state.view = "calls";
  panel.search.value = address.get("search") ?? "";
  panel.mark = address.get("at");
  return true;
}

const has = (panel, choice, value) => value !== null
  && [...panel.figure.querySelectorAll(`.${choice} input`)].some(input => input.value === value);

const functionName = ({ modules, functions }, name) => `${modules[functions[3 * name]]}:${functions[3 * name + 1]}`;

function numberOf(data, text) {
  for (let name = 0; 3 * name < data.functions.length; name++)
    if (functionName(data, name) === text) return name;
  return -1;
}

// A node by the names on its path: its number would be another one in a page that was made again.
const markOf = (tree, node) => marks(tree)[node].toString(36);
const marked = (tree, mark) => Math.max(0, marks(tree).findIndex(hash => hash.toString(36) === mark));

function marks(tree) {
  const hashes = new Uint32Array(tree.size);
  for (let node = 1; node < tree.size; node++) hashes[node] = hashed(fullName(tree, node), hashes[tree.parent[node]]);
  return hashes;
}

// FNV-1a
function hashed(text, start) {
  let hash = start ^ 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

// Keys of a graph: from a node to its caller, its callees and its neighbours.

const MOVES = {
  ArrowUp: graph => graph.isOfCallers ? widestChild(graph, graph.focused) : graph.tree.parent[graph.focused],
  ArrowDown: graph => graph.isOfCallers ? graph.tree.parent[graph.focused] : widestChild(graph, graph.focused),
  ArrowLeft: graph => sibling(graph, -1),
  ArrowRight: graph => sibling(graph, 1),
  Home: () => 0,
  n: nextFound,
};

const ACTIONS = {
  Enter: graph => zoom(graph, graph.focused),
  Escape: graph => leave(graph.panel),
  c: ({ panel }) => copyStack(panel),
  s: ({ panel }) => showCode(panel),
  i: ({ panel }) => look(panel, panel.state.view === "inverted" ? "calls" : "inverted"),
  b: graph => look(graph.panel, "sandwich", graph.tree.name[graph.focused]),
};

function onKey(graph, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key in MOVES) focusOn(graph, MOVES[event.key](graph));
  else if (event.key in ACTIONS) ACTIONS[event.key](graph);
  else return;
  event.preventDefault();
}

function onSearchKey(panel, event) {
  const graph = panel.graphs[0];
  if (event.key === "Enter") focusOn(graph, nextFound(graph));
  else if (event.key === "Escape") {
    panel.search.value = "";
    find(panel);
    refresh(panel);
    remember(panel);
    graph.canvas.focus({ preventScroll: true });
  } else return;
  event.preventDefault();
}

function childrenOf({ tree, layout }, node) {
  const children = [];
  for (let child = node + 1; child < tree.end[node]; child = tree.end[child])
    if (layout.width[child] > 0) children.push(child);
  return children;
}

function widestChild(graph, node) {
  const wider = (a, b) => graph.layout.width[b] > graph.layout.width[a] ? b : a;
  return childrenOf(graph, node).reduce((a, b) => a < 0 ? b : wider(a, b), -1);
}

function sibling(graph, step) {
  const { tree, focused } = graph;
  if (!focused) return -1;
  const all = childrenOf(graph, tree.parent[focused]);
  return all[all.indexOf(focused) + step] ?? -1;
}
