// One flame graph: its state, and input from pointer and keyboard.

for (const figure of document.querySelectorAll(".flame")) openFlame(figure);

function openFlame(figure) {
  const data = JSON.parse(document.getElementById(`${figure.id}-data`).textContent);
  const tree = readTree(data);
  const part = selector => figure.querySelector(selector);
  const graph = {
    tree, levels: deepest(tree), zoomed: 0, focused: 0, hovered: -1, found: null,
    canvas: part("canvas"), told: part(".told"), output: part(".found"), back: part(".whole"),
    search: part(".search"), caption: part("figcaption"),
  };
  figure.hidden = false;
  graph.palette = paletteOf(tree);
  choose(graph, "profile");
  listen(graph, figure);
  figure.dataset.drawn = tree.size - 1;
}

function choose(graph, mode) {
  graph.view = viewOf(graph.tree, mode);
  graph.layout = layOut(graph.tree, graph.view);
  caption(graph);
  refresh(graph);
}

function refresh(graph) {
  paint(graph);
  tell(graph, graph.hovered >= 0 ? graph.hovered : graph.focused);
  graph.back.hidden = graph.zoomed === 0;
}

function caption({ tree, view, caption }) {
  if (view.word) {
    caption.textContent = "Width: the larger of both sides. Red with +: more than before; "
      + "blue with −: less; grey: no more than chance. " + (view.unit
        ? `Absolute: ${view.unit === "us" ? "CPU time" : view.unit} per task.`
        : `Relative: parts of each side’s ${tree.data.isSampled ? "samples" : tree.data.unit}.`);
    return;
  }
  const seen = new Set(tree.owner);
  const owners = tree.data.owners.filter((_, number) => seen.has(number));
  caption.replaceChildren(...owners.map(ownerMark));
}

function zoom(graph, node) {
  graph.zoomed = graph.focused = Math.max(0, node);
  refresh(graph);
}

function focusOn(graph, node) {
  if (node < 0) return;
  const { tree } = graph;
  graph.focused = node;
  graph.hovered = -1;
  while (node < graph.zoomed || node >= tree.end[graph.zoomed]) graph.zoomed = tree.parent[graph.zoomed];
  refresh(graph);
}

function listen(graph, figure) {
  const { canvas, search, back } = graph;
  const hit = event => nodeAt(graph, event.offsetX, event.offsetY);
  canvas.addEventListener("mousemove", event => { graph.hovered = hit(event); tell(graph, shown(graph)); });
  canvas.addEventListener("mouseleave", () => { graph.hovered = -1; tell(graph, graph.focused); });
  canvas.addEventListener("click", event => { const node = hit(event); if (node >= 0) zoom(graph, node); });
  for (const change of ["focus", "blur"]) canvas.addEventListener(change, () => paint(graph));
  canvas.addEventListener("keydown", event => onKey(graph, event));
  back.addEventListener("click", () => zoom(graph, 0));
  search.addEventListener("input", () => { find(graph, search.value); refresh(graph); });
  search.addEventListener("keydown", event => onSearchKey(graph, event));
  for (const mode of figure.querySelectorAll(".modes input"))
    mode.addEventListener("change", () => choose(graph, mode.value));
  new ResizeObserver(() => { if (canvas.clientWidth !== graph.width) paint(graph); }).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    graph.palette = paletteOf(graph.tree);
    paint(graph);
  });
}

const shown = graph => graph.hovered >= 0 ? graph.hovered : graph.focused;

const MOVES = {
  ArrowUp: ({ tree, focused }) => tree.parent[focused],
  ArrowDown: graph => widestChild(graph, graph.focused),
  ArrowLeft: graph => sibling(graph, -1),
  ArrowRight: graph => sibling(graph, 1),
  Home: () => 0,
  n: nextFound,
};

function onKey(graph, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key in MOVES) focusOn(graph, MOVES[event.key](graph));
  else if (event.key === "Enter") zoom(graph, graph.focused);
  else if (event.key === "Escape") zoom(graph, 0);
  else return;
  event.preventDefault();
}

function onSearchKey(graph, event) {
  if (event.key === "Enter") focusOn(graph, nextFound(graph));
  else if (event.key === "Escape") {
    graph.search.value = "";
    find(graph, "");
    refresh(graph);
    graph.canvas.focus({ preventScroll: true });
  } else return;
  event.preventDefault();
}

function childrenOf({ tree, layout }, node) {
  const found = [];
  for (let child = node + 1; child < tree.end[node]; child = tree.end[child])
    if (layout.width[child] > 0) found.push(child);
  return found;
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
