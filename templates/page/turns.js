/** Training or inference, which turn of it, and playing the turns one after the other. */

import { byId, el } from "./dom.js";
import { facts, findStep, listPhases, passesOf, sayPercent, sceneAt, scenesOf, wordsOf } from "./facts.js";
import { move, place } from "./place.js";

const PAUSE_MS = 1400;
let clock = 0;

/** Set up the switch, the slider and the play button. */
export function startTurns() {
  const phases = listPhases();
  const box = byId("phases");
  box.hidden = phases.length < 2;
  box.replaceChildren(
    ...phases.map((phase) =>
      el("button", { type: "button", "data-phase": phase, onclick: () => goPhase(phase) }, phase),
    ),
  );
  byId("turn").addEventListener("input", (event) => {
    stop();
    move({ turn: Number(event.target.value) });
  });
  byId("play").addEventListener("click", () => (clock ? stop() : play()));
}

/** Another phase: inference begins at its first turn, and a step that does not happen there is let go. */
export function goPhase(phase) {
  stop();
  const turn = scenesOf(phase)[0].turn;
  const scene = sceneAt({ ...place, phase, turn });
  move({ phase, turn, step: place.step && findStep(scene, place.step) ? place.step : "" });
}

/** Show where we are. */
export function showTurns() {
  const scenes = scenesOf(place.phase);
  const scene = sceneAt(place);
  for (const button of byId("phases").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", `${button.dataset.phase === place.phase}`);
  }
  byId("turns").hidden = scenes.length < 2;
  const slider = byId("turn");
  slider.min = scenes[0].turn;
  slider.max = scenes.at(-1).turn;
  slider.value = scene.turn;
  byId("turn_name").textContent = `${place.phase === "inference" ? "turn" : "pass"} ${scene.turn} of ${scenes.length}`;
  const words = [...wordsOf(scene, "decoder_input")].join(" ");
  const next = wordsOf(scene, "new").join(" ");
  byId("turn_words").replaceChildren(...(next ? [words, " → ", el("b", {}, next)] : [words]));
  showPlaying();
}

function showPlaying() {
  const button = byId("play");
  button.textContent = clock ? "❚❚ pause" : "▶ play";
  button.setAttribute("aria-pressed", `${clock !== 0}`);
}

function play() {
  const scenes = scenesOf(place.phase);
  if (place.turn >= scenes.at(-1).turn) move({ turn: scenes[0].turn });
  clock = setInterval(() => {
    const next = scenesOf(place.phase).find((scene) => scene.turn > place.turn);
    if (!next) return stop();
    move({ turn: next.turn });
    if (next.turn >= scenes.at(-1).turn) stop();
  }, PAUSE_MS);
  showPlaying();
}

function stop() {
  clearInterval(clock);
  clock = 0;
  showPlaying();
}

/** The words that might come next at this turn, with their probabilities as bars. */
export function drawCandidates() {
  const pass = passesOf(sceneAt(place)).find((one) => one.candidates?.length);
  if (!pass) {
    const silent =
      passesOf(sceneAt(place)).some((one) => one.kind === "decode") &&
      !facts.passes.some((one) => one.candidates?.length);
    return silent ? [el("p", { class: "quiet missing" }, "The trace does not say which other words were likely.")] : [];
  }
  return [
    el("h3", {}, `Next word, turn ${pass.number}`),
    el(
      "ol",
      { class: "candidates", "aria-label": "Likeliest next words" },
      ...pass.candidates.map(([word, chance]) => {
        const bar = el("i", {});
        bar.style.setProperty("--share", `${chance * 100}%`);
        return el(
          "li",
          {},
          el("span", { class: "name" }, word),
          el("span", { class: "bar" }, bar),
          el("span", {}, sayPercent(chance)),
        );
      }),
    ),
  ];
}
