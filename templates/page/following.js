/** Follow a number: where view, transpose and broadcast put it, and where a view without the transpose would. */

import { takeBrush } from "./brush.js";
import { paintPanes } from "./cells.js";
import { byId, el, shapeEl } from "./dom.js";
import { same, sayNumber, sayShape } from "./facts.js";
import { makeGrid } from "./grid.js";
import { indexIn, rangesIn, sayPlace, tensorOf } from "./panes.js";
import { place } from "./place.js";
import { follow, goesOneByOne, makerOf, onlyMoves, readersOf, reshape, turnsAxes } from "./trail.js";

const HIGH = 150;
const MOST_ROWS = 24;
let held = null; // the cell that was touched on the map
let again = () => {};
let redraw = () => {};

/** Tell what is followed how its view is drawn anew when another cell is touched. */
export function onFollow(callback) {
  redraw = callback;
}

/** Follow the number of a cell that was touched on the map. */
export function followCell({ tensor, ...at }) {
  held = { id: tensor.record.source, region: indexIn(tensor, at).map((index) => [index, index + 1]) };
}

/** Show the cell that was touched in the view, where that was not drawn anew by the touch. */
export function showFollowed() {
  redraw();
}

/** Paint what is followed anew, in other colours. */
export function repaintFollowed() {
  again();
}

/** The part of a step's view that follows a number through it; nothing where it moves none that were kept. */
export function drawFollowed(scene, step) {
  const tensors = listTensors(scene, makerOf(scene, step.outputs[0]?.source) ?? step);
  if (tensors.length < 2) return [];
  const [origin] = tensors;
  const pictures = tensors.slice(1).map(asPicture);
  const wrong = wrongOf(tensors);
  const says = el("p", {});
  const show = (row, column) => {
    const region = indexIn(origin, { pane: 0, row, column }).map((index) => [index, index + 1]);
    const whole = asToken(origin, region);
    const marks = [follow(scene, origin.step, region), whole ? follow(scene, origin.step, whole) : []];
    again = () => paint(pictures, wrong, marks, [region, whole]);
    again();
    says.textContent = wrong ? sayWrong(wrong, region) : "";
  };
  const grid = makeGrid({
    name: `${origin.step.path}, a number to follow`,
    rows: Math.min(origin.rows, MOST_ROWS),
    columns: origin.columns,
    rowWords: origin.rowWords.slice(0, MOST_ROWS),
    cell: 18,
    start: startOf(scene, origin),
    paint: (row, column) => paintValue(origin, row, column),
    tell: (row, column) => {
      show(row, column);
      return `${sayPlaces(origin, indexIn(origin, { pane: 0, row, column }))}: ${sayCell(origin, row, column)}`;
    },
  });
  return [
    el("h3", {}, "Follow a number"),
    el("p", { class: "quiet" }, "Point at a number: it is framed wherever it goes, its row with a thin line."),
    el("div", { class: "followed" }, titleOf(origin), grid),
    ...pictures.map((one) => one.element),
    ...(wrong ? [el("h4", {}, "The wrong way"), wrong.element, says] : []),
  ];
}

/** What a number goes through, as far as it was kept, from where it was made. */
function listTensors(scene, step) {
  const chain = chainOf(scene, step).map((one) => tensorOf(scene, one));
  const first = chain.findIndex(Boolean);
  const end = chain.findIndex((one, at) => at > first && !one);
  return first < 0 ? [] : chain.slice(first, end < 0 ? chain.length : end);
}

/** The steps that a number goes through with nothing but its place changed: from where it was made, on past a step. */
function chainOf(scene, step) {
  const broadcast = !onlyMoves(step) && goesOneByOne(step) && smallerOf(scene, step);
  if (broadcast) return [broadcast, step];
  const chain = [step];
  while (onlyMoves(chain[0])) {
    const before = makerOf(scene, chain[0].inputs[0]?.source);
    if (!before || chain.includes(before)) break;
    chain.unshift(before);
  }
  for (let next = step; next && chain.length < 9; ) {
    next = readersOf(scene, next).find((one) => onlyMoves(one) && !chain.includes(one));
    if (next) chain.push(next);
  }
  return chain.filter(
    (one, at) => !at || !same(one.outputs[0].shape, chain[at - 1].outputs[0].shape) || turnsAxes(one),
  );
}

