/** What if: the same model recorded once more with one thing changed, held beside this recording. */

import { el, shapeEl } from "./dom.js";
import { facts, findStep, passesOf, sayPercent, sceneAt } from "./facts.js";
import { nodesOf } from "./nodes.js";
import { move, place } from "./place.js";
import { drawAttentions } from "./twin_grids.js";
import { drawSaid, drawWork, group, sayPass, sayVerdict } from "./twin_tables.js";

const ASPECTS = {
  "step missing": "left out",
  "step added": "new",
  renamed: "renamed",
  operation: "does something else",
  parameters: "parameters",
  order: "elsewhere in order",
  tensors: "other tensors",
  shape: "shape",
  mask: "mask",
  part: "part of a rank",
  settings: "setting",
};
const MOST_SHOWN = 12;
let marked = [];

/** Whether the page has twins. */
export function hasTwins() {
  return facts.twins.length > 0;
}

/** The view of one twin at a time. */
export function drawTwins() {
  const twin = twinAt();
  const here = pairsHere(twin);
  return [
    el("h2", {}, "What if"),
    drawNames(twin),
    el(
      "p",
      {},
      twin.says
        ? `Recorded once more, with the same weights and the same input, and one thing changed: ${twin.says}.`
        : "Another recording of the same model, as it was given.",
    ),
    el("p", { class: "verdict" }, sayVerdict(twin)),
    ...part("In words", drawSaid(twin)),
    ...part("In work", drawWork(twin)),
    el("h3", {}, `In steps and shapes, ${sayHere()}`),
    ...drawChanges(here),
    el("h3", {}, `In masks and attention, ${sayHere()}`),
    ...drawAttentions(here, ["as recorded", twin.name]),
  ];
}

function twinAt() {
  return facts.twins[place.twin] ?? facts.twins[0];
}

function part(title, content) {
  return content ? [el("h3", {}, title), content] : [];
}

function drawNames(chosen) {
  return el(
    "div",
    { class: "twin_names", role: "group", "aria-label": "Which twin" },
    ...facts.twins.map((twin, at) =>
      el(
        "button",
        { type: "button", "data-twin": at, "aria-pressed": `${twin === chosen}`, onclick: () => move({ twin: at }) },
        twin.name,
      ),
    ),
  );
}

/** The passes of the scene that is looked at, those that both recordings have. */
function pairsHere(twin) {
  return passesOf(sceneAt(place))
    .map((pass) => twin.passes.find((one) => one.kind === pass.kind && one.number === pass.number))
    .filter((one) => one?.before && one.after);
}

function sayHere() {
  return sayPass(passesOf(sceneAt(place)).at(-1));
}

/** What differs step by step, each line leading to its place on the map. */
function drawChanges(here) {
  const changes = here.flatMap((pair) => pair.changes);
  const more = here.reduce((sum, pair) => sum + pair.more_changes, 0);
  if (!changes.length) return [el("p", { class: "quiet" }, "Every step and every shape is the same.")];
  const plural = changes.length + more === 1 ? "change" : "changes";
  return [
    el(
      "p",
      { class: "quiet" },
      `${group(changes.length + more)} ${plural}; what the map draws of them is outlined, what is the same in all layers has one line.`,
    ),
    el("ol", { class: "twin_changes" }, ...changes.slice(0, MOST_SHOWN).map(drawChange)),
    changes.length > MOST_SHOWN &&
      el(
        "details",
        {},
        el("summary", {}, `the other ${changes.length - MOST_SHOWN}`),
        el("ol", { class: "twin_changes" }, ...changes.slice(MOST_SHOWN).map(drawChange)),
      ),
    more > 0 && el("p", { class: "quiet" }, `and ${group(more)} more`),
  ];
}

function drawChange(change) {
  const like = change.more ? `and ${change.more} more like it` : "";
  const inside = change.inside ? `with ${change.inside} steps inside` : "";
  return el(
    "li",
    { class: `twin_${change.aspect.replace(" ", "_")}` },
    el(
      "button",
      {
        type: "button",
        disabled: !change.at,
        "aria-current": change.at && place.step === change.at ? "true" : null,
        onclick: () => move({ step: change.at }),
      },
      el("span", { class: "twin_aspect" }, ASPECTS[change.aspect] ?? change.aspect),
      el("span", { class: "name" }, change.step || "the whole"),
      el("span", { class: "twin_sizes" }, ...tellSizes(change)),
      el("small", {}, [doesOf(change), inside, like].filter(Boolean).join("; ")),
    ),
  );
}

/** What the step is for, where the page says it. */
function doesOf({ at, behind, aspect }) {
  const step = !behind && aspect !== "step added" && at && findStep(sceneAt(place), at);
  return step && !step.block ? step.does : "";
}

function tellSizes({ aspect, records: [before, after], words, tensor, behind, at }) {
  if (aspect === "step added" && behind && at) return [el("small", {}, `behind ${at.replace(/#0$/, "")}`)];
  if (words && aspect === "settings") return [el("small", {}, `${tensor} `), words[0], " → ", el("b", {}, words[1])];
  if (words) return [el("span", {}, words[0]), " → ", el("b", {}, words[1])];
  if (!before || !after) return [];
  if (aspect === "mask") return [sayMask(before.mask), " → ", el("b", {}, sayMask(after.mask))];
  return [
    tensor && tensor !== "out" && el("small", {}, `${tensor} `),
    shapeEl(before.shape, before.axes),
    " → ",
    shapeEl(after.shape, after.axes),
  ].filter(Boolean);
}

function sayMask(mask) {
  return mask ? `${mask[0]}, ${sayPercent(mask[1])} hidden` : "no mask";
}

/** Every twin on paper: what is changed, and what comes of it in words and in work. */
export function drawTwinHandout() {
  return facts.twins.map((twin) =>
    el(
      "article",
      { class: "twin_handout" },
      el("h2", {}, `What if: ${twin.name}`),
      twin.says && el("p", {}, `One thing changed: ${twin.says}.`),
      el("p", { class: "verdict" }, sayVerdict(twin)),
      drawSaid(twin),
      drawWork(twin),
    ),
  );
}

/** The node that draws a step itself, or else the nearest step beside it: a scale stands with its scores. */
function nodeNear(step) {
  const { steps } = step.pass;
  const at = steps.indexOf(step);
  const near = [0, -1, 1, -2, 2].map((far) => steps[at + far]).filter((one) => one && one.parent === step.parent);
  return near.map((one) => nodesOf([one])[0]).find((node, place) => node && draws(node, near[place]));
}

function draws(node, step) {
  const bare = (id) => id.replace(/\.\d+(?=[.#])/g, "");
  return bare(node.dataset.step) === bare(step.id);
}

/** Outline on the map what differs in the scene that is looked at, while this view is open. */
export function markTwin() {
  for (const node of marked) node.classList.remove("differs");
  marked = [];
  if (place.view !== "twins" || !hasTwins()) return;
  const passes = passesOf(sceneAt(place));
  const steps = pairsHere(twinAt()).flatMap((pair) => {
    const pass = passes.find((one) => one.kind === pair.kind && one.number === pair.number);
    return pair.changes.filter((change) => !change.behind).map((change) => pass.byId.get(change.at));
  });
  marked = [...new Set(steps.filter((step) => step && !step.block).map(nodeNear))].filter(Boolean);
  for (const node of marked) node.classList.add("differs");
}
