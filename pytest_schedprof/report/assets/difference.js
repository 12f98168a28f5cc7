// Views of a tree: the samples of one side, or the difference between two sides.

// Weights of a sample of each side: the cost that it stands for, or its part of all samples.
function viewOf(tree, mode) {
  const { cost, costBefore, unit } = tree.data;
  const shares = { after: 1 / (tree.after[0] || 1), before: 1 / (tree.before[0] || 1) };
  if (mode === "share") return { mode, ...shares, word: points };
  if (mode === "cost" && cost && costBefore)
    return { mode, after: cost, before: costBefore, unit, word: amount => signed(amount, amounts(amount, unit)) };
  if (mode === "cost") return { mode, ...shares, word: points };
  return { mode: "profile", after: 1, before: 0, word: null };
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
