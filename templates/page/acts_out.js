/** How the later moments look: wide rows, layers, the list of words, the loop, plain tensors. */

import { ATTENDING } from "./acts_attention.js";
import { ENTERING } from "./acts_in.js";
import { cells, ease, frame, mostOf, ribbon, stagger, widthOf, write, writeShape } from "./brush.js";
import { sayNumber, sayPercent } from "./facts.js";
import { nameRows, rowsIn, short, sideOf } from "./placing.js";

/** Every act by its name. */
export const ALL_ACTS = {
  ...ENTERING,
  ...ATTENDING,

  /** Rows are made wide, bent, and made narrow again. */
  wide(brush, { input, large, thin, result, queries }, t) {
    const rows = rowsIn(brush, input.rows, { top: 50, most: 30 });
    const side = sideOf(brush, queries, rows.size) + 12;
    const room = brush.width - side - 30;
    const gap = Math.min(60, room * 0.07);
    const each = Math.min(9, (room - gap * 2) / (input.columns + large.columns + result.columns));
    const total = each * (input.columns + large.columns + result.columns) + gap * 2;
    const x = side + (room - total) / 2 + 10;
    const second = x + each * input.columns + gap;
    const third = second + each * large.columns + gap;
    const ink = brush.paint.encoder;
    const band = { top: rows.top, bottom: rows.top + rows.high * input.rows };
    nameRows(brush, queries, x - 8, rows);
    cells(brush, input, { x, y: rows.top, wide: each, high: rows.high });
    ribbon(brush, { x: second - gap + 2, ...band }, { x: second - 2, ...band }, { ink, share: t / 0.2, dim: 0.4 });
    const bend = ease((t - 0.45) / 0.2);
    const grown = (_, column) => stagger((t - 0.15) / 0.3, column, large.columns, 0.9);
    cells(brush, large, { x: second, y: rows.top, wide: each, high: rows.high, shown: grown, share: 1 - bend });
    cells(brush, thin, { x: second, y: rows.top, wide: each, high: rows.high, share: bend, most: mostOf(large) });
    ribbon(
      brush,
      { x: third - gap + 2, ...band },
      { x: third - 2, ...band },
      { ink, share: (t - 0.65) / 0.15, dim: 0.4 },
    );
    cells(brush, result, {
      x: third,
      y: rows.top,
      wide: each,
      high: rows.high,
      shown: (row) => stagger((t - 0.75) / 0.25, row, result.rows),
    });
    for (const [matrix, left] of [
      [input, x],
      [large, second],
      [result, third],
    ])
      writeShape(brush, "", matrix.record.shape, matrix.record.axes, left, rows.top - 18, { size: 14 });
  },

  /** What each layer reads, one after the other. */
  layers(brush, { matrices, queries }, t) {
    const shown = matrices.slice(0, 6);
    const rows = rowsIn(brush, shown[0].rows, { top: 56, most: 26 });
    const side = sideOf(brush, queries, rows.size) + 12;
    const gap = Math.min(70, brush.width * 0.05);
    const each = Math.min(
      12,
      (brush.width - side - 24 - gap * (shown.length - 1)) / shown.reduce((sum, one) => sum + one.columns, 0),
    );
    let x =
      side +
      Math.max(
        6,
        (brush.width - side - gap * (shown.length - 1) - each * shown.reduce((sum, one) => sum + one.columns, 0)) / 2,
      );
    nameRows(brush, queries, x - 8, rows);
    const band = { top: rows.top, bottom: rows.top + rows.high * shown[0].rows };
    shown.forEach((one, at) => {
      const go = stagger(t, at, shown.length, 0.3);
      if (at)
        ribbon(
          brush,
          { x: x - gap + 2, ...band },
          { x: x - 2, ...band },
          { ink: brush.paint.encoder, share: go * 2, dim: 0.4 },
        );
      cells(brush, one, {
        x,
        y: rows.top,
        wide: each,
        high: rows.high,
        shown: (row) => ease(go * 2 - 0.6 - row * 0.05),
      });
      write(brush, `into layer ${at + 1}`, x, rows.top - 18, { size: 14, weight: 700, share: go });
      x += each * one.columns + gap;
    });
  },

  /** The last row becomes one number for every word. */
  logits(brush, { input, logits, words }, t) {
    const row = logits.rows - 1;
    const high = Math.min(26, (brush.height * 0.4) / input.rows);
    const top = 46;
    const side = sideOf(brush, words, 14) + 16;
    const each = Math.min(16, (brush.width - side - 40) / input.columns);
    const left = side + (brush.width - side - each * input.columns) / 2;
    nameRows(
      brush,
      words.length === input.rows ? words : [],
      left - 8,
      { high, top, size: Math.min(15, high * 0.7) },
      { lit: row },
    );
    cells(brush, input, { x: left, y: top, wide: each, high, shown: (r) => (r === row ? 1 : 0.3) });
    frame(brush, left, top + row * high, each * input.columns, high);
    writeShape(brush, "", input.record.shape, input.record.axes, left, top - 18, { size: 14 });
    const columns = Math.min(
      logits.columns,
      Math.max(25, Math.ceil(Math.sqrt((logits.columns * (brush.width - 40)) / (brush.height * 0.3)))),
    );
    const lines = Math.ceil(logits.columns / columns);
    const cell = Math.min(30, (brush.width - 40) / columns, (brush.height * 0.36) / lines);
    const x = (brush.width - columns * cell) / 2;
    const y = top + input.rows * high + Math.max(40, (brush.height - top - input.rows * high - lines * cell) / 2);
    const folded = {
      rows: lines,
      columns,
      at: (r, c) => (r * columns + c < logits.columns ? logits.at(row, r * columns + c) : null),
    };
    cells(brush, folded, {
      x,
      y,
      wide: cell,
      high: cell,
      most: mostOf(logits),
      shown: (r, c) =>
        r * columns + c < logits.columns ? stagger((t - 0.2) / 0.8, r * columns + c, logits.columns, 0.98) : 0,
      tell: (r, c) => `number ${r * columns + c}: ${sayNumber(folded.at(r, c))}`,
    });
    writeShape(brush, "", logits.record.shape, logits.record.axes, x, y - 16, { size: 14, share: ease(t * 2) });
  },

  /** Bars of the likeliest words; the longest is taken. */
  choose(brush, { candidates }, t) {
    const shown = candidates.slice(0, 8);
    const rows = rowsIn(brush, shown.length, { top: 20, most: 46 });
    const side = Math.min(
      sideOf(
        brush,
        shown.map(([word]) => word),
        rows.size * 1.1,
      ) + 20,
      brush.width * 0.4,
    );
    const long = Math.min(620, brush.width - side - 130);
    const left = (brush.width - long - side - 80) / 2 + side;
    shown.forEach(([word, chance], at) => {
      const go = stagger(t / 0.7, at, shown.length, 0.8);
      const y = rows.top + at * rows.high;
      const taken = at === 0 && t > 0.7;
      write(brush, short(word), left - 12, y + rows.high / 2, {
        size: rows.size * 1.1,
        weight: taken ? 800 : 600,
        align: "right",
        ink: taken ? brush.paint.inference : brush.paint.text,
      });
      brush.pen.fillStyle = brush.paint.zero;
      brush.pen.fillRect(left, y + rows.high * 0.18, long, rows.high * 0.64);
      brush.pen.fillStyle = brush.paint.inference;
      brush.pen.globalAlpha = at ? 0.6 : 1;
      brush.pen.fillRect(left, y + rows.high * 0.18, Math.max(2, long * chance * go), rows.high * 0.64);
      brush.pen.globalAlpha = 1;
      write(brush, sayPercent(chance), left + long + 10, y + rows.high / 2, {
        size: rows.size,
        weight: 600,
        share: go,
      });
      if (taken)
        frame(brush, left, y + rows.high * 0.18, long, rows.high * 0.64, {
          ink: brush.paint.inference,
          share: ease((t - 0.7) / 0.3),
        });
    });
  },

  /** The new word flies round and takes its place in the answer. */
  loop(brush, { words, next }, t) {
    const size = Math.min(32, brush.width / 20);
    const all = [...words, next];
    const gap = size * 0.45;
    const long = all.map((word) => widthOf(brush, word, size, 700) + gap);
    const total = long.reduce((sum, one) => sum + one, 0);
    const shrink = Math.min(1, (brush.width - 40) / total);
    const y = brush.height * 0.68;
    let x = (brush.width - total * shrink) / 2;
    const places = long.map((one) => {
      const middle = x + (one * shrink) / 2;
      x += one * shrink;
      return middle;
    });
    for (const [at, word] of words.entries()) {
      write(brush, word, places[at], y, {
        size: size * shrink,
        weight: 600,
        align: "center",
        ink: brush.paint.decoder,
      });
    }
    const start = { x: brush.width / 2, y: brush.height * 0.18 };
    const goal = { x: places.at(-1), y };
    const side = {
      x: Math.min(brush.width - 30, Math.max(goal.x, start.x) + brush.width * 0.28),
      y: (start.y + goal.y) / 2,
    };
    const { pen } = brush;
    pen.strokeStyle = brush.paint.inference;
    pen.lineWidth = 4;
    pen.globalAlpha = 0.75;
    pen.beginPath();
    pen.moveTo(start.x, start.y);
    const go = ease(t / 0.85);
    for (let part = 0; part <= 40 * go; part += 1) {
      const at = curve(start, side, goal, part / 40);
      pen.lineTo(at.x, at.y);
    }
    pen.stroke();
    pen.globalAlpha = 1;
    const at = curve(start, side, goal, go);
    write(brush, next, at.x, at.y, {
      size: size * (1 + 0.5 * Math.sin(go * Math.PI)) * (go > 0.9 ? shrink : 1),
      weight: 800,
      align: "center",
      ink: brush.paint.inference,
    });
  },

  /** What was answered. */
  end(brush, { words }, t) {
    const size = Math.min(44, brush.width / 14);
    let y = brush.height / 2;
    const text = words.join(" ").replace(/ (?=[!?.,])/g, "");
    const most = Math.floor(brush.width / (size * 0.5));
    for (const line of lines(text, most)) {
      write(brush, line, brush.width / 2, y, {
        size,
        weight: 700,
        align: "center",
        ink: brush.paint.inference,
        share: ease(t * 2),
      });
      y += size * 1.3;
    }
  },
};

function curve(start, side, goal, share) {
  const rest = 1 - share;
  return {
    x: rest * rest * start.x + 2 * rest * share * side.x + share * share * goal.x,
    y: rest * rest * start.y + 2 * rest * share * side.y + share * share * goal.y,
  };
}

function lines(text, most) {
  const found = [""];
  for (const word of text.split(" ")) {
    if (found.at(-1).length + word.length > most) found.push("");
    found[found.length - 1] = `${found.at(-1)} ${word}`.trim();
  }
  return found;
}
