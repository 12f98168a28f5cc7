// The table of tests: its filter by text and kind, and the order of its rows.

for (const field of document.querySelectorAll(".filter")) openTable(field, document.getElementById(field.dataset.for));

function openTable(field, table) {
  const body = table.tBodies[0], rows = [...body.rows];
  const texts = new Map(rows.map(row => [row, textOf(row).toLowerCase()]));
  const kinds = [...document.querySelectorAll(".kinds input")];
  const filter = () => {
    const text = field.value.toLowerCase(), kind = kinds.find(input => input.checked)?.value ?? "";
    for (const row of rows)
      row.hidden = !texts.get(row).includes(text) || !(kind === "" || row.dataset.kinds.split(" ").includes(kind));
    const count = rows.filter(row => !row.hidden).length;
    document.querySelector(".shown").textContent = count < rows.length ? `${count} of ${rows.length}` : "";
  };
  field.addEventListener("input", filter);
  field.addEventListener("keydown", event => { if (event.key === "Escape") { field.value = ""; filter(); } });
  for (const kind of kinds) kind.addEventListener("change", filter);
  for (const button of document.querySelectorAll("[data-find]"))
    button.addEventListener("click", () => { field.value = button.dataset.find; filter(); field.focus(); });
  for (const head of table.querySelectorAll(".sortable th[data-by]")) makeSortable(head, body, rows);
}

// What is shown, and the owners, which only the label of their bar names.
function textOf(row) {
  return [row.textContent, row.querySelector(".bar")?.getAttribute("aria-label")].join(" ");
}

// Names from A to Z at first, figures from the highest to the lowest, and what is broken first.
function makeSortable(head, body, rows) {
  const button = document.createElement("button"), { by } = head.dataset;
  button.type = "button";
  button.className = "plain";
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => {
    const isRising = head.ariaSort ? head.ariaSort === "descending" : by === "name" || by === "0";
    for (const other of head.parentElement.cells) other.ariaSort = null;
    head.ariaSort = isRising ? "ascending" : "descending";
    const sorted = [...rows].sort((a, b) => isRising ? compare(a, b, by) : compare(b, a, by));
    body.append(...sorted);
  });
}

const keyOf = (row, by) => by === "name"
  ? row.querySelector(".test").textContent : +row.dataset.order.split(" ")[by];

function compare(a, b, by) {
  const [one, other] = [keyOf(a, by), keyOf(b, by)];
  return one < other ? -1 : one > other ? 1 : 0;
}
