/** A block unfolded on the map, where the nodes that stand for it are. */

import { byId, say, svgEl } from "./dom.js";
import { findStep, sceneAt } from "./facts.js";
import { findBox, layOut } from "./flow.js";
import { drawBox } from "./flow_draw.js";
import { nodesOf } from "./nodes.js";
import { collapseAll, expandAll, openKeys, openTo, showMember, toggle, unfolded } from "./opened.js";
import { amend, move, place } from "./place.js";
import { isBlock, isInside, keyOf, lineOf, WHOLE } from "./tree.js";
import { boundsOf, boxOf, currentView, flyBack, flyTo, isInView, setExtra, wasDrag, wholeBox } from "./view.js";
import { chooseWord } from "./words.js";

const WATCHED = ["block", "open", "step", "map", "phase", "turn", "start"];
const state = { key: "", box: null, layer: null, x: 0, y: 0, before: null, held: null };

/** Answer to touches of the map between its nodes, and of what is unfolded. */
export function startUnfold() {
  byId("stage").addEventListener("click", onTouch);
  byId("stage").addEventListener("keydown", onKey);
}

/** Draw what is unfolded anew where it changed; whether the chosen step is shown inside it. */
export function showUnfolded(changed) {
  if (!WATCHED.some((name) => changed.has(name))) return false;
  const part = unfolded();
  const step = place.step && findStep(sceneAt(place), place.step);
  const within = Boolean(step) && Boolean(part) && holds(part, step);
  if (step && part && !within && changed.has("step")) amend({ block: "" });
  if (!part || !place.block) {
    fold(changed);
    return false;
  }
  if (within && changed.has("step") && !isSeen(part, step)) amend({ open: openTo(step, part) });
  const key = `${place.map} ${place.block}`;
  const fresh = key !== state.key || !state.layer?.isConnected;
  const focused = state.layer?.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  if (fresh && !state.key) state.before = currentView();
  const old = state.box;
  state.box = layOut(part, openKeys(), true);
  if (fresh) putOver(part);
  else keepInPlace(old);
  state.key = key;
  draw();
  if (focused) find(focused)?.focus({ preventScroll: true });
  look(changed, fresh, within ? step : null);
  return within || fresh;
}

/** What is unfolded as it is drawn: its box, its layer, and the part that was touched last. */
export function shownBox() {
  return state.layer?.isConnected ? state : { box: null };
}

function holds(part, step) {
  return part.kind === "whole" || part.steps.some((one) => one === step || isInside(step.id, one));
}

/** Whether a step has a node of its own in what is unfolded, as far as it is open. */
function isSeen(part, step) {
  if (part.steps.includes(step)) return true;
  const box = layOut(part, openKeys(), true);
  return Boolean(
    findBox(box, (one) => (one.part.kind === "step" && one.part.step === step) || (one.member === step && one.open)),
  );
}

/** Put the middle of what is unfolded where the nodes are that stand for it. */
function putOver(part) {
  const nodes = part.kind === "whole" ? [] : nodesOf(part.steps);
  const drawn = drawnSteps().filter(({ node }) => !node.classList.contains("other_phase"));
  const inner = drawn
    .filter(({ step }) => part.kind === "whole" || isInside(step.id, part.step))
    .map(({ node }) => node);
  const boxes = (inner.length ? inner : nodes).map(boxOf);
  const around = boxes.length ? boundsOf(boxes) : wholeBox();
  state.x = around.x + around.width / 2 - state.box.width / 2;
  state.y = around.y + around.height / 2 - state.box.height / 2;
}

/** The nodes of the map with the steps that they stand for here. */
function drawnSteps() {
  const scene = sceneAt(place);
  return [...byId("stage").querySelectorAll("[data-pass][data-step]")].flatMap((node) => {
    const step = findStep(scene, node.dataset.step);
    return step ? [{ node, step }] : [];
  });
}

/** What was touched stays where it is; all around it makes room. */
function keepInPlace(old) {
  const wanted = (one) => one.key === state.held;
  const [before, after] = [old && findBox(old, wanted), findBox(state.box, wanted)];
  if (!before || !after) {
    state.x += ((old?.width ?? 0) - state.box.width) / 2;
    state.y += ((old?.height ?? 0) - state.box.height) / 2;
    return;
  }
  state.x += before.x + before.box.width / 2 - after.x - after.box.width / 2;
  state.y += before.y + before.box.height - after.y - after.box.height;
}

function draw() {
  const svg = byId("stage").querySelector("svg");
  state.layer?.remove();
  const { x, y, width, height } = wholeBox();
  const far = 3 * (width + height);
  state.layer = svgEl(
    "g",
    { class: "unfolded", role: "group", "aria-label": "Unfolded" },
    svgEl(
      "marker",
      {
        id: "tip",
        viewBox: "0 0 8 8",
        refX: 6,
        refY: 4,
        markerWidth: 9,
        markerHeight: 9,
        markerUnits: "userSpaceOnUse",
        orient: "auto",
      },
      svgEl("path", { d: "M0,0L8,4L0,8z" }),
    ),
    svgEl("rect", { class: "veil", x: x - far, y: y - far, width: width + 2 * far, height: height + 2 * far }),
    drawBox({ ...state.box, x: state.x, y: state.y }),
  );
  svg.append(state.layer);
  setExtra({ x: state.x, y: state.y, width: state.box.width, height: state.box.height });
}

function find(key) {
  return [...(state.layer?.querySelectorAll("[data-key]") ?? [])].find((one) => one.dataset.key === key);
}

