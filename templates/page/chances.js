/** The words that a turn could have said, on the map: those of the turn that is looked at. */

import { passesOf, sayPercent } from "./facts.js";

const LETTERS = 9;

/** Put the words, chances and bars of a turn in the place of those that the map was drawn with. */
export function showChances(svg, scene) {
  const pass = passesOf(scene).find((one) => one.candidates?.length);
  const drawn = svg && pass && findDrawn(svg);
  if (!drawn) return;
  drawn.title.textContent = `TURN ${pass.number} COULD HAVE SAID`;
  drawn.rows.forEach(({ word, share, bar }, at) => {
    const [name, chance] = pass.candidates[at] ?? ["", 0];
    word.dataset.word = name;
    textOf(word).textContent = name.length > LETTERS ? `${name.slice(0, LETTERS - 1)}…` : name;
    textOf(share).textContent = name ? sayPercent(chance).replace(" ", "") : "";
    bar.path.setAttribute("d", name ? drawBar(bar, chance) : "");
  });
}

/** The texts and bars by their marks, looked for once; null where the map has none. */
function findDrawn(svg) {
  if (svg.chances !== undefined) return svg.chances;
  const [title] = svg.querySelectorAll(".chance_title");
  const words = [...svg.querySelectorAll(".chance_word")];
  const shares = [...svg.querySelectorAll(".chance_share")];
  const bars = [...svg.querySelectorAll(".chance_bar")];
  svg.chances = null;
  if (!title) return null;
  for (const share of shares) alignRight(textOf(share));
  svg.chances = {
    title: textOf(title),
    rows: words.map((word, at) => ({ word, share: shares[at], bar: measureBar(bars[at]) })),
  };
  return svg.chances;
}

function textOf(group) {
  return group.querySelector("text");
}

/** A text that keeps its right edge when it changes. */
function alignRight(text) {
  const { x, width } = text.getBBox();
  text.setAttribute("x", x + width);
  text.setAttribute("text-anchor", "end");
}

/** Where a bar is, and how long it would be if the chance were one. */
function measureBar(bar) {
  const path = bar.querySelector("path");
  const { x, y, width, height } = path.getBBox();
  return { path, x, y, height, full: width / Number(bar.dataset.share) };
}

/** A bar that is as long as its chance, never so short that nobody sees it. */
function drawBar({ x, y, height, full }, chance) {
  const width = Math.max(4, full * chance);
  return `M${x},${y}h${width}v${height}h${-width}z`;
}
