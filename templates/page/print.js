/** On paper: the map, then a handout of the stations, each with its text and shapes. */

import { el } from "./dom.js";
import { chapterAt, facts, findStep, sceneAt } from "./facts.js";
import { place } from "./place.js";
import { drawTwinHandout } from "./twins.js";
import { shapeOf, tell } from "./walk.js";

/** Write the handout when the page is printed, and take it away afterwards. */
export function startPrint() {
  addEventListener("beforeprint", () => {
    document.getElementById("handout")?.remove();
    document.body.append(el("section", { id: "handout", "aria-label": "Handout" }, ...drawHandout()));
  });
  addEventListener("afterprint", () => document.getElementById("handout")?.remove());
}

function drawHandout() {
  const scene = sceneAt(place);
  const chapters = facts.stations.map((one) => chapterAt({ ...place, station: one.number }, scene)).filter(Boolean);
  return [
    el("h1", {}, facts.title),
    facts.config.question && el("p", {}, `“${facts.config.question}”`),
    ...chapters.map((chapter) =>
      el(
        "article",
        {},
        el("h2", {}, el("span", { class: "pill" }, `${chapter.station}`), ` ${chapter.title}`),
        ...chapter.text.map((text) => el("p", {}, ...tell(text))),
        el(
          "p",
          { class: "quiet" },
          ...chapter.steps
            .map((id) => findStep(scene, id))
            .filter((step) => step?.outputs[0])
            .flatMap((step, at) => [at ? ", " : "", `${step.path.split(".").at(-1)} `, shapeOf(step)]),
        ),
      ),
    ),
    ...drawTwinHandout(),
  ];
}
