/** Where things stand in a picture of the performance: rows, columns, squares, lines between them, and their names. */

import { widthOf, write } from "./brush.js";
import { sayNumber } from "./facts.js";

const LONGEST = 14;

/** Cut a long word. */
export function short(word, most = LONGEST) {
  const letters = [...`${word}`];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : `${word}`;
}

/** Heights of rows and where they begin, in the middle of the picture. */
export function rowsIn(brush, count, { most = 34, top = 40, bottom = 30 } = {}) {
  const high = Math.max(3, Math.min(most, (brush.height - top - bottom) / Math.max(1, count)));
  return {
    high,
    top: top + (brush.height - top - bottom - high * count) / 2,
    size: Math.max(9, Math.min(19, high * 0.62)),
  };
}

/** How wide the names of rows are. */
export function sideOf(brush, words, size) {
  return Math.max(0, ...words.map((word) => widthOf(brush, short(word), size, 600)));
}

/** Names at the left of rows. */
export function nameRows(brush, words, x, { high, top, size }, { share = 1, lit = -1, ink } = {}) {
  if (high < 9) return;
  words.forEach((word, row) => {
    write(brush, short(word), x, top + (row + 0.5) * high, {
      size,
      align: "right",
      weight: row === lit ? 800 : 600,
      ink: row === lit ? brush.paint.found : ink,
      share,
    });
  });
}

/** Names over columns, turned where they are wide. */
export function nameColumns(brush, words, x, y, wide, { share = 1, lit = -1, size = 14 } = {}) {
  if (wide < 7) return;
  const flat = words.every((word) => widthOf(brush, short(word), size, 600) < wide - 4);
  for (const [column, word] of words.entries()) {
    const middle = x + (column + 0.5) * wide;
    const style = {
      size: Math.min(size, wide * 1.1),
      weight: column === lit ? 800 : 600,
      ink: column === lit ? brush.paint.found : brush.paint.text,
      share,
    };
    if (flat) {
      write(brush, short(word), middle, y - 10, { ...style, align: "center" });
      continue;
    }
    brush.pen.save();
    brush.pen.translate(middle, y - 6);
    brush.pen.rotate(-0.7);
    write(brush, short(word), 0, 0, style);
    brush.pen.restore();
  }
}

export function colourOf(brush, moment) {
  return moment.pass?.kind === "decode" || /decoder/.test(moment.site?.kind ?? "")
    ? brush.paint.decoder
    : brush.paint.encoder;
}

/** How wide a cell may be in so much room. */
export function wide(columns, room, most = 26) {
  return Math.max(0.6, Math.min(most, room / Math.max(1, columns)));
}

/** The dot product of two rows, written out. */
export function dot(query, key, row, column, result, most = 4) {
  const parts = Array.from(
    { length: Math.min(most, query.columns) },
    (_, d) => `${signed(query.at(row, d))} · ${signed(key.at(column, d))}`,
  );
  return `${parts.join(" + ")}${query.columns > most ? " + …" : ""} = ${sayNumber(result)}`;
}

function signed(value) {
  return value < 0 ? `(−${sayNumber(-value)})` : sayNumber(value);
}

/** The largest column of a matrix's first row. */
export function strongest(matrix) {
  let best = 0;
  for (let column = 1; column < matrix.columns; column += 1)
    if (Number(matrix.at(0, column)) > Number(matrix.at(0, best))) best = column;
  return best;
}

export function slice(matrix, from, columns) {
  return { rows: matrix.rows, columns, at: (row, column) => matrix.at(row, from + column) };
}

/** A square of scores in the middle, with its names. */
export function square(brush, matrix, queries, keys) {
  const rows = rowsIn(brush, matrix.rows, { top: 86, bottom: 20, most: 44 });
  const side = sideOf(brush, queries, rows.size) + 10;
  const each = Math.min(rows.high * 1.7, (brush.width - side - 50) / matrix.columns);
  const x = side + (brush.width - side - each * matrix.columns) / 2;
  nameRows(brush, queries, x - 8, rows);
  nameColumns(brush, keys, x, rows.top, each);
  return { rows, place: { x, y: rows.top, wide: each, high: rows.high } };
}

export function numbersIn(brush, matrix, x, rows, each, shown) {
  if (each < 34 || rows.high < 15) return;
  for (let row = 0; row < matrix.rows; row += 1) {
    for (let column = 0; column < matrix.columns; column += 1) {
      const value = matrix.at(row, column);
      if (!shown(row, column) || typeof value !== "number" || Math.abs(value) > 1e6) continue;
      write(
        brush,
        Number(value.toPrecision(2)).toString(),
        x + (column + 0.5) * each,
        rows.top + (row + 0.5) * rows.high,
        { size: Math.min(13, rows.high * 0.5), align: "center", weight: 600 },
      );
    }
  }
}

export function darken(brush, matrix, { place }, go) {
  const { pen, paint } = brush;
  for (let row = 0; row < matrix.rows; row += 1) {
    for (let column = 0; column < matrix.columns; column += 1) {
      const share = go(row, column);
      if (share <= 0) continue;
      pen.globalAlpha = share;
      pen.fillStyle = paint.page;
      pen.fillRect(place.x + column * place.wide, place.y + row * place.high, place.wide, place.high);
      pen.strokeStyle = paint.hidden;
      pen.lineWidth = 1;
      pen.strokeRect(
        place.x + column * place.wide + 1.5,
        place.y + row * place.high + 1.5,
        place.wide - 4,
        place.high - 4,
      );
      pen.globalAlpha = 1;
    }
  }
}

/** Lines from rows to what they look at, as thick as the weight. */
export function links(brush, weights, { only = null, back = false }, from, to, ink, share = 1) {
  const { pen } = brush;
  pen.strokeStyle = ink;
  for (let row = 0; row < weights.rows; row += 1) {
    if (only !== null && row !== only) continue;
    for (let column = 0; column < weights.columns; column += 1) {
      const weight = Number(weights.at(row, column)) || 0;
      if (weight < 0.02) continue;
      const start = { x: from.x, y: from.rows.top + ((back ? column : row) + 0.5) * from.rows.high };
      const finish = { x: to.x, y: to.rows.top + ((back ? row : column) + 0.5) * to.rows.high };
      pen.globalAlpha = (0.15 + 0.85 * weight) * share;
      pen.lineWidth = 1 + 9 * weight;
      pen.beginPath();
      pen.moveTo(start.x, start.y);
      const middle = (start.x + finish.x) / 2;
      pen.bezierCurveTo(middle, start.y, middle, finish.y, finish.x, finish.y);
      pen.stroke();
    }
  }
  pen.globalAlpha = 1;
}

/** Where the words of a sentence stand, line by line in the middle. */
export function flow(brush, words, size) {
  const space = size * 0.3;
  const lines = [[]];
  let x = 0;
  for (const word of words) {
    const long = widthOf(brush, word, size, 600);
    if (x + long > brush.width * 0.86 && lines.at(-1).length) {
      lines.push([]);
      x = 0;
    }
    lines.at(-1).push({ x: x + long / 2, long });
    x += long + space;
  }
  return lines.flatMap((line, number) => {
    const total = line.at(-1).x + line.at(-1).long / 2;
    return line.map((one) => ({
      x: brush.width / 2 - total / 2 + one.x,
      y: brush.height / 2 + (number - (lines.length - 1) / 2) * size * 1.35,
    }));
  });
}
