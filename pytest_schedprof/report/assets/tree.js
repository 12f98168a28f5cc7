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
