// Keyboard shortcuts of the page.

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