/** Fly to what is of interest: the step that was chosen, what was touched, or all that is unfolded. */
function look(changed, fresh, step) {
  if (changed.has("start") && !place.block) return;
  const chosen = step && state.layer.querySelector(".chosen");
  const held = state.held && find(state.held);
  if (fresh) flyTo([chosen || state.layer.querySelector(".frame")], 0.08);
  else if (chosen && changed.has("step")) {
    if (!isInView(chosen)) flyTo([chosen], 0.4);
  } else if (held && changed.has("open")) {
    const target = held.classList.contains("head") ? held.parentElement : held;
    if (!isInView(target)) flyTo([target], 0.08);
  } else if (changed.has("open")) flyTo([state.layer.querySelector(".frame")], 0.08);
}

/** Take away what was unfolded; the map is seen again as before. */
function fold(changed) {
  if (!state.key) return;
  const back = changed.has("step") || changed.has("map") ? null : state.before;
  state.layer?.remove();
  Object.assign(state, { key: "", box: null, layer: null, before: null, held: null });
  setExtra(null);
  if (back) flyBack(back);
}

/** Unfold a block where it stands, or fold it again. */
export function unfold(id) {
  state.held = null;
  move({ block: place.block === id ? "" : id });
}

function onTouch(event) {
  if (wasDrag()) return;
  const target = event.target.closest("[data-key], [data-by]");
  if (target && state.layer?.contains(target)) {
    event.stopImmediatePropagation();
    activate(target);
    return;
  }
  if (event.target.closest("[data-step], [data-station], [data-opens], [data-about]")) return;
  if (event.target.closest(".unfolded .frame") || chooseWord(event.target)) return;
  if (place.block) return move({ block: "" });
  const block = blockAt(event);
  if (block) unfold(block.id);
}

/** The smallest block whose nodes lie around a point between them. */
function blockAt(event) {
  const around = new Map();
  for (const { node, step } of drawnSteps()) {
    const box = node.getBoundingClientRect();
    for (const block of lineOf(step).slice(0, -1)) {
      const known = around.get(block) ?? {
        left: box.left,
        top: box.top,
        right: box.right,
        bottom: box.bottom,
        nodes: 0,
      };
      around.set(block, {
        left: Math.min(known.left, box.left),
        top: Math.min(known.top, box.top),
        right: Math.max(known.right, box.right),
        bottom: Math.max(known.bottom, box.bottom),
        nodes: known.nodes + 1,
      });
    }
  }
  const { clientX: x, clientY: y } = event;
  const found = [...around].filter(
    ([, one]) => one.nodes > 1 && x > one.left && x < one.right && y > one.top && y < one.bottom,
  );
  found.sort(([, one], [, other]) => areaOf(one) - areaOf(other));
  return found[0]?.[0] ?? null;
}

function areaOf({ left, top, right, bottom }) {
  return (right - left) * (bottom - top);
}

/** Do what a touched part stands for: open it, close it, choose its step, or show another that is alike. */
function activate(target) {
  if (target.dataset.by) return another(target);
  const { key } = target.dataset;
  if (target.dataset.fold === "all") return move({ block: "" });
  const { box } = findBox(state.box, (one) => one.key === key);
  state.held = key;
  if (isBlock(box.part)) {
    toggle(box.part);
    say(box.open ? "Folded" : "Opened");
  } else move({ view: "step", step: box.part.step.id, station: box.part.step.station ?? place.station });
}

function another(target) {
  const key = target.closest(".frame").querySelector(":scope > .head").dataset.key;
  const { box } = findBox(state.box, (one) => one.key === key);
  const step = box.part.steps[box.part.steps.indexOf(box.member) + Number(target.dataset.by)];
  state.held = keyOf(box.part, step);
  showMember(box.part, step);
  find(state.held)?.focus({ preventScroll: true });
  say(`${step.path}`);
}

/** Open all that is inside, as far as it can be shown at once; the whole where nothing is unfolded yet. */
export function openAll() {
  state.held = null;
  if (!place.block) move({ block: WHOLE });
  say(expandAll(unfolded()) ? "Opened as far as there is room" : "All is open");
}

/** Close all that is open inside; the block itself where nothing is. */
export function closeAll() {
  state.held = null;
  if (place.open) collapseAll();
  else move({ block: "" });
}

function onKey(event) {
  const target = event.target.closest(".unfolded [data-key], .unfolded [data-by]");
  if (event.key === "Escape" && place.block) move({ block: "" });
  else if (!target || event.ctrlKey || event.altKey || event.metaKey) return;
  else if (event.key === "Enter" || event.key === " ") activate(target);
  else if (event.key.startsWith("Arrow") && !event.shiftKey) goNear(target, event.key);
  else return;
  event.preventDefault();
  event.stopImmediatePropagation();
}

const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Focus the nearest part, head or button in the direction of a key. */
function goNear(from, key) {
  const [across, down] = WAYS[key];
  const start = middleOf(from);
  let best = null;
  for (const other of state.layer.querySelectorAll("[data-key], [data-by]")) {
    if (other === from) continue;
    const end = middleOf(other);
    const along = (end.x - start.x) * across + (end.y - start.y) * down;
    const aside = Math.abs((end.x - start.x) * down) + Math.abs((end.y - start.y) * across);
    if (along > 1 && aside <= along * 3 && (!best || along + aside * 2 < best.far))
      best = { other, far: along + aside * 2 };
  }
  if (!best) return;
  best.other.focus({ preventScroll: true });
  if (!isInView(best.other)) flyTo([best.other], 0.4);
}

function middleOf(element) {
  const box = element.getBoundingClientRect();
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
}
