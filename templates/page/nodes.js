/** The nodes of the map: which step each stands for, what is chosen, what belongs to the phase, which axis is lit. */

import { showChances } from "./chances.js";
import { byId } from "./dom.js";
import { facts, findStep, joinMap, passesOf, sceneAt, stepsOf } from "./facts.js";
import { hasMasks } from "./masks.js";
import { move, place } from "./place.js";
import { listSites } from "./sites.js";
import { boxOf, flyTo, isInView, showDrawing, wasDrag } from "./view.js";

let nodes = [];
const byStep = new Map();

/** Get to know the nodes, and answer to touches and keys. */
export function startNodes() {
  const stage = byId("stage");
  if (facts.maps.length > 1) facts.maps[0].drawing = asDrawn(stage.querySelector("svg"));
  joinMap(0);
  listNodes();
  stage.addEventListener("click", onTouch);
  stage.addEventListener("pointerover", hint);
  stage.addEventListener("focusin", hint);
  stage.addEventListener("keydown", onKey);
}

/** A drawing as it was before it was moved. */
function asDrawn(drawing) {
  const copy = drawing.cloneNode(true);
  copy.removeAttribute("style");
  return copy.outerHTML;
}

function listNodes() {
  nodes = [...byId("stage").querySelectorAll("[data-step]")];
  byStep.clear();
  for (const node of nodes) byStep.set(`${node.dataset.pass}/${node.dataset.step}`, node);
  nodes[0]?.setAttribute("tabindex", "0");
}

/** Put another of the page's maps in the place of the one that is seen. */
export function showMap(number) {
  byId("stage").innerHTML = facts.maps[number].drawing;
  joinMap(number);
  listNodes();
  showDrawing();
}

/** Name what is under the pointer, or has the focus. */
function hint(event) {
  const node = event.target.closest?.("[data-step]");
  byId("hint").textContent = node ? node.getAttribute("aria-description") : "";
}

function onTouch(event) {
  if (wasDrag()) return;
  const target = event.target.closest("[data-step], [data-station], [data-opens], [data-about]");
  if (!target) return;
  if (target.dataset.step) choose(target.dataset.pass, target.dataset.step);
  else if (target.dataset.about)
    choose(target.dataset.of, target.dataset.about, findStep(sceneAt(place), target.dataset.about));
  else if (target.dataset.station) move({ station: Number(target.dataset.station), view: "walk", step: "" });
  else open(target.dataset);
}

/** A picture leads to what it shows: its attention or its mask, in the pass that it was taken from. */
function open({ opens, number, shows }) {
  const scenes = facts.scenes.filter((one) => one.passes.includes(Number(number)));
  const scene = scenes.find((one) => one === sceneAt(place)) ?? scenes.at(-1);
  if (!scene) return;
  const { phase, turn } = scene;
  const station = findStep(scene, shows)?.station ?? place.station;
  if (opens === "masks") {
    const shown = hasMasks() ? { view: "masks", mask: shows, step: "" } : { view: "step", step: shows };
    move({ ...shown, station, phase, turn });
  }
  const site = listSites(scene).find((one) => one.softmax.id === shows);
  if (site) move({ view: "attention", attention: site.kind, layer: site.layer, head: 0, phase, turn });
}

