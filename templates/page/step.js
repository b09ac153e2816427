/** One step: what goes in and comes out, its formula, what changed and why, where it is, and its numbers. */

import { chooser, el, shapeEl } from "./dom.js";
import { facts, findStep, sayNumber, sceneAt, stepsOf } from "./facts.js";
import { drawFollowed } from "./following.js";
import { drawNumbers } from "./numbers.js";
import { move, place } from "./place.js";

const LISTED = 12;

/** The chosen step, or a word on how to choose one. */
export function drawStep() {
  const scene = sceneAt(place);
  const step = place.step && findStep(scene, place.step);
  if (!step) {
    const gone = place.step ? `${place.step} does not happen here. ` : "";
    return [el("h2", {}, "Step"), el("p", {}, `${gone}Touch a node of the map, or a step of the walk.`)];
  }
  const [formula, change, reason] = step.told.map((number) => facts.texts[number]);
  return [
    el("h2", { class: "path" }, step.path, step.call ? ` (call ${step.call + 1})` : ""),
    drawPlace(scene, step),
    step.alarm && el("p", { class: "warning" }, step.alarm),
    step.error && el("p", { class: "warning" }, `This call did not return: ${step.error}`),
    drawRecords("in", step.inputs, step, scene),
    drawRecords("out", step.outputs, step, scene),
    el(
      "dl",
      { class: "facts" },
      ...fact("does", step.does),
      ...fact("operation", step.op),
      ...fact("formula", formula),
      ...fact("what changes", change),
      ...fact("why", reason),
      ...fact("module", [step.module, step.path].filter(Boolean).join(" · ")),
      ...fact("parameters", step.params ? step.params.toLocaleString("en") : ""),
      ...fact("settings", settings(step)),
      ...fact("source", step.location ?? "not known"),
    ),
    ...drawFollowed(scene, step),
    ...drawNumbers(scene, step),
  ];
}

function fact(name, text) {
  return text ? [el("dt", {}, name), el("dd", { "data-fact": name }, text)] : [];
}

function settings(step) {
  return Object.entries(step.settings)
    .map(([name, value]) => `${name} = ${typeof value === "number" ? sayNumber(value) : value}`)
    .join(", ");
}

/** Layer chooser and neighbours: the step before, the block around it, the step after. */
function drawPlace(scene, step) {
  const steps = stepsOf(scene);
  const at = steps.indexOf(step);
  const layers = [...new Set(steps.map((one) => one.id).filter((id) => alike(id, step.id)))];
  const go = (to, text) =>
    to && el("button", { type: "button", onclick: () => move({ step: to.id }), title: to.path }, text);
  return el(
    "div",
    { class: "row" },
    go(steps[at - 1], "‹ before"),
    go(step.parent && step.pass.byId.get(step.parent), "block around"),
    go(steps[at + 1], "next ›"),
    layers.length > 1 &&
      chooser(
        "layer",
        layers.map((id) => [id, `${Number(id.match(/\.layers\.(\d+)/)[1]) + 1}`]),
        step.id,
        (id) => move({ step: id, layer: Number(id.match(/\.layers\.(\d+)/)[1]) }),
      ),
  );
}

function alike(one, other) {
  return (
    [one, other].every((id) => /\.layers\.\d+/.test(id)) &&
    one.replace(/\.layers\.\d+/, "") === other.replace(/\.layers\.\d+/, "")
  );
}

function drawRecords(way, records, step, scene) {
  if (!records.length) return el("p", { class: "quiet" }, way === "in" ? "Nothing goes in." : "Nothing came out.");
  const rest = records.length - LISTED;
  return el(
    "table",
    { class: "records" },
    el("caption", {}, way === "in" ? "goes in" : "comes out"),
    el(
      "tbody",
      {},
      ...records
        .slice(0, LISTED)
        .map((record) =>
          el(
            "tr",
            {},
            el("th", { scope: "row" }, record.name),
            el(
              "td",
              {},
              shapeEl(record.shape, record.axes),
              el("span", { class: "words" }, ...axisWords(record), `, ${record.dtype}`),
              way === "in" && maker(record, step, scene),
            ),
          ),
        ),
    ),
    rest > 0 && el("tfoot", {}, el("tr", {}, el("td", { colspan: "2" }, `and ${rest} more`))),
  );
}

function axisWords(record) {
  return record.axes.flatMap((axis, place) => {
    const word = el("span", { "data-axis": axis && axis !== "1" ? axis : null }, axis || "?");
    return place ? [" × ", word] : [word];
  });
}

function maker(record, step, scene) {
  const id = record.source;
  if (!id || id === step.id) return null;
  const known = findStep(scene, id);
  return known
    ? el("button", { type: "button", class: "link", onclick: () => move({ step: id }) }, `from ${known.path}`)
    : ` from ${id}`;
}
