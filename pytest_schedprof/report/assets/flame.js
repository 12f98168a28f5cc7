// A panel: the flame graphs of one recording, what is chosen above them, and what is told about a box.

for (const figure of document.querySelectorAll(".flame")) openPanel(figure);

function openPanel(figure) {
  const data = JSON.parse(document.getElementById(`${figure.id}-data`).textContent);
  const part = selector => figure.querySelector(selector), tree = readTree(data);
  const panel = {
    figure, data, whole: tree, matches: null,
    state: { ...DEFAULTS }, mark: null,
    words: part(".told"), output: part(".found"), back: part(".whole"),
    search: part(".search"), caption: part("figcaption"), palette: paletteOf(tree),
  };
  panel.graphs = [graphOn(panel, part("canvas.main"), false), graphOn(panel, part("canvas.callers"), true)];
  panel.active = panel.graphs[0];
  figure.hidden = false;
  listen(panel);
  if (recall(panel)) open(panel);
  else show(panel);
  figure.dataset.drawn = tree.size - 1;
}

// Open the view that the address tells.
function open(panel) {
  find(panel);
  show(panel);
  const [main] = panel.graphs;
  main.zoomed = main.focused = panel.mark ? marked(main.tree, panel.mark) : 0;
  refresh(panel);
  panel.figure.scrollIntoView();
}

// Draw the trees that the state asks for.
function show(panel) {
  const { state, whole } = panel, [main, callers] = panel.graphs;
  panel.view = viewOf(whole, state.mode);
  const zoomed = main.tree && main.zoomed ? markOf(main.tree, main.zoomed) : null;
  const isSandwich = state.view === "sandwich";
  plant(callers, isSandwich ? callersOf(whole, state.subject) : null);
  plant(main, isSandwich ? calleesOf(whole, state.subject) : state.view === "inverted" ? inverted(whole) : whole);
  if (zoomed) main.zoomed = main.focused = marked(main.tree, zoomed);
  panel.active = main;
  caption(panel);
  for (const input of panel.figure.querySelectorAll(".views input, .modes input"))
    input.checked = input.value === state.view || input.value === state.mode;
  refresh(panel);
}

function refresh(panel) {
  for (const graph of panel.graphs) if (graph.tree) paint(graph);
  tell(panel.active, shown(panel.active));
  panel.back.hidden = panel.state.view !== "sandwich" && panel.graphs[0].zoomed === 0;
}

// Another view; the callers and callees of a function, or else of that with most samples of its own.
function look(panel, view, subject = -1) {
  const { state, active, whole } = panel;
  if (view === "sandwich") {
    const chosen = subject >= 0 ? subject : active.tree.name[active.focused];
    state.subject = chosen >= 0 ? chosen : mostOwn(whole);
  }
  state.view = view;
  show(panel);
  remember(panel);
}

function mostOwn(tree) {
  const own = new Map();
  for (let node = 1; node < tree.size; node++)
    own.set(tree.name[node], (own.get(tree.name[node]) ?? 0) + tree.own[node]);
  return [...own].reduce((a, b) => b[1] > a[1] ? b : a, [0, -1])[0];
}

// From a zoomed graph to the whole one, and from the callers and callees of a function to all calls.
function leave(panel) {
  if (panel.graphs.every(graph => !graph.zoomed) && panel.state.view === "sandwich") look(panel, "calls");
  else for (const graph of panel.graphs.filter(({ tree }) => tree)) zoom(graph, 0);
  panel.active = panel.graphs[0];
  panel.active.canvas.focus({ preventScroll: true });
}

function showCode({ active, output }) {
  const node = shown(active), code = active.tree.name[node] >= 0 && codeOf(fullName(active.tree, node));
  if (code) openCode(code);
  else output.textContent = "the page has no code of this function";
}

function caption({ data, whole, view, caption }) {
  if (view.word) {
    caption.textContent = "Width: the larger of both sides. Red with +: more than before; "
      + "blue with −: less; grey: no more than chance. " + (view.unit
        ? `Absolute: ${view.unit === "us" ? "CPU time" : view.unit} per task.`
        : `Relative: parts of each side’s ${data.isSampled ? "samples" : data.unit}.`);
    return;
  }
  const seen = new Set(whole.owner);
  const owners = data.owners.filter((_, number) => seen.has(number));
  caption.replaceChildren(...owners.map(ownerMark));
}

function listen(panel) {
  const { figure, search, back } = panel;
  back.addEventListener("click", () => leave(panel));
  figure.querySelector(".copy").addEventListener("click", () => copyStack(panel));
  figure.querySelector(".source").addEventListener("click", () => showCode(panel));
  addEventListener("hashchange", () => { if (recall(panel)) open(panel); });
  search.addEventListener("input", () => { find(panel); refresh(panel); remember(panel); });
  search.addEventListener("keydown", event => onSearchKey(panel, event));
  for (const input of figure.querySelectorAll(".modes input"))
    input.addEventListener("change", () => { panel.state.mode = input.value; show(panel); remember(panel); });
  for (const input of figure.querySelectorAll(".views input"))
    input.addEventListener("change", () => look(panel, input.value));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    panel.palette = paletteOf(panel.whole);
    refresh(panel);
  });
}
