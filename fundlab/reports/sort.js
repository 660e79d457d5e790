"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], heads = table.tHead.rows[0].cells;
  for (let column = 0; column < heads.length; column++) {
    const head = heads[column], button = document.createElement("button");
    button.type = "button";
    head.dataset.label = head.textContent; // for paper, where buttons are not repeated
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = row => {
        const cell = row.cells[column];
        return "k" in cell.dataset ? Number(cell.dataset.k) : cell.textContent;
      };
      const rows = Array.from(body.rows, row => [key(row), row]);
      rows.sort(([a], [b]) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
      if (down) rows.reverse();
      body.append(...rows.map(pair => pair[1]));
    });
  }
}
const open = () => { // what a link leads to may be within something folded
  const target = location.hash && document.getElementById(location.hash.slice(1));
  for (let box = target; box; box = box.parentElement) if (box.tagName === "DETAILS") box.open = true;
  if (target) for (const box of target.querySelectorAll(":scope > details")) box.open = true;
  if (target) target.scrollIntoView();
};
addEventListener("hashchange", open);
open();
