// What is copied of a block of code: all of it or, where it shows a session, what was typed in it.
"use strict";

function copied(text) {
  const lines = text.trimEnd().split("\n");
  if (!lines.some((line) => line.startsWith("$ "))) return lines.join("\n");
  const typed = [];
  let goesOn = false;
  for (const line of lines) {
    const begins = line.startsWith("$ ");
    if (begins || goesOn) typed.push(begins ? line.slice(2) : line);
    goesOn = (begins || goesOn) && line.endsWith("\\");
  }
  return typed.join("\n");
}
