/** A cell of the map in words: whose number it is, what it is, and what it was added up from. */

import { madeRecord, sayNumber } from "./facts.js";
import { sayPlace, tensorOf } from "./panes.js";
import { dot } from "./placing.js";
import { hiddenAt, sliceOf } from "./sites.js";

const PRODUCTS = new Set(["matmul", "bmm", "baddbmm", "einsum"]);
const WHY = { p: "padding", f: "the future", b: "padding in the future" };

/** One cell in one sentence. */
export function tellCell(scene, cell) {
  const { tensor, row, column } = cell;
  const { step, rank } = tensor;
  const value = tensor.matrix(cell.pane).at(row, column);
  const name = step.path.split(".").at(-1);
  const where = [
    tensor.panes > 1 && sayPlace(tensor, tensor.paneAxis, cell.pane),
    rank > 1 && tensor.rows > 1 && sayPlace(tensor, rank - 2, row),
    sayPlace(tensor, rank - 1, column),
  ].filter(Boolean);
  return `${name}, ${where.join(", ")}: ${sayValue(scene, cell, value)}`;
}

function sayValue(scene, cell, value) {
  const { tensor, row, column } = cell;
  if (tensor.kind === "mask")
    return value === "." ? "may be looked at" : `hidden${WHY[value] ? `, ${WHY[value]}` : ""}`;
  const { site, step } = tensor;
  if (site && (step === site.mask || step === site.softmax) && hiddenAt(site, tensor.lead[0] ?? 0)(row, column))
    return `${sayNumber(value)}, hidden by the mask`;
  const product = PRODUCTS.has(step.op) && sayProduct(step, cell, value);
  if (product) return product;
  const before = site?.scale === step && tensorOf(scene, site.scores)?.matrix(cell.pane).at(row, column);
  return typeof before === "number" ? `${sayNumber(before)} becomes ${sayNumber(value)}` : sayNumber(value);
}

/** A row times a column, written out, where both factors were kept whole. */
function sayProduct(step, cell, value) {
  const [left, right] = step.inputs.slice(-2).map((record) => sliceLike(step, record, cell));
  if (!left || !right || left.cut || right.cut || left.columns !== right.rows) return "";
  const standing = { rows: right.columns, columns: right.rows, at: (at, d) => right.at(d, at) };
  return dot(left, standing, cell.row, cell.column, value);
}

/** The slice of a factor that goes into a pane of the product; what is broadcast has one for all. */
function sliceLike(step, record, { tensor, pane }) {
  const made = madeRecord(step, record);
  if (!made?.block || made.block.shape.length < 2) return null;
  const lead = tensor.lead.map((index, axis) => (axis === tensor.paneAxis ? pane : index));
  const own = made.block.shape.slice(0, -2);
  const kept = own.every((size, axis) => size === 1 || (lead.at(axis - own.length) ?? 0) < size);
  return kept
    ? sliceOf(
        made,
        own.map((size, axis) => (size === 1 ? 0 : (lead.at(axis - own.length) ?? 0))),
      )
    : null;
}
