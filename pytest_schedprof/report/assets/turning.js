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
