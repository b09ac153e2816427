/** Two recordings in masks and attention: what is hidden and looked at in each, cells that differ framed. */

import { byId, el } from "./dom.js";
import { sayNumber } from "./facts.js";
import { makeGrid } from "./grid.js";
import { move } from "./place.js";

const LARGEST = 20;
const SMALLEST = 9;
const NARROW = 420; // below it two grids stand below each other

/** What is hidden and looked at in both recordings, kind by kind, where a mask differs first. */
export function drawAttentions(here, names) {
  const kinds = here.flatMap((pair) => pair.attentions);
  const told = [...kinds.filter((one) => one.hidden), ...kinds.filter((one) => !one.hidden)].flatMap((one) =>
    drawAttention(one, names),
  );
  return told.length ? told : [el("p", { class: "quiet" }, sayAlike(kinds))];
}

/** Where nothing is drawn: that all is the same, or how little differs, as far as weights were kept. */
function sayAlike(kinds) {
  const moved = kinds.map((one) => one.moved).filter((one) => one !== null);
  if (!moved.length) return "No weights of attention were kept here to be compared.";
  const most = Math.max(...moved);
  if (!most) return "What the masks hide and every weight of attention is the same.";
  return `What the masks hide is the same, and no weight of attention differs by more than ${sayNumber(most)}.`;
}

function drawAttention({ title, softmax, bits, hidden, head }, names) {
  const told = [
    ...tellBits(bits),
    ...(hidden ? drawHidden(title, hidden, names) : []),
    ...(head ? drawHead(title, head, names) : []),
  ];
  if (!told.length) return [];
  const button = el("button", { type: "button", class: "link", onclick: () => move({ step: softmax }) }, title);
  return [el("h4", {}, button), ...told];
}

function tellBits(bits) {
  const [before, after] = (bits ?? [0, 0]).map((width) => width.toFixed(2));
  if (before === after) return [];
  const means = ", the mean of all its heads: 0 looks at one word only.";
  return [
    el("p", {}, `It looks ${before} bits wide → `, el("b", {}, `${after} bits`), el("span", { class: "quiet" }, means)),
  ];
}

function drawHidden(title, { place, sequence, sides }, names) {
  const [one, other] = sides.map((side) => side.cells);
  const alike = one.length === other.length && one[0].length === other[0].length;
  const grids = sides.map(({ queries, keys, cells }, at) =>
    drawCells(`${title}, ${names[at]}: what the mask hides`, queries, keys, cells, {
      paint: (row, column) => {
        const differs = alike && one[row][column] !== other[row][column];
        return { kind: `mask_${cells[row][column] === "." ? "visible" : "hidden"}${differs ? " differs" : ""}` };
      },
      say: (row, column) => (cells[row][column] === "." ? "may look at" : "may not look at"),
    }),
  );
  return [el("p", { class: "quiet" }, `What the mask hides, ${sayWhere(place, sequence)}.`), drawBoth(grids, names)];
}

function drawHead(title, { place, sequence, queries, keys, weights, hidden }, names) {
  const grids = weights.map((shares, at) =>
    drawCells(`${title}, ${names[at]}: weights`, queries, keys, shares, {
      paint: (row, column) =>
        hidden[at]?.[row][column] === "x"
          ? { kind: "hidden" }
          : { kind: "weight", share: Math.max(0, Math.min(1, shares[row][column])) ** 0.6 },
      say: (row, column) => `with weight ${sayNumber(shares[row][column])} looks at`,
    }),
  );
  return [
    el("p", { class: "quiet" }, `The head that differs most, ${sayWhere(place, sequence)}.`),
    drawBoth(grids, names),
  ];
}

function sayWhere(place, sequence) {
  return sequence ? `${place}, sequence ${sequence + 1}` : place;
}

function drawCells(name, queries, keys, cells, { paint, say }) {
  const [rows, columns] = [cells.length, cells[0].length];
  return makeGrid({
    name,
    rows,
    columns,
    rowWords: queries.length === rows ? queries : [],
    columnWords: keys.length === columns ? keys : [],
    cell: sizeFor(queries, columns),
    paint,
    tell: (row, column) => `${nameWord(queries, row, "query")} ${say(row, column)} ${nameWord(keys, column, "key")}.`,
  });
}

/** The size of a cell with which two grids stand side by side, where they can. */
function sizeFor(words, columns) {
  const wide = byId("views").clientWidth;
  if (wide < NARROW) return LARGEST;
  const side = 10 + 7 * Math.min(12, Math.max(0, ...words.map((word) => [...word].length)));
  return Math.max(SMALLEST, Math.min(LARGEST, Math.floor((wide / 2 - side - 42) / columns)));
}

function nameWord(words, at, kind) {
  return words[at] ? `“${words[at]}”` : `${kind} ${at + 1}`;
}

function drawBoth(grids, names) {
  const figures = grids.map((grid, at) => el("figure", {}, el("figcaption", {}, names[at]), grid));
  return el("div", { class: "twin_both" }, ...figures);
}
