/** The performance: the run's moments one after the other; played, paused, stepped through, scrubbed. */

import { ALL_ACTS } from "./acts_out.js";
import { takeBrush } from "./brush.js";
import { byId, el, say } from "./dom.js";
import { facts } from "./facts.js";
import { listMoments } from "./moments.js";
import { move, place } from "./place.js";

const STILL = matchMedia("(prefers-reduced-motion: reduce)");
const SPEEDS = [0.5, 1, 2, 4];
const state = { at: 0, share: 1, playing: false, last: 0, frame: 0, speed: 1, brush: null };

/** Whether there is anything to perform: values of more than a tensor or two. */
export function canPerform() {
  return listMoments().length > 4;
}

/** Set up the stage of the performance; the switch that leads to it is there where there is something to perform. */
export function startShow() {
  byId("ways").hidden = !canPerform();
  if (!canPerform()) return;
  const moments = listMoments();
  byId("ways").append(
    el("button", { type: "button", "data-way": "show", onclick: () => move({ view: "show" }) }, "watch"),
    el("button", { type: "button", "data-way": "walk", onclick: explore }, "explore"),
  );
  const title = asked(moments);
  const name = title === facts.title ? "What happened" : `${facts.title}: what happened`;
  byId("show_asked").textContent = title;
  byId("show_told").textContent = `${name} inside, number by number, as it was recorded`;
  byId("show_start").addEventListener("click", () => play());
  byId("show_play").addEventListener("click", () => (state.playing ? pause() : play()));
  byId("show_back").addEventListener("click", () => step(-1));
  byId("show_next").addEventListener("click", () => step(1));
  byId("show_map").addEventListener("click", explore);
  byId("show_speed").append(
    ...SPEEDS.map((speed) => el("option", { value: speed, selected: speed === 1 }, `${speed}×`)),
  );
  byId("show_speed").addEventListener("change", (event) => {
    state.speed = Number(event.target.value);
  });
  const slider = byId("show_time");
  slider.max = `${moments.length - 1}`;
  slider.addEventListener("input", () => scrub(Number(slider.value)));
  byId("show_stations").append(...listStops(moments));
  const canvas = byId("show_canvas");
  canvas.addEventListener("pointermove", tell);
  canvas.addEventListener("pointerleave", () => {
    byId("show_hint").textContent = "";
  });
  canvas.addEventListener("click", tell);
  new ResizeObserver(() => place.view === "show" && paint()).observe(canvas.parentElement);
}

/** What the run is about: its question, or what came in. */
function asked(moments) {
  if (typeof facts.config.question === "string" && facts.config.question) return facts.config.question;
  const first = moments[1];
  if (first.words?.length) return first.words.filter((word) => word !== "<pad>").join(" ");
  if (first.ids?.length) return first.ids.slice(0, 12).join(" ");
  return facts.title;
}

/** Where each station begins: buttons under the slider. */
function listStops(moments) {
  const stops = [];
  moments.forEach((moment, at) => {
    const name = moment.station ?? null;
    if (name === null || stops.some((stop) => stop.name >= name)) return;
    if (stops.length && at - stops.at(-1).at < moments.length / 30) return;
    stops.push({ name, at });
  });
  return stops.map(({ name, at }) => {
    const stop = el(
      "button",
      { type: "button", class: "stop", "aria-label": `Go to station ${name}, moment ${at}`, onclick: () => scrub(at) },
      `${name}`,
    );
    stop.style.left = `${(at / (moments.length - 1)) * 100}%`;
    return stop;
  });
}

/** Show the moment that the place says. */
export function showShow(changed) {
  const here = place.view === "show" && canPerform();
  document.body.dataset.way = here ? "show" : "walk";
  byId("show").hidden = !here;
  for (const part of document.querySelectorAll(".map, .panel")) part.inert = here;
  for (const button of byId("ways").children) {
    button.setAttribute("aria-pressed", `${(button.dataset.way === "show") === here}`);
  }
  if (!here) return pause();
  const at = Math.min(place.moment, listMoments().length - 1);
  if (changed.has("view") || at !== state.at) {
    state.at = at;
    state.share = state.playing && !STILL.matches ? 0 : 1;
    write();
    paint();
  }
}

