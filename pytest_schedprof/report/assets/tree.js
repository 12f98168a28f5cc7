// The call tree: nodes in depth-first order, each before the nodes that it called.

// `root` is the function of node 0, with its own samples; without one it is the root of all.
function readTree(data, root = { name: -1, own: 0, before: 0 }) {
  const size = data.depth.length + 1;
  const tree = {
    size, data,
    depth: new Int32Array(size), name: new Int32Array(size).fill(-1),
    parent: new Int32Array(size).fill(-1), end: new Int32Array(size), owner: new Int32Array(size),
    own: new Float64Array(size), ownBefore: new Float64Array(size),
  };
  tree.name[0] = root.name;
  linkNodes(tree);
  tree.own.set(data.own, 1);
  tree.own[0] = root.own;
  if (data.before) tree.ownBefore.set(data.before, 1);
  tree.ownBefore[0] = root.before;
  tree.after = summedUp(tree.own, tree);
  tree.before = summedUp(tree.ownBefore, tree);
  return tree;
}

// Node 0 is the root; node i of the data is node i + 1 here.
function linkNodes(tree) {
  const { depth, name, isInverted } = tree.data;
  const path = [0];
  tree.owner[0] = ownerOfFunction(tree.data, tree.name[0]);
  for (let node = 1; node < tree.size; node++) {
    const level = depth[node - 1] + 1;
    for (let i = path.length - 1; i >= level; i--) tree.end[path[i]] = node;
    path.length = level;
    tree.depth[node] = level;
    tree.name[node] = name[node - 1];
    tree.parent[node] = path[level - 1];
    const own = ownerOfFunction(tree.data, name[node - 1]);
    // A function without an owner works for its caller, which is not above it if callers are below.
    tree.owner[node] = own < 0 && !isInverted ? tree.owner[tree.parent[node]] : own;
    path.push(node);
  }
  for (const node of path) tree.end[node] = tree.size;
}

const ownerOfFunction = ({ functions }, name) => name < 0 ? -1 : functions[3 * name + 2];

function summedUp(own, tree) {
  const total = own.slice();
  for (let node = tree.size - 1; node > 0; node--) total[tree.parent[node]] += total[node];
  return total;
}

// Start and width of each node, in the unit of a view.
function layOut(tree, view) {
  const width = new Float64Array(tree.size), start = new Float64Array(tree.size);
  for (let node = 0; node < tree.size; node++)
    width[node] = Math.max(tree.own[node] * view.after, tree.ownBefore[node] * view.before);
  for (let node = tree.size - 1; node > 0; node--) width[tree.parent[node]] += width[node];
  const next = new Float64Array(tree.size);
  for (let node = 1; node < tree.size; node++) {
    const parent = tree.parent[node];
    start[node] = next[node] = next[parent];
    next[parent] += width[node];
  }
  return { width, start };
}

// The nodes from the root to this one.
function pathTo(tree, node) {
  const path = [];
  for (; node >= 0; node = tree.parent[node]) path.unshift(node);
  return path;
}

const moduleOf = (tree, node) => tree.data.modules[tree.data.functions[3 * tree.name[node]]];
const nameOf = (tree, node) => tree.name[node] < 0 ? "all" : tree.data.functions[3 * tree.name[node] + 1];
const fullName = (tree, node) => `${moduleOf(tree, node)}:${nameOf(tree, node)}`;
const ownerOf = (tree, node) => tree.data.owners[tree.owner[node]] ?? "foreign";
const deepest = tree => tree.depth.reduce((most, depth) => Math.max(most, depth), 0);

// Trees made of the tree of calls: turned upside down, and what calls and is called by one function.

// From the functions in which samples end to their callers.
function inverted(tree) {
  const root = newNode(-1);
  for (let node = 1; node < tree.size; node++)
    if (tree.own[node] || tree.ownBefore[node])
      addUpwards(root, tree, node, tree.own[node], tree.ownBefore[node]);
  return treeFrom(root, tree.data, true);
}

