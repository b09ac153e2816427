/** Where a number goes: through view, transpose and broadcast it keeps its value, in products it meets others. */

import { passesOf, same } from "./facts.js";
import { indexIn } from "./panes.js";

const FAR = 8; // so many steps before and after are followed
const MOST = 80;
const list = (text) => new Set(text.split(" "));
const CUTS = list("view reshape flatten unflatten unsqueeze squeeze _unsafe_view");
const TURNS = list("transpose permute t swapaxes");
const COPIES = list("contiguous clone dropout identity detach expand expand_as broadcast_to");
const ONE_BY_ONE = list(
  "scale mask_scores masked_fill where add sub mul div neg relu gelu silu sigmoid tanh to float type_as",
);
const ROWS = list("linear softmax log_softmax layer_norm rms_norm");
const PRODUCTS = list("matmul bmm");

/** Whether a step only cuts axes in another way, or puts in some of size 1: the numbers keep their order. */
function isMove({ op, settings }) {
  return CUTS.has(op) || (op === "index" && /^(:|\.\.\.|None)(, (:|\.\.\.|None))*$/.test(settings.index ?? ""));
}

/** What belongs to a cell: see `follow`. */
export function marksOf(scene, { tensor, ...at }) {
  const region = indexIn(tensor, at).map((index) => [index, index + 1]);
  return follow(scene, makerOf(scene, tensor.record.source) ?? tensor.step, region);
}

/**
 * A region of what a step put out, a range along each axis, and the regions of other steps that it was made from or
 * that are made from it; `kind` is "own", "same" where its numbers only changed their place, or "made".
 */
export function follow(scene, step, region) {
  const own = { step, region, kind: "own" };
  const found = new Map([[step.id, own]]);
  walk(own, found, (one) => listSources(scene, one));
  walk(own, found, (one) => listReaders(scene, one));
  return [...found.values()];
}

function walk(start, found, nextOf) {
  let level = [start];
  for (let far = 0; far < FAR && level.length; far += 1) {
    const next = [];
    for (const one of level) {
      for (const other of nextOf(one)) {
        if (found.has(other.step.id) || found.size >= MOST) continue;
        const kind = other.keeps && one.kind !== "made" ? "same" : "made";
        found.set(other.step.id, { ...other, kind });
        if (!other.ends) next.push({ ...other, kind });
      }
    }
    level = next;
  }
}

/** The step of a scene that made a tensor, by its source. */
export function makerOf(scene, id) {
  for (const pass of passesOf(scene)) if (id && pass.byId.has(id)) return pass.byId.get(id);
  return null;
}

/** What a region of a step's output was made from. */
function listSources(scene, { step, region }) {
  const out = step.outputs[0];
  return step.inputs.flatMap((record, at) => {
    const maker = makerOf(scene, record.source);
    const from =
      maker &&
      maker !== step &&
      same(maker.outputs[0]?.shape ?? [], record.shape) &&
      back(step, at, record, out, region);
    return from ? [{ step: maker, ...from }] : [];
  });
}

/** What is made from a region of a step's output. */
function listReaders(scene, { step, region }) {
  return passesOf(scene).flatMap((pass) =>
    (readingsOf(pass).get(step.id) ?? []).flatMap(({ reader, at }) => {
      const to = on(reader, at, reader.inputs[at], reader.outputs[0], region);
      return to ? [{ step: reader, ...to }] : [];
    }),
  );
}

function readingsOf(pass) {
  if (pass.readers) return pass.readers;
  pass.readers = new Map();
  for (const reader of pass.steps) {
    if (reader.block || reader.outputs[0]?.source !== reader.id) continue;
    reader.inputs.forEach((record, at) => {
      if (!record.source) return;
      if (!pass.readers.has(record.source)) pass.readers.set(record.source, []);
      pass.readers.get(record.source).push({ reader, at });
    });
  }
  return pass.readers;
}

/** Whether a step gives its numbers another place, or shows them again, and does nothing else. */
export function onlyMoves(step) {
  return isMove(step) || TURNS.has(step.op) || COPIES.has(step.op);
}

/** Whether a step turns axes, or only cuts them in another way. */
export function turnsAxes(step) {
  return TURNS.has(step.op);
}

/** Whether a step does the same to every number, and so shows a smaller operand again and again. */
export function goesOneByOne(step) {
  return ONE_BY_ONE.has(step.op);
}

/** The steps that read what a step put out, without the blocks around them. */
export function readersOf(scene, step) {
  return passesOf(scene).flatMap((pass) => (readingsOf(pass).get(step.id) ?? []).map(({ reader }) => reader));
}

/** The region of an input that a region of the output was made from; null where that is not known. */
function back(step, at, record, out, region) {
  const { op } = step;
  if (isMove(step)) return asFound(reshape(region, out.shape, record.shape), true);
  if (TURNS.has(op)) {
    const order = orderOf(step, record, out);
    return asFound(order && record.shape.map((_, axis) => region[order.indexOf(axis)]), true);
  }
  if (COPIES.has(op) || ONE_BY_ONE.has(op)) return asFound(narrow(region, out.shape, record.shape), COPIES.has(op));
  if (ROWS.has(op) && at === 0) return asFound(withAll(region, record.shape, [-1]), false, true);
  if (!PRODUCTS.has(op) || at > 1 || region.length < 2) return null;
  const wanted = at ? [[0, record.shape.at(-2)], region.at(-1)] : [region.at(-2), [0, record.shape.at(-1)]];
  return asFound(
    narrow([...region.slice(0, -2), ...wanted], [...out.shape.slice(0, -2), ...record.shape.slice(-2)], record.shape),
    false,
  );
}

