// The call tree: nodes in depth-first order, each before the nodes that it called.

function readTree(data) {
  const size = data.depth.length + 1;
  const tree = {
    size, data,
    depth: new Int32Array(size), name: new Int32Array(size).fill(-1),
    parent: new Int32Array(size).fill(-1), end: new Int32Array(size), owner: new Int32Array(size),
    after: new Float64Array(size), before: new Float64Array(size),
  };
  linkNodes(tree);
  sumUp(tree.after, data.own, tree);
  if (data.before) sumUp(tree.before, data.before, tree);
  return tree;
}

// Node 0 is the root of all; node i of the data is node i + 1 here.
function linkNodes(tree) {
  const { depth, name, functions } = tree.data;
  const path = [0];
  tree.owner[0] = -1;
  for (let node = 1; node < tree.size; node++) {
    const level = depth[node - 1] + 1;
    for (let i = path.length - 1; i >= level; i--) tree.end[path[i]] = node;
    path.length = level;
    tree.depth[node] = level;
    tree.name[node] = name[node - 1];
    tree.parent[node] = path[level - 1];
    const own = functions[3 * name[node - 1] + 2];
    tree.owner[node] = own < 0 ? tree.owner[tree.parent[node]] : own;
    path.push(node);
  }
  for (const node of path) tree.end[node] = tree.size;
}

function sumUp(total, own, tree) {
  for (let node = 1; node < tree.size; node++) total[node] = own[node - 1];
  for (let node = tree.size - 1; node > 0; node--) total[tree.parent[node]] += total[node];
}

// Start and width of each node, in the unit of a view.
function layOut(tree, view) {
  const width = new Float64Array(tree.size), start = new Float64Array(tree.size);
  const { own, before } = tree.data;
  for (let node = 1; node < tree.size; node++)
    width[node] = Math.max(own[node - 1] * view.after, before ? before[node - 1] * view.before : 0);
  for (let node = tree.size - 1; node > 0; node--) width[tree.parent[node]] += width[node];
  const next = new Float64Array(tree.size);
  for (let node = 1; node < tree.size; node++) {
    const parent = tree.parent[node];
    start[node] = next[node] = next[parent];
    next[parent] += width[node];
  }
  return { width, start };
}

const moduleOf = (tree, node) => tree.data.modules[tree.data.functions[3 * tree.name[node]]];
const nameOf = (tree, node) => node ? tree.data.functions[3 * tree.name[node] + 1] : "all";
const ownerOf = (tree, node) => tree.data.owners[tree.owner[node]] ?? "foreign";
const deepest = tree => tree.depth.reduce((most, depth) => Math.max(most, depth), 0);
