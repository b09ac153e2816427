/** Pan and zoom: the window onto the map, moved by wheel, drag, touch, buttons and keys. */

import { byId } from "./dom.js";

const CLOSEST = 0.02;
const READABLE = 0.85; // at this scale the smallest words of a drawing can still be read
const LARGEST = 1.5;
const NEAR = 104; // of so many pixels is a box at least that one has come near to
const view = { x: 0, y: 0, width: 1, height: 1 };
const size = { width: 1 }; // of the stage, as it was
let whole = { x: 0, y: 0, width: 1, height: 1 };
let extra = null; // what stands on the drawing and may be larger than it
const watchers = [];
const resters = [];
let drawing;
let stage;
let frame = 0;
let flight = 0;
let rest = 0;
let byHand = false;

/** Take the drawing in hand. */
export function startView() {
  stage = byId("stage");
  if (!showDrawing()) return;
  stage.addEventListener("wheel", onWheel, { passive: false });
  stage.addEventListener("pointerdown", onDown);
  stage.addEventListener("keydown", onKey);
  byId("closer").addEventListener("click", () => zoom(1 / 1.5));
  byId("farther").addEventListener("click", () => zoom(1.5));
  byId("whole").addEventListener("click", () => fly(wholeBox()));
  new ResizeObserver(onResize).observe(stage);
}

/** Show the whole of the drawing that is on the stage. */
export function showDrawing() {
  drawing = stage.querySelector("svg");
  if (!drawing) return false;
  const [x, y, width, height] = drawing.getAttribute("viewBox").split(/\s+/).map(Number);
  whole = { x, y, width, height };
  drawing.style.width = `${width}px`;
  drawing.style.height = `${height}px`;
  Object.assign(view, fitted(whole));
  size.width = stage.clientWidth;
  show();
  return true;
}

/** Call back whenever the window has moved. */
export function onView(watcher) {
  watchers.push(watcher);
}

/** Call back whenever the window has come to rest. */
export function onRest(rester) {
  resters.push(rester);
}

/** Something that stands on the drawing and belongs to the whole, or null. */
export function setExtra(box) {
  extra = box;
  for (const watcher of watchers) watcher();
}

/** All that can be seen: the drawing, and what stands on it. */
export function wholeBox() {
  if (!extra) return { ...whole };
  const [x, y] = [Math.min(whole.x, extra.x), Math.min(whole.y, extra.y)];
  const right = Math.max(whole.x + whole.width, extra.x + extra.width);
  const bottom = Math.max(whole.y + whole.height, extra.y + extra.height);
  return { x, y, width: right - x, height: bottom - y };
}

/** Fly to a window as it was before. */
export function flyBack(box) {
  fly(box);
}

/** Put the middle of the window at a point, at once. */
export function lookAt(x, y) {
  pan(x - view.x - view.width / 2, y - view.y - view.height / 2);
}

/** Put the middle of the window at a point, at once, at a scale or where that is too small at one to read. */
export function lookFrom({ x, y }, scale) {
  stopFlight();
  const width = stage.clientWidth / Math.max(READABLE, scale);
  const height = (width * stage.clientHeight) / stage.clientWidth;
  const all = wholeBox();
  const middle = width > all.width ? all.x + all.width / 2 : x; // what fits beside each other is seen beside each other
  Object.assign(view, { x: middle - width / 2, y: y - height / 2, width, height });
  show();
}

/** How large the drawing is on the screen. */
export function scaleNow() {
  return stage.clientWidth / view.width;
}

/** Whether the reader has moved the window since it last flew by itself. */
export function wasMoved() {
  return byHand;
}

/** The window as it is now, in the drawing's own units. */
export function currentView() {
  return { ...view };
}

