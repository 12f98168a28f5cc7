// Keyboard shortcuts of the page, and the filter of the table of tests.

const isTyping = event => event.target.matches("input, textarea, select");

document.addEventListener("keydown", event => {
  if (event.key !== "/" || isTyping(event) || event.ctrlKey || event.metaKey) return;
  const field = nearestField();
  if (!field) return;
  event.preventDefault();
  field.focus();
  field.closest("figure")?.scrollIntoView();
  field.select();
});

function nearestField() {
  const fields = [...document.querySelectorAll('input[type="search"]')];
  const distance = field => Math.abs(field.getBoundingClientRect().top);
  return fields.sort((a, b) => distance(a) - distance(b))[0];
}

for (const field of document.querySelectorAll(".filter")) {
  const rows = [...document.querySelectorAll(`#${field.dataset.for} tbody tr`)];
  const filter = () => {
    const wanted = field.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  };
  field.addEventListener("input", filter);
  field.addEventListener("keydown", event => {
    if (event.key === "Escape") { field.value = ""; filter(); }
  });
}
