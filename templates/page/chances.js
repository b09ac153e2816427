/** The words that a turn could have said, on the map: those of the turn that is looked at. */

import { facts, passesOf, sayPercent } from "./facts.js";

const TITLE = /^TURN \d+ COULD HAVE SAID$/;

/** Put the words, chances and bars of a turn in the place of those that the map was drawn with. */
export function showChances(svg, scene) {
  const pass = passesOf(scene).find((one) => one.candidates?.length);
  const drawn = svg && pass && findDrawn(svg);
  if (!drawn) return;
  drawn.title.textContent = `TURN ${pass.number} COULD HAVE SAID`;
  const bars = drawn.rows.map(({ word, share, bar }, at) => {
    const [name, chance] = pass.candidates[at] ?? ["", 0];
    word.textContent = name.length > 9 ? `${name.slice(0, 8)}…` : name;
    share.textContent = name ? sayPercent(chance).replace(" ", "") : "";
    return name ? drawBar(bar, Math.max(4, drawn.full * chance)) : "";
  });
  drawn.bars?.setAttribute("d", bars.join(""));
}

/** The texts and bars as they were drawn, read once; null where the map has none. */
function findDrawn(svg) {
  if (svg.chances !== undefined) return svg.chances;
  const notes = [...svg.querySelectorAll(".note > text:only-child")];
  const at = notes.findIndex((text) => TITLE.test(text.textContent));
  svg.chances = null;
  if (at < 0) return null;
  const rows = [];
  for (let next = at + 1; /%$/.test(notes[next + 1]?.textContent ?? ""); next += 2) {
    rows.push({ word: notes[next], share: alignRight(notes[next + 1]) });
  }
  const bars = [...svg.querySelectorAll(".graph > path")].find(
    (path) => path.getAttribute("fill") === "var(--line-inference)" && startsOf(path).length === rows.length,
  );
  const starts = bars ? startsOf(bars) : [];
  const left = Math.min(...starts.map(([x]) => x));
  rows.forEach((row, number) => {
    row.bar = starts.length ? { x: left - 4, y: starts[number][1], height: 14 } : null;
  });
  const [, first] = facts.passes.find((one) => one.candidates?.length).candidates[0];
  const full = bars ? widthOf(bars) / first : 0;
  svg.chances = { title: notes[at], rows, bars: bars ?? null, full };
  return svg.chances;
}

/** Where each part of a path begins. */
function startsOf(path) {
  return [...path.getAttribute("d").matchAll(/M(-?[\d.]+),(-?[\d.]+)/g)].map((found) => [+found[1], +found[2]]);
}

function widthOf(path) {
  return path.getBBox().width;
}

/** A text that keeps its right edge when it changes. */
function alignRight(text) {
  const { x, width } = text.getBBox();
  text.setAttribute("x", x + width);
  text.setAttribute("text-anchor", "end");
  return text;
}

function drawBar(bar, width) {
  return bar ? `M${bar.x},${bar.y}h${width}v${-bar.height}h${-width}z` : "";
}
