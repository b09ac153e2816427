/** How attention looks: every query meets every key, what is hidden, the shares, what each row takes. */

import { cells, ease, frame, inkOf, mostOf, stagger, write, writeShape } from "./brush.js";
import { sayNumber } from "./facts.js";
import {
  darken,
  dot,
  links,
  nameColumns,
  nameRows,
  numbersIn,
  rowsIn,
  short,
  sideOf,
  square,
  strongest,
  wide,
} from "./placing.js";

export const ATTENDING = {
  /** Row times column, cell by cell. */
  scores(brush, { query, key, scores, queries, keys, chosen }, t) {
    const narrow = brush.width < 640;
    const top = Math.min(150, Math.max(70, key.columns * 9 + 60));
    const rows = rowsIn(brush, scores.rows, { top, bottom: 44, most: 40 });
    rows.top = top;
    const side = sideOf(brush, queries, rows.size) + 10;
    const small = narrow ? 7 : Math.min(16, rows.high);
    const each = Math.min(rows.high * 1.5, (brush.width - side - query.columns * small - 40) / scores.columns);
    const block = side + query.columns * small + 24 + each * scores.columns;
    const left = Math.max(side, (brush.width - block) / 2 + side);
    const x = left + query.columns * small + 24;
    const count = scores.rows * scores.columns;
    const now = Math.min(count - 1, Math.floor(ease(t * 1.04) * count));
    const [row, column] = t >= 1 ? [0, strongest(scores)] : [Math.floor(now / scores.columns), now % scores.columns];
    nameRows(brush, queries, left - 8, rows, { lit: row });
    cells(brush, query, {
      x: left,
      y: rows.top,
      wide: small,
      high: rows.high,
      tell: (at, d) => `query of “${queries[at]}”, number ${d + 1}: ${sayNumber(query.at(at, d))}`,
    });
    const slim = Math.min(9, (rows.top - 56) / key.columns);
    const standing = { rows: key.columns, columns: key.rows, at: (d, at) => key.at(at, d) };
    const above = rows.top - key.columns * slim - 12;
    cells(brush, standing, {
      x,
      y: above,
      wide: each,
      high: slim,
      tell: (d, at) => `key of “${keys[at]}”, number ${d + 1}: ${sayNumber(key.at(at, d))}`,
    });
    nameColumns(brush, keys, x, above - 2, each, { lit: column, size: 13 });
    cells(brush, scores, {
      x,
      y: rows.top,
      wide: each,
      high: rows.high,
      shown: (r, c) => (t >= 1 || r * scores.columns + c <= now ? 1 : 0),
      tell: (r, c) => dot(query, key, r, c, scores.at(r, c)),
    });
    numbersIn(brush, scores, x, rows, each, (r, c) => t >= 1 || r * scores.columns + c <= now);
    frame(brush, left, rows.top + row * rows.high, query.columns * small, rows.high);
    frame(brush, x + column * each, above, each, key.columns * slim);
    frame(brush, x + column * each, rows.top + row * rows.high, each, rows.high);
    write(brush, "Q", left + (query.columns * small) / 2, rows.top - 12, { size: 15, weight: 700, align: "center" });
    write(
      brush,
      dot(query, key, row, column, scores.at(row, column), narrow ? 2 : 4),
      brush.width / 2,
      brush.height - 18,
      { size: narrow ? 12 : 16, align: "center", weight: 600 },
    );
    void chosen;
  },

  /** One square turns into the next. */
  grid(brush, { from, to, queries, keys }, t) {
    const at = square(brush, to, queries, keys);
    const go = ease((t - 0.2) / 0.6);
    const most = mostOf(from);
    cells(
      brush,
      { ...to, at: (r, c) => from.at(r, c) + (to.at(r, c) - from.at(r, c)) * go },
      { ...at.place, most, tell: (r, c) => `${sayNumber(from.at(r, c))} becomes ${sayNumber(to.at(r, c))}` },
    );
    numbersIn(brush, go < 0.5 ? from : to, at.place.x, at.rows, at.place.wide, () => true);
  },

  /** What the mask hides goes dark, cell by cell. */
  mask(brush, { from, hidden, queries, keys }, t) {
    const at = square(brush, from, queries, keys);
    const order = [];
    for (let row = 0; row < from.rows; row += 1)
      for (let column = 0; column < from.columns; column += 1)
        if (hidden.is(row, column)) order.push(row * from.columns + column);
    const place = new Map(order.map((one, number) => [one, number]));
    const go = (row, column) =>
      hidden.is(row, column) ? stagger(t, place.get(row * from.columns + column), order.length, 0.8) : 0;
    cells(brush, from, {
      ...at.place,
      tell: (r, c) => (hidden.is(r, c) ? `“${queries[r]}” may not look at “${keys[c]}”` : sayNumber(from.at(r, c))),
    });
    numbersIn(brush, from, at.place.x, at.rows, at.place.wide, (r, c) => go(r, c) < 0.5);
    darken(brush, from, at, go);
  },

  /** Rows become shares that rise as bars. */
  softmax(brush, { from, weights, hidden, queries, keys }, t) {
    const at = square(brush, weights, queries, keys);
    const { pen } = brush;
    const { x, y, wide: each, high } = at.place;
    for (let row = 0; row < weights.rows; row += 1) {
      const go = stagger(t, row, weights.rows, 0.55);
      for (let column = 0; column < weights.columns; column += 1) {
        const share = Number(weights.at(row, column)) || 0;
        pen.globalAlpha = 1;
        pen.fillStyle = go < 0.2 && from ? inkOf(brush, from.at(row, column), mostOf(from)) : brush.paint.low;
        pen.fillRect(x + column * each, y + row * high, each - 1, high - 1);
        pen.fillStyle = brush.paint.high;
        const tall = (high - 1) * share * go;
        pen.fillRect(x + column * each, y + (row + 1) * high - 1 - tall, each - 1, tall);
        if (go > 0.7 && each > 30 && high > 14 && share >= 0.005) {
          write(brush, `${(share * 100).toFixed(0)}`, x + (column + 0.5) * each, y + (row + 0.5) * high, {
            size: Math.min(14, high * 0.55),
            align: "center",
            weight: 700,
            halo: brush.paint.low,
          });
        }
      }
    }
    darken(brush, weights, at, (r, c) => (hidden?.is(r, c) ? 1 : 0));
    brush.hits.push({
      left: x,
      top: y,
      right: x + each * weights.columns,
      bottom: y + high * weights.rows,
      tell: (across, down) => {
        const [row, column] = [Math.floor((down - y) / high), Math.floor((across - x) / each)];
        return `“${queries[row]}” gives “${keys[column]}” ${sayNumber(weights.at(row, column))}`;
      },
    });
  },

  /** Values flow into each row by the shares. */
  blend(brush, { weights, value, mixed, queries, keys }, t) {
    const count = mixed.rows;
    const row = Math.min(count - 1, Math.floor(t * 0.999 * count));
    const rows = rowsIn(brush, Math.max(value.rows, mixed.rows), { top: 44, most: 30 });
    const side = sideOf(brush, keys, rows.size) + 14;
    const far = sideOf(brush, queries, rows.size) + 14;
    const each = wide(value.columns, (brush.width - side - far) * 0.3, 22);
    const left = Math.max(side, brush.width / 2 - brush.width * 0.16 - each * value.columns);
    const right = Math.min(brush.width - far - each * mixed.columns, brush.width / 2 + brush.width * 0.16);
    nameRows(brush, keys, left - 8, rows);
    cells(brush, value, { x: left, y: rows.top, wide: each, high: rows.high });
    writeShape(brush, "V", value.record.shape, value.record.axes, left, rows.top - 16, { size: 14 });
    writeShape(brush, "", mixed.record.shape, mixed.record.axes, right, rows.top - 16, { size: 14 });
    cells(brush, mixed, {
      x: right,
      y: rows.top,
      wide: each,
      high: rows.high,
      shown: (r) => (r < row || t >= 1 ? 1 : r === row ? ease(t * count - row) : 0.06),
    });
    for (const [at, word] of queries.entries())
      if (rows.high >= 9)
        write(brush, short(word), right + each * mixed.columns + 8, rows.top + (at + 0.5) * rows.high, {
          size: rows.size,
          weight: at === row ? 800 : 600,
          ink: at === row ? brush.paint.found : brush.paint.text,
        });
    links(
      brush,
      weights,
      { only: t >= 1 ? null : row, back: true },
      { x: left + each * value.columns + 2, rows },
      { x: right - 2, rows },
      brush.paint.high,
    );
  },

  /** The finished weights with lines from word to word. */
  look(brush, { weights, hidden, queries, keys, site }, t) {
    const narrow = brush.width < 640;
    const rows = rowsIn(brush, Math.max(weights.rows, weights.columns), { most: 34 });
    const top = (count) => ({ ...rows, top: (brush.height - count * rows.high) / 2 });
    const size = rows.size * 1.05;
    const [asks, answers] = [top(weights.rows), top(weights.columns)];
    const apart = narrow ? brush.width * 0.2 : 130;
    const middle = narrow ? brush.width * 0.5 : brush.width * 0.3;
    const from = { x: middle - apart * 0.6, rows: asks };
    const to = { x: middle + apart, rows: answers };
    const go = ease(t / 0.7);
    links(brush, weights, {}, from, to, brush.paint.high, go);
    nameRows(brush, queries, from.x - 8, { ...asks, size }, { lit: weights.rows - 1, ink: brush.paint.decoder });
    for (const [at, word] of keys.entries())
      write(brush, short(word), to.x + 8, answers.top + (at + 0.5) * rows.high, {
        size,
        weight: 600,
        ink: site.crosses ? brush.paint.encoder : brush.paint.decoder,
      });
    if (narrow) return;
    const each = Math.min(rows.high, (brush.width * 0.4) / weights.columns);
    const x = brush.width * 0.72 - (each * weights.columns) / 2;
    cells(brush, weights, {
      x,
      y: asks.top,
      wide: each,
      high: rows.high,
      kind: "weight",
      shown: (row) => stagger(t, row, weights.rows, 0.7),
      tell: (r, c) => `“${queries[r]}” gives “${keys[c]}” ${sayNumber(weights.at(r, c))}`,
    });
    darken(brush, weights, { place: { x, y: asks.top, wide: each, high: rows.high } }, (r, c) =>
      hidden.is(r, c) ? go : 0,
    );
    nameColumns(brush, keys, x, asks.top, each, { size: 13 });
  },
};
