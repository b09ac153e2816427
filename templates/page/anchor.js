/** What is in the middle of the window stays there when another level of the model is drawn. */

import { byId } from "./dom.js";
import { findBox } from "./flow.js";
import { nodeOf, stepOf } from "./nodes.js";
import { unfolded } from "./opened.js";
import { place } from "./place.js";
import { isInside, isList } from "./tree.js";
import { shownBox } from "./unfold.js";
import { boundsOf, boxOf, lookFrom, scaleNow, wasMoved } from "./view.js";

/** What is in the middle, if a change leads to another level; to be taken before anything is drawn anew. */
export function takeAnchor(changed) {
  if (changed.has("start") || !changesLevel(changed)) return null;
  const box = byId("stage").getBoundingClientRect();
  const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
  let best = null;
  for (const { element, step } of listDrawn()) {
    const at = element.getBoundingClientRect();
    const far = Math.hypot(outside(x, at.left, at.right), outside(y, at.top, at.bottom));
    const size = at.width * at.height;
    if (!best || far < best.far || (far === best.far && size < best.size)) best = { step, at, far, size };
  }
  if (!best) return null;
  const { step, at } = best;
  return { step, scale: scaleNow(), x: share(x, at.left, at.width), y: share(y, at.top, at.height) };
}

function changesLevel(changed) {
  if (changed.has("map")) return !changed.has("station");
  const { box, held } = shownBox();
  if (!box) return false;
  return changed.has("block") ? place.block !== "" || wasMoved() : changed.has("open") && !held && !changed.has("step");
}

function outside(at, from, to) {
  return Math.max(0, from - at, at - to);
}

function share(at, from, size) {
  return Math.max(0, Math.min(1, (at - from) / Math.max(1, size)));
}

/** What is drawn with the steps that it stands for: the parts of what is unfolded, or else the nodes of the map. */
function listDrawn() {
  const parts = [...byId("stage").querySelectorAll(".unfolded .part")];
  const found = parts.length
    ? parts.map((element) => ({ element, step: partOf(element)?.step }))
    : [...byId("stage").querySelectorAll("[data-pass][data-step]")].map((element) => ({
        element,
        step: stepOf(element),
      }));
  return found.filter(({ step }) => step);
}

function partOf(element) {
  const { box } = shownBox();
  return (box && findBox(box, (one) => one.key === element.dataset.key)?.box.part) ?? null;
}

/** The step that a drawn part stands for; null where it stands for several. */
export function stepOfPart(element) {
  const { box } = shownBox();
  const found = box && findBox(box, (one) => one.key === element.dataset.key)?.box;
  return found && !isList(found.part) ? found.member : null;
}

/** Put what was in the middle there again, or what is around it or inside it now. */
export function keepAnchor({ step, scale, x, y }) {
  const elements = listStanding(step);
  if (!elements.length) return;
  const box = boundsOf(elements.map(boxOf));
  lookFrom({ x: box.x + x * box.width, y: box.y + y * box.height }, scale);
}

/** What stands for a step: in what is unfolded, or else on the map; null where nothing does. */
export function elementOf(step) {
  return listStanding(step)[0] ?? null;
}

function listStanding(step) {
  return place.block ? standingIn(step) : standingFor(step);
}

/** What of the unfolded block shows a step: its part, its frame, or the nearest that holds it. */
function standingIn(step) {
  const { box, layer } = shownBox();
  const around = unfolded();
  if (!box || !around) return [];
  let nearest = null;
  findBox(box, (one) => {
    if (one.part.steps.some((held) => held === step || isInside(step.id, held))) nearest = one;
    return false;
  });
  if (!nearest) return isInside(around.step.id, step) || around.step === step ? [layer.querySelector(".frame")] : [];
  const element = [...layer.querySelectorAll("[data-key]")].find((one) => one.dataset.key === nearest.key);
  return [element.classList.contains("head") ? element.parentElement : element];
}

/** The nodes of the map that are inside a step, or else the one that stands for it. */
function standingFor(step) {
  const drawn = listDrawn();
  const own = drawn.filter((one) => one.step === step);
  const inside = own.length ? own : drawn.filter((one) => isInside(one.step.id, step));
  const node = inside.length ? null : nodeOf(step);
  return inside.length ? inside.map(({ element }) => element) : node ? [node] : [];
}
