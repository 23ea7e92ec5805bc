"use strict";
// A click on a heading sorts its table by that column; another click turns the order round.
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const heading = button.closest("th");
    const table = heading.closest("table");
    const column = heading.cellIndex;
    const descending = heading.getAttribute("aria-sort") === "ascending";
    const key = (row) => {
      const cell = row.cells[column];
      return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
    };
    const before = (a, b) => {
      const first = key(a);
      const second = key(b);
      return typeof first === "number" ? first - second : first.localeCompare(second);
    };
    const body = table.tBodies[0];
    const rows = Array.from(body.rows).sort(before);
    if (descending) rows.reverse();
    body.append(...rows);
    for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  });
}
