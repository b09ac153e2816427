/** Masks cell by cell: which query may not see which key, in both words, and why. */

import { chooser, el, sequenceChooser } from "./dom.js";
import { facts, findStep, passesOf, sayPercent, sayShape, sceneAt, stepsOf, wordsAlong } from "./facts.js";
import { makeGrid } from "./grid.js";
import { move, place } from "./place.js";
import { listSites, wordsAt } from "./sites.js";

const KINDS = { ".": "visible", p: "padding", f: "future", b: "both", x: "hidden" };

/** The masks of a scene, each with its step and its record: by who made them, else by who reads them first. */
function listMasks(scene) {
  const made = [];
  const given = new Map();
  for (const step of passesOf(scene).flatMap((pass) => pass.steps)) {
    if (step.block) continue;
    for (const record of step.outputs) {
      if (record.role === "mask" && record.mask !== undefined && record.source === step.id) made.push({ step, record });
    }
    for (const record of step.inputs) {
      if (record.mask !== undefined && !given.has(record.mask)) given.set(record.mask, { step, record });
    }
  }
  const known = new Set(made.map(({ record }) => record.mask));
  const all = [...made, ...[...given.values()].filter(({ record }) => !known.has(record.mask))];
  const kept = all.filter(({ record }) => facts.masks[record.mask].cells).map((one) => asRecorded(scene, one));
  const blocks = all.filter(({ record }) => facts.masks[record.mask].blocks).map(asBlocks);
  return kept.length || blocks.length ? [...blocks, ...kept] : listHidden(scene);
}

/** A mask that was recorded as a tensor. */
function asRecorded(scene, { step, record }) {
  const mask = facts.masks[record.mask];
  const axes = record.axes.map((axis, at) => axis || record.shape[at]).join(" × ");
  return {
    step,
    number: record.mask,
    name: `${mask.kind} mask, ${sayShape(record.shape)}`,
    says: `${mask.kind}, hides ${sayPercent(mask.share)} of ${sayShape(record.shape)} (${axes}). ${readers(scene, record)}`,
    count: mask.cells.length,
    cells: (sequence) => mask.cells[sequence],
    words: (sequence) => wordsBeside(scene, step, record, sequence),
  };
}

/** The words along a mask: those of its axes, or of the attention around the step that reads it. */
function wordsBeside(scene, step, record, sequence) {
  const own = sentenceFor(scene, record, sequence);
  const site = listSites(scene).find((one) => isInside(one.softmax, step.parent));
  if (own.keys.length || !site) return own;
  const { queries, keys } = wordsAt(site, sequence);
  const fits = (words, size) => (words.length === size ? words : []);
  return { queries: fits(queries, record.shape.at(-2)), keys: fits(keys, record.shape.at(-1)) };
}

function isInside(step, id) {
  for (let at = step; at; at = at.parent && at.pass.byId.get(at.parent)) if (at.id === id) return true;
  return false;
}

/** The blocks by which flex attention runs through a mask, each drawn as four cells. */
function asBlocks({ step, record }) {
  const { share, kind, blocks } = facts.masks[record.mask];
  return {
    id: `${step.id} blocks`,
    step,
    name: `blocks of the ${kind} mask, ${sayShape(record.shape)}`,
    says: `${blocks.says}. Of a full block all may be looked at, of a partial one some, and a skipped one is never read. ${sayPercent(share)} of all cells are hidden.`,
    count: 1,
    cells: () => blocks.cells,
    words: () => ({ queries: [], keys: [] }),
    tell: (row, column) => tellBlock(blocks.letters, row >> 1, column >> 1),
  };
}

const BLOCKS = { ".": "full", "/": "partial", x: "skipped" };

function tellBlock(letters, row, column) {
  return `Block of queries ${row + 1}, of keys ${column + 1}: ${BLOCKS[letters[row][column]]}.`;
}

/** What attentions hide, where no mask was recorded by itself: one for each kind and each pattern. */
function listHidden(scene) {
  const found = new Map();
  for (const site of listSites(scene)) {
    if (!site.hidden.some(Boolean)) continue;
    const pattern = `${site.kind} ${site.hidden.join()}`;
    if (found.has(pattern)) continue;
    const { shape } = site.weights;
    found.set(pattern, {
      step: site.mask ?? site.softmax,
      name: site.layer ? `${site.title}, from layer ${site.layer + 1} on` : site.title,
      says: `What is hidden in the ${sayShape(shape.slice(-2))} weights of each head.`,
      count: site.hidden.length,
      cells: (sequence) => (site.hidden[sequence] ?? seeAll(shape)).map(tellLater),
      words: (sequence) => wordsAt(site, sequence),
    });
  }
  return [...found.values()];
}

