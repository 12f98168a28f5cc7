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

// Code of a function: a name in a table and a box of a flame graph open it.

function openCode(code) {
  code.open = true;
  code.scrollIntoView();
  code.querySelector("summary").focus({ preventScroll: true });
}

const codeOf = name => [...document.querySelectorAll("details.code")].find(code => code.dataset.function === name);

function openAddressed() {
  const code = location.hash.startsWith("#code-") && document.getElementById(location.hash.slice(1));
  if (code) openCode(code);
}

addEventListener("hashchange", openAddressed);
openAddressed();
