// Code of a function: a name in a table and a box of a flame graph open it.

function openCode(found) {
  found.open = true;
  found.scrollIntoView();
  found.querySelector("summary").focus({ preventScroll: true });
}

const codeOf = name => [...document.querySelectorAll("details.code")].find(each => each.dataset.function === name);

function openAddressed() {
  const found = location.hash.startsWith("#code-") && document.getElementById(location.hash.slice(1));
  if (found) openCode(found);
}

addEventListener("hashchange", openAddressed);
openAddressed();
