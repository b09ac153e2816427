/** Where attention happens in a pass, found by what is computed: a softmax over the product of queries and keys. */

import { madeRecord, passesOf } from "./facts.js";

const MOVES = new Set(
  "view reshape transpose permute contiguous repeat repeat_interleave expand unsqueeze squeeze clone to dropout float flatten".split(
    " ",
  ),
);
const BEFORE = new Set([
  ...MOVES,
  ..."scale mul div mask_scores masked_fill add where softcap tanh baddbmm".split(" "),
]);
const kept = new Map();

/** The sites of a scene, in the order in which data passes them. */
export function listSites(scene) {
  const key = scene.passes.join();
  if (!kept.has(key)) kept.set(key, nameSites(passesOf(scene).flatMap(findSites)));
  return kept.get(key);
}

/** The step that made a record, in this pass or before it. */
export function makerOf(step, record) {
  return (record?.source && step.pass.byId.get(record.source)) || null;
}

/** The record with its values, where they were kept. */
export function valued(step, at = 0) {
  return step?.outputs[at]?.block ? step.outputs[at] : null;
}

function findSites(pass) {
  const found = [];
  for (const step of pass.steps) {
    if (step.op !== "softmax" || step.block) continue;
    const weights = step.outputs[0];
    if (!weights || weights.shape.length < 3) continue;
    const chain = climb(step);
    if (!chain) continue;
    found.push({ pass, softmax: step, weights, ...chain });
  }
  return found;
}

/** From the softmax down to the product of queries and keys: what scales and hides the scores on the way. */
function climb(softmax) {
  const site = { scale: null, mask: null, scores: null };
  let step = softmax;
  for (let far = 0; far < 12; far += 1) {
    const next = step.inputs
      .filter((record) => record.role !== "mask" && record.role !== "parameter")
      .map((record) => makerOf(step, record))
      .find((maker) => maker && (maker.op === "matmul" || maker.op === "bmm" || BEFORE.has(maker.op)));
    if (!next) return null;
    if (next.op === "matmul" || next.op === "bmm") {
      site.scores = next;
      break;
    }
    if (next.op === "mask_scores" || next.inputs.some((record) => record.mask !== undefined)) site.mask ??= next;
    else if (["scale", "mul", "div"].includes(next.op)) site.scale ??= next;
    step = next;
  }
  if (!site.scores) return null;
  const [query, key] = site.scores.inputs;
  const reader = readerOf(softmax);
  return {
    ...site,
    query: { step: site.scores, record: query, linear: climbTo(site.scores, query) },
    key: { step: site.scores, record: key, linear: climbTo(site.scores, key) },
    mixed: reader,
    value: reader && { step: reader, record: reader.inputs[1], linear: climbTo(reader, reader.inputs[1]) },
  };
}

/** The product that reads the weights, perhaps after dropout. */
function readerOf(softmax) {
  let made = new Set([softmax.id]);
  const { steps } = softmax.pass;
  for (let at = steps.indexOf(softmax) + 1; at < steps.length && at < steps.indexOf(softmax) + 12; at += 1) {
    const step = steps[at];
    if (step.block || !step.inputs.some((record) => made.has(record.source))) continue;
    if (step.op === "matmul" || step.op === "bmm") return step;
    made = new Set([...made, step.id]);
  }
  return null;
}

/** The linear layer that a record goes back to. */
function climbTo(step, record) {
  let [from, wanted] = [step, record];
  for (let far = 0; far < 14; far += 1) {
    const maker = makerOf(from, wanted);
    if (!maker) return null;
    if (["linear", "addmm", "conv1d"].includes(maker.op)) return maker;
    wanted = maker.inputs.find((one) => one.role !== "parameter" && one.source) ?? null;
    if (!wanted) return null;
    from = maker;
  }
  return null;
}

/** Sites alike but for the number of their layer are a family; each site knows its name and its place in it. */
function nameSites(sites) {
  const families = new Map();
  for (const site of sites) {
    const family = site.softmax.path
      .replace(/\.\d+(?=\.|$)/g, ".·")
      .replace(/\.(softmax|scaled_dot_product_\w+).*$/, "");
    if (!families.has(family)) families.set(family, []);
    site.family = family;
    site.layer = families.get(family).length;
    families.get(family).push(site);
    site.crosses = isCrossing(site);
  }
  for (const [family, members] of families) {
    for (const site of members) site.title = nameFamily(family, site.crosses, families.size);
  }
  return sites;
}

function isCrossing({ query, key }) {
  const [from, to] = [query.linear?.inputs[0], key.linear?.inputs[0]];
  if (!from || !to) return false;
  return from.source !== to.source;
}

/** "encoder", "decoder", "cross": by the words of the path where they say so. */
function nameFamily(family, crosses, count) {
  if (crosses) return "cross";
  const side = family.match(/encoder|decoder|text|vision|audio/)?.[0];
  if (side) return side;
  return count === 1 ? "self" : family.replace(/\.·/g, "");
}

/** One head's matrix of a record as rows and columns, from its kept block; null where that is not there. */
export function matrixOf(step, record, { sequence = 0, head = 0 } = {}) {
  if (!record) return null;
  const made = madeRecord(step, record);
  const { block } = made;
  if (!block || block.shape.length < 1) return null;
  const { shape } = block;
  const rank = shape.length;
  const columns = shape[rank - 1];
  const rows = rank > 1 ? shape[rank - 2] : 1;
  let begin = 0;
  const before = shape.slice(0, -2);
  before.forEach((size, axis) => {
    const inner = before.slice(axis + 1).reduce((product, one) => product * one, 1);
    const name = made.axes[axis] ?? "";
    const wanted = /heads/.test(name) || (rank > 3 && axis === rank - 3) ? head : axis === 0 ? sequence : 0;
    begin += Math.min(wanted, size - 1) * inner * rows * columns;
  });
  const { values } = block;
  return {
    rows,
    columns,
    record: made,
    cut: rows < (made.shape.at(-2) ?? 1) || columns < made.shape.at(-1),
    at: (row, column) => values[begin + row * columns + column],
  };
}

/** How many heads a site has, and how many sequences of them were kept. */
export function sizesOf(site) {
  const shape = site.weights.block?.shape ?? site.weights.shape;
  return shape.length > 3 ? { sequences: shape[0], heads: shape.at(-3) } : { sequences: 1, heads: shape[0] };
}
