document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const isNumber = head.classList.contains("n");
      const sort = () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const value = (row) => {
          const cell = row.cells[column];
          if (cell.classList.contains("null")) return null;
          return isNumber ? Number(cell.dataset.v ?? cell.textContent) : cell.textContent;
        };
        const rows = [...table.tBodies[0].rows].map((row) => [value(row), row]);
        // Nulls stay at the end, and NaN before them.
        rows.sort(([a], [b]) => {
          if (a === null || b === null) return (a === null) - (b === null);
          if (a !== a || b !== b) return (a !== a) - (b !== b);
          return (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1);
        });
        table.tBodies[0].append(...rows.map(([, row]) => row));
      };
      head.tabIndex = 0;
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => event.key === "Enter" && sort());
    });
  }
});
