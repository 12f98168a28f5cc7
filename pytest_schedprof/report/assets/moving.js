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
