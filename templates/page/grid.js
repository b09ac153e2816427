/** A table of cells with words on both axes: drawn small, read by pointing at it or by walking through it with keys. */

import { byId, el, say, svgEl } from "./dom.js";

const LONGEST = 12;

/**
 * A grid as an element. `paint(row, column)` gives the classes and the share of a cell, `tell(row, column)` its sentence;
 * `choose`, where given, is called when the word of a row is touched; `chosen` is a row that is framed, `start` a cell that is
 * pointed at from the beginning.
 */
export function makeGrid({
  name,
  rows,
  columns,
  rowWords = [],
  columnWords = [],
  cell: largest,
  paint,
  tell,
  choose,
  chosen = -1,
  start = null,
}) {
  const letter = Number.parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
  const side = rowWords.length ? widest(rowWords) * 6.6 * letter + 10 : 0;
  const room = byId("views").clientWidth - side - (columnWords.length ? 26 : 4);
  const cell = Math.max(4, Math.min(largest, Math.floor(room / Math.max(1, columns))));
  const words = cell >= 9;
  const left = words ? side : 0;
  const top = words && columnWords.length ? widest(columnWords) * 5.2 * letter + 12 : 0;
  const right = top ? 24 : 2;
  const width = left + columns * cell + right;
  const height = top + rows * cell + 2;
  const readout = el("p", { class: "readout" }, " ");
  const drawing = svgEl("svg", {
    class: "grid",
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    tabindex: "0",
    role: "application",
    "aria-roledescription": "table of cells",
    "aria-label": `${name}. Arrow keys go from cell to cell.`,
  });
  const rects = [];
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const { kind, share } = paint(row, column);
      const rect = svgEl("rect", {
        x: left + column * cell + 0.5,
        y: top + row * cell + 0.5,
        width: cell - 1,
        height: cell - 1,
        class: `cell ${kind}`,
        "data-row": row,
        "data-column": column,
      });
      if (share !== undefined) rect.style.setProperty("--share", `${(share * 100).toFixed(1)}%`);
      rects.push(rect);
    }
  }
  drawing.append(...rects);
  if (left) {
    rowWords.forEach((word, row) => {
      drawing.append(
        svgEl(
          "text",
          {
            x: left - 5,
            y: top + (row + 0.72) * cell,
            "text-anchor": "end",
            class: choose ? "word touchable" : "word",
            ...(choose && { onclick: () => choose(row) }),
          },
          shorten(word),
        ),
      );
    });
  }
  if (top) {
    columnWords.forEach((word, column) => {
      const x = left + (column + 0.62) * cell;
      drawing.append(
        svgEl("text", { x, y: top - 6, transform: `rotate(-50 ${x} ${top - 6})`, class: "word" }, shorten(word)),
      );
    });
  }
  if (chosen >= 0 && chosen < rows) {
    drawing.append(
      svgEl("rect", { class: "chosen_row", x: left, y: top + chosen * cell, width: columns * cell, height: cell }),
    );
  }
  const cursor = svgEl("rect", { class: "cursor", width: cell, height: cell, hidden: true });
  drawing.append(cursor);
  let at = { row: 0, column: 0 };
  const point = (row, column, touched) => {
    at = { row, column };
    cursor.removeAttribute("hidden");
    cursor.setAttribute("x", left + column * cell);
    cursor.setAttribute("y", top + row * cell);
    const text = tell(row, column);
    readout.textContent = text;
    if (touched) say(text);
  };
  if (start) point(start.row, start.column, false);
  drawing.addEventListener("pointermove", (event) => onCell(event, (row, column) => point(row, column, false)));
  drawing.addEventListener("click", (event) => onCell(event, (row, column) => point(row, column, true)));
  drawing.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Enter: [0, 0] };
    const go = steps[event.key];
    if (!go || event.shiftKey || !rows || !columns) return;
    event.preventDefault();
    event.stopPropagation();
    point(clamp(at.row + go[0], rows), clamp(at.column + go[1], columns), true);
  });
  return el("div", { class: "gridbox" }, el("div", { class: "scroll" }, drawing), readout);
}

/** A grid without words or keys, to be compared with its neighbours. */
export function makeThumb({ rows, columns, paint, size = 78 }) {
  const cell = size / Math.max(rows, columns, 1);
  const drawing = svgEl("svg", {
    class: "thumb",
    viewBox: `0 0 ${columns * cell} ${rows * cell}`,
    "aria-hidden": "true",
  });
  drawing.setAttribute("width", columns * cell);
  drawing.setAttribute("height", rows * cell);
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const { kind, share } = paint(row, column);
      const rect = svgEl("rect", { x: column * cell, y: row * cell, width: cell, height: cell, class: `cell ${kind}` });
      if (share !== undefined) rect.style.setProperty("--share", `${(share * 100).toFixed(1)}%`);
      drawing.append(rect);
    }
  }
  return drawing;
}

function onCell(event, then) {
  const { row, column } = event.target.dataset ?? {};
  if (row !== undefined) then(Number(row), Number(column));
}

function clamp(number, size) {
  return Math.max(0, Math.min(size - 1, number));
}

function widest(words) {
  return Math.max(0, ...words.map((word) => shorten(word).length));
}

function shorten(word) {
  const letters = [...word];
  return letters.length > LONGEST ? `${letters.slice(0, LONGEST - 1).join("")}…` : word;
}
