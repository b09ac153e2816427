/** Where one is: the blocks around what is chosen, each to be unfolded; open all, close all, and bookmarks. */

import { byId, el } from "./dom.js";
import { facts, findStep, sceneAt } from "./facts.js";
import { isMarked, toggleMark } from "./marks.js";
import { unfolded } from "./opened.js";
import { move, place } from "./place.js";
import { lineOf, shortName, WHOLE, wholeOf } from "./tree.js";
import { closeAll, openAll } from "./unfold.js";

/** Draw the row anew for the place. */
export function showCrumbs() {
  const scene = sceneAt(place);
  const part = unfolded();
  const step = (place.step && findStep(scene, place.step)) || (part && part.kind !== "whole" ? part.step : null);
  const whole = wholeOf(scene);
  const line = step ? lineOf(step).filter((one) => whole.kind === "whole" || one !== whole.step) : [];
  const focused = byId("crumbs").contains(document.activeElement) ? document.activeElement.dataset.crumb : null;
  const shown = [
    el(
      "ol",
      {},
      el("li", {}, crumb(WHOLE, facts.title, { block: WHOLE, step: "" }, !line.length)),
      ...line.map((one) => {
        const to = one.block ? { block: one.id, step: one.id, view: "step" } : { step: one.id, view: "step" };
        return el("li", {}, crumb(one.id, shortName(one), to, one === step, one.path));
      }),
    ),
    button("open", "open all", openAll, "Open all blocks inside, as far as there is room"),
    part && button("close", "close", closeAll, "Close all blocks"),
    step && markButton(step),
  ];
  byId("crumbs").replaceChildren(...shown.filter(Boolean));
  if (focused)
    [...byId("crumbs").querySelectorAll("[data-crumb]")].find((one) => one.dataset.crumb === focused)?.focus();
}

function crumb(name, text, to, here, title = text) {
  return el(
    "button",
    { type: "button", "data-crumb": name, title, "aria-current": here ? "location" : null, onclick: () => move(to) },
    text,
  );
}

function button(name, text, onclick, label) {
  return el(
    "button",
    { type: "button", "data-crumb": name, class: "plain", "aria-label": label, title: label, onclick },
    text,
  );
}

function markButton(step) {
  const marked = isMarked(step);
  return el(
    "button",
    {
      type: "button",
      "data-crumb": "mark",
      class: "plain",
      "aria-pressed": `${marked}`,
      "aria-label": `Bookmark ${step.path}`,
      onclick: () => toggleMark(step),
    },
    marked ? "★" : "☆",
  );
}
