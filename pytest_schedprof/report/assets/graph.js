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
