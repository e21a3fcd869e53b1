"use strict";

// Sorting: numbers by value, words by text; a missing value (no data-v) always comes last.
function compare(a, b, sign) {
  const x = a.dataset.v, y = b.dataset.v;
  if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
  const numbers = x !== "" && y !== "" && !isNaN(x) && !isNaN(y);
  return sign * (numbers ? x - y : x.localeCompare(y, undefined, { numeric: true }));
}

function sort(th) {
  const table = th.closest("table"), body = table.tBodies[0], column = th.cellIndex;
  const sign = th.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  for (const other of th.parentNode.cells) other.setAttribute("aria-sort", "none");
  th.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
  const rows = [...body.rows].sort((a, b) => compare(a.cells[column], b.cells[column], sign));
  body.append(...rows);
}

// Filtering: whatever carries data-task, data-method or data-model is hidden unless it fits every choice made.
function filter(form) {
  const wanted = [...new FormData(form)].filter(([, value]) => value);
  const fits = (item) => wanted.every(([key, value]) => !(key in item.dataset) || item.dataset[key] === value);
  document.querySelectorAll("[data-task], [data-method], [data-model]").forEach((item) => { item.hidden = !fits(item); });
  document.querySelectorAll("section.table").forEach((section) => {
    const rows = [...section.querySelectorAll("tbody tr")], shown = rows.filter((row) => !row.hidden).length;
    section.hidden = shown === 0;
    section.querySelector(".count").textContent = shown === rows.length ? "" : `${shown} of ${rows.length} rows`;
  });
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("th button");
  if (button) sort(button.closest("th"));
});
const form = document.querySelector(".filters form");
form.addEventListener("change", () => filter(form));
form.addEventListener("reset", () => setTimeout(() => filter(form)));
form.addEventListener("submit", (event) => event.preventDefault());
