/** Which blocks are open: one that is unfolded on the map, and those inside it; kept in the address. */

import { findStep, sceneAt } from "./facts.js";
import { move, place } from "./place.js";
import {
  asPart,
  countOf,
  isBlock,
  isInside,
  isList,
  keyOf,
  numberOf,
  partsOf,
  stepAt,
  WHOLE,
  wholeOf,
} from "./tree.js";

const MOST_OPEN = 240; // all at once are opened only so far that the page stays quick

/** The part that is unfolded on the map; null where none is. */
export function unfolded() {
  const scene = sceneAt(place);
  if (place.block === WHOLE) return wholeOf(scene);
  const step = place.block && findStep(scene, place.block);
  return step?.block ? asPart(step) : null;
}

/** The names of all parts that are open. */
export function openKeys() {
  return new Set(place.open.split(".").filter(Boolean));
}

/** Which of its steps a part shows: of those that are alike the one that is open, or chosen, or else the first. */
export function memberOf(part, keys = openKeys()) {
  if (part.kind !== "run" || isList(part)) return part.step;
  const chosen = place.step ? findStep(sceneAt(place), place.step) : null;
  return (
    part.steps.find((step) => keys.has(keyOf(part, step))) ??
    part.steps.find((step) => step === chosen || (chosen && isInside(chosen.id, step))) ??
    part.step
  );
}

/** Whether a part is open. */
export function isOpen(part, keys = openKeys()) {
  return keys.has(keyOf(part, memberOf(part, keys)));
}

/** Open a part, or close it. */
export function toggle(part) {
  const keys = openKeys();
  const key = keyOf(part, memberOf(part, keys));
  if (!keys.delete(key)) keys.add(key);
  keep(keys);
}

/** Show another of the steps that are alike; what is open inside one is open inside the other. */
export function showMember(part, step) {
  const keys = openKeys();
  const before = memberOf(part, keys);
  const [from, by] = [numberOf(before), numberOf(step) - numberOf(before)];
  const inside = (number) => number >= from && number < from + countOf(before);
  const shifted = [...keys].map((key) => {
    const numbers = key.split("-").map((text) => Number.parseInt(text, 36));
    return numbers.every(inside) ? numbers.map((one) => (one + by).toString(36)).join("-") : key;
  });
  keep(new Set([...shifted, keyOf(part, step)]));
}

/** Open what leads to a step from the part that is unfolded. */
export function openTo(step, around) {
  const keys = openKeys();
  let parts = partsOf(around);
  for (let found = true; found; ) {
    const part = parts.find((one) => one.steps.some((held) => held === step || isInside(step.id, held)));
    const member = part?.steps.find((held) => held === step || isInside(step.id, held));
    found = Boolean(part) && (isList(part) || member !== step);
    if (!found) break;
    if (part.kind === "run") for (const other of part.steps) keys.delete(keyOf(part, other));
    keys.add(keyOf(part, isList(part) ? part.step : member));
    parts = partsOf(part, member);
  }
  return write(keys);
}

/** Open all inside what is unfolded, level by level; whether there was more than can be shown at once. */
export function expandAll(around) {
  const keys = openKeys();
  let level = partsOf(around);
  let shown = level.length;
  let cut = false;
  while (level.length && !cut) {
    const next = [];
    for (const part of level.filter(isBlock)) {
      const member = memberOf(part);
      const inside = partsOf(part, member);
      if (shown + inside.length > MOST_OPEN) {
        cut = true;
        continue;
      }
      keys.add(keyOf(part, member));
      shown += inside.length;
      next.push(...inside);
    }
    level = next;
  }
  keep(keys);
  return cut;
}

/** Close all. */
export function collapseAll() {
  keep(new Set());
}

/** Parts that are open and still there. */
function keep(keys) {
  move({ open: write(keys) });
}

function write(keys) {
  return [...keys].filter((key) => stepAt(Number.parseInt(key, 36))).join(".");
}