// The callers of a function, and theirs. The root is the function itself.
function callersOf(tree, name) {
  const root = newNode(name);
  for (const node of outermost(tree, name)) {
    const [own, before] = [tree.after[node], tree.before[node]];
    addUpwards(root, tree, tree.parent[node], own, before);
  }
  return treeFrom(root, tree.data, true);
}

// What a function called. The root is the function itself.
function calleesOf(tree, name) {
  const root = newNode(name);
  for (const top of outermost(tree, name)) {
    const path = [root];
    for (let node = top; node < tree.end[top]; node++) {
      const level = tree.depth[node] - tree.depth[top];
      if (level) path[level] = childOf(path[level - 1], tree.name[node]);
      path[level].own += tree.own[node];
      path[level].before += tree.ownBefore[node];
    }
  }
  return treeFrom(root, tree.data, false);
}

// Nodes of a function that are below no other node of it: recursion counts once.
function outermost(tree, name) {
  const tops = [];
  for (let node = 1; node < tree.size;) {
    if (tree.name[node] !== name) { node++; continue; }
    tops.push(node);
    node = tree.end[node];
  }
  return tops;
}

const newNode = name => ({ name, own: 0, before: 0, total: 0, children: new Map() });

function childOf(parent, name) {
  let child = parent.children.get(name);
  if (!child) parent.children.set(name, child = newNode(name));
  return child;
}

function addUpwards(root, tree, node, own, before) {
  let at = root;
  for (; node > 0; node = tree.parent[node]) at = childOf(at, tree.name[node]);
  at.own += own;
  at.before += before;
}

function treeFrom(root, data, isInverted) {
  const made = { ...data, depth: [], name: [], own: [], before: [], isInverted };
  weigh(root);
  const waiting = [...lightestFirst(root)].map(node => [node, 0]);
  while (waiting.length) {
    const [node, depth] = waiting.pop();
    made.depth.push(depth);
    made.name.push(node.name);
    made.own.push(node.own);
    made.before.push(node.before);
    for (const child of lightestFirst(node)) waiting.push([child, depth + 1]);
  }
  return readTree(made, root);
}

// Not recursive, because stacks may be deeper than the script's own.
function weigh(root) {
  const all = [root];
  for (let i = 0; i < all.length; i++) all.push(...all[i].children.values());
  for (const node of all.reverse()) {
    node.total += node.own + node.before;
    for (const child of node.children.values()) node.total += child.total;
  }
}

const lightestFirst = node => [...node.children.values()].sort((a, b) => a.total - b.total);

// Views of a tree: the samples of one side, or the difference between two sides.

// Weights of a sample of each side: the cost that it stands for, or its part of all samples.
function viewOf(tree, mode) {
  const { cost, costBefore, unit } = tree.data;
  const shares = { after: 1 / (tree.after[0] || 1), before: 1 / (tree.before[0] || 1) };
  if (mode === "profile") return { after: 1, before: 0, word: null };
  if (mode === "cost" && cost && costBefore)
    return { after: cost, before: costBefore, unit, word: amount => signed(amount, amounts(amount, unit)) };
  return { ...shares, word: points };
}

const signed = (amount, text) => (amount < 0 ? "−" : "+") + text;
const points = amount => signed(amount, `${(Math.abs(amount) * 100).toFixed(1)} pp`);
const amounts = (amount, unit) => `${digits(Math.abs(amount))} ${unit}`;
const digits = amount =>
  amount >= 100 ? Math.round(amount).toLocaleString("en") : amount.toPrecision(3);

// Standard deviations below which a difference is called noise. Samples scatter more than
// independent ones: `scatter` in the data says by which factor.
const NOISE = 2;

function difference(tree, view, node) {
  const after = tree.after[node] * view.after, before = tree.before[node] * view.before;
  const noise = tree.data.scatter * Math.hypot(
    Math.sqrt(tree.after[node]) * view.after, Math.sqrt(tree.before[node]) * view.before);
  const change = after - before;
  return { after, before, change, isNoise: Math.abs(change) <= NOISE * noise };
}