/** What made the operand that is broadcast. */
function smallerOf(scene, step) {
  const shape = step.outputs[0]?.shape ?? [];
  const smaller = step.inputs.find((one) => one.source && one.shape.length && !same(one.shape, shape));
  return smaller && makerOf(scene, smaller.source);
}

/** The row that a number belongs to, as a region: all that was made of one word. */
function asToken(origin, region) {
  if (origin.rank < 2 || origin.rows < 2) return null;
  return region.map((range, axis) => (axis === origin.rank - 1 ? [0, origin.record.shape[axis]] : range));
}

/** Which number is followed at first: the one that was touched on the map, or one of the chosen word. */
function startOf(scene, origin) {
  const mark = held && makerOf(scene, held.id);
  const region = mark && follow(scene, mark, held.region).find((one) => one.step === origin.step)?.region;
  const ranges = region?.every(([from, to]) => to - from === 1) && rangesIn(origin, 0, region);
  if (ranges) return { row: Math.min(ranges.rows[0], MOST_ROWS - 1), column: ranges.columns[0] };
  const row = place.word >= 0 && place.word < origin.rows ? place.word : 1;
  return { row: Math.min(row, origin.rows - 1, MOST_ROWS - 1), column: Math.floor(origin.columns * 0.4) };
}

function asPicture(tensor) {
  const canvas = el("canvas", { "aria-hidden": "true" });
  const says = el("p", { class: "quiet" });
  return { tensor, canvas, says, element: el("div", { class: "followed" }, titleOf(tensor), canvas, says) };
}

function titleOf({ step, record }) {
  return el("p", {}, el("b", {}, step.path.split(".").at(-1)), " ", shapeEl(record.shape, record.axes));
}

function paint(pictures, wrong, [marks, row], [region, whole]) {
  for (const { tensor, canvas, says } of pictures) {
    const is = (one) => one.step === tensor.step;
    const [mark, thin] = [marks.find(is), row.find(is)];
    paintOne(canvas, tensor, mark, thin);
    says.textContent = mark ? sayMark(tensor, mark) : "";
  }
  if (!wrong) return;
  const [mark, thin] = [region, whole].map((one) => one && wrong.put(one));
  paintOne(wrong.canvas, wrong.tensor, mark && { region: mark, kind: "own" }, thin && { region: thin });
}

