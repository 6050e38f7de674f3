// What the search finds, and in which order: every word has to be in the title or the text of a part of a page. A word
// in a title counts more than one in the text, and a whole word more than a part of one. The page that has the name
// that was typed comes first.
"use strict";

// more than words alone give.
const named = 1000;

// prepared is a record of the index with what is compared.
function prepared(part) {
  return {
    ...part,
    lowTitle: part.title.toLowerCase(),
    lowPage: part.page.toLowerCase(),
    lowText: part.text.toLowerCase(),
  };
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

// isNamed tells of a page, which is a part without a page of its own, whether the words are its title or its address.
function isNamed(part, words) {
  if (part.page !== "") return false;
  return part.lowTitle === words.join(" ") || part.href.toLowerCase().endsWith(`/${words.join("-")}/`);
}

function score(part, words) {
  let sum = 0;
  for (const word of words) {
    const points = 10 * hits(part.lowTitle, word) + 4 * hits(part.lowPage, word) + hits(part.lowText, word);
    if (points === 0) return 0;
    sum += points;
  }
  return isNamed(part, words) ? sum + named : sum;
}

// found are the parts that have all words, the best first.
function found(parts, words) {
  if (!words.length) return [];
  const scored = parts.map((part) => [score(part, words), part]).filter(([points]) => points > 0);
  scored.sort(([a], [b]) => b - a);
  return scored.map(([, part]) => part);
}