/** The region of the output that is made from a region of an input; null where that is not known. */
function on(step, at, record, out, region) {
  const { op } = step;
  if (!out) return null;
  if (isMove(step)) return asFound(reshape(region, record.shape, out.shape), true);
  if (TURNS.has(op))
    return asFound(
      orderOf(step, record, out)?.map((axis) => region[axis]),
      true,
    );
  if (COPIES.has(op) || ONE_BY_ONE.has(op)) return asFound(widen(region, record.shape, out.shape), COPIES.has(op));
  if (ROWS.has(op) && at === 0) return asFound(withAll(region, out.shape, [-1]), false, true);
  if (!PRODUCTS.has(op) || at > 1 || region.length < 2) return null;
  const wide = widen(region.slice(0, -2), record.shape.slice(0, -2), out.shape.slice(0, -2));
  const ends = at ? [[0, out.shape.at(-2)], region.at(-1)] : [region.at(-2), [0, out.shape.at(-1)]];
  return asFound(wide && [...wide, ...ends], false, true);
}

function asFound(region, keeps, ends = false) {
  return region?.every(Boolean) ? { region, keeps, ends } : null;
}

/** The region with all of some axes, in another shape of as many axes. */
function withAll(region, shape, axes) {
  if (region.length !== shape.length) return null;
  const all = axes.map((axis) => axis + shape.length);
  return region.map((range, axis) => (all.includes(axis) ? [0, shape[axis]] : range));
}

/** What is read of a tensor that is broadcast to a larger one. */
function narrow(region, from, to) {
  const skipped = from.length - to.length;
  if (skipped < 0) return null;
  const fits = to.every((size, axis) => size === 1 || size === from[axis + skipped]);
  return fits ? to.map((size, axis) => (size === 1 ? [0, 1] : region[axis + skipped])) : null;
}

/** Where a region goes when its tensor is broadcast. */
function widen(region, from, to) {
  const added = to.length - from.length;
  if (added < 0 || !from.every((size, axis) => size === 1 || size === to[axis + added])) return null;
  return to.map((size, axis) => (axis < added || from[axis - added] < size ? [0, size] : region[axis - added]));
}

/** From which axis of the input each axis of the output comes; null where neither settings, names nor sizes tell. */
function orderOf(step, record, out) {
  const rank = record.shape.length;
  const { dim0, dim1 } = step.settings;
  if (Number.isInteger(dim0) && Number.isInteger(dim1)) {
    const order = record.shape.map((_, axis) => axis);
    const [one, other] = [(dim0 + rank) % rank, (dim1 + rank) % rank];
    [order[one], order[other]] = [order[other], order[one]];
    return order;
  }
  for (const names of [(one) => one.axes, (one) => one.shape]) {
    const [before, after] = [names(record), names(out)];
    const known = new Set(before).size === rank && before.every((name) => name !== "" && after.includes(name));
    if (known && after.length === rank) return after.map((name) => before.indexOf(name));
  }
  return null;
}

/** A region of one shape in another that holds the same numbers in the same order; null where it is no region there. */
export function reshape(region, from, to) {
  const found = [];
  for (let [one, other] = [0, 0]; one < from.length || other < to.length; ) {
    const [first, second] = [one, other];
    let [many, needed] = [from[one++] ?? 1, to[other++] ?? 1];
    while (many !== needed) {
      if (many < needed && one < from.length) many *= from[one++];
      else if (needed < many && other < to.length) needed *= to[other++];
      else return null;
    }
    const run = asRun(region.slice(first, one), from.slice(first, one));
    const part = run && asRegion(run, to.slice(second, other));
    if (!part) return null;
    found.push(...part);
  }
  return found;
}

/** A region as numbers that follow on each other. */
function asRun(region, shape) {
  let [begin, end] = [0, 1];
  let whole = false;
  for (const [axis, [from, to]] of region.entries()) {
    if (whole && (from !== 0 || to !== shape[axis])) return null;
    whole ||= to - from > 1;
    [begin, end] = [begin * shape[axis] + from, (end - 1) * shape[axis] + to];
  }
  return [begin, end];
}

/** Numbers that follow on each other as a region. */
function asRegion([begin, end], shape) {
  const region = [];
  for (let axis = 0; axis < shape.length; axis += 1) {
    const inner = shape.slice(axis + 1).reduce((product, size) => product * size, 1);
    const [from, to] = [Math.floor(begin / inner), Math.ceil(end / inner)];
    if (to - from > 1 && (begin % inner || end % inner)) return null;
    region.push([from, to]);
    if (to - from > 1) return [...region, ...shape.slice(axis + 1).map((size) => [0, size])];
    begin -= from * inner;
    end -= from * inner;
  }
  return region;
}