/** Move the window to hold all of some elements. */
export function flyTo(elements, margin = 0.25) {
  const boxes = elements.map(boxOf).filter((box) => box.width > 0);
  if (!boxes.length) return;
  const around = boundsOf(boxes);
  const [top, bottom] = [around.y, around.y + around.height];
  const box = fitted(around);
  const scale = stage.clientWidth / (box.width * (1 + margin));
  const readable = Math.min(LARGEST, Math.max(READABLE, scale));
  const wide = stage.clientWidth / readable;
  const high = stage.clientHeight / readable;
  // what does not fit at a size to read begins where its data enters, at the bottom
  const low = Math.max((top + bottom) / 2, bottom - high / (2 + margin));
  const all = wholeBox();
  let y = low - high / 2;
  // no more of what is beside the drawing than there must be
  if (high < all.height) y = Math.min(Math.max(y, all.y), all.y + all.height - high);
  fly({ x: around.x + around.width / 2 - wide / 2, y, width: wide, height: high });
}

/** Move the window to an element, as near as it is if one can read there; not while the reader's hand is on the map. */
export function glideTo(element) {
  if (fingers.size) return;
  if (scaleNow() < READABLE * 0.8) return flyTo([element]);
  const box = boxOf(element);
  const { width, height } = view;
  fly({ x: box.x + (box.width - width) / 2, y: box.y + (box.height - height) / 2, width, height });
}

/** The box around several boxes. */
export function boundsOf(boxes) {
  const x = Math.min(...boxes.map((box) => box.x));
  const y = Math.min(...boxes.map((box) => box.y));
  const right = Math.max(...boxes.map((box) => box.x + box.width));
  const bottom = Math.max(...boxes.map((box) => box.y + box.height));
  return { x, y, width: right - x, height: bottom - y };
}

/** Move the window so close to an element that what is inside it can be read. */
export function comeNear(element) {
  const box = boxOf(element);
  const wide = Math.max(box.width / 0.96, (box.height / 0.5) * (stage.clientWidth / stage.clientHeight));
  const width = Math.min(wide, (box.height / NEAR) * stage.clientWidth);
  const height = (width * stage.clientHeight) / stage.clientWidth;
  const x = width < box.width ? box.x - width * 0.02 : box.x + (box.width - width) / 2;
  fly({ x, y: box.y + (box.height - height) / 2, width, height });
}

/** Where an element is, in the drawing's own units. */
export function boxOf(element) {
  const seen = element.getBoundingClientRect();
  const frameBox = drawing.getBoundingClientRect();
  const scale = whole.width / frameBox.width;
  return {
    x: whole.x + (seen.left - frameBox.left) * scale,
    y: whole.y + (seen.top - frameBox.top) * scale,
    width: seen.width * scale,
    height: seen.height * scale,
  };
}

/** Whether an element can be seen whole in the window, and large enough to be read. */
export function isInView(element) {
  const box = boxOf(element);
  return (
    stage.clientWidth / view.width > READABLE * 0.8 &&
    box.x >= view.x &&
    box.y >= view.y &&
    box.x + box.width <= view.x + view.width &&
    box.y + box.height <= view.y + view.height
  );
}

/** A box widened to the proportions of the stage. */
function fitted(box) {
  const shape = stage.clientWidth / Math.max(1, stage.clientHeight);
  const width = Math.max(box.width, box.height * shape);
  const height = width / shape;
  return { x: box.x - (width - box.width) / 2, y: box.y - (height - box.height) / 2, width, height };
}

/** Put the drawing where the window wants it. It moves as one picture; at rest it is drawn anew, sharp. */
function show() {
  cancelAnimationFrame(frame);
  frame = requestAnimationFrame(() => {
    const scale = stage.clientWidth / view.width;
    stage.classList.add("moving");
    drawing.style.transform = `translate(${(whole.x - view.x) * scale}px,${(whole.y - view.y) * scale}px) scale(${scale})`;
    for (const watcher of watchers) watcher();
    clearTimeout(rest);
    rest = setTimeout(settle, 140, scale);
  });
}

function settle(scale) {
  if (flight) return; // a frame came late; the last one settles it
  stage.classList.remove("moving");
  const pixel = `${(1 / scale).toPrecision(2)}px`;
  if (drawing.style.getPropertyValue("--pixel") !== pixel) drawing.style.setProperty("--pixel", pixel);
  for (const rester of resters) rester();
}

