/** The moments of the performance: what a recorded run can show, in the order in which it happened. */

import { facts, passesOf, sayShape, scenesOf, wordsOf } from "./facts.js";
import { tellMore, tellSite } from "./moments_attention.js";
import { channels, tellEntrance } from "./moments_in.js";
import { tellExit, tellLayers, tellWide } from "./moments_out.js";
import { listSites, valued } from "./sites.js";

const PLAIN = 16;
let made = null;

/** All moments, made once: each with its act, its station, its place in the run, and what it says. */
export function listMoments() {
  made ??= makeMoments();
  return made;
}

function makeMoments() {
  const phases = [...new Set(facts.scenes.map((scene) => scene.phase))];
  const phase = phases.includes("inference") ? "inference" : phases[0];
  const scenes = scenesOf(phase);
  const moments = [];
  const told = new Set();
  for (const [turn, scene] of scenes.entries()) {
    for (const pass of passesOf(scene)) {
      if (turn && pass.kind === "encode") continue;
      moments.push(...tellPass(scene, pass, turn, told));
    }
  }
  const shown = moments.filter(Boolean).map((one) => ({ seconds: 3, ...one }));
  return [{ act: "title", scene: scenes[0], seconds: 0.1, title: "", says: "" }, ...shown, end(scenes.at(-1))];
}

function end(scene) {
  const words = [...wordsOf(scene, "decoder_input"), ...wordsOf(scene, "new")].filter((word) => !/^<.*>$/.test(word));
  const says = words.length
    ? "That was the whole answer: every number on the way was recorded in this run."
    : "That was one pass: every number on the way was recorded in this run.";
  return {
    act: "end",
    scene,
    title: "The end",
    says,
    words,
    seconds: 4,
    station: facts.stations.at(-1)?.number ?? null,
  };
}

/** What one pass can show: its entrance, its attentions, its exit; or its steps, where it has no attention. */
function tellPass(scene, pass, turn, told) {
  const sites = listSites(scene).filter((site) => site.pass === pass && site.weights.block);
  if (!sites.length && pass.attentions.length) return [];
  const entrance = tellEntrance(scene, pass, turn, told);
  if (!sites.length && !entrance.length) return turn ? [] : tellPlain(scene, pass);
  const moments = [...entrance];
  for (const site of sites.filter((one) => one.layer === 0 && one.nth === 0)) {
    if (told.has("attention")) {
      moments.push(...tellMore(site, told));
      continue;
    }
    told.add("attention");
    moments.push(...tellSite(site), tellWide(site, sites), tellLayers(site, sites));
  }
  if (!sites.length) moments.push(...tellPlain(scene, pass).slice(1));
  moments.push(...tellExit(scene, pass));
  return moments.filter(Boolean).map((moment) => ({ scene, pass, turn: scene.turn, ...moment }));
}

/** A pass without attention: its tensors as they follow on each other. */
function tellPlain(scene, pass) {
  const leaves = pass.steps.filter((step) => !step.block && step.outputs[0] && valued(step));
  const told = [];
  let shape = "";
  for (const step of leaves) {
    const now = sayShape(step.outputs[0].shape);
    if (now === shape && !/relu|gelu|softmax|add|conv/.test(step.op)) continue;
    shape = now;
    told.push(step);
  }
  const kept =
    told.length > PLAIN
      ? told.filter((_, at) => at % Math.ceil(told.length / PLAIN) === 0 || at === told.length - 1)
      : told;
  const given = leaves[0]?.inputs.find((one) => one.source === null && one.block);
  return [
    given && {
      act: "tensor",
      matrices: channels(leaves[0], given),
      title: "What comes in",
      says: sayShape(given.shape),
      step: leaves[0],
      seconds: 2.4,
    },
    ...kept.map((step) => ({
      act: "tensor",
      matrices: channels(step, step.outputs[0]),
      before: step.inputs[0] && channels(step, step.inputs[0]),
      step,
      seconds: 2.4,
      title: step.does || step.op,
      says: sayPlain(step),
      scene,
      pass,
      station: step.station,
    })),
  ].filter((one) => one?.matrices?.length);
}

function sayPlain(step) {
  const from = step.inputs[0]?.shape;
  const to = step.outputs[0].shape;
  const params = step.params ? `, ${step.params.toLocaleString("en")} parameters` : "";
  return `${step.path}: ${from ? `${sayShape(from)} becomes ` : ""}${sayShape(to)}${params}.`;
}
