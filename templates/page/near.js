/** Tensors as cells on the map: a box that is near enough shows what was recorded of it, there where it stands. */

import { stepOfPart } from "./anchor.js";
import { takeBrush } from "./brush.js";
import { paintBox } from "./cells.js";
import { byId, el, say } from "./dom.js";
import { findStep, sceneAt } from "./facts.js";
import { followCell, repaintFollowed, showFollowed } from "./following.js";
import { nodeOf, stepOf } from "./nodes.js";
import { onApproach } from "./numbers.js";
import { siteOf, tensorOf } from "./panes.js";
import { place } from "./place.js";
import { tellCell } from "./telling.js";
import { marksOf } from "./trail.js";
import { boundsOf, boxOf, comeNear, currentView, onRest, onView, wasDrag } from "./view.js";

const LEAST = { width: 150, height: 66 }; // a box is near when it is so large on the screen
const SMALLEST_WORD = 11.5;
const AROUND = 0.2; // so much of the window is painted beyond each of its edges
const state = { boxes: null, near: [], hits: [], area: null, view: null, pinned: null };
let canvas;
let marks;
let says;

/** Show cells whenever the map has come to rest; tell of the one under the pointer. */
export function startNear() {
  canvas = el("canvas", { class: "near_cells", "aria-hidden": "true" });
  marks = el("canvas", { class: "near_cells", "aria-hidden": "true" });
  says = el("p", { class: "near_says", "aria-hidden": "true", hidden: true });
  byId("stage").parentElement.append(says);
  onRest(paint);
  onApproach(approach);
  onView(shift);
  byId("theme").addEventListener("click", () => {
    paint();
    repaintFollowed();
  });
  byId("stage").addEventListener("pointermove", (event) => event.pointerType !== "touch" && point(event));
  byId("stage").addEventListener("pointerleave", () => show(null));
  byId("stage").addEventListener("click", hold, { capture: true });
}

/** Come near to the box of the chosen step. */
function approach() {
  const step = findStep(sceneAt(place), place.step);
  const box = byId("stage").querySelector(".unfolded .chosen") ?? nodeOf(step);
  if (box) comeNear(box);
  else say("The map has no box of its own for this step.");
}

/** What stands on the map has changed, or what is told of it. */
export function showNear(changed) {
  if (["map", "block", "open", "phase", "turn", "start", "view"].some((name) => changed.has(name))) state.boxes = null;
  if (changed.has("step") && state.pinned && !state.pinned.fresh) state.pinned = null;
  if (canvas?.isConnected || state.boxes === null) requestAnimationFrame(paint);
}

/** The boxes of the map that stand for one step each, with where they are in the drawing's own units. */
function listBoxes() {
  const stage = byId("stage");
  const inside = stage.querySelector(".unfolded") !== null;
  const elements = stage.querySelectorAll(inside ? ".unfolded .part" : ".node[data-step]");
  const boxes = [];
  for (const element of elements) {
    const body = element.querySelector(":scope > .body, :scope > path, :scope > polygon");
    if (body) boxes.push({ element, body, find: inside ? stepOfPart : stepOf, where: boxOf(body) });
  }
  return boxes;
}

/** Paint the cells of all boxes that are near, and give the others their words back. */
function paint() {
  const before = state.near;
  state.near = [];
  state.hits = [];
  state.view = currentView();
  shift();
  const stage = byId("stage");
  const scale = stage.clientWidth / state.view.width;
  if (place.view === "show" || !stage.querySelector("svg")) return;
  state.boxes ??= listBoxes();
  const found = state.boxes.filter((box) => isNear(box, scale)).flatMap((box) => asNear(box, scale));
  for (const { element } of before) if (!found.some((one) => one.element === element)) restore(element);
  if (!found.length) return takeAway();
  if (!canvas.isConnected) stage.append(canvas);
  state.area = areaOf(found);
  const brush = prepare(canvas);
  for (const one of found) {
    const label = shrink(one);
    if (paintBox(brush, one, label)) state.near.push(one);
    else restore(one.element);
  }
  state.hits = brush.hits;
  if (state.near.length) mark();
  else takeAway();
}

function takeAway() {
  canvas.remove();
  marks.remove();
}

function isNear({ where }, scale) {
  const { x, y, width, height } = state.view;
  return (
    where.width * scale >= LEAST.width &&
    where.height * scale >= LEAST.height &&
    where.x < x + width &&
    where.x + where.width > x &&
    where.y < y + height &&
    where.y + where.height > y
  );
}

/** A near box with the tensors that it shows, where values of them were kept, and where it is on the stage. */
function asNear({ element, where, find }, scale) {
  const step = find(element);
  const scene = sceneAt(place);
  const tensors = step
    ? stepsIn(scene, element, step)
        .map((one) => tensorOf(scene, one))
        .filter(Boolean)
    : [];
  if (!tensors.length) return [];
  const { x, y } = state.view;
  const { clientWidth } = byId("stage");
  const on = {
    x: (where.x - x) * scale,
    y: (where.y - y) * scale,
    width: where.width * scale,
    height: where.height * scale,
  };
  return [{ element, step, tensors, on, isWide: on.width > clientWidth }];
}

/** The steps that a box shows: with scores also what they become when they are scaled, where no other box shows that. */
function stepsIn(scene, element, step) {
  const site = siteOf(scene, step);
  if (!site?.scale || step !== site.scores || !element.matches(".node")) return [step];
  return nodeOf(site.scale) === element ? [step, site.scale] : [step];
}

