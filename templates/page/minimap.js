/** The whole in a corner of the map, with the window on it: to see where one is, and to drag the window along. */

import { byId } from "./dom.js";
import { isPhone } from "./drawer.js";
import { currentView, lookAt, onView, wholeBox } from "./view.js";

const MOST = { width: 170, height: 170 };
const SEEN = 0.72; // where so much of the whole is in the window, no small map is needed
let painted = "";
let picture = null;
let waiting = 0;

/** Draw it whenever the window moves. */
export function startMinimap() {
  const canvas = byId("minimap");
  onView(() => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(paint);
  });
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    go(event);
    event.stopPropagation();
  });
  canvas.addEventListener("pointermove", (event) => event.buttons && go(event));
}

function scaleOf(whole) {
  return Math.min(MOST.width / whole.width, MOST.height / whole.height);
}

function go(event) {
  const box = byId("minimap").getBoundingClientRect();
  const whole = wholeBox();
  const scale = scaleOf(whole);
  lookAt(whole.x + (event.clientX - box.left) / scale, whole.y + (event.clientY - box.top) / scale);
}

/** Whether most of the whole lies in the window. */
function seesAll(whole, view) {
  const wide = Math.min(whole.x + whole.width, view.x + view.width) - Math.max(whole.x, view.x);
  const high = Math.min(whole.y + whole.height, view.y + view.height) - Math.max(whole.y, view.y);
  return Math.max(0, wide) * Math.max(0, high) > SEEN * whole.width * whole.height;
}

function paint() {
  const canvas = byId("minimap");
  const whole = wholeBox();
  const view = currentView();
  canvas.hidden = isPhone() || !byId("stage").querySelector("svg") || seesAll(whole, view);
  if (canvas.hidden) return;
  const scale = scaleOf(whole);
  const [width, height] = [Math.round(whole.width * scale), Math.round(whole.height * scale)];
  const sharp = devicePixelRatio || 1;
  const svg = byId("stage").querySelector("svg");
  const key = [
    width,
    height,
    sharp,
    svg.querySelectorAll("[data-step], .unfolded rect").length,
    JSON.stringify(whole),
  ].join();
  if (key !== painted || picture?.of !== svg) {
    picture = paintWhole(svg, whole, scale, [width, height], sharp);
    painted = key;
  }
  canvas.width = width * sharp;
  canvas.height = height * sharp;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.drawImage(picture.canvas, 0, 0);
  pen.scale(sharp, sharp);
  const style = getComputedStyle(canvas);
  pen.strokeStyle = style.getPropertyValue("--accent-boundary");
  pen.lineWidth = 2;
  pen.strokeRect(
    (view.x - whole.x) * scale + 1,
    (view.y - whole.y) * scale + 1,
    Math.max(3, view.width * scale - 2),
    Math.max(3, view.height * scale - 2),
  );
}

/** The boxes of the nodes in their colours; painted once, as long as nothing is opened. */
function paintWhole(svg, whole, scale, [width, height], sharp) {
  const canvas = document.createElement("canvas");
  canvas.width = width * sharp;
  canvas.height = height * sharp;
  const pen = canvas.getContext("2d");
  pen.scale(sharp, sharp);
  const frame = svg.getBoundingClientRect();
  const drawn = svg.viewBox.baseVal;
  const unit = drawn.width / frame.width;
  const opened = svg.querySelector(".unfolded");
  const bodies = svg.querySelectorAll(".node > path:first-of-type, .node > polygon:first-of-type, .unfolded .body");
  for (const body of bodies) {
    const box = body.getBoundingClientRect();
    const style = getComputedStyle(body);
    if (style.fill === "none") continue;
    const inside = body.closest(".unfolded") !== null;
    pen.globalAlpha = opened && !inside ? 0.3 : 1;
    pen.fillStyle = style.fill;
    const x = (drawn.x + (box.left - frame.left) * unit - whole.x) * scale;
    const y = (drawn.y + (box.top - frame.top) * unit - whole.y) * scale;
    pen.fillRect(x, y, Math.max(1, box.width * unit * scale), Math.max(1, box.height * unit * scale));
    if (inside && body.matches(".frame > .body")) {
      pen.strokeStyle = style.stroke;
      pen.lineWidth = 0.6;
      pen.strokeRect(x, y, box.width * unit * scale, box.height * unit * scale);
    }
  }
  return { of: svg, canvas };
}