/** Choose the step of a node or a text, in the layer that is being looked at; in this scene where it is `here`. */
function choose(pass, id, here = null) {
  const changes = { view: "step" };
  let scene = sceneAt(place);
  if (!here && !keysOf(scene).has(pass)) {
    scene = facts.scenes.find((one) => keysOf(one).has(pass)) ?? scene;
    Object.assign(changes, { phase: scene.phase, turn: scene.turn });
  }
  const inLayer = id.replace(/\.layers\.\d+(?=[.#])/, `.layers.${place.layer}`);
  const step = findStep(scene, inLayer) ?? findStep(scene, id);
  if (!step) return;
  const block = step.block && place.block !== step.id ? step.id : "";
  move({ ...changes, step: step.id, station: step.station ?? place.station, block });
}

/** The step that a node shows here: what is chosen of those it stands for, or the one of the layer that is looked at. */
export function stepOf(node) {
  const scene = sceneAt(place);
  if (!keysOf(scene).has(node.dataset.pass)) return null;
  const chosen = place.step && findStep(scene, place.step);
  if (chosen && nodeOf(chosen) === node && hasNode(chosen)) return chosen;
  const id = node.dataset.step;
  return findStep(scene, id.replace(/\.layers\.\d+(?=[.#])/, `.layers.${place.layer}`)) ?? findStep(scene, id);
}

/** The pass that a node's steps ran in: all turns share one drawing, other passes have one each. */
function keyOf(pass) {
  return pass.kind === "forward" ? `forward${pass.number || ""}` : pass.kind;
}

function keysOf(scene) {
  return new Set(passesOf(scene).flatMap((pass) => pass.nodes?.map(([key]) => key) ?? [keyOf(pass)]));
}

/** The node that stands for a step: its own, that of its first layer, or of what stands nearest to it. */
export function nodeOf(step) {
  if (step.node !== undefined) return step.node && (byStep.get(step.node.join("/")) ?? null);
  const own = byStep.get(`${keyOf(step.pass)}/${step.id}`);
  if (own) return own;
  const first = step.id.replace(/\.layers\.\d+(?=[.#])/, ".layers.0");
  const alike = byStep.get(`${keyOf(step.pass)}/${first}`);
  if (alike) return alike;
  const { steps } = step.pass;
  const original = step.pass.byId.get(first) ?? step;
  const at = steps.indexOf(original);
  for (let far = 1; far < 12; far += 1) {
    for (const near of [steps[at - far], steps[at + far]]) {
      const node = near && near.parent === original.parent && byStep.get(`${keyOf(near.pass)}/${near.id}`);
      if (node) return node;
    }
  }
  const parent = original.parent && step.pass.byId.get(original.parent);
  return parent ? nodeOf(parent) : null;
}

/** Whether a step, or the one like it in the first layer, is drawn itself and not told by its neighbours. */
function hasNode(step) {
  if (step.node !== undefined) return Boolean(step.node);
  const first = step.id.replace(/\.layers\.\d+(?=[.#])/, ".layers.0");
  return byStep.has(`${keyOf(step.pass)}/${step.id}`) || byStep.has(`${keyOf(step.pass)}/${first}`);
}

/** The nodes of some steps, each once. */
export function nodesOf(steps) {
  return [...new Set(steps.map(nodeOf).filter(Boolean))];
}

/** Show on the map what the place says: phase, turn, station or step; it stays where it is if what is unfolded tells. */
export function showPlace(changed, stays = false) {
  const scene = sceneAt(place);
  if (changed.has("phase") || changed.has("turn")) {
    const keys = keysOf(scene);
    for (const node of nodes) node.classList.toggle("other_phase", !keys.has(node.dataset.pass));
    showTurn(scene);
    showChances(byId("stage").querySelector("svg"), scene);
  }
  const step = place.step && findStep(scene, place.step);
  const here = stepsOf(scene).filter((one) => one.station === place.station);
  const inLayer = here.filter((one) => (one.layer ?? 0) === place.layer);
  const steps = step ? [step] : facts.ours || inLayer.length ? inLayer : here;
  const chosen = new Set(step ? nodesOf(steps) : nodesOf(steps.filter(hasNode)));
  for (const node of nodes) {
    node.classList.toggle("chosen", chosen.has(node));
    if (step) node.setAttribute("aria-current", chosen.has(node) ? "true" : "false");
  }
  for (const text of byId("stage").querySelectorAll("[data-about]")) {
    text.classList.toggle("chosen", Boolean(step) && text.dataset.about === step.id);
  }
  for (const mark of byId("stage").querySelectorAll("[data-station]")) {
    mark.classList.toggle("chosen", Number(mark.dataset.station) === place.station);
  }
  if (stays || !moves(changed) || changed.has("start")) return;
  if (!chosen.size && !step) {
    const marks = [...byId("stage").querySelectorAll(`.station[data-station="${place.station}"]`)];
    if (marks.length) flyTo(marks, 2);
    return;
  }
  if (!chosen.size) return;
  if (step && [...chosen].every(isInView)) return;
  flyTo([...chosen], step ? 0.2 : 0.35);
}

function moves(changed) {
  return ["station", "step", "phase"].some((name) => changed.has(name));
}

/** Where the drawing says t, say the number of the turn. */
function showTurn(scene) {
  const steps = new Map();
  for (const pass of passesOf(scene)) {
    if (pass.kind === "decode") for (const step of pass.steps) steps.set(step.id, step);
  }
  for (const node of nodes) {
    if (node.dataset.pass !== "decode") continue;
    const step = steps.get(node.dataset.step);
    const texts = [...node.querySelectorAll("[data-axis]")];
    if (!texts.some((text) => text.dataset.symbol)) continue;
    const record = step && recordsNear(step).find((one) => fits(one, texts));
    const line = [...node.querySelectorAll("text")].filter(
      (text) => text.getAttribute("y") === texts[0].getAttribute("y"),
    );
    const before = line.map(measure);
    texts.forEach((text, at) => {
      if (!text.dataset.symbol) return;
      const number = record?.shape[record.axes.length - texts.length + at];
      text.textContent = number === undefined ? text.dataset.symbol : number;
    });
    setLine(line, before);
  }
}

function measure(text) {
  text.dataset.x ??= text.getAttribute("x");
  text.dataset.width ??= text.getComputedTextLength();
  return Number(text.dataset.width);
}

/** Move the pieces of a line so that none covers its neighbour and the line stays in the middle. */
function setLine(line, before) {
  const grown = line.map((text, at) => (text.dataset.symbol ? text.getComputedTextLength() - before[at] : 0));
  let shift = -grown.reduce((sum, one) => sum + one, 0) / 2;
  line.forEach((text, at) => {
    text.setAttribute("x", Number(text.dataset.x) + shift);
    shift += grown[at];
  });
}

/** A step's own tensors, then those of the steps beside it: with a cache a node may show what is read there. */
function recordsNear(step) {
  const beside = step.pass.steps.filter((one) => one.parent === step.parent && one !== step);
  return [step, ...beside].flatMap((one) => [...one.outputs, ...one.inputs]);
}

function fits(record, texts) {
  return texts.every((text, at) => record.axes[record.axes.length - texts.length + at] === text.dataset.axis);
}

/** Light one axis wherever it is printed, on the map and beside it. */
export function lightAxis() {
  document.documentElement.classList.toggle("axis_lit", place.axis !== "");
  for (const lit of document.querySelectorAll(".lit")) lit.classList.remove("lit");
  if (!place.axis) return;
  for (const one of document.querySelectorAll("[data-axis]")) {
    if (one.dataset.axis.split("*").includes(place.axis)) one.classList.add("lit");
  }
}

const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function onKey(event) {
  const node = event.target.closest("[data-step]");
  if (!node || event.shiftKey || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "Enter" || event.key === " ") choose(node.dataset.pass, node.dataset.step);
  else if (WAYS[event.key]) goNear(node, ...WAYS[event.key]);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/** Focus the nearest node in a direction. */
function goNear(node, across, down) {
  const from = middle(node);
  let best = null;
  for (const other of nodes) {
    if (other === node) continue;
    const to = middle(other);
    const along = (to.x - from.x) * across + (to.y - from.y) * down;
    const aside = Math.abs((to.x - from.x) * down) + Math.abs((to.y - from.y) * across);
    if (along <= 1 || aside > along * 2) continue;
    const far = along + aside * 2;
    if (!best || far < best.far) best = { node: other, far };
  }
  if (!best) return;
  node.setAttribute("tabindex", "-1");
  best.node.setAttribute("tabindex", "0");
  best.node.focus({ preventScroll: true });
  if (!isInView(best.node)) flyTo([best.node], 0.2);
}

function middle(node) {
  const box = boxOf(node);
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
}
