// The search: every word has to be in the title or the text of a part of a page. A word in a title counts more than
// one in the text, and a whole word more than a part of one. The index is loaded when the field gets the focus.
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
  parts = records.map((part) => ({
    ...part,
    lowTitle: part.title.toLowerCase(),
    lowPage: part.page.toLowerCase(),
    lowText: part.text.toLowerCase(),
  }));
  search();
}

// hits counts up to three places of a word, whole words double.
function hits(text, word) {
  let sum = 0;
  for (let at = text.indexOf(word), n = 0; at >= 0 && n < 3; at = text.indexOf(word, at + word.length), n++) {
    const whole = !/\w/.test(text[at - 1] ?? " ") && !/\w/.test(text[at + word.length] ?? " ");
    sum += whole ? 2 : 1;
  }
  return sum;
}

function score(part, words) {
  let sum = 0;
  for (const word of words) {
    const points = 10 * hits(part.lowTitle, word) + 4 * hits(part.lowPage, word) + hits(part.lowText, word);
    if (points === 0) return 0;
    sum += points;
  }
  return sum;
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
  const found = parts.map((part) => [words.length ? score(part, words) : 0, part]).filter(([points]) => points > 0);
  found.sort(([a], [b]) => b - a);
  list.replaceChildren(...found.slice(0, most).map(([, part]) => {
    const link = document.createElement("a");
    link.href = part.href;
    link.append(element("strong", part.title), element("span", part.page), element("small", excerpt(part, words)));
    const item = document.createElement("li");
    item.append(link);
    return item;
  }));
  if (words.length && !found.length) list.append(element("li", "Nothing found"));
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
