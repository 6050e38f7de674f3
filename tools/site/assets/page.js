// What a page can do besides being read: code can be copied, and the heads of tables stay in sight. Without this script
// nothing is missing from it.
"use strict";

// copyButton is a button that copies a block of code, as copy.js says, which is put before this script. Browsers give the clipboard to secure pages alone.
function copyButton(block) {
  const button = document.createElement("button");
  button.className = "copy";
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(copied(block.querySelector("code").textContent));
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not copied";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return button;
}

if (navigator.clipboard) {
  for (const block of document.querySelectorAll(".code")) block.append(copyButton(block));
}

// A table that fits lets its heads stick to the window, one that does not gets a window of its own.
const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const fits = target.firstElementChild.offsetWidth <= target.clientWidth;
    target.classList.toggle("fits", fits);
    target.classList.toggle("scrolls", !fits);
  }
});
for (const table of document.querySelectorAll(".table")) sizes.observe(table);

const contents = document.getElementById("contents");
contents?.addEventListener("click", (event) => {
  if (event.target.closest("a") && contents.matches(":popover-open")) contents.hidePopover();
});
