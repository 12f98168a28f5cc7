// Copy the stack of a box as text, its outermost function first.

function stackOf(graph) {
  const { tree } = graph;
  const names = pathTo(tree, shown(graph)).filter(node => tree.name[node] >= 0).map(node => fullName(tree, node));
  return tree.data.isInverted ? names.reverse() : names;
}

async function copyStack(panel) {
  const stack = stackOf(panel.active);
  if (!stack.length) { panel.output.textContent = "choose a box to copy its stack"; return; }
  try {
    await navigator.clipboard.writeText(stack.join("\n"));
  } catch {  // the browser gives scripts of files no clipboard
    copySelected(stack.join("\n"));
  }
  panel.output.textContent = `copied a stack of ${stack.length} ${stack.length === 1 ? "function" : "functions"}`;
}

function copySelected(text) {
  const area = element("textarea", text), focused = document.activeElement;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  focused?.focus({ preventScroll: true });
}
