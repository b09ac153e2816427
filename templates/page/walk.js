/** The walk: the stations, each told with this run's words and numbers. */

import { byId, chooser, el, shapeEl } from "./dom.js";
import { chapterAt, facts, findStep, sceneAt, stepsOf } from "./facts.js";
import { move, place } from "./place.js";

/** Draw the row of stations, if the model has any. */
export function startWalk() {
  const rail = byId("rail");
  rail.hidden = !facts.stations.length;
  if (rail.hidden) return;
  rail.append(
    el("button", { type: "button", class: "way", "aria-label": "Station before", onclick: () => goStation(-1) }, "‹"),
    ...facts.stations.map((one) =>
      el(
        "button",
        {
          type: "button",
          class: "station",
          "data-number": one.number,
          "aria-label": `Station ${one.number}: ${one.title}`,
          title: one.title,
          onclick: () => move({ station: one.number, step: "", view: "walk" }),
        },
        `${one.number}`,
      ),
    ),
    el("button", { type: "button", class: "way", "aria-label": "Next station", onclick: () => goStation(1) }, "›"),
  );
}

/** Go on, or back, by stations; at inference the last leads to the next turn's first station of the decoder. */
export function goStation(by) {
  if (!facts.stations.length) return;
  const numbers = facts.stations.map((one) => one.number);
  const station = numbers[numbers.indexOf(place.station) + by];
  if (station === undefined) return;
  move({ station, step: "", view: "walk" });
}

/** Mark where we are in the row of stations. */
export function showRail() {
  for (const button of byId("rail").querySelectorAll(".station")) {
    const here = Number(button.dataset.number) === place.station;
    if (here) button.setAttribute("aria-current", "step");
    else button.removeAttribute("aria-current");
  }
}

/** The chapter of the place, null where there is none; `first` stands above its text, where it is not pushed about. */
export function drawWalk(first = []) {
  const scene = sceneAt(place);
  const chapter = chapterAt(place, scene);
  if (!chapter) return null;
  const steps = chapter.steps
    .map((id) => id.replace(/\.layers\.0(?=[.#])/, `.layers.${place.layer}`))
    .map((id, at) => findStep(scene, id) ?? findStep(scene, chapter.steps[at]))
    .filter(Boolean);
  return [
    el(
      "h2",
      {},
      el("span", { class: "pill" }, `${chapter.station}`),
      ` ${chapter.title} `,
      el("small", {}, sayScene(scene)),
    ),
    ...first,
    ...chapter.text.map((text) => el("p", {}, ...tell(text))),
    el("h3", {}, "Step by step"),
    facts.ours && pickLayer(scene, chapter),
    stepList(steps),
    chapter.answers.length > 0 && el("h3", {}, "Questions"),
    ...chapter.answers.map(([question, text]) =>
      el("details", {}, el("summary", {}, question), el("p", {}, ...tell(text))),
    ),
    chapter.debates.length > 0 && el("h3", {}, "Where the texts disagree"),
    ...chapter.debates.map(drawDebate),
  ];
}

function sayScene(scene) {
  if (scene.phase === "inference") return `inference, turn ${scene.turn}`;
  return scene.phase === "training" || facts.passes.length < 2
    ? scene.phase.replace("forward", "")
    : `pass ${scene.turn}`;
}

/** Which of the layers that do the same is looked at, where there are several. */
function pickLayer(scene, chapter) {
  const layered = chapter.steps.find((id) => /\.layers\.0(?=[.#])/.test(id));
  if (!layered) return null;
  const layers = stepsOf(scene)
    .filter((step) => step.layer !== null && step.id === layered.replace(".layers.0", `.layers.${step.layer}`))
    .map((step) => step.layer);
  const options = layers.map((layer) => [layer, `${layer + 1} of ${layers.length}`]);
  return layers.length > 1 && chooser("layer", options, place.layer, (layer) => move({ layer: Number(layer) }));
}

/** A text with its shapes in colour. */
export function tell(text) {
  return text.map((part) => (typeof part === "string" ? part : shapeEl(part.shape, part.axes)));
}

/** Steps as buttons, each with what comes out of it. */
export function stepList(steps, { name = "Steps", full = false } = {}) {
  const names = full ? steps.map((step) => step.path) : dropShared(steps.map(lastPart));
  return el(
    "ol",
    { class: full ? "steps full" : "steps", "aria-label": name },
    ...steps.map((step, at) => stepItem(step, names[at])),
  );
}

/** Dotted names without the parts at their beginning that all of them have. */
function dropShared(names) {
  const parts = names.map((name) => name.split("."));
  let shared = 0;
  while (parts.length > 1 && parts.every((one) => one.length > shared + 1 && one[shared] === parts[0][shared]))
    shared += 1;
  return parts.map((one) => one.slice(shared).join("."));
}

function stepItem(step, name) {
  return el(
    "li",
    {},
    el(
      "button",
      {
        type: "button",
        "data-id": step.id,
        onclick: () => move({ step: step.id, view: "step", station: step.station ?? place.station }),
      },
      el("span", { class: "name", title: step.path }, name),
      shapeOf(step),
    ),
  );
}

/** What comes out of a step, in the hues of its axes. */
export function shapeOf(step) {
  return step.outputs[0] ? shapeEl(step.outputs[0].shape, step.outputs[0].axes) : el("span", {}, "—");
}

/** A path without what the heading above the list says already: stack, layer and sublayer. */
function lastPart(step) {
  const inLayer = step.path.replace(/^.*\.layers\.\d+\./, "");
  return inLayer.replace(/^(self_attention|cross_attention|feed_forward|encoder|decoder)[._]/, "") || step.path;
}

function drawDebate(debate) {
  return el(
    "div",
    { class: "debate" },
    el("h4", {}, debate.topic),
    el(
      "ul",
      {},
      ...debate.opinions.map(([who, says, example, used]) =>
        el(
          "li",
          { class: used ? "used" : "" },
          el("b", {}, capital(who)),
          used && el("span", { class: "here" }, "this run"),
          el("span", {}, says),
          el("code", {}, example),
        ),
      ),
    ),
    el("p", { class: "quiet" }, debate.remark),
  );
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
