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
