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
  const name = element("div", "");
  if (node > 0) name.append(element("span", `${moduleOf(graph.tree, node)}:`, "module"));
  name.append(element("b", nameOf(graph.tree, node)));
  if (node > 0) name.append(" ", ownerMark(ownerOf(graph.tree, node)));
  const words = graph.view.word ? changeWords(graph, node) : profileWords(graph.tree, node);
  graph.told.replaceChildren(name, element("div", words));
}

function ownerMark(owner) {
  const mark = element("span", "", "owner"), swatch = element("i", "", "swatch");
  swatch.style.background = `var(--o-${owner})`;
  mark.append(" ", swatch, owner);
  return mark;
}

function profileWords(tree, node) {
  const { cost, unit, isSampled } = tree.data, count = tree.after[node];
  const here = [`here ${percent(count / (tree.after[0] || 1))}`];
  if (cost) here.push(`${amounts(count * cost, unit)} per task`);
  if (isSampled) here.push(samples(count));
  return node ? `${here.join(" · ")}   —   ${everywhere(tree, node)}` : here.join(" · ");
}

function everywhere(tree, node) {
  const [share, low, high, own] = tree.data.bounds.slice(4 * tree.name[node], 4 * tree.name[node] + 4);
  if (!high) return "not in any stack of this side";
  const part = amount => percent(amount / 10000);
  const range = ` (95% bounds ${part(low).slice(0, -1)} to ${part(high)})`;
  return `in all stacks ${part(share)}${tree.data.isSampled ? range : ""}, self ${part(own)}`;
}

function changeWords(graph, node) {
  const { tree, view } = graph, found = difference(tree, view, node);
  const amount = view.unit ? value => `${amounts(value, view.unit)} per task` : percent;
  const relative = found.before ? ` (${signed(found.change, percent(Math.abs(found.change) / found.before))})` : "";
  const word = found.isNoise ? "no more than chance: " : "";
  const change = `${word}${amount(found.before)} → ${amount(found.after)}, ${view.word(found.change)}${relative}`;
  if (!tree.data.isSampled) return change;
  return `${change}   —   ${samples(tree.before[node])} before, ${samples(tree.after[node])} now`;
}
