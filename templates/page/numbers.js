/** The numbers of a step: what all of them come to, and a heat map of any slice with two axes. */

import { chooser, el } from "./dom.js";
import { facts, madeRecord, sayMissing, sayNumber, sayShape, wordsAlong } from "./facts.js";
import { makeGrid } from "./grid.js";
import { explainCell, sentenceFor } from "./masks.js";
import { move, place } from "./place.js";

const chosen = { step: "", record: 0, rows: -1, columns: -1, at: [] };
let redraw = () => {};
let approach = null;

/** Tell the numbers how to be drawn anew when another slice is chosen. */
export function onSlice(callback) {
  redraw = callback;
}

/** Tell the numbers how one comes near to them on the map. */
export function onApproach(callback) {
  approach = callback;
}

/** Statistics and heat map of one of a step's tensors. */
export function drawNumbers(scene, step) {
  const records = step.outputs.map((record) => madeRecord(step, record));
  if (!records.length) return [];
  const family = step.id.replace(/\.layers\.\d+/, "");
  if (chosen.step !== family) Object.assign(chosen, { step: family, record: 0, rows: -1, columns: -1, at: [] });
  const record = records[Math.min(chosen.record, records.length - 1)];
  return [
    el("h3", {}, "Numbers"),
    records.length > 1 &&
      chooser(
        "tensor",
        records.slice(0, 200).map((one, at) => [at, `${one.name} ${sayShape(one.shape)}`]),
        chosen.record,
        (at) => slice({ record: Number(at), rows: -1, columns: -1, at: [] }),
      ),
    drawStatistics(record),
    ...(record.block ? drawSlice(scene, record) : [drawMissing(scene, record)]),
    record.block?.shape.length > 0 &&
      el("p", {}, el("button", { type: "button", onclick: approach }, "come near on the map")),
  ].filter(Boolean);
}

function slice(changes) {
  Object.assign(chosen, changes);
  redraw();
}

function drawStatistics(record) {
  if (!record.statistics) return null;
  const [low, high, mean, nans, infinities] = record.statistics;
  const facts = { minimum: low, maximum: high, mean, NaN: nans, infinite: infinities };
  return el(
    "dl",
    { class: "statistics" },
    ...Object.entries(facts).flatMap(([name, value]) => [
      el("div", {}, el("dt", {}, name), el("dd", { "data-fact": name }, sayNumber(value))),
    ]),
  );
}

/** A mask has cells instead of numbers; anything else without values says why. */
function drawMissing(scene, record) {
  const mask = record.mask === undefined ? null : facts.masks[record.mask];
  if (mask?.cells) {
    const count = mask.cells.length;
    const sequence = Math.min(place.sequence, count - 1);
    const cells = mask.cells[sequence];
    const words = sentenceFor(scene, record, sequence);
    return el(
      "div",
      {},
      count > 1 && pickSequence(count, sequence),
      makeGrid({
        name: `${record.name}: which query may look at which key`,
        rows: cells.length,
        columns: cells[0]?.length ?? 0,
        rowWords: words.queries,
        columnWords: words.keys,
        cell: 20,
        paint: (row, column) => ({
          kind: `mask_${{ ".": "visible", p: "padding", f: "future", b: "both" }[cells[row][column]] ?? "hidden"}`,
        }),
        tell: (row, column) => explainCell(words, cells, row, column),
      }),
    );
  }
  return el("p", { class: "quiet missing" }, sayMissing());
}

function pickSequence(count, sequence) {
  return chooser(
    "sequence",
    Array.from({ length: count }, (_, at) => [at, `${at + 1} of ${count}`]),
    sequence,
    (at) => move({ sequence: Number(at) }),
  );
}

