// The search: a field, and a list of what score.js finds, which is put before this script. The index is loaded when the
// field gets the focus.
"use strict";

const form = document.getElementById("search");
const field = form.querySelector("input");
const list = form.querySelector("ul");
const most = 12;
let parts = null;

async function load() {
  if (parts) return;
  parts = [];
  const records = await (await fetch(form.dataset.index)).json();
  parts = records.map(prepared);
  search();
}

// excerpt is the text around the first word that is in it.
function excerpt(part, words) {
  const first = Math.min(...words.map((word) => part.lowText.indexOf(word)).filter((at) => at >= 0));
  const from = Number.isFinite(first) ? Math.max(0, first - 40) : 0;
  return (from > 0 ? "…" : "") + part.text.slice(from, from + 140).replace(/\s+/g, " ").trim() + "…";
}

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const best = found(parts, words).slice(0, most);
  list.replaceChildren(...best.map((part) => {
    const link = document.createElement("a");
    link.href = part.href;
    link.append(element("strong", part.title), element("span", part.page), element("small", excerpt(part, words)));
    const item = document.createElement("li");
    item.append(link);
    return item;
  }));
  if (words.length && !best.length) list.append(element("li", "Nothing found"));
  list.hidden = !words.length;
}

function move(event) {
  const links = [...list.querySelectorAll("a")];
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Escape") {
    field.value = "";
    search();
    field.focus();
  } else if (step && links.length) {
    event.preventDefault();
    const to = links.indexOf(document.activeElement) + step;
    (links[Math.min(to, links.length - 1)] ?? field).focus();
  }
}

form.hidden = false;
field.addEventListener("focus", load);
field.addEventListener("input", search);
form.addEventListener("keydown", move);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  list.querySelector("a")?.click();
});
list.addEventListener("click", () => { list.hidden = true; });
document.addEventListener("click", (event) => { if (!form.contains(event.target)) list.hidden = true; });
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input, textarea")) {
    event.preventDefault();
    field.focus();
  }
});
