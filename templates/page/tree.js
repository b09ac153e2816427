/** The recorded steps as a tree: what each block holds, neighbours that are alike as one, very many in groups. */

import { passesOf, sceneAt } from "./facts.js";
import { place } from "./place.js";

const MOST = 40; // more neighbours than this are gathered into groups
const FEWEST_BLOCKS = 3; // so many blocks of a kind in a row stand as one
const FEWEST_STEPS = 6; // the same of single operations
export const WHOLE = "whole";

/** A part of a block: "step", a "run" of steps that are alike, or a "group" of neighbours; `steps` are its own. */
function partOf(kind, steps) {
  return { kind, steps, step: steps[0] };
}

/** What the reader looks at as one part: the block around all, or all passes of the scene. */
export function wholeOf(scene) {
  if (!scene.whole) {
    const roots = passesOf(scene).flatMap(rootsOf);
    scene.whole = roots.length === 1 && roots[0].block ? asPart(roots[0]) : partOf("whole", roots);
  }
  return scene.whole;
}

/** The part that a block is. */
export function asPart(step) {
  return partOf("step", [step]);
}

/** The steps inside a step, in order; made once for a pass. */
export function childrenOf(step) {
  return grow(step.pass).inside.get(step.id) ?? [];
}

function rootsOf(pass) {
  return grow(pass).inside.get(null) ?? [];
}

function grow(pass) {
  if (pass.tree) return pass.tree;
  const inside = new Map();
  for (const [at, step] of pass.steps.entries()) {
    step.at = at;
    const holder = step.parent !== null && pass.byId.has(step.parent) ? step.parent : null;
    if (!inside.has(holder)) inside.set(holder, []);
    inside.get(holder).push(step);
  }
  pass.tree = { inside, kinds: new Map() };
  return pass.tree;
}

/** The step around a step; null outside of all. */
export function parentOf(step) {
  return (step.parent !== null && step.pass.byId.get(step.parent)) || null;
}

/** The steps around a step, the outermost first, and the step itself. */
export function lineOf(step) {
  const line = [];
  for (let at = step; at; at = parentOf(at)) line.unshift(at);
  return line;
}

/** How many steps a step is, with all inside it. */
export function countOf(step) {
  step.count ??= childrenOf(step).reduce((sum, one) => sum + countOf(one), 1);
  return step.count;
}

/** A number for what a step is and holds: two steps that are alike have the same. */
function kindOf(step) {
  if (step.kind === undefined) {
    const { kinds } = grow(step.pass);
    const shapes = step.outputs.map((one) => one.shape.join("x"));
    const text = [step.op, step.module, shapes, childrenOf(step).map(kindOf).join()].join("|");
    if (!kinds.has(text)) kinds.set(text, kinds.size);
    step.kind = kinds.get(text);
  }
  return step.kind;
}

/** What a part shows when it is opened: the parts inside it. `member` is the step that a run shows. */
export function partsOf(part, member = part.step) {
  if (!isList(part)) {
    member.parts ??= gather(fold(childrenOf(member)));
    return member.parts;
  }
  if (!part.parts) {
    const folded = fold(part.steps);
    part.parts = gather(folded.length === 1 ? part.steps.map(asPart) : folded);
  }
  return part.parts;
}

/** Whether a part is several steps beside each other, and not one that holds them. */
export function isList(part) {
  return part.kind === "group" || part.kind === "whole" || (part.kind === "run" && !part.step.block);
}

/** Whether there is something inside. */
export function isBlock(part) {
  return isList(part) || part.step.block;
}

/** Whether two steps do the same under one name, but for its numbers. */
function areAlike(one, other) {
  const name = (step) => step.path.replace(/\d+/g, "0");
  return one.pass === other.pass && kindOf(one) === kindOf(other) && name(one) === name(other);
}

/** Neighbours that are alike as one part. */
function fold(steps) {
  const parts = [];
  for (let at = 0; at < steps.length; ) {
    let end = at + 1;
    while (end < steps.length && areAlike(steps[at], steps[end])) end += 1;
    const few = steps[at].block ? FEWEST_BLOCKS : FEWEST_STEPS;
    if (end - at >= few) parts.push(partOf("run", steps.slice(at, end)));
    else parts.push(...steps.slice(at, end).map(asPart));
    at = end;
  }
  return parts;
}

/** Very many neighbours in groups that can be opened in their turn. */
function gather(parts) {
  if (parts.length <= MOST) return parts;
  const size = Math.max(8, Math.ceil(parts.length / MOST));
  const groups = [];
  for (let at = 0; at < parts.length; at += size) {
    const held = parts.slice(at, at + size);
    groups.push(
      held.length > 1
        ? partOf(
            "group",
            held.flatMap((one) => one.steps),
          )
        : held[0],
    );
  }
  return groups;
}

/** A part's name in the list of those that are open: the place of its first step, and of its last where it is a group. */
export function keyOf(part, member = part.step) {
  if (part.kind === "whole") return WHOLE;
  if (part.kind !== "group") return numberOf(member).toString(36);
  return [part.steps[0], part.steps.at(-1)].map((step) => numberOf(step).toString(36)).join("-");
}

/** The place of a step among all of its scene. */
export function numberOf(step) {
  grow(step.pass);
  let before = 0;
  for (const pass of passesOf(sceneAt(place))) {
    if (pass === step.pass) return before + step.at;
    before += pass.steps.length;
  }
  return step.at;
}

/** The step at a place among all of a scene; null where there is none. */
export function stepAt(number) {
  let at = number;
  for (const pass of passesOf(sceneAt(place))) {
    if (at < pass.steps.length) return pass.steps[at] ?? null;
    at -= pass.steps.length;
  }
  return null;
}

/** The ids of what a step needs from outside of itself; made once. */
export function needsOf(step) {
  if (!step.needs) {
    const needs = new Set(step.inputs.map((one) => one.source).filter((id) => id && id !== step.id));
    for (const child of childrenOf(step)) for (const id of needsOf(child)) if (!isInside(id, step)) needs.add(id);
    step.needs = needs;
  }
  return step.needs;
}

/** Whether what has an id happens inside a step. */
export function isInside(id, step) {
  for (let at = step.pass.byId.get(id); at; at = parentOf(at)) if (at === step) return true;
  return false;
}

/** The name of a part in a few letters: the end of its path. */
export function nameOf(part) {
  const { steps, step } = part;
  if (part.kind === "whole") return "the whole";
  if (part.kind === "group") return `${shortName(step)} … ${shortName(steps.at(-1))}`;
  if (part.kind === "run") return `${shortName(step)} … ${shortName(steps.at(-1))}`;
  return shortName(step);
}

/** The end of a path without what the block around it says already; a number with the name that it counts. */
export function shortName(step) {
  const around = parentOf(step)?.path;
  const parts = step.path.split(".");
  let from = around && step.path.startsWith(`${around}.`) ? around.split(".").length : Math.max(0, parts.length - 2);
  while (from > 0 && /^\d+$/.test(parts[from])) from -= 1;
  const short = parts.slice(from).join(".");
  return step.call ? `${short} (${step.call + 1})` : short;
}