function drawSlice(scene, record) {
  const { shape, values, start } = record.block;
  const rank = shape.length;
  if (!rank) return [el("p", { class: "single" }, sayNumber(values[0]))];
  let rows = chosen.rows;
  let columns = chosen.columns;
  if (columns < 0 || columns >= rank) columns = rank - 1;
  if (rows < 0 || rows >= rank || rows === columns) rows = rank > 1 ? (columns === rank - 1 ? rank - 2 : rank - 1) : -1;
  const at = shape.map((size, axis) => Math.min(startIndex(record, axis), size - 1));
  const steps = shape.map((_, axis) => shape.slice(axis + 1).reduce((product, size) => product * size, 1));
  const read = (row, column) => {
    let place = 0;
    for (let axis = 0; axis < rank; axis += 1) {
      place += (axis === rows ? row : axis === columns ? column : at[axis]) * steps[axis];
    }
    return values[place];
  };
  const rowCount = rows < 0 ? 1 : shape[rows];
  const columnCount = shape[columns];
  const most = largest(read, rowCount, columnCount);
  const sequence = record.axes[0] === "batch" ? at[0] : 0;
  const words = (axis) =>
    axis < 0 ? [] : wordsAlong(scene, record.axes[axis], record.shape[axis], sequence).slice(0, shape[axis]);
  const label = (axis, place) => words(axis)[place] ?? `${axisName(record, axis)} ${place + start[axis] + 1}`;
  return [
    drawChoosers(record, shape, rows, columns, at),
    makeGrid({
      name: `Values of ${record.name}`,
      rows: rowCount,
      columns: columnCount,
      rowWords: words(rows),
      columnWords: words(columns),
      cell: 22,
      paint: (row, column) => paintValue(read(row, column), most),
      tell: (row, column) =>
        `${rows < 0 ? "" : `${label(rows, row)}, `}${label(columns, column)}: ${sayNumber(read(row, column))}`,
    }),
    legend(most),
    partly(record),
  ].filter(Boolean);
}

function startIndex(record, axis) {
  if (chosen.at[axis] !== undefined) return chosen.at[axis];
  if (record.axes[axis] === "heads") return place.head;
  return record.axes[axis] === "batch" ? place.sequence : 0;
}

function axisName(record, axis) {
  return record.axes[axis] || `axis ${axis + 1}`;
}

function drawChoosers(record, shape, rows, columns, at) {
  const twice = (axis) => record.axes.filter((name) => name === record.axes[axis]).length > 1;
  const axes = shape.map((size, axis) => [
    axis,
    `${axisName(record, axis)} (${size})${twice(axis) && axis === shape.length - 1 ? ", last" : ""}`,
  ]);
  const others = shape.map((_, axis) => axis).filter((axis) => axis !== rows && axis !== columns);
  return el(
    "div",
    { class: "row" },
    shape.length > 2 && chooser("rows", axes, rows, (axis) => slice({ rows: Number(axis) })),
    shape.length > 2 &&
      chooser("columns", axes, columns, (axis) =>
        slice({ columns: Number(axis), rows: rows === Number(axis) ? columns : rows }),
      ),
    ...others.map((axis) =>
      chooser(
        axisName(record, axis),
        Array.from({ length: shape[axis] }, (_, index) => [index, `${index + 1} of ${record.shape[axis]}`]),
        at[axis],
        (index) => pick(record, axis, Number(index), at),
      ),
    ),
  );
}

function pick(record, axis, index, at) {
  const next = [...at];
  next[axis] = index;
  chosen.at = next;
  if (record.axes[axis] === "heads") move({ head: index });
  else if (record.axes[axis] === "batch") move({ sequence: index });
  redraw();
}

function largest(read, rows, columns) {
  let most = 0;
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const value = read(row, column);
      if (typeof value === "number" && Math.abs(value) < 1e30) most = Math.max(most, Math.abs(value));
    }
  }
  return most;
}

function paintValue(value, most) {
  if (typeof value !== "number") return { kind: value === "nan" ? "nan" : "infinite" };
  if (Math.abs(value) >= 1e30) return { kind: "infinite" };
  return { kind: value < 0 ? "minus" : "plus", share: most ? Math.abs(value) / most : 0 };
}

function legend(most) {
  const bar = (kind, text) => el("span", { class: "key" }, el("i", { class: `swatch ${kind}` }), text);
  return el(
    "p",
    { class: "legend quiet" },
    bar("minus", `−${sayNumber(most)}`),
    bar("zero", "0"),
    bar("plus", `+${sayNumber(most)}`),
  );
}

/** What of the tensor is here, where that is not all of it. */
function partly(record) {
  const { shape } = record.block;
  const cut = shape
    .map((size, axis) =>
      size < record.shape[axis] ? `${size} of ${record.shape[axis]} along ${axisName(record, axis)}` : "",
    )
    .filter(Boolean);
  return cut.length ? el("p", { class: "quiet missing" }, `Kept in this file: ${cut.join(", ")}.`) : null;
}
