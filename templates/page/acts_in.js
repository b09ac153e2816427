/** How the first moments look: words, ids, rows of cells, queries, keys and values, the cut into heads. */

import { cells, ease, mix, mostOf, ribbon, stagger, write, writeShape } from "./brush.js";
import { sayNumber } from "./facts.js";
import { colourOf, flow, nameRows, rowsIn, sideOf, slice, wide } from "./placing.js";

export const ENTERING = {
  /** The sentence breaks into words, and each falls to its row. */
  words(brush, { words, ids }, t) {
    const rows = rowsIn(brush, words.length, { most: 48 });
    const large = Math.min(34, brush.width / 16);
    const lines = flow(brush, words, large);
    const left = brush.width / 2;
    words.forEach((word, at) => {
      const go = stagger(Math.max(0, t - 0.15) / 0.85, at, words.length);
      const from = lines[at];
      const size = large + (rows.size * 1.25 - large) * go;
      const shift = ids.length ? 0 : 0;
      write(
        brush,
        word,
        from.x + (left - shift - from.x) * go,
        from.y + (rows.top + (at + 0.5) * rows.high - from.y) * go - Math.sin(go * Math.PI) * 30,
        {
          size,
          weight: 600,
          align: "center",
        },
      );
    });
  },

  /** Every word becomes its number. */
  ids(brush, { words, ids }, t) {
    const rows = rowsIn(brush, ids.length, { most: 48 });
    const size = rows.size * 1.2;
    const middle = brush.width / 2;
    const apart = Math.min(170, brush.width * 0.22);
    ids.forEach((id, at) => {
      const go = stagger(t, at, ids.length);
      const y = rows.top + (at + 0.5) * rows.high;
      if (words[at]) {
        write(brush, words[at], middle - apart * go, y, { size, weight: 600, align: "center" });
        write(brush, "→", middle, y, { size, ink: brush.paint.quiet, align: "center", share: go });
      }
      write(brush, `${id}`, middle + (words[at] ? apart * go : 0), y, {
        size,
        weight: 700,
        align: "center",
        ink: brush.paint.found,
        share: go,
      });
    });
  },

  /** Every number picks a row of cells. */
  rows(brush, { words, ids, matrix }, t) {
    const rows = rowsIn(brush, matrix.rows);
    const names = words.length === matrix.rows ? words : ids.length === matrix.rows ? ids.map(String) : [];
    const side = sideOf(brush, names, rows.size) + (words.length && ids.length ? 70 : 12);
    const each = wide(matrix.columns, brush.width - side - 60);
    const left = side + (brush.width - side - each * matrix.columns) / 2;
    const numbered = words.length && ids.length === matrix.rows;
    nameRows(brush, names, left - (numbered ? 62 : 12), rows);
    if (numbered && rows.high > 8)
      for (const [at, id] of ids.entries())
        write(brush, `${id}`, left - 12, rows.top + (at + 0.5) * rows.high, {
          size: rows.size * 0.85,
          ink: brush.paint.found,
          align: "right",
          weight: 600,
        });
    cells(brush, matrix, {
      x: left,
      y: rows.top,
      wide: each,
      high: rows.high,
      shown: (row, column) => stagger(t, row + (column / matrix.columns) * 3, matrix.rows + 3, 0.7),
      tell: (row, column) =>
        `${names[row] ?? `row ${row + 1}`}, number ${column + 1}: ${sayNumber(matrix.at(row, column))}`,
    });
    writeShape(brush, "", matrix.record.shape, matrix.record.axes, left, rows.top - 18, { share: ease(t * 2) });
  },

  /** A pattern slides onto the rows. */
  sum(brush, { parts, whole, words }, t) {
    const rows = rowsIn(brush, whole.rows);
    const side = sideOf(brush, words, rows.size) + 20;
    const each = wide(whole.columns * 2 + 4, brush.width - side - 40);
    const spread = side + Math.max(0, (brush.width - side - each * (whole.columns * 2 + 4)) / 2);
    const middle = side + (brush.width - side - each * whole.columns) / 2;
    const away = each * (whole.columns + 4);
    const go = ease((t - 0.25) / 0.5);
    const sum = ease((t - 0.7) / 0.3);
    const left = spread + (middle - spread) * go;
    nameRows(brush, words, left - 12, rows);
    cells(brush, parts[0], { x: left, y: rows.top, wide: each, high: rows.high, share: 1 - sum });
    cells(brush, parts[1], {
      x: left + away * (1 - go),
      y: rows.top,
      wide: each,
      high: rows.high,
      share: (t < 0.25 ? 1 : 1 - 0.45 * go) * (1 - sum),
    });
    if (go < 0.3)
      write(brush, "+", left + away - each * 2, rows.top + (rows.high * whole.rows) / 2, {
        size: 34,
        weight: 700,
        align: "center",
        share: 1 - go * 3,
      });
    cells(brush, whole, { x: left, y: rows.top, wide: each, high: rows.high, share: sum });
    writeShape(brush, "", whole.record.shape, whole.record.axes, left, rows.top - 18);
  },

  /** Ribbons from the rows to queries, keys and values. */
  three(brush, moment, t) {
    const { input, source, three, queries, keys, sides, crosses = moment.site.crosses } = moment;
    const total = three.reduce((sum, one) => sum + one.rows, 0);
    const gap = 34;
    const high = Math.max(2, Math.min(20, (brush.height - 40 - gap * 3) / total));
    const size = Math.max(9, Math.min(15, high * 0.8));
    const side = Math.max(sideOf(brush, queries, size), crosses ? sideOf(brush, keys, size) : 0) + 14;
    const each = wide(Math.max(input.columns, three[0].columns), (brush.width - side - 40) * 0.4, 15);
    const x = Math.max(side, brush.width * 0.5 - each * input.columns - brush.width * 0.1);
    const right = Math.min(brush.width - each * three[0].columns - 12, brush.width * 0.5 + brush.width * 0.1);
    const middle = brush.height / 2 + 6;
    const inputs =
      crosses && source
        ? [
            [input, queries, brush.paint.decoder, sides[0]],
            [source, keys, brush.paint.encoder, sides[1]],
          ]
        : [[input, queries, colourOf(brush, moment), ""]];
    const tall = inputs.reduce((sum, [one]) => sum + one.rows * high, 0) + gap * (inputs.length - 1);
    let top = middle - tall / 2;
    const tops = [];
    for (const [one, names, ink, label] of inputs) {
      tops.push({ top, bottom: top + one.rows * high, ink });
      nameRows(brush, names, x - 8, { high, top, size }, { ink });
      if (label) write(brush, label, x, top - 12, { size: 14, ink, weight: 700 });
      cells(brush, one, { x, y: top, wide: each, high });
      top += one.rows * high + gap;
    }
    let y = middle - (total * high + gap * 2) / 2;
    three.forEach((one, at) => {
      const from = tops[at && tops.length > 1 ? 1 : 0];
      const go = stagger(t, at, 3, 0.5);
      const ink = from.ink;
      ribbon(
        brush,
        { x: x + each * input.columns + 3, top: from.top, bottom: from.bottom },
        { x: right - 3, top: y, bottom: y + one.rows * high },
        { ink, share: go * 1.6, dim: 0.32 },
      );
      cells(brush, one, {
        x: right,
        y,
        wide: each,
        high,
        shown: (_, column) => ease((go * 1.6 - 0.6) * 1.6 - column / one.columns),
      });
      writeShape(brush, ["Q", "K", "V"][at], one.record.shape, one.record.axes, right, y - 14, { share: go, size: 14 });
      y += one.rows * high + gap;
    });
  },

  /** One wide matrix is cut into heads that move apart. */
  cut(brush, { whole, heads, queries, chosen }, t) {
    const rows = rowsIn(brush, whole.rows, { top: 70 });
    const side = sideOf(brush, queries, rows.size) + 20;
    const part = whole.columns / heads;
    const apart = Math.min(46, (brush.width - side) / heads / 5);
    const each = wide(whole.columns, brush.width - side - apart * heads - 20, 20);
    const go = ease((t - 0.3) / 0.5);
    const left =
      side +
      (brush.width - side - each * whole.columns - apart * (heads - 1)) / 2 +
      (apart * (heads - 1) * (1 - go)) / 2;
    nameRows(brush, queries, left - 10, rows);
    for (let head = 0; head < heads; head += 1) {
      const x = left + head * (each * part + apart * go);
      cells(brush, slice(whole, head * part, part), {
        x,
        y: rows.top,
        wide: each,
        high: rows.high,
        most: mostOf(whole),
        share: head === chosen.head ? 1 : 1 - 0.35 * go,
      });
      write(brush, `head ${head + 1}`, x + (each * part) / 2, rows.top - 14, {
        size: 14,
        align: "center",
        weight: 700,
        share: go,
        ink: head === chosen.head ? brush.paint.found : brush.paint.text,
      });
      const knife = ease(t / 0.3);
      if (head && go < 1) {
        brush.pen.globalAlpha = 1 - go;
        brush.pen.fillStyle = brush.paint.found;
        brush.pen.fillRect(x - 2, rows.top - 12, 3, (rows.high * whole.rows + 24) * knife);
        brush.pen.globalAlpha = 1;
      }
    }
    const shape = go < 0.5 ? [whole.rows, whole.columns] : [heads, whole.rows, part];
    write(brush, shape.join(" × "), brush.width / 2, 22, { size: 20, weight: 700, align: "center" });
  },

  /** The same numbers cut right, by columns, and wrong, in the order in which they lie in memory. */
  wrong(brush, { whole, heads, queries }, t) {
    const part = whole.columns / heads;
    const rows = rowsIn(brush, whole.rows * 2 + 3, { top: 34, most: 20 });
    const side = sideOf(brush, queries, rows.size) + 20;
    const apart = 18;
    const each = wide(whole.columns, brush.width - side - apart * heads - 20, 18);
    const left = side + (brush.width - side - each * whole.columns - apart * (heads - 1)) / 2;
    const { paint } = brush;
    const hues = [paint.plus, paint.found, paint.minus, paint.inference, paint.encoder];
    const hue = (row) => mix(hues[row % hues.length], paint.page, (Math.floor(row / hues.length) % 3) * 0.3);
    const shown = ease(t / 0.3);
    const swap = ease((t - 0.35) / 0.5);
    const draw = (top, from, label, ink) => {
      write(brush, label, left, top - 14, { size: 15, weight: 700, ink, share: shown });
      for (let head = 0; head < heads; head += 1) {
        for (let row = 0; row < whole.rows; row += 1) {
          for (let column = 0; column < part; column += 1) {
            const place = from(head, row, column);
            brush.pen.globalAlpha = shown;
            brush.pen.fillStyle = hue(Math.floor(place / whole.columns));
            brush.pen.fillRect(
              left + head * (each * part + apart) + column * each,
              top + row * rows.high,
              each - 1,
              rows.high - 1,
            );
          }
        }
      }
      brush.pen.globalAlpha = 1;
    };
    const right = (head, row, column) => row * whole.columns + head * part + column;
    const wrong = (head, row, column) => (head * whole.rows + row) * part + column;
    const second = rows.top + (whole.rows + 3) * rows.high;
    draw(rows.top, right, "right: view, then transpose. Each head has a slice of every row", brush.paint.inference);
    nameRows(brush, queries, left - 10, { ...rows, top: rows.top });
    draw(
      second,
      swap < 0.5 ? right : wrong,
      swap < 0.5 ? "the same numbers …" : "wrong: a view alone. Each head has a few whole rows",
      brush.paint.minus,
    );
  },

  /** Any tensor: its first channels beside each other, and what they were made from. */
  tensor(brush, { matrices, before, step }, t) {
    const halves =
      before?.length && brush.width > 640
        ? [
            [before, 0.02, 0.44, 1],
            [matrices, 0.56, 0.98, t],
          ]
        : [[matrices, 0.06, 0.94, t]];
    for (const [list, from, to, go] of halves) {
      const count = list.length;
      const across = Math.ceil(Math.sqrt(count));
      const down = Math.ceil(count / across);
      const left = brush.width * from;
      const room = brush.width * (to - from);
      const { rows, columns } = list[0];
      const cell = Math.max(
        0.5,
        Math.min(30, (room - across * 6) / (across * columns), (brush.height - 70 - down * 6) / (down * rows)),
      );
      const high = rows === 1 ? Math.min(40, Math.max(cell, 18)) : cell;
      const x0 = left + (room - across * (columns * cell + 6)) / 2;
      const y0 = 46 + (brush.height - 60 - down * (rows * high + 6)) / 2;
      list.forEach((matrix, at) => {
        cells(brush, matrix, {
          x: x0 + (at % across) * (columns * cell + 6),
          y: y0 + Math.floor(at / across) * (rows * high + 6),
          wide: cell,
          high,
          shown: (row) => (go >= 1 ? 1 : stagger(go, at * rows + row, count * rows, 0.9)),
        });
      });
      writeShape(brush, "", list[0].record.shape, list[0].record.axes, x0, Math.max(20, y0 - 18), { size: 15 });
    }
    if (halves.length > 1) {
      write(brush, step.op, brush.width / 2, brush.height / 2 - 16, { size: 16, weight: 700, align: "center" });
      write(brush, "→", brush.width / 2, brush.height / 2 + 10, {
        size: 30,
        align: "center",
        ink: brush.paint.quiet,
        share: ease(t * 3),
      });
    }
  },
};
