/** Bookmarks: steps to come back to, in the address for others, and in this browser where it lets the page. */

import { el } from "./dom.js";
import { facts, scenesOf } from "./facts.js";
import { move, place } from "./place.js";

/** Take up the bookmarks that this browser kept, where the address has none. */
export function recallMarks() {
  if (place.marks) return;
  try {
    place.marks = localStorage.getItem(nameOfStore()) ?? "";
  } catch {
    // a browser may forbid it for files; the address keeps them
  }
}

function nameOfStore() {
  return `xray ${facts.title} ${facts.passes.map((pass) => pass.steps.length).join(" ")}`;
}

function keyOf(step) {
  return `${facts.passes.indexOf(step.pass).toString(36)}-${step.pass.steps.indexOf(step).toString(36)}`;
}

/** Whether a step is marked. */
export function isMarked(step) {
  return place.marks.split(".").includes(keyOf(step));
}

/** Mark a step, or take its mark away. */
export function toggleMark(step) {
  const key = keyOf(step);
  const kept = place.marks.split(".").filter(Boolean);
  const marks = (kept.includes(key) ? kept.filter((one) => one !== key) : [...kept, key]).join(".");
  move({ marks });
  try {
    localStorage.setItem(nameOfStore(), marks);
  } catch {
    // the address keeps them
  }
}

/** The marked steps as a list of ways back to them. */
export function drawMarks() {
  const steps = place.marks.split(".").flatMap((key) => {
    const [pass, step] = key.split("-").map((text) => Number.parseInt(text, 36));
    return facts.passes[pass]?.steps[step] ?? [];
  });
  if (!steps.length) return [];
  return [
    el("h3", {}, "Bookmarks"),
    el(
      "ul",
      { class: "marks" },
      ...steps.map((step) =>
        el("li", {}, el("button", { type: "button", onclick: () => goTo(step) }, `★ ${step.path}`)),
      ),
    ),
  ];
}

function goTo(step) {
  const number = facts.passes.indexOf(step.pass);
  const scenes = [...scenesOf(place.phase), ...facts.scenes];
  const here = scenes.find((scene) => scene.turn === place.turn && scene.phase === place.phase);
  const scene = here?.passes.includes(number) ? here : scenes.find((one) => one.passes.includes(number));
  move({ view: "step", step: step.id, phase: scene.phase, turn: scene.turn });
}
