/** The page itself: unpack, set up, and redraw what changed whenever the reader moves. */

import { keepAnchor, takeAnchor } from "./anchor.js";
import { drawAttention, hasAttention } from "./attention.js";
import { showCrumbs } from "./crumbs.js";
import { byId, el, hue, say } from "./dom.js";
import { centreRows, isPhone, startDrawer } from "./drawer.js";
import { facts, findStep, listPhases, loadFacts, sayMissing, sceneAt, scenesOf } from "./facts.js";
import { drawFind, unmark } from "./find.js";
import { onFollow } from "./following.js";
import { recallMarks } from "./marks.js";
import { drawMasks, hasMasks } from "./masks.js";
import { startMinimap } from "./minimap.js";
import { showNear, startNear } from "./near.js";
import { lightAxis, showMap, showPlace, startNodes } from "./nodes.js";
import { onSlice } from "./numbers.js";
import { drawTree } from "./outline.js";
import { move, onMove, place, readHash } from "./place.js";
import { startPrint } from "./print.js";
import { drawRanks, hasRanks } from "./ranks.js";
import { canPerform, onShowKey, showShow, startShow } from "./show.js";
import { drawStep } from "./step.js";
import { drawCandidates, showTurns, startTurns } from "./turns.js";
import { drawTwins, hasTwins, markTwin } from "./twins.js";
import { showUnfolded, startUnfold } from "./unfold.js";
import { startView } from "./view.js";
import { drawWalk, goStation, showRail, startWalk } from "./walk.js";
import { flyToWord, leadsToWord } from "./word_flight.js";
import { lightWord } from "./words.js";

const VIEWS = {
  walk: { name: "Walk", draw: () => drawWalk(place.station >= 8 ? drawCandidates() : []) ?? drawTree() },
  step: { name: "Step", draw: drawStep },
  attention: { name: "Attention", draw: drawAttention, is: hasAttention },
  masks: { name: "Masks", draw: drawMasks, is: hasMasks },
  tree: { name: "Steps", draw: drawTree, is: () => facts.stations.length > 0 },
  ranks: { name: "Ranks", draw: drawRanks, is: hasRanks },
  twins: { name: "What if", draw: drawTwins, is: hasTwins },
  find: { name: "Find", draw: drawFind },
};
const AXES = ["batch", "heads", "src_len", "tgt_len", "d_model", "d_k", "d_ff", "src_vocab", "tgt_vocab"];

let waiting = new Set();

await loadFacts(byId("facts").textContent);
byId("facts").remove();
start();

function start() {
  startView();
  startUnfold();
  startNodes();
  startMinimap();
  startMaps();
  startTabs();
  startWalk();
  startTurns();
  startAxes();
  startTheme();
  startShow();
  startNear();
  startPrint();
  startDrawer();
  onSlice(drawView);
  onFollow(() => place.view === "step" && drawView());
  onMove(show);
  addEventListener("hashchange", () => move(sensible(readAddress()), { back: true }));
  addEventListener("keydown", onKey);
  about();
  Object.assign(place, sensible(readAddress()));
  recallMarks();
  show(
    new Set([
      "phase",
      "turn",
      "view",
      ...(place.map ? ["map"] : []),
      ...(isPhone() || /(station|step)=/.test(location.hash) ? ["station"] : ["start"]),
    ]),
  );
  document.documentElement.dataset.ready = "yes";
}

/** The place of the address; without one the performance, where there is something to perform. */
function readAddress() {
  const asked = readHash(location.hash);
  return location.hash.length > 1 ? asked : { ...asked, view: canPerform() ? "show" : "walk" };
}

/** A place that there is: what an address says, held to what was recorded. */
function sensible(asked) {
  const phases = listPhases();
  const phase = phases.includes(asked.phase ?? place.phase) ? (asked.phase ?? place.phase) : phases[0];
  const turns = scenesOf(phase).map((scene) => scene.turn);
  const turn = asked.turn ?? place.turn;
  const step = /station=/.test(location.hash) ? null : findStep(sceneAt({ phase, turn }), asked.step);
  const station = step?.station ?? asked.station ?? place.station;
  return {
    ...asked,
    phase,
    turn: turns.includes(turn) ? turn : turns[0],
    station: facts.stations.some((one) => one.number === station) ? station : (facts.stations[0]?.number ?? 1),
    map: (asked.map ?? place.map) < facts.maps.length ? (asked.map ?? place.map) : 0,
    view:
      listViews().some(([name]) => name === asked.view) || (asked.view === "show" && canPerform())
        ? asked.view
        : "walk",
  };
}

function show(changed) {
  showShow(changed);
  if (place.view === "show") {
    waiting = new Set([...waiting, ...changed]);
    return;
  }
  changed = new Set([...waiting, ...changed]);
  waiting = new Set();
  const anchor = takeAnchor(changed);
  if (changed.has("map")) {
    showMap(place.map);
    for (const name of ["phase", "step"]) changed.add(name);
    if (place.view === "find") drawView();
  }
  showMaps();
  showTurns();
  showRail();
  if (changed.has("view") && place.view !== "find") unmark();
  drawView(changed.has("view") || (place.view !== "twins" && (changed.has("station") || changed.has("step"))));
  centreRows(changed);
  showPlace(changed, showUnfolded(changed) || anchor !== null || leadsToWord(changed));
  if (anchor) keepAnchor(anchor);
  showCrumbs();
  lightWord(changed);
  markTwin();
  showNear(changed);
  flyToWord(changed);
  lightAxis();
  showAxes();
  if (changed.has("station") && place.view === "walk" && facts.stations.length) {
    say(`Station ${place.station}: ${facts.stations.find((one) => one.number === place.station)?.title}`);
  }
}

