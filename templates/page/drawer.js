/** The drawer of a small screen: what is told lies under the map, and is drawn up by its handle. */

import { byId } from "./dom.js";
import { place } from "./place.js";

const HEIGHTS = ["low", "half", "full"];
const SAYS = { low: "Draw up what is told", half: "Draw it up all the way", full: "Put it down" };
const PHONE = matchMedia("(max-width: 900px), (max-height: 500px)");
let pressed = null;

/** Set up the handle; a view that is chosen by its tab comes up with it. */
export function startDrawer() {
  const handle = byId("handle");
  put("low");
  handle.addEventListener("click", () => pressed?.moved || put(after(heightNow())));
  handle.addEventListener("pointerdown", (event) => {
    handle.setPointerCapture(event.pointerId);
    pressed = { from: event.clientY, high: byId("panel").offsetHeight, moved: false };
  });
  handle.addEventListener("pointermove", drag);
  handle.addEventListener("pointerup", drop);
  handle.addEventListener("pointercancel", drop);
  byId("tabs").addEventListener("click", (event) => event.target.closest("[role=tab]") && drawUp());
  byId("views").addEventListener("focusin", drawUp);
}

/** Whether the screen is that of a phone, on which the whole map cannot be read. */
export function isPhone() {
  return PHONE.matches;
}

/** Whether what is told lies in a drawer. */
function hasDrawer() {
  return byId("handle").offsetParent !== null;
}

function drawUp() {
  if (heightNow() === "low" && hasDrawer()) put("half");
}

function heightNow() {
  return document.body.dataset.drawer;
}

function after(height) {
  return HEIGHTS[(HEIGHTS.indexOf(height) + 1) % HEIGHTS.length];
}

function put(height) {
  document.body.dataset.drawer = height;
  byId("panel").parentElement.style.removeProperty("--drawer");
  byId("handle").setAttribute("aria-expanded", `${height !== "low"}`);
  byId("handle").setAttribute("aria-label", SAYS[height]);
  byId("panel").scrollTop = 0;
}

function drag(event) {
  if (!pressed || !event.buttons) return;
  const up = pressed.from - event.clientY;
  if (Math.abs(up) > 6) pressed.moved = true;
  if (pressed.moved) byId("panel").parentElement.style.setProperty("--drawer", `${pressed.high + up}px`);
}

/** Let go: the nearest of the three heights. */
function drop() {
  if (!pressed?.moved) return;
  const share = byId("panel").clientHeight / byId("panel").parentElement.clientHeight;
  put(share > 0.75 ? "full" : share > 0.33 ? "half" : "low");
}

/** Bring the station and the tab where one is to the middle of their rows, which are longer than a small screen. */
export function centreRows(changed) {
  if (!["station", "view"].some((name) => changed.has(name)) || place.view === "show") return;
  for (const [row, here] of [
    ["rail", "[aria-current]"],
    ["tabs", "[aria-selected=true]"],
  ]) {
    const box = byId(row);
    const at = box.querySelector(here);
    if (at) box.scrollLeft = at.offsetLeft - box.offsetLeft - (box.clientWidth - at.offsetWidth) / 2;
  }
}