function paintOne(canvas, tensor, mark, thin) {
  const width = Math.max(200, byId("views").clientWidth - 4);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${HIGH}px`;
  const brush = takeBrush(canvas, width, HIGH);
  const plain = { ...brush, paint: { ...brush.paint, found: brush.paint.quiet } };
  paintPanes(brush, plain, [tensor], { x: 2, y: 2, width: width - 4, height: HIGH - 4 });
  for (const hit of brush.hits) {
    if (thin) hit.frame(brush, { ...thin, kind: "same" });
    if (mark) hit.frame(brush, { ...mark, kind: "own" });
  }
}

/** Where a number is now, and that it is the same number still; the region that it is shown in, where it is broadcast. */
function sayMark(tensor, { region }) {
  const single = region.every(([from, to]) => to - from === 1);
  const where = sayPlaces(
    tensor,
    region.map(([from]) => from),
    region,
  );
  const panes = Array.from({ length: tensor.panes }, (_, pane) => ({ pane, found: rangesIn(tensor, pane, region) }));
  const at = panes.find(({ found }) => found);
  if (!single || !at) return where;
  return `${where}: ${sayNumber(tensor.matrix(at.pane).at(at.found.rows[0], at.found.columns[0]))}`;
}

/** An index in words, axis by axis; all along an axis where a region says so. */
function sayPlaces(tensor, index, region = index.map((at) => [at, at + 1])) {
  const { shape, axes } = tensor.record;
  return index
    .map((at, axis) => {
      const [from, to] = region[axis];
      if (shape[axis] === 1 || (axis === 0 && axis < tensor.rank - 2 && axis !== tensor.paneAxis)) return "";
      if (to - from === 1) return sayPlace(tensor, axis, at);
      const name = axes[axis] || `along axis ${axis + 1}`;
      return to - from === shape[axis] ? `all ${shape[axis]} ${name}` : `${name} ${from + 1} to ${to}`;
    })
    .filter(Boolean)
    .join(", ");
}

function sayCell(tensor, row, column) {
  const value = tensor.matrix(0).at(row, column);
  return tensor.kind === "mask" ? (value === "." ? "may be looked at" : "hidden") : sayNumber(value);
}

function paintValue(tensor, row, column) {
  const value = tensor.matrix(0).at(row, column);
  if (tensor.kind === "mask") return { kind: `mask_${{ ".": "visible", p: "padding", f: "future" }[value] ?? "both"}` };
  tensor.strongest ??= Math.max(...Array.from({ length: tensor.rows }, (_, at) => rowMost(tensor, at)));
  return { kind: value < 0 ? "minus" : "plus", share: tensor.strongest ? Math.abs(value) / tensor.strongest : 0 };
}

function rowMost(tensor, row) {
  return Math.max(...Array.from({ length: tensor.columns }, (_, at) => Math.abs(tensor.matrix(0).at(row, at)) || 0));
}

/** The shape that view and transpose made together, got by a view alone: other numbers in every place, and no error. */
function wrongOf(tensors) {
  const [origin] = tensors;
  const turn = tensors.findIndex((one) => turnsAxes(one.step));
  const cut = tensors.findIndex((one, at) => at && !turnsAxes(one.step));
  const right = tensors[Math.max(turn, cut)];
  if (turn < 0 || cut < 0 || !isWhole(origin) || !isWhole(right)) return null;
  const [from, to] = [origin.record.shape, right.record.shape];
  const { values } = origin.record.block;
  const begin = (origin.lead[0] ?? 0) * from.slice(1).reduce((product, size) => product * size, 1);
  const inside = right.rows * right.columns;
  const tensor = {
    ...right,
    ...{ site: null, strongest: undefined, most: undefined },
    matrix: (pane) => ({
      ...{ rows: right.rows, columns: right.columns, record: right.record },
      at: (row, column) => values[begin + pane * inside + row * right.columns + column],
    }),
  };
  const canvas = el("canvas", { "aria-hidden": "true" });
  const title = el("p", {}, el("b", {}, "view alone"), " ", shapeEl(to, right.record.axes));
  const put = (region) => reshape(region, from, to);
  return { tensor, origin, canvas, put, element: el("div", { class: "followed" }, title, canvas) };
}

/** Whether all of a tensor was kept, but for some sequences. */
function isWhole({ record, rank }) {
  return rank > 2 && same(record.block?.shape.slice(1) ?? [], record.shape.slice(1));
}

/** What would be wrong: the same shape, but a pane holds whole rows, and the number is elsewhere. */
function sayWrong({ tensor, origin, put }, region) {
  const at = put(region)?.map(([from]) => from);
  if (!at) return "";
  const shape = `The shape would be ${sayShape(tensor.record.shape)} too, and no error would be raised`;
  const there = `but this number would be at ${sayPlaces(tensor, at)}`;
  if (tensor.paneAxis < 0 || origin.paneAxis >= 0) return `${shape}, ${there}.`;
  const inside = tensor.rows * tensor.columns;
  const pane = at[tensor.paneAxis];
  const [first, last] = [pane * inside, (pane + 1) * inside - 1].map((flat) => Math.floor(flat / origin.columns));
  const [from, to] = [first, last].map((row) => sayPlace(origin, origin.rank - 2, row));
  return `${shape}, ${there}: ${sayPlace(tensor, tensor.paneAxis, pane)} would get the rows from ${from} to ${to}, and none of the others.`;
}