/** Where there are cells to paint: around all near boxes, as far as the window and a little beyond it. */
function areaOf(found) {
  const { clientWidth, clientHeight } = byId("stage");
  const { x, y, width, height } = boundsOf(found.map(({ on }) => on));
  const [left, top] = [Math.max(x, -clientWidth * AROUND), Math.max(y, -clientHeight * AROUND)];
  const right = Math.min(x + width, clientWidth * (1 + AROUND));
  const bottom = Math.min(y + height, clientHeight * (1 + AROUND));
  return { x: left, y: top, width: Math.ceil(right - left), height: Math.ceil(bottom - top) };
}

function prepare(target, { x, y, width, height } = state.area) {
  target.style.left = `${x}px`;
  target.style.top = `${y}px`;
  target.style.width = `${width}px`;
  target.style.height = `${height}px`;
  target.style.transformOrigin = `${-x}px ${-y}px`;
  const brush = takeBrush(target, width, height);
  brush.pen.translate(-x, -y);
  return brush;
}

/** Move the painted cells along with the drawing. */
function shift() {
  if (!canvas?.isConnected || !state.view) return;
  const now = currentView();
  const scale = byId("stage").clientWidth / now.width;
  const move = `translate(${(state.view.x - now.x) * scale}px,${(state.view.y - now.y) * scale}px) scale(${state.view.width / now.width})`;
  canvas.style.transform = move;
  marks.style.transform = move;
  if (state.view.x !== now.x || state.view.y !== now.y || state.view.width !== now.width) says.hidden = true;
}

const MARGIN = 8;

/** Make the words of a box small, and put them into the upper left of what is seen of it; how much room they take. */
function shrink({ element, on, isWide }) {
  const texts = listTexts(element);
  element.classList.add("near");
  for (const text of texts) text.style.removeProperty("transform");
  const body = element.querySelector(":scope > .body, :scope > path, :scope > polygon").getBBox();
  const scale = on.width / body.width;
  const boxes = texts.map((text) => text.getBBox());
  const [left, top] = [Math.min(...boxes.map((box) => box.x)), Math.min(...boxes.map((box) => box.y))];
  const right = Math.max(...boxes.map((box) => box.x + box.width));
  const bottom = Math.max(...boxes.map((box) => box.y + box.height));
  const smallest = Math.min(...texts.map((text) => Number.parseFloat(getComputedStyle(text).fontSize)));
  const share = Math.min(1, SMALLEST_WORD / (smallest * scale), (on.width - 2 * MARGIN) / ((right - left) * scale));
  const wide = (right - left) * share * scale + 2 * MARGIN;
  const hidden = isWide ? Math.max(0, Math.min(-on.x, on.width - wide)) : 0;
  const x = body.x + (MARGIN + hidden) / scale - left * share;
  const y = body.y + (MARGIN * 0.6) / scale - top * share;
  for (const text of texts) text.style.transform = `translate(${x}px,${y}px) scale(${share})`;
  return { width: wide, height: (bottom - top) * share * scale + MARGIN };
}

function listTexts(element) {
  return [...element.querySelectorAll(":scope > text:not(.sign, .does)")];
}

function restore(element) {
  element.classList.remove("near");
  for (const text of listTexts(element)) text.style.removeProperty("transform");
}

/** The cell under a point of the screen; null where none is. */
function cellAt(event) {
  const box = byId("stage").getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const now = currentView();
  if (!state.view || now.x !== state.view.x || now.y !== state.view.y || now.width !== state.view.width) return null;
  return state.hits.find((hit) => x >= hit.left && x < hit.right && y >= hit.top && y < hit.bottom)?.tell(x, y) ?? null;
}

function point(event) {
  show(event.buttons || event.target.closest(".unfolded .head") ? null : cellAt(event), event);
}

/** Say beside the pointer what a cell is, and frame where its number came from and goes. */
function show(cell, event) {
  says.hidden = !cell;
  mark(cell ?? state.pinned);
  if (!cell) return;
  const text = tellCell(sceneAt(place), cell);
  if (says.textContent !== text) says.textContent = text;
  const around = says.parentElement.getBoundingClientRect();
  const [x, y] = [event.clientX - around.left, event.clientY - around.top];
  says.style.left = `${Math.max(4, Math.min(x + 14, around.width - says.offsetWidth - 4))}px`;
  says.style.top = `${y + 20 + says.offsetHeight > around.height ? y - says.offsetHeight - 12 : y + 20}px`;
}

/** A touched cell stays framed, with where its number came from and goes, until something else is chosen. */
function hold(event) {
  const cell = wasDrag() ? null : cellAt(event);
  state.pinned = cell && { ...cell, fresh: true };
  if (!cell) return mark();
  followCell(cell);
  say(tellCell(sceneAt(place), cell));
  show(cell, event);
  setTimeout(() => {
    if (state.pinned) state.pinned.fresh = false;
    showFollowed();
  });
}

/** Frame a cell, and in all boxes that are near what its number was made from and what was made from it. */
function mark(cell = state.pinned) {
  if (!cell || !canvas.isConnected) return marks.remove();
  if (!marks.isConnected) canvas.after(marks);
  const brush = prepare(marks);
  for (const one of marksOf(sceneAt(place), cell))
    for (const hit of state.hits) if (hit.tensor.record.source === one.step.id) hit.frame(brush, one);
}
