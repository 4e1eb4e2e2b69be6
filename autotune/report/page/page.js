"use strict";
// Tables sort by a click on a column's head: up, down, and back to the report's own order.
// Nothing is loaded and nothing is sent; without this script the page reads all the same.
(() => {
  const words = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

  // What a row sorts by; null where it holds no figure, which comes last in either direction.
  const key = (row, column, numeric) => {
    const cell = row.cells[column];
    if (!numeric) return cell.textContent;
    return "sort" in cell.dataset ? Number(cell.dataset.sort) : null;
  };

  const sort = (table, column, direction, rows) => {
    const numeric = table.tHead.rows[0].cells[column].classList.contains("number");
    const keyed = rows.map((row) => ({ row, key: key(row, column, numeric) }));
    const order = (a, b) => {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null);
      return direction * (numeric ? a.key - b.key : words.compare(a.key, b.key));
    };
    if (direction !== 0) keyed.sort(order);
    table.tBodies[0].append(...keyed.map((one) => one.row));
  };

  const makeSortable = (table) => {
    const heads = [...table.tHead.rows[0].cells];
    const rows = [...table.tBodies[0].rows];
    if (rows.length < 2) return;
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const after = { ascending: "descending", descending: null }[before];
        for (const other of heads) other.removeAttribute("aria-sort");
        if (before !== "descending") head.setAttribute("aria-sort", after ?? "ascending");
        const directions = { ascending: 1, descending: -1 };
        sort(table, column, directions[head.getAttribute("aria-sort")] ?? 0, rows);
      });
    });
  };

  document.querySelectorAll("main table").forEach(makeSortable);

  // A link to a folded section unfolds it.
  const unfold = () => {
    const section = document.getElementById(location.hash.slice(1));
    const folded = section?.querySelector(":scope > details");
    if (folded) folded.open = true;
  };
  window.addEventListener("hashchange", unfold);
  document.querySelectorAll("nav a").forEach((link) => {
    link.addEventListener("click", () => setTimeout(unfold));
  });
  unfold();

  // One button for all that is folded, for searching in the page or printing all of it.
  const folded = [...document.querySelectorAll("main details")];
  if (folded.length > 0) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "unfold";
    const tell = () => {
      button.textContent = folded.every((one) => one.open) ? "Fold all" : "Unfold all";
    };
    button.addEventListener("click", () => {
      const open = !folded.every((one) => one.open);
      for (const one of folded) one.open = open;
      tell();
    });
    for (const one of folded) one.addEventListener("toggle", tell);
    tell();
    document.querySelector("nav").append(button);
  }
})();
