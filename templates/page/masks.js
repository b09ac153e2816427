/** Masks cell by cell: which query may not see which key, in both words, and why. */

import { chooser, el, sequenceChooser } from "./dom.js";
import { facts, passesOf, sceneAt, wordsAlong } from "./facts.js";
import { makeGrid } from "./grid.js";
import { move, place } from "./place.js";

const KINDS = { ".": "visible", p: "padding", f: "future", b: "both", x: "hidden" };
let picked = "";
let redraw = () => {};

/** Tell the masks how to be drawn anew when another one is chosen. */
export function onMask(callback) {
  redraw = callback;
}

/** The masks of a scene, each with its step and its record: those made in it, then those that came from outside. */
function listMasks(scene) {
  const made = [];
  const given = new Map();
  for (const step of passesOf(scene).flatMap((pass) => pass.steps)) {
    if (step.block) continue;
    for (const record of step.outputs) {
      if (record.role === "mask" && record.mask !== undefined && record.source === step.id) made.push({ step, record });
    }
    for (const record of step.inputs) {
      if (record.mask !== undefined && record.source === null && !given.has(record.mask)) {
        given.set(record.mask, { step, record });
      }
    }
  }
  return [...made, ...given.values()].map((one) => ({ ...one, mask: facts.masks[one.record.mask] }));
}

/** The view of one mask at a time. */
export function drawMasks() {
  const scene = sceneAt(place);
  const masks = listMasks(scene);
  if (!masks.length) return [el("h2", {}, "Masks"), el("p", {}, "No mask was recorded here.")];
  const wanted = [4, 5].includes(place.station) ? "tgt_mask" : "src_mask";
  const fallback = masks.filter((one) => one.step.path.startsWith(wanted)).at(-1) ?? masks.at(-1);
  const shown = masks.find((one) => one.step.id === picked) ?? fallback;
  const { step, record, mask } = shown;
  return [
    el("h2", {}, "Masks"),
    el("p", {}, "A row is a query, the word that looks; a column is a key, the word that is looked at."),
    el(
      "div",
      { class: "row" },
      chooser(
        "mask",
        masks.map((one) => [one.step.id, one.step.path]),
        step.id,
        (id) => {
          picked = id;
          redraw();
        },
      ),
      mask.cells?.length > 1 &&
        sequenceChooser(
          mask.cells.length,
          (at) => sentenceFor(scene, record, at).keys,
          Math.min(place.sequence, mask.cells.length - 1),
          (sequence) => move({ sequence }),
        ),
    ),
    el(
      "p",
      { class: "quiet" },
      `${mask.kind}, hides ${(mask.share * 100).toFixed(0)}% of ${record.shape.join("×")} (${record.axes.join(" × ")}). `,
      readers(scene, step),
    ),
    mask.cells ? drawCells(scene, record, mask) : el("p", {}, "This mask was too large to keep cell by cell."),
    el("button", { type: "button", onclick: () => move({ step: step.id, view: "step" }) }, "the step with this mask"),
  ];
}

function readers(scene, maker) {
  const found = passesOf(scene).flatMap((pass) =>
    pass.steps.filter(
      (step) => !step.block && step.inputs.some((record) => record.role === "mask" && record.source === maker.id),
    ),
  );
  const names = [...new Set(found.map((step) => step.path.replace(/\.layers\.\d+/, "").replace(/\.mask$/, "")))];
  return names.length ? `Read by ${names.join(", ")}.` : "No operation of this pass reads it directly.";
}

function drawCells(scene, record, mask) {
  const sequence = Math.min(place.sequence, mask.cells.length - 1);
  const cells = mask.cells[sequence];
  const words = sentenceFor(scene, record, sequence);
  return el(
    "div",
    {},
    makeGrid({
      name: "Which query may look at which key",
      rows: cells.length,
      columns: cells[0]?.length ?? 0,
      rowWords: words.queries.length ? words.queries : cells.length === 1 ? ["every query"] : [],
      columnWords: words.keys,
      cell: 24,
      paint: (row, column) => ({ kind: `mask_${KINDS[cells[row][column]] ?? "hidden"}` }),
      tell: (row, column) => explainCell(words, cells, row, column),
    }),
    el("p", { class: "legend quiet" }, ...legend(cells)),
  );
}

function legend(cells) {
  const there = new Set(cells.flatMap((row) => [...row]));
  const names = { ".": "may be looked at", p: "padding", f: "the future", b: "padding in the future", x: "hidden" };
  return Object.keys(names)
    .filter((letter) => there.has(letter))
    .map((letter) => el("span", { class: "key" }, el("i", { class: `swatch mask_${KINDS[letter]}` }), names[letter]));
}

/** The words that stand along the last two axes of a mask. */
export function sentenceFor(scene, record, sequence) {
  const rank = record.shape.length;
  const along = (axis) => wordsAlong(scene, record.axes[axis], record.shape[axis], sequence);
  return { queries: rank > 1 ? along(rank - 2) : [], keys: along(rank - 1) };
}

/** One cell in words. */
export function explainCell(words, cells, row, column) {
  const query = words.queries[row]
    ? `“${words.queries[row]}” (query ${row + 1})`
    : cells.length === 1
      ? "Every query"
      : `Query ${row + 1}`;
  const key = words.keys[column] ? `“${words.keys[column]}” (key ${column + 1})` : `key ${column + 1}`;
  const letter = cells[row][column];
  if (letter === ".") return `${query} may look at ${key}.`;
  const why = {
    p: "it is padding",
    f: "it comes later, in the future",
    b: "it is both: padding, and in the future",
  }[letter];
  return `${query} may not look at ${key}: ${why ?? "the mask hides it"}.`;
}
