/** A recorded tensor as panes of cells: one pane for each head or channel, and where each number stands in it. */

import { facts, madeRecord, wordsAlong } from "./facts.js";
import { place } from "./place.js";
import { listSites, sliceOf, wordsAt } from "./sites.js";

const kept = new Map();

/** What a step put out, ready to be shown in cells; null where no values were kept of it. */
export function tensorOf(scene, step, at = 0) {
  const key = [scene.passes, step.pass.kind, step.pass.number, step.id, at, place.sequence].join(" ");
  if (!kept.has(key)) kept.set(key, readTensor(scene, step, at));
  return kept.get(key);
}

function readTensor(scene, step, at) {
  const record = step.outputs[at] && madeRecord(step, step.outputs[at]);
  if (record?.block?.shape.length) return asTensor(scene, step, record, record.block);
  const cells = record?.mask === undefined ? null : facts.masks[record.mask].cells;
  return cells?.[0]?.length ? asMask(scene, step, record, cells) : null;
}

function asTensor(scene, step, record, block) {
  const rank = block.shape.length;
  const lead = block.shape.slice(0, -2).map((size, axis) => (axis === 0 ? Math.min(place.sequence, size - 1) : 0));
  const paneAxis = rank > 3 ? rank - 3 : rank === 3 && !isBatch(record, 0) ? 0 : -1;
  const matrices = [];
  const kind = record.role === "ids" ? "id" : step.op === "softmax" ? "weight" : "value";
  const tensor = { step, record, kind, rank, lead, start: block.start, paneAxis };
  return {
    ...tensor,
    ...namesOf(scene, step, record, lead),
    panes: paneAxis < 0 ? 1 : block.shape[paneAxis],
    rows: rank > 1 ? block.shape[rank - 2] : 1,
    columns: block.shape[rank - 1],
    matrix(pane) {
      matrices[pane] ??= sliceOf(
        record,
        lead.map((index, axis) => (axis === paneAxis ? pane : index)),
      );
      return matrices[pane];
    },
  };
}

/** A mask by its letters; broadcast over all axes before the last two, as it was recorded. */
function asMask(scene, step, record, cells) {
  const rank = record.shape.length;
  const sequence = Math.min(place.sequence, cells.length - 1);
  const rows = cells[sequence];
  const lead = record.shape.slice(0, -2).map((size, axis) => (axis === 0 ? Math.min(sequence, size - 1) : 0));
  const matrix = { rows: rows.length, columns: rows[0].length, record, at: (row, column) => rows[row][column] };
  return {
    ...{ step, record, kind: "mask", rank, lead, start: record.shape.map(() => 0), paneAxis: -1, panes: 1 },
    ...namesOf(scene, step, record, lead),
    rows: matrix.rows,
    columns: matrix.columns,
    matrix: () => matrix,
  };
}

function isBatch(record, axis) {
  return record.axes[axis] === "batch" || !record.axes[axis];
}

/** Words beside rows and above columns, where they are known. */
function namesOf(scene, step, record, lead) {
  const rank = record.shape.length;
  const sequence = lead.length ? lead[0] : 0;
  const site = siteOf(scene, step);
  if (site && step !== site.mixed) {
    const { queries, keys } = wordsAt(site, sequence);
    return { site, rowWords: queries, columnWords: keys };
  }
  const along = (axis) => (axis < 0 ? [] : wordsAlong(scene, record.axes[axis], record.shape[axis], sequence));
  const rowWords = along(rank - 2);
  return {
    site,
    paneWords: along(rank - 3),
    rowWords: site && !rowWords.length ? wordsAt(site, sequence).queries : rowWords,
    columnWords: along(rank - 1),
  };
}

/** The attention that a step is part of: its scores, what is done to them, its weights, what they mix. */
export function siteOf(scene, step) {
  return (
    listSites(scene).find((site) => [site.scores, site.scale, site.mask, site.softmax, site.mixed].includes(step)) ??
    null
  );
}

/** Where a cell is in the whole tensor: an index along each axis. */
export function indexIn(tensor, { pane, row, column }) {
  const before = tensor.lead.map((index, axis) => (axis === tensor.paneAxis ? pane : index));
  const inside = tensor.rank > 1 ? [...before, row, column] : [column];
  return inside.map((index, axis) => index + tensor.start[axis]);
}

/** The rows and columns of a region that are in a pane, each from and up to; null where none of it is. */
export function rangesIn(tensor, pane, region) {
  const inside = region.map(([from, to], axis) => [from - tensor.start[axis], to - tensor.start[axis]]);
  const { rank } = tensor;
  for (let axis = 0; axis < rank - 2; axis += 1) {
    const index = axis === tensor.paneAxis ? pane : tensor.lead[axis];
    if (index < inside[axis][0] || index >= inside[axis][1]) return null;
  }
  const rows = rank > 1 ? inside[rank - 2] : [0, 1];
  const columns = inside[rank - 1];
  return rows[0] < tensor.rows && columns[0] < tensor.columns ? { rows, columns } : null;
}

/** What a place along an axis is called: its word, or the axis with a number. */
export function sayPlace(tensor, axis, index) {
  const rank = tensor.rank;
  const words = [tensor.columnWords, tensor.rowWords, tensor.paneWords][rank - 1 - axis] ?? [];
  if (words[index] !== undefined) return `“${words[index]}”`;
  const name = { heads: "head", d_k: "number", d_model: "number", d_ff: "number" }[tensor.record.axes[axis]];
  return `${name ?? (tensor.record.axes[axis] || `axis ${axis + 1}, place`)} ${index + 1}`;
}
