/** One rank of many: what it holds of each weight, how many bytes each layer exchanges, and where data waits, in order. */

import { el, svgEl } from "./dom.js";
import { facts, sayBytes, sayShape } from "./facts.js";
import { move } from "./place.js";

const MOST_CELLS = 32;
const SIDE = 44;
const THINNEST = 6;

/** Whether the trace is of one rank. */
export function hasRanks() {
  return Boolean(facts.ranks);
}

/** The view of the rank. */
export function drawRanks() {
  const { slices, weights, layers, rounds, sums, cuts } = facts.ranks;
  return [
    el("h2", {}, sayWho()),
    el("p", {}, saySums(sums)),
    ...part("What ranks share", slices.map(drawSlice), "rank_slices"),
    ...part("What this rank has of each weight", [...weights.map(drawWeight), sayMore("more_weights")], "rank_weights"),
    ...part("Where data waits for others, in order", rounds.filter(isThere).map(drawRound), "rank_rounds"),
    ...part("On the way back", [...rounds.filter(isBack).map(drawRound), sayMore("more_rounds")], "rank_rounds"),
    ...part("Bytes layer by layer", drawLayers(layers), "rank_layers"),
    ...part("Behind the cuts of the pipeline", cuts.map(drawCut), "rank_layers"),
    ...part("Added up", sums.length ? [drawSums(sums)] : [], "rank_sums"),
  ];
}

function sayWho() {
  const { mesh, rank } = facts.ranks;
  const axes = Object.entries(mesh).map(([name, size]) => `${name}=${size}`);
  return axes.length ? `Rank ${rank} of ${axes.join(", ")}` : "This rank";
}

function saySums(sums) {
  if (!sums.length) return "It exchanges nothing with others here.";
  const add = (some) => some.reduce((total, one) => total + one[5], 0);
  const back = sums.filter((one) => one[6]);
  const all = `It exchanges ${sayBytes(add(sums))} with others`;
  if (!back.length) return `${all}.`;
  return `${all}: ${sayBytes(add(sums) - add(back))} on the way, ${sayBytes(add(back))} on the way back.`;
}

function part(title, children, name) {
  const shown = children.filter(Boolean);
  return shown.length ? [el("h3", {}, title), el("div", { class: name }, ...shown)] : [];
}

function isBack({ exchanges }) {
  return exchanges[0].at(-1);
}

function isThere(round) {
  return !isBack(round);
}

function sayMore(name) {
  const count = facts.ranks[name];
  return count ? el("p", { class: "quiet" }, `and ${count.toLocaleString("en")} more, in the table`) : null;
}

/** An axis that ranks share: a cell for each of them, this one's filled. */
function drawSlice([name, whole, here, group, ranks, at, parts]) {
  const cells = Array.from({ length: Math.min(ranks, MOST_CELLS) }, (_, number) =>
    el("i", { class: number === at ? "held" : null }),
  );
  const uneven = parts.length ? `: ${parts.slice(0, MOST_CELLS).join(", ")}` : "";
  return el(
    "div",
    { class: "rank_slice" },
    el("span", {}, el("b", {}, name), ` ${whole.toLocaleString("en")}, ${here.toLocaleString("en")} of it here`),
    el("span", { class: "rank_cells", "aria-hidden": "true" }, ...cells),
    el("small", { class: "quiet" }, `${ranks} ranks along ${group}${uneven}`),
  );
}

/** A weight: the whole as a rectangle, and in it what this rank has. */
function drawWeight([name, count, shape, local, begin, placement, parts]) {
  const same = sayShape(local) === sayShape(shape);
  return el(
    "figure",
    { class: "rank_weight" },
    begin.length ? drawPart(shape, local, begin) : null,
    el(
      "figcaption",
      {},
      el("b", {}, name),
      el("span", {}, same ? `all of ${sayShape(shape)}` : `${sayShape(local)} of ${sayShape(shape)}`),
      el("small", { class: "quiet" }, `${placement}${count > 1 ? `, ${count} alike` : ""}`),
      parts && el("small", { class: "quiet" }, `by rank ${parts.replaceAll("x", "×")}`),
    ),
  );
}