/** Draw the view anew; where the reader only changes a detail, scroll and focus stay. */
function drawView(fresh = false) {
  const views = byId("views");
  const focused = views.contains(document.activeElement) ? pathTo(views, document.activeElement) : null;
  const open = new Set([...views.querySelectorAll("details[open] > summary")].map((one) => one.textContent));
  views.replaceChildren(
    ...VIEWS[place.view].draw().filter((part) => part !== false && part !== null && part !== undefined),
  );
  for (const summary of views.querySelectorAll("details > summary")) {
    if (open.has(summary.textContent)) summary.parentElement.open = true;
  }
  views.setAttribute("aria-labelledby", `tab_${place.view}`);
  for (const tab of byId("tabs").children) {
    const here = tab.dataset.view === place.view;
    tab.setAttribute("aria-selected", `${here}`);
    tab.setAttribute("tabindex", here ? "0" : "-1");
  }
  if (fresh === true) byId("panel").scrollTop = 0;
  if (focused) follow(views, focused)?.focus({ preventScroll: true });
  lightAxis();
}

function pathTo(root, element) {
  const path = [];
  for (let at = element; at && at !== root; at = at.parentElement)
    path.unshift([...at.parentElement.children].indexOf(at));
  return path;
}

function follow(root, path) {
  return path.reduce((at, place) => at?.children[place], root);
}

/** The views that have something to show. */
function listViews() {
  return Object.entries(VIEWS).filter(([, { is }]) => !is || is());
}

function startTabs() {
  const tabs = byId("tabs");
  const views = byId("views");
  views.setAttribute("role", "tabpanel");
  views.setAttribute("tabindex", "-1");
  for (const [view, { name }] of listViews()) {
    tabs.append(
      el(
        "button",
        {
          type: "button",
          role: "tab",
          id: `tab_${view}`,
          "aria-controls": "views",
          "data-view": view,
          onclick: () => move({ view }),
        },
        view === "walk" && !facts.stations.length ? "Steps" : name,
      ),
    );
  }
  tabs.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const names = listViews().map(([name]) => name);
    const view = names[(names.indexOf(place.view) + by + names.length) % names.length];
    move({ view });
    byId(`tab_${view}`).focus();
  });
}

/** Buttons for the maps: the poster where there is one, and how many levels of blocks are opened. */
function startMaps() {
  const order = facts.maps.map((one, number) => ({ name: one.name, number }));
  order.sort((one, other) => (Number(one.name) || 0) - (Number(other.name) || 0));
  byId("maps").hidden = order.length < 2;
  byId("maps").append(
    ...order.map(({ name, number }) =>
      el(
        "button",
        {
          type: "button",
          "data-map": number,
          "aria-label": name === "poster" ? "The poster" : `By blocks, ${name} levels of them opened`,
          onclick: () => move({ map: number }),
        },
        name,
      ),
    ),
  );
}

function showMaps() {
  for (const button of byId("maps").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", `${Number(button.dataset.map) === place.map}`);
  }
}

function startAxes() {
  const known = new Set(
    facts.passes.flatMap((pass) => pass.steps.flatMap((step) => step.outputs.flatMap((one) => one.axes))),
  );
  const names = AXES.filter((axis) => known.has(axis) || (axis in facts.sizes && known.has(axis)));
  byId("axes").replaceChildren(
    ...names.map((axis) =>
      el(
        "button",
        {
          type: "button",
          class: `axis ${hue(axis)}`,
          "data-name": axis,
          "aria-pressed": "false",
          onclick: () => touchAxis(axis),
        },
        axis,
      ),
    ),
  );
  byId("axes").hidden = !names.length;
  addEventListener("click", (event) => {
    const digit = event.target.closest?.(".panel [data-axis]");
    if (digit && !event.target.closest("button, summary")) touchAxis(digit.dataset.axis.split(/[*+-]/)[0]);
  });
}

function touchAxis(axis) {
  move({ axis: place.axis === axis ? "" : axis });
}

function showAxes() {
  for (const button of byId("axes").children) {
    const lit = button.dataset.name === place.axis;
    button.setAttribute("aria-pressed", `${lit}`);
  }
}

function startTheme() {
  const root = document.documentElement;
  if (root.dataset.theme === "auto") {
    root.dataset.theme = matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
  }
  const button = byId("theme");
  const name = () => {
    button.textContent = root.dataset.theme === "dark" ? "light" : "dark";
    button.setAttribute("aria-label", `Change to the ${button.textContent} theme`);
  };
  button.addEventListener("click", () => {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    name();
  });
  name();
}

function about() {
  const steps = facts.passes.reduce((sum, pass) => sum + pass.steps.length, 0);
  const trained =
    facts.config.trained === false ? " The model is untrained: its shapes are exact, its words are chance." : "";
  const kept = facts.has_values ? `This file carries ${facts.kept}, to four digits.` : sayMissing();
  const passes = facts.passes.length === 1 ? "1 pass" : `${facts.passes.length} passes`;
  byId("about").textContent =
    `${passes}, ${steps.toLocaleString("en")} steps.${trained} ${kept} ` +
    "Keys: ← → stations, + − 0 zoom, Shift and arrows pan, Tab to the map and arrows from node to node, / find.";
}

function onKey(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
  if (place.view === "show") {
    if (onShowKey(event)) event.preventDefault();
    return;
  }
  if (event.target.closest?.("input, select, textarea, [role=application]")) return;
  if (event.key === "ArrowRight") goStation(1);
  else if (event.key === "ArrowLeft") goStation(-1);
  else if (event.key === "/") {
    move({ view: "find" });
    byId("query").focus();
  } else if (event.key === "Escape" && place.axis) move({ axis: "" });
  else return;
  event.preventDefault();
}
