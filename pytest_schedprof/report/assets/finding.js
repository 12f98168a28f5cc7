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

function matchWords({ current, matches }) {
  if (!matches.size) return "no function";
  const part = percent(held(current, matches) / (current.after[0] || 1));
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
