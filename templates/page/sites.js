/** The attentions of a run with their steps, their words and their numbers. */

import { madeRecord, passesOf } from "./facts.js";

const SCALING = new Set(["scale", "mul", "div"]);
const ID = /^id (\d+)$/;
const kept = new Map();

/** The attentions of a scene, in the order in which data passes them. */
export function listSites(scene) {
  const key = scene.passes.join();
  if (!kept.has(key))
    kept.set(
      key,
      passesOf(scene).flatMap((pass) => pass.attentions.map((one) => asSite(pass, one))),
    );
  return kept.get(key);
}

/** An attention with its steps in hand: scores, what scales and hides them, weights, queries, keys and values. */
function asSite(pass, told) {
  const softmax = pass.byId.get(told.softmax);
  const [scores, ...scored] = told.scored.map((id) => pass.byId.get(id));
  const mixed = pass.byId.get(told.mixed);
  const [query, key, value] = told.projections.map((id) => id && pass.byId.get(id));
  const [asking, answering] = scores?.inputs ?? [];
  const mask = scored.findLast(
    (step) => step.op === "mask_scores" || step.inputs.some((one) => one.mask !== undefined),
  );
  return {
    ...told,
    pass,
    softmax,
    weights: softmax.outputs[0],
    scores,
    scale: scored.find((step) => SCALING.has(step.op)),
    mask: mask ?? scored.findLast((step) => ["add", "masked_fill", "where"].includes(step.op)),
    mixed,
    query: { step: scores, record: asking, linear: query },
    key: { step: scores, record: answering, linear: key },
    value: {
      step: mixed,
      record: mixed?.inputs.find(
        (one) => one.source !== softmax.id && one.shape.at(-2) === softmax.outputs[0].shape.at(-1),
      ),
      linear: value,
    },
  };
}

/** The step that made a record, in this pass or before it. */
export function makerOf(step, record) {
  return (record?.source && step.pass.byId.get(record.source)) || null;
}

/** The record with its values, where they were kept. */
export function valued(step, at = 0) {
  return step?.outputs[at]?.block ? step.outputs[at] : null;
}

/** The words that ask and those that are looked at, for one sequence; ids or places where no words are known. */
export function wordsAt(site, sequence = 0) {
  const at = Math.min(sequence, site.queries.length - 1);
  const count = (size) => Array.from({ length: size }, (_, place) => `${place + 1}`);
  const [queries, keys] = [site.queries[at], site.keys[at]];
  return {
    queries: (queries ?? count(site.weights.shape.at(-2))).map(plain),
    keys: (keys ?? count(site.weights.shape.at(-1))).map(plain),
    sorts: [sortOf(queries), sortOf(keys)],
  };
}

/** What stands for the rows of a matrix: "word", "id" or "place". */
function sortOf(listed) {
  if (!listed || listed.every((one, at) => one === `${at + 1}`)) return "place";
  return listed.every((one) => ID.test(one)) ? "id" : "word";
}

/** A word as it is said in a sentence. */
export function quote(word, sort) {
  return sort === "word" ? `“${word}”` : `${sort} ${word}`;
}

/** The ids that a pass reads, where its attentions know them; none where they know words, or nothing. */
export function idsOf(scene, pass, count) {
  const found = listSites(scene).find((site) => site.pass === pass && site.queries[0]?.length === count);
  return found && sortOf(found.queries[0]) === "id" ? found.queries[0].map((one) => Number(plain(one))) : [];
}

function plain(word) {
  return word.replace(ID, "$1");
}

/** Which cells of an attention are hidden, for one sequence. */
export function hiddenAt(site, sequence = 0) {
  const cells = site.hidden[Math.min(sequence, site.hidden.length - 1)];
  return (row, column) => Boolean(cells) && cells[row]?.[column] === "x";
}

/** One head's matrix of a record as rows and columns, from its kept block; null where that is not there. */
export function matrixOf(step, record, { sequence = 0, head = 0 } = {}) {
  if (!record) return null;
  const made = madeRecord(step, record);
  if (!made.block || made.block.shape.length < 1) return null;
  const { shape } = made.block;
  const lead = shape.slice(0, -2).map((_, axis) => {
    const isHead = /heads/.test(made.axes[axis] ?? "") || (shape.length > 3 && axis === shape.length - 3);
    return isHead ? head : axis === 0 ? sequence : 0;
  });
  return sliceOf(made, lead);
}

/** Rows and columns of a record's kept block, at an index along each axis before the last two. */
export function sliceOf(record, lead) {
  const { shape, values } = record.block;
  const rank = shape.length;
  const columns = shape[rank - 1];
  const rows = rank > 1 ? shape[rank - 2] : 1;
  const begin =
    lead.reduce((at, index, axis) => at * shape[axis] + Math.min(index, shape[axis] - 1), 0) * rows * columns;
  return {
    rows,
    columns,
    record,
    cut: rows < (record.shape.at(-2) ?? 1) || columns < record.shape.at(-1),
    at: (row, column) => values[begin + row * columns + column],
  };
}

/** How many heads a site has, and how many sequences of them were kept. */
export function sizesOf(site) {
  const shape = site.weights.block?.shape ?? site.weights.shape;
  return shape.length > 3 ? { sequences: shape[0], heads: shape.at(-3) } : { sequences: 1, heads: shape[0] };
}
