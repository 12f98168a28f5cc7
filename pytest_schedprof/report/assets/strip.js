// Samples over time: a strip of the owners in each slice, in which a window can be selected.

const STRIP = 40, COLLECTOR = 5;

function openStrip(panel) {
  const part = selector => panel.figure.querySelector(`.time ${selector}`);
  if (!panel.data.slices) return null;
  const strip = {
    panel, canvas: part("canvas"), from: part(".from"), to: part(".to"), words: part("output"),
    slices: panel.data.slices.nodes.map(unpacked), owners: null,
  };
  strip.owners = strip.slices.map(slice => ofOwners(panel.whole, slice));
  strip.from.max = strip.to.max = strip.slices.length;
  strip.to.value = strip.slices.length;
  listenTo(strip);
  new ResizeObserver(() => paintStrip(strip)).observe(strip.canvas);
  return strip;
}

// Pairs of a node of the tree and its samples.
function unpacked(steps) {
  const pairs = [];
  let node = 1;
  for (let i = 0; i < steps.length; i += 2) pairs.push([node += steps[i], steps[i + 1]]);
  return pairs;
}

function ofOwners(tree, slice) {
  const counts = new Map();
  for (const [node, count] of slice) counts.set(tree.owner[node], (counts.get(tree.owner[node]) ?? 0) + count);
  return counts;
}

function listenTo(strip) {
  const { canvas, from, to, panel } = strip;
  for (const end of [from, to]) end.addEventListener("input", () => select(strip, +from.value, +to.value));
  panel.figure.querySelector(".time .all").addEventListener("click", () => select(strip, 0, strip.slices.length));
  let start = -1;
  const at = event => Math.max(0, Math.min(strip.slices.length, event.offsetX / canvas.clientWidth * strip.slices.length));
  canvas.addEventListener("pointerdown", event => { start = at(event); canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", event => {
    if (start < 0) return;
    const [low, high] = [start, at(event)].sort((a, b) => a - b);
    select(strip, Math.floor(low), Math.max(Math.floor(low) + 1, Math.ceil(high)));
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { start = -1; });
}

// Show only the samples of some slices; all of them if the window is the whole or empty.
function select(strip, from, to) {
  const { panel, slices } = strip, { state } = panel;
  const isWhole = from >= to || (from <= 0 && to >= slices.length);
  [state.from, state.to] = isWhole ? [-1, -1] : [Math.max(0, from), Math.min(to, slices.length)];
  showWindow(strip);
  show(panel);
  remember(panel);
}

// The tree of the window has the nodes of the whole one, some of them without samples.
function showWindow(strip) {
  const { panel, slices } = strip, { from, to } = panel.state, isWhole = from < 0;
  const own = isWhole ? null : new Array(panel.whole.size - 1).fill(0);
  for (const slice of isWhole ? [] : slices.slice(from, to))
    for (const [node, count] of slice) own[node - 1] += count;
  panel.current = isWhole ? panel.whole : readTree({ ...panel.data, own });
  [strip.from.value, strip.to.value] = isWhole ? [0, slices.length] : [from, to];
  const part = panel.current.after[0] / (panel.whole.after[0] || 1);
  strip.words.textContent = isWhole ? "" : `${percent(part)} of all samples are in the window`;
  panel.figure.querySelector(".time .all").hidden = isWhole;
  find(panel);
  paintStrip(strip);
}

function paintStrip(strip) {
  const { canvas, panel, slices, owners } = strip, { palette, data } = panel, ratio = devicePixelRatio || 1;
  const width = canvas.clientWidth, pen = canvas.getContext("2d"), wide = width / slices.length;
  canvas.width = Math.round(width * ratio);
  canvas.height = STRIP * ratio;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  const collector = data.owners.indexOf("gc");
  const room = STRIP - (collector < 0 ? 0 : COLLECTOR + 2);
  owners.forEach((counts, slice) => {
    const isIn = panel.state.from < 0 || (panel.state.from <= slice && slice < panel.state.to);
    pen.globalAlpha = isIn ? 1 : 0.3;
    let y = room;
    for (const [owner, count] of [...counts].sort((a, b) => a[0] - b[0])) {
      const high = count / data.slices.samples[slice] * room;  // the rest of the height is idle
      pen.fillStyle = palette.owners[owner] ?? palette.none;
      pen.fillRect(slice * wide, y -= high, Math.max(wide - 0.5, 0.5), high);
    }
    paintCollector(pen, palette, counts, collector, [slice * wide, wide]);
  });
  pen.globalAlpha = 1;
  pen.fillStyle = palette.dim;
  for (const round of data.slices.rounds) pen.fillRect(round * wide, 0, 1, STRIP);
}

// A bar of its own: the part of the slice in which the garbage collector ran.
function paintCollector(pen, palette, counts, collector, [x, wide]) {
  const all = [...counts.values()].reduce((a, b) => a + b, 0), part = (counts.get(collector) ?? 0) / (all || 1);
  if (!part || collector < 0) return;
  pen.fillStyle = palette.ink;
  pen.fillRect(x, STRIP - COLLECTOR * Math.max(0.3, part), Math.max(wide - 0.5, 0.5), COLLECTOR);
}
