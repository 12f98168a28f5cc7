// The address of the page tells what is chosen, zoomed and searched, so that it opens the same view.

const DEFAULTS = { view: "calls", mode: "profile", subject: -1, from: -1, to: -1 };

function remember(panel) {
  const { state, search, data, figure } = panel, [main] = panel.graphs;
  const told = new URLSearchParams({ graph: figure.id });
  for (const key of ["view", "mode", "from", "to"])
    if (state[key] !== DEFAULTS[key]) told.set(key, state[key]);
  if (state.view === "sandwich") told.set("of", functionName(data, state.subject));
  if (main.zoomed) told.set("at", markOf(main.tree, main.zoomed));
  if (search.value) told.set("search", search.value);
  history.replaceState(null, "", `#${told}`);
}

// Return whether the address is about this panel.
function recall(panel) {
  const told = new URLSearchParams(location.hash.slice(1));
  if (told.get("graph") !== panel.figure.id) return false;
  const { state, data } = panel;
  Object.assign(state, DEFAULTS);
  if (has(panel, "views", told.get("view"))) state.view = told.get("view");
  if (has(panel, "modes", told.get("mode"))) state.mode = told.get("mode");
  const [from, to] = ["from", "to"].map(each => parseInt(told.get(each), 10)), slices = data.slices?.nodes.length ?? 0;
  if (0 <= from && from < to && to <= slices) [state.from, state.to] = [from, to];
  state.subject = numberOf(data, told.get("of"));
  if (state.view === "sandwich" && state.subject < 0) state.view = "calls";
  panel.search.value = told.get("search") ?? "";
  panel.mark = told.get("at");
  return true;
}

const has = (panel, choice, value) => value !== null
  && [...panel.figure.querySelectorAll(`.${choice} input`)].some(each => each.value === value);

const functionName = ({ modules, functions }, name) => `${modules[functions[3 * name]]}:${functions[3 * name + 1]}`;

function numberOf(data, wanted) {
  for (let name = 0; 3 * name < data.functions.length; name++)
    if (functionName(data, name) === wanted) return name;
  return -1;
}

// A node by the names on its path: its number would be another one in a page that was made again.
const markOf = (tree, node) => marks(tree)[node].toString(36);
const marked = (tree, mark) => Math.max(0, marks(tree).findIndex(each => each.toString(36) === mark));

function marks(tree) {
  const found = new Uint32Array(tree.size);
  for (let node = 1; node < tree.size; node++) found[node] = hashed(fullName(tree, node), found[tree.parent[node]]);
  return found;
}

// FNV-1a
function hashed(text, start) {
  let hash = start ^ 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}