function seeAll(shape) {
  return Array.from({ length: shape.at(-2) }, () => ".".repeat(shape.at(-1)));
}

/** Hidden cells above the diagonal of a causal pattern are the future. */
function tellLater(line, row, all) {
  const causal = all.every((cells, at) => [...cells].every((cell, column) => column <= at || cell === "x"));
  return causal ? [...line].map((cell, column) => (cell === "x" && column > row ? "f" : cell)).join("") : line;
}

/** Whether any scene has a mask to show. */
export function hasMasks() {
  return facts.scenes.some((scene) => listMasks(scene).length);
}

/** The view of one mask at a time. */
export function drawMasks() {
  const scene = sceneAt(place);
  const masks = listMasks(scene);
  if (!masks.length) return [el("h2", {}, "Masks"), el("p", {}, "No cells of a mask are known in this pass.")];
  const shown = masks.find((one) => identify(one) === place.mask) ?? maskOf(scene, masks) ?? maskHere(scene, masks);
  const sequence = Math.min(place.sequence, shown.count - 1);
  const cells = shown.cells(sequence);
  const isFree = cells.every((row) => /^\.*$/.test(row));
  return [
    el("h2", {}, "Masks"),
    el("p", {}, "A row is a query, the word that looks; a column is a key, the word that is looked at."),
    el(
      "div",
      { class: "row" },
      chooser(
        "mask",
        masks.map((one) => [identify(one), one.name]),
        identify(shown),
        (mask) => move({ mask }),
      ),
      shown.count > 1 &&
        sequenceChooser(
          shown.count,
          (at) => shown.words(at).keys,
          sequence,
          (chosen) => move({ sequence: chosen }),
        ),
    ),
    el("p", { class: "quiet" }, shown.says),
    isFree && el("p", {}, "Here nothing is hidden."),
    drawCells(cells, shown.words(sequence), shown.tell),
    el(
      "button",
      { type: "button", onclick: () => move({ step: shown.step.id, view: "step" }) },
      "the step with this mask",
    ),
  ];
}

/** The mask that a chosen step makes or reads, where it is told of another step. */
function maskOf(scene, masks) {
  const step = findStep(scene, place.mask);
  const known = new Set([...(step?.outputs ?? []), ...(step?.inputs ?? [])].map((record) => record.mask));
  return masks.find((one) => one.number !== undefined && known.has(one.number));
}

/** The last mask that the station makes or reads, else the first of all. */
function maskHere(scene, masks) {
  const here = stepsOf(scene).filter((step) => step.station === place.station);
  const known = new Set(here.flatMap((step) => [step.id, ...step.inputs.map((record) => record.source)]));
  return masks.findLast((one) => known.has(one.step.id)) ?? masks[0];
}

function identify(mask) {
  return mask.id ?? mask.step.id;
}

/** Who reads a mask: by its cells, or as its maker put it out; layers that do the same are one. */
function readers(scene, mask) {
  const reads = (record) =>
    record.role === "mask" && (record.mask === mask.mask || (record.source !== null && record.source === mask.source));
  const found = passesOf(scene).flatMap((pass) => pass.steps.filter((step) => !step.block && step.inputs.some(reads)));
  const names = [...new Set(found.map((step) => step.path.replace(/\.\d+(?=\.)/g, ".*").replace(/\.mask$/, "")))];
  return names.length ? `Read by ${names.join(", ")}.` : "";
}

function drawCells(cells, words, tell) {
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
      tell: tell ?? ((row, column) => explainCell(words, cells, row, column)),
      choose: (row) => !tell && cells.length > 1 && move({ word: place.word === row ? -1 : row }),
      chosen: tell ? -1 : place.word,
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
  const one = words.queries[row] ? `“${words.queries[row]}” (query ${row + 1})` : `Query ${row + 1}`;
  const isForAll = cells.length === 1 && !words.queries[row];
  const key = words.keys[column] ? `“${words.keys[column]}” (key ${column + 1})` : `key ${column + 1}`;
  const letter = cells[row][column];
  if (letter === ".") return `${isForAll ? "Every query" : one} may look at ${key}.`;
  const why = {
    p: "it is padding",
    f: "it comes later, in the future",
    b: "it is both: padding, and in the future",
  }[letter];
  const nobody = isForAll ? "No query may" : `${one} may not`;
  return `${nobody} look at ${key}: ${why ?? "the mask hides it"}.`;
}
