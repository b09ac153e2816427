/** Finding steps: by path, operation, shape with gaps, or axis word. */

import { drawAnswers, wordsIn } from "./ask.js";
import { byId, el } from "./dom.js";
import { facts, sceneAt, stepsOf } from "./facts.js";
import { nodesOf } from "./nodes.js";
import { place } from "./place.js";
import { stepList } from "./walk.js";

const MOST = 200;
let wanted = "";

/** The view with the field and what it found; the field keeps its focus while the list changes. */
export function drawFind() {
  const list = el("div", { id: "found" });
  const field = el("input", {
    type: "search",
    id: "query",
    value: wanted,
    autocomplete: "off",
    spellcheck: "false",
    placeholder: facts.ours
      ? "what is 950? · why are keys transposed? · 8x4x10x10 · softmax"
      : "softmax · *x4x* · a path · a number",
    oninput: (event) => {
      wanted = event.target.value;
      showFound(list);
    },
  });
  showFound(list);
  return [
    el("h2", {}, "Ask or find"),
    el("label", { for: "query" }, "A question, a number, a path, an operation, a shape or an axis"),
    field,
    el(
      "p",
      { class: "quiet" },
      "Try ",
      ...listExamples().map((example) =>
        el("button", { type: "button", class: "link", onclick: () => search(example) }, example),
      ),
    ),
    list,
  ];
}

/** What might be looked for: in X-Ray's own model the classics, elsewhere what this model has. */
function listExamples() {
  if (facts.ours) return ["8x4x10x10", "*x4x*x8", "linear", "cross_attention", "heads"];
  const steps = stepsOf(sceneAt(place));
  const middle = steps[Math.floor(steps.length / 2)];
  const shape = steps.map((step) => step.outputs[0]?.shape ?? []).find((one) => one.length > 2);
  const gap = shape && ["*", ...shape.slice(1)].join("x");
  return [...new Set([shape?.join("x"), gap, middle?.op, steps.at(-1)?.op].filter(Boolean))];
}

function search(text) {
  wanted = text;
  byId("query").value = text;
  showFound(byId("found"));
}

function showFound(list) {
  const steps = wanted.trim() ? findSteps(wanted, stepsOf(sceneAt(place))) : [];
  const count = steps.length === 1 ? "1 step" : `${steps.length} steps`;
  const text = wanted.trim() ? `${count} found here` : `${stepsOf(sceneAt(place)).length} steps to search`;
  list.replaceChildren(
    ...(wanted.trim() ? drawAnswers(wanted) : []),
    el("p", { role: "status" }, text + (steps.length > MOST ? `, the first ${MOST} are shown` : "")),
    stepList(steps.slice(0, MOST), { name: "Found", full: true }),
  );
  mark(steps);
}

/** Light on the map what was found. */
function mark(steps) {
  for (const node of document.querySelectorAll(".found")) node.classList.remove("found");
  for (const node of nodesOf(steps.slice(0, MOST))) node.classList.add("found");
}

/** Take the marks from the map. */
export function unmark() {
  mark([]);
}

/** The steps that a query means. */
export function findSteps(query, steps) {
  const text = query.trim().toLowerCase();
  const shape = readShape(text);
  if (shape) return steps.filter((step) => records(step).some((record) => shapeFits(record.shape, shape)));
  if (listAxes().has(text)) return steps.filter((step) => records(step).some((record) => record.axes.includes(text)));
  if (/^\d[\d,]*$/.test(text)) {
    const number = Number(text.replaceAll(",", ""));
    return steps.filter((step) => step.params === number || records(step).some((one) => one.shape.includes(number)));
  }
  const plain = steps.filter((step) => [step.path, step.op].some((one) => one.toLowerCase().includes(text)));
  if (plain.length || /[.#]/.test(text)) return plain;
  const words = wordsIn(text);
  return words.length ? steps.filter((step) => words.every((word) => said(step).includes(word))) : [];
}

/** All that is said of a step, to be searched for words. */
function said(step) {
  const told = step.told.map((number) => facts.texts[number] ?? "");
  return ` ${wordsIn([step.path, step.op, step.module ?? "", step.does ?? "", ...told].join(" ")).join(" ")} `;
}

function records(step) {
  return [...step.outputs, ...step.inputs];
}

function listAxes() {
  return new Set(
    facts.passes.flatMap((pass) => pass.steps.flatMap((step) => records(step).flatMap((one) => one.axes))),
  );
}

/** "8x4x10x10" or "*x4x*x8" as sizes, null for any; null where the text is no shape. */
export function readShape(text) {
  const parts = text.replace(/[[\]() ]/g, "").split(/[x×,]/);
  if (parts.length < 2 || !parts.every((part) => /^(\d+|\*|\?|t)$/.test(part))) return null;
  return parts.map((part) => (/^\d+$/.test(part) ? Number(part) : null));
}

function shapeFits(shape, wantedShape) {
  return shape.length === wantedShape.length && wantedShape.every((size, at) => size === null || size === shape[at]);
}
