// The address of the page tells what is chosen, zoomed and searched, so that it opens the same view.

const DEFAULTS = { view: "calls", mode: "profile", subject: -1, from: -1, to: -1 };

function remember(panel) {
  if (location.protocol === "about:") return;  // the frame of a notebook has no address
  const { state, search, data, figure } = panel, [main] = panel.graphs;
  const address = new URLSearchParams({ graph: figure.id });
  for (const key of ["view", "mode", "from", "to"])
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
  const [from, to] = ["from", "to"].map(end => parseInt(address.get(end), 10)), slices = data.slices?.nodes.length ?? 0;
  if (0 <= from && from < to && to <= slices) [state.from, state.to] = [from, to];
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