function write() {
  const moments = listMoments();
  const moment = moments[state.at];
  const begins = state.at === 0;
  byId("show").classList.toggle("begins", begins);
  byId("show_begin").hidden = !begins;
  byId("show_station").textContent = moment.station ?? "";
  byId("show_station").hidden = !moment.station;
  byId("show_title").textContent = moment.title;
  byId("show_where").textContent = begins ? "" : whereIs(moment);
  byId("show_text").textContent = moment.says;
  byId("show_canvas").setAttribute("aria-label", begins ? asked(moments) : `${moment.title}. ${moment.says}`);
  byId("show_time").value = `${state.at}`;
  byId("show_time").setAttribute("aria-valuetext", `${moment.title || "the beginning"}, ${moment.says}`);
  byId("show_count").textContent = begins ? "" : `${state.at} of ${moments.length - 1}`;
  byId("show_hint").textContent = "";
  const button = byId("show_play");
  button.textContent = state.playing ? "❚❚ Pause" : state.at === moments.length - 1 ? "▶ Again" : "▶ Play";
  byId("show_back").disabled = begins;
  byId("show_next").disabled = state.at === moments.length - 1;
}

function whereIs(moment) {
  const side = { encode: "encoder", decode: "decoder", training: "training" }[moment.pass?.kind] ?? "";
  const turn = moment.pass?.kind === "decode" ? `turn ${moment.scene.turn}` : "";
  const site = moment.site ? `layer ${moment.site.layer + 1}` : "";
  const head = moment.chosen && moment.act !== "three" && moment.act !== "cut" ? `head ${moment.chosen.head + 1}` : "";
  return [side, turn, site, head].filter(Boolean).join(", ");
}

/** Paint the moment as far as it has come. */
function paint() {
  const canvas = byId("show_canvas");
  const { clientWidth, clientHeight } = canvas.parentElement;
  if (!clientWidth || !clientHeight) return;
  const moment = listMoments()[state.at];
  state.brush = takeBrush(canvas, clientWidth, clientHeight);
  ALL_ACTS[moment.act]?.(state.brush, moment, STILL.matches ? 1 : state.share);
}

function play() {
  const moments = listMoments();
  state.playing = true;
  state.last = performance.now();
  if (state.at === moments.length - 1) go(0);
  if (state.share >= 1) advance();
  write();
  cancelAnimationFrame(state.frame);
  state.frame = requestAnimationFrame(tick);
}

/** Stay where it is. */
export function pause() {
  if (!state.playing) return;
  state.playing = false;
  cancelAnimationFrame(state.frame);
  if (place.view === "show") write();
}

const HELD = 0.35; // how much longer a finished moment stays, in its own length

function tick(now) {
  if (!state.playing) return;
  const moment = listMoments()[state.at];
  const before = state.share;
  state.share += Math.min(0.25, (now - state.last) / 1000) * (state.speed / moment.seconds);
  state.last = now;
  if (state.share >= 1 + HELD) advance();
  else if (!STILL.matches && before < 1) {
    const held = state.share;
    state.share = Math.min(1, held);
    paint();
    state.share = held;
  }
  if (state.playing) state.frame = requestAnimationFrame(tick);
}

function advance() {
  if (state.at >= listMoments().length - 1) return pause();
  go(state.at + 1);
  state.share = 0;
  paint();
}

function go(at) {
  move({ view: "show", moment: at });
}

function step(by) {
  pause();
  const at = Math.max(0, Math.min(listMoments().length - 1, state.at + by));
  go(at);
  state.share = 1;
  paint();
  const moment = listMoments()[at];
  say(`${moment.title}. ${moment.says}`);
}

function scrub(at) {
  pause();
  go(at);
  state.share = 1;
  paint();
}

/** To the place on the map where the moment happens. */
function explore() {
  pause();
  const moment = listMoments()[state.at];
  const scene = moment.scene ?? facts.scenes[0];
  const found = moment.step && moment.step.station === null ? { step: moment.step.id } : { step: "" };
  move({
    view: found.step ? "step" : "walk",
    phase: scene.phase,
    turn: scene.turn,
    station: moment.station ?? place.station,
    ...found,
  });
}

/** The keys of the performance; whether it was one of them. */
export function onShowKey(event) {
  if (event.target.closest?.("button, select") && [" ", "Enter"].includes(event.key)) return false;
  if (event.target.id === "show_time") return false;
  if (event.key === " ") state.playing ? pause() : play();
  else if (event.key === "ArrowRight") step(1);
  else if (event.key === "ArrowLeft") step(-1);
  else if (event.key === "Escape") explore();
  else return false;
  return true;
}

/** What is under the pointer. */
function tell(event) {
  const box = byId("show_canvas").getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const hit = state.brush?.hits.findLast((one) => x >= one.left && x < one.right && y >= one.top && y < one.bottom);
  byId("show_hint").textContent = hit ? hit.tell(x, y) : "";
}
