// Search for functions whose module and name contain the typed text.

function find(panel) {
  const wanted = panel.search.value.trim().toLowerCase();
  panel.found = wanted ? matching(panel.data, wanted) : null;
  panel.output.textContent = wanted ? foundWords(panel) : "";
}

function matching({ modules, functions }, wanted) {
  const found = new Set();
  for (let i = 0; i < functions.length; i += 3)
    if (`${modules[functions[i]]}:${functions[i + 1]}`.toLowerCase().includes(wanted)) found.add(i / 3);
  return found;
}

// Number of samples whose stack contains any of the functions; each sample counts once.
function held(tree, found) {
  let sum = 0;
  for (let node = 1; node < tree.size;) {
    if (!found.has(tree.name[node])) { node++; continue; }
    sum += tree.after[node];
    node = tree.end[node];
  }
  return sum;
}

function foundWords({ current, found }) {
  if (!found.size) return "no function";
  const part = percent(held(current, found) / (current.after[0] || 1));
  return `${found.size} ${found.size === 1 ? "function" : "functions"}, ${part} of all samples`;
}

// The next match after the focused node, in drawing order; -1 if there is none.
function nextFound(graph) {
  const { tree, zoomed, focused } = graph, { found } = graph.panel;
  if (!found || !found.size) return -1;
  const first = Math.max(zoomed, focused) + 1, last = tree.end[zoomed];
  for (let node = first; node < last; node++) if (found.has(tree.name[node])) return node;
  for (let node = zoomed; node < first; node++) if (found.has(tree.name[node])) return node;
  return -1;
}