function fly(box) {
  const target = fitted(box);
  byHand = false;
  stopFlight();
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
    Object.assign(view, target);
    show();
    return;
  }
  const from = { ...view };
  const begun = performance.now();
  const go = (now) => {
    const share = Math.min(1, (now - begun) / 450);
    const eased = 1 - (1 - share) ** 3;
    for (const side of ["x", "y", "width", "height"]) view[side] = from[side] + (target[side] - from[side]) * eased;
    show();
    flight = share < 1 ? requestAnimationFrame(go) : 0;
  };
  flight = requestAnimationFrame(go);
}

function stopFlight() {
  cancelAnimationFrame(flight);
  flight = 0;
}

function zoom(factor, at = { x: 0.5, y: 0.5 }) {
  byHand = true;
  stopFlight();
  const least = whole.width * CLOSEST;
  const most = fitted(wholeBox()).width * 1.6;
  const width = Math.min(most, Math.max(least, view.width * factor));
  const height = (width * view.height) / view.width;
  view.x += (view.width - width) * at.x;
  view.y += (view.height - height) * at.y;
  view.width = width;
  view.height = height;
  show();
}

function pan(across, down) {
  byHand = true;
  stopFlight();
  view.x += across;
  view.y += down;
  show();
}

/** Where the whole was seen it is seen again; else what was in the middle stays there, and as large. */
function onResize() {
  const { clientWidth, clientHeight } = stage;
  if (!clientWidth || !clientHeight) return;
  const all = wholeBox();
  const scale = view.width / size.width;
  const [width, height] = [clientWidth * scale, clientHeight * scale];
  if (view.width > all.width * 0.99 && view.height > all.height * 0.99) Object.assign(view, fitted(all));
  else
    Object.assign(view, {
      x: view.x + (view.width - width) / 2,
      y: view.y + (view.height - height) / 2,
      width,
      height,
    });
  size.width = clientWidth;
  show();
}

function shareOf(event) {
  const box = stage.getBoundingClientRect();
  return { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height };
}

function onWheel(event) {
  event.preventDefault();
  const lines = event.deltaMode === 1 ? 16 : 1;
  zoom(1.0015 ** (event.deltaY * lines), shareOf(event));
}

const fingers = new Map();
let moved = 0;

/** Whether the last press was a drag, and so no touch of what lay under it. */
export function wasDrag() {
  return moved > 6;
}

function onDown(event) {
  if (!fingers.size) moved = 0;
  fingers.set(event.pointerId, event);
  if (fingers.size === 1) {
    addEventListener("pointermove", onDrag);
    addEventListener("pointerup", onUp);
    addEventListener("pointercancel", onUp);
  }
}

function onDrag(event) {
  const before = fingers.get(event.pointerId);
  if (!before) return;
  moved += Math.abs(event.clientX - before.clientX) + Math.abs(event.clientY - before.clientY);
  const scale = view.width / stage.clientWidth;
  if (fingers.size === 1) {
    pan((before.clientX - event.clientX) * scale, (before.clientY - event.clientY) * scale);
  } else {
    const other = [...fingers.values()].find((finger) => finger.pointerId !== event.pointerId);
    const far = Math.hypot(before.clientX - other.clientX, before.clientY - other.clientY);
    const near = Math.hypot(event.clientX - other.clientX, event.clientY - other.clientY);
    const middle = { clientX: (event.clientX + other.clientX) / 2, clientY: (event.clientY + other.clientY) / 2 };
    zoom(far / Math.max(1, near), shareOf(middle));
    pan(((before.clientX - event.clientX) * scale) / 2, ((before.clientY - event.clientY) * scale) / 2);
  }
  fingers.set(event.pointerId, event);
}

function onUp(event) {
  fingers.delete(event.pointerId);
  if (fingers.size) return;
  removeEventListener("pointermove", onDrag);
  removeEventListener("pointerup", onUp);
  removeEventListener("pointercancel", onUp);
}

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "+" || event.key === "=") zoom(1 / 1.3);
  else if (event.key === "-") zoom(1.3);
  else if (event.key === "0") fly(wholeBox());
  else if (event.shiftKey && STEPS[event.key]) {
    const [across, down] = STEPS[event.key];
    pan(across * view.width * 0.1, down * view.height * 0.1);
  } else return;
  event.preventDefault();
}
