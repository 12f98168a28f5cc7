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
  const words = [`here ${percent(count / (panel.current.after[0] || 1))}`];
  if (cost) words.push(`${amounts(count * cost, unit)} per task`);
  if (isSampled) words.push(samples(count));
  return tree.name[node] < 0 ? words.join(" · ") : `${words.join(" · ")}   —   ${everywhere(panel, tree.name[node])}`;
}

function everywhere({ data, state, current }, name) {
  if (state.from >= 0 || !data.bounds) {
    const where = state.from < 0 ? "" : " of the window";
    return `in all stacks${where} ${percent(partOf(current, name))}, self ${percent(ownPartOf(current, name))}`;
  }
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