/** The first two axes, rows downwards; a vector is a bar. */
function drawPart(shape, local, begin) {
  const [rows, columns] = shape.length > 1 ? shape : [1, shape[0]];
  const longest = Math.max(rows, columns);
  const width = Math.max(THINNEST, (SIDE * columns) / longest);
  const height = Math.max(THINNEST, (SIDE * rows) / longest);
  const [top, left] = shape.length > 1 ? begin : [0, begin[0]];
  const [deep, wide] = shape.length > 1 ? local : [1, local[0]];
  const held = {
    x: (left / columns) * width,
    y: (top / rows) * height,
    width: (wide / columns) * width,
    height: (deep / rows) * height,
  };
  return svgEl(
    "svg",
    { width: SIDE + 2, height: SIDE + 2, viewBox: `-1 -1 ${SIDE + 2} ${SIDE + 2}`, "aria-hidden": "true" },
    svgEl("rect", { class: "whole", width, height }),
    svgEl("rect", { class: "held", ...held }),
  );
}

/** Exchanges that follow each other, once for all the layers in which they do. */
function drawRound({ times, layers, exchanges }) {
  const rows = exchanges.map((one) => drawExchange(one));
  if (times < 2) return el("div", { class: "rank_round" }, ...rows);
  const where = layers ? `, layers ${layers[0]} to ${layers[1]}` : "";
  return el("div", { class: "rank_round again" }, el("small", {}, `${times}× this${where}`), ...rows);
}

function drawExchange([id, path, op, of, group, bytes]) {
  const at = path.split(".").slice(0, -1).join(".");
  return el(
    "button",
    { type: "button", onclick: () => move({ step: id, view: "step" }) },
    el("b", {}, op),
    el("span", { class: "name" }, [at, of].filter(Boolean).join(" · ")),
    el("small", {}, group),
    el("small", { class: "size" }, sayBytes(bytes)),
  );
}

function drawLayers(layers) {
  const folded = [];
  for (const [layer, size] of layers.filter(([number]) => number !== null).sort(([a], [b]) => a - b)) {
    const last = folded.at(-1);
    if (last && last.size === size && last.to === layer - 1) last.to = layer;
    else folded.push({ from: layer, to: layer, size });
  }
  const outside = layers.find(([layer]) => layer === null);
  const rows = folded.map(({ from, to, size }) => [from === to ? `layer ${from}` : `layers ${from}–${to}, each`, size]);
  if (outside && rows.length) rows.push(["outside of layers", outside[1]]);
  const most = Math.max(...rows.map(([, size]) => size));
  return rows.map(([name, size]) => drawBar(name, size, most));
}

function drawBar(name, size, most) {
  return el(
    "div",
    { class: "rank_bar" },
    el("span", {}, name),
    el("meter", { min: 0, max: most, value: size, "aria-label": name }),
    el("small", {}, sayBytes(size)),
  );
}

function drawCut([after, size], _, all) {
  return drawBar(`behind layer ${after}`, size, Math.max(...all.map((one) => one[1])));
}

function drawSums(sums) {
  const names = ["exchange", "of", "along", "ranks", "times", "bytes"];
  return el(
    "table",
    { class: "records" },
    el("thead", {}, el("tr", {}, ...names.map((name) => el("th", { scope: "col" }, name)))),
    el(
      "tbody",
      {},
      ...sums.map(([op, of, group, ranks, times, bytes, back]) =>
        el(
          "tr",
          {},
          ...[back ? `${op}, way back` : op, of || "what flows", group, ranks, times, sayBytes(bytes)].map((text) =>
            el("td", {}, `${text}`),
          ),
        ),
      ),
    ),
  );
}
