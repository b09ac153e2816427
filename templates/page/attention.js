/** The attention explorer: every layer and head of every kind; cells, lines from word to word, the strongest looks. */

import { chooser, el, sequenceChooser, svgEl } from "./dom.js";
import { facts, sayMissing, sayNumber, sayPercent, sceneAt, wordsOf } from "./facts.js";
import { makeGrid, makeThumb } from "./grid.js";
import { move, place } from "./place.js";
import { hiddenAt, listSites, matrixOf, sizesOf, wordsAt } from "./sites.js";

const PADDING = "<pad>";
const RANKED = 5;

/** Whether any pass of the page has attention. */
export function hasAttention() {
  return facts.passes.some((pass) => pass.attentions.length);
}

/** The attentions of a scene that are looked at: one kind, layer by layer, those with weights. */
function listKind(sites) {
  const kind = sites.some((site) => site.kind === place.attention) ? place.attention : sites[0]?.kind;
  return { kind, layers: sites.filter((site) => site.kind === kind && site.weights.block) };
}

/** The attention that the place says, with the head and sequence there are; null where no weights were kept. */
export function siteAt(scene) {
  const { layers } = listKind(listSites(scene));
  const site = layers.find((one) => one.layer === place.layer && one.nth === 0) ?? layers[0];
  if (!site) return null;
  const { heads, sequences } = sizesOf(site);
  return {
    site,
    head: Math.min(place.head, heads - 1),
    sequence: Math.min(place.sequence, sequences - 1),
  };
}

/** What of the walk and the map goes with an attention: its step and station. */
function follow(changes) {
  const sites = listSites(sceneAt(place));
  const { kind } = listKind(sites);
  const found = sites.filter((site) => site.kind === (changes.attention ?? kind));
  const site = found.find((one) => one.layer === (changes.layer ?? place.layer)) ?? found[0];
  return { ...changes, ...(site && { step: site.softmax.id, station: site.softmax.station ?? place.station }) };
}

/** The view of attention: one head large, its strongest looks, all heads small beside each other. */
export function drawAttention() {
  const scene = sceneAt(place);
  const sites = listSites(scene);
  const { kind, layers } = listKind(sites);
  const head = [el("h2", {}, "Attention"), drawKinds(sites, kind)];
  const chosen = siteAt(scene);
  if (!chosen) return [...head, el("p", { class: "missing" }, sayMissing())];
  const { site } = chosen;
  const { heads, sequences } = sizesOf(site);
  const read = readHead(scene, site, chosen.head, chosen.sequence);
  return [
    ...head,
    el(
      "div",
      { class: "row" },
      chooser(
        "layer",
        layers.map((one) => [one.layer, `${one.layer + 1} of ${layers.length}`]),
        site.layer,
        (layer) => move(follow({ layer: Number(layer) })),
      ),
      chooser(
        "head",
        Array.from({ length: heads }, (_, at) => [at, `${at + 1} of ${heads}`]),
        chosen.head,
        (at) => move({ head: Number(at) }),
      ),
      sequences > 1 &&
        sequenceChooser(
          sequences,
          (at) => wordsAt(site, at).queries,
          chosen.sequence,
          (sequence) => move({ sequence }),
        ),
    ),
    drawLarge(read, site, chosen),
    el("h3", {}, "Strongest looks"),
    drawRanked(read),
    el("h3", {}, "From word to word"),
    drawLines(read),
    el("h3", {}, "All layers and heads"),
    el(
      "p",
      { class: "quiet" },
      "Entropy in bits: 0 looks at one word only, ",
      el("span", {}, Math.log2(Math.max(1, read.columns)).toFixed(2)),
      " looks at all alike.",
    ),
    el("div", { class: "multiples" }, ...layers.map((one) => drawRow(scene, one, chosen))),
  ];
}

function drawKinds(sites, chosen) {
  const kinds = [...new Set(sites.map((site) => site.kind))];
  if (kinds.length < 2) return null;
  return el(
    "div",
    { class: "switch", role: "group", "aria-label": "Which attention" },
    ...kinds.map((kind) =>
      el(
        "button",
        {
          type: "button",
          "aria-pressed": `${kind === chosen}`,
          "data-kind": kind,
          onclick: () => move(follow({ attention: kind })),
        },
        kind,
      ),
    ),
  );
}

/** One head's weights as a function of row and column, with its words, and the words that its rows wrote. */
function readHead(scene, site, head, sequence) {
  const matrix = matrixOf(site.softmax, site.weights, { head, sequence });
  const { queries, keys } = wordsAt(site, sequence);
  return {
    ...matrix,
    queries,
    keys,
    wrote: writtenBy(scene, site, sequence, queries),
    isHidden: hiddenAt(site, sequence),
    weight: matrix.at,
  };
}

/** What each row of a decoder went on to write: the target, or the next word of the answer. */
function writtenBy(scene, site, sequence, queries) {
  if (!["decode", "training"].includes(site.pass.kind) || site.kind === "encoder") return [];
  const targets = wordsOf(scene, "targets", sequence);
  if (targets.length === queries.length) return targets;
  const answer = [...wordsOf(scene, "decoder_input", sequence), ...wordsOf(scene, "new", sequence)];
  return answer.slice(-queries.length);
}

function paint(read) {
  return (row, column) => {
    const value = read.weight(row, column);
    if (read.isHidden(row, column)) return { kind: "hidden" };
    return { kind: "weight", share: typeof value === "number" ? Math.max(0, Math.min(1, value)) ** 0.6 : 0 };
  };
}

function drawLarge(read, site, chosen) {
  const wrote = read.wrote.length ? " A row reads one word and writes the next." : "";
  const { sorts } = wordsAt(site, chosen.sequence);
  const sort = sorts[0] === sorts[1] && sorts[0] !== "word" ? ` The numbers beside it are ${sorts[0]}s.` : "";
  return el(
    "div",
    { class: "large", "data-layer": site.layer, "data-head": chosen.head },
    makeGrid({
      name: `${site.title}, layer ${site.layer + 1}, head ${chosen.head + 1}, before dropout`,
      rows: read.rows,
      columns: read.columns,
      rowWords: read.queries,
      columnWords: read.keys,
      cell: 40,
      paint: paint(read),
      tell: (row, column) => tellWeight(read, row, column),
      choose: (row) => move({ word: place.word === row ? -1 : row }),
      chosen: place.word,
    }),
    el(
      "p",
      { class: "quiet" },
      `Rows are queries, columns keys; softmax weights before dropout, each row sums to 1. Entropy of this head ${entropyOf(read).toFixed(2)} bits.${wrote}${sort}`,
    ),
  );
}

function tellWeight(read, row, column) {
  const hidden = read.isHidden(row, column) ? " (hidden by the mask)" : "";
  return `“${read.queries[row]}” looks at “${read.keys[column]}”: ${sayNumber(read.weight(row, column))}${hidden}`;
}

/** The largest weights, those of the chosen word if one is. */
function drawRanked(read) {
  const found = [];
  for (const row of rowsOf(read)) {
    for (let column = 0; column < read.columns; column += 1) {
      const weight = read.weight(row, column);
      if (typeof weight === "number" && read.queries[row] !== PADDING) found.push({ row, column, weight });
    }
  }
  found.sort((one, other) => other.weight - one.weight);
  return el(
    "ol",
    { class: "ranked" },
    ...found.slice(0, RANKED).map(({ row, column, weight }) => {
      const bar = el("i", {});
      bar.style.setProperty("--share", `${weight * 100}%`);
      return el(
        "li",
        {},
        el("span", {}, `${nameRow(read, row)} looks at “${read.keys[column]}”`),
        el("span", { class: "bar" }, bar),
        el("b", {}, sayPercent(weight)),
      );
    }),
  );
}

function nameRow(read, row) {
  return read.wrote[row] ? `read “${read.queries[row]}”, wrote “${read.wrote[row]}”:` : `“${read.queries[row]}”`;
}

function rowsOf(read) {
  const rows = Array.from({ length: read.rows }, (_, row) => row);
  return place.word >= 0 && place.word < read.rows ? [place.word] : rows;
}

const LINE = 24;
const WIDE = 480;

/** Both sentences beside each other, with a line for every look; a word that is touched is looked at alone. */
function drawLines(read) {
  const count = Math.max(read.rows, read.columns);
  const drawing = svgEl("svg", {
    class: "lines",
    viewBox: `0 0 ${WIDE} ${count * LINE}`,
    role: "group",
    "aria-label": "Lines from the words that look to those that are looked at",
  });
  const shown = new Set(rowsOf(read));
  const [left, right] = [WIDE * 0.42, WIDE * 0.7];
  for (const row of shown) {
    for (let column = 0; column < read.columns; column += 1) {
      const weight = read.weight(row, column);
      if (typeof weight !== "number" || weight < 0.02) continue;
      const [from, to] = [(row + 0.5) * LINE, (column + 0.5) * LINE];
      const middle = (left + right) / 2;
      const line = svgEl("path", {
        d: `M${left} ${from}C${middle} ${from} ${middle} ${to} ${right} ${to}`,
        class: "look",
        "data-row": row,
        "data-column": column,
      });
      line.style.strokeWidth = `${1 + 7 * weight}px`;
      line.style.opacity = `${0.15 + 0.85 * weight}`;
      drawing.append(line);
    }
  }
  read.queries.forEach((word, row) => {
    const name = read.wrote[row] ? `${cut(word)} → ${cut(read.wrote[row])}` : cut(word, 20);
    drawing.append(
      svgEl(
        "text",
        {
          x: left - 8,
          y: (row + 0.68) * LINE,
          "text-anchor": "end",
          class: row === place.word ? "query lit_word" : "query",
          role: "button",
          tabindex: "0",
          "aria-pressed": `${row === place.word}`,
          "aria-description": nameRow(read, row),
          onclick: () => move({ word: place.word === row ? -1 : row }),
          onkeydown: (event) => {
            if (event.key !== "Enter" && event.key !== " ") return;
            event.preventDefault();
            event.stopPropagation();
            move({ word: place.word === row ? -1 : row });
          },
        },
        name,
      ),
    );
  });
  read.keys.forEach((word, column) => {
    drawing.append(svgEl("text", { x: right + 8, y: (column + 0.68) * LINE, class: "key_word" }, cut(word, 18)));
  });
  return drawing;
}

function cut(word, most = 11) {
  const letters = [...word];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : word;
}

function drawRow(scene, one, chosen) {
  const { heads, sequences } = sizesOf(one);
  return el(
    "div",
    { class: "layer", role: "group", "aria-label": `Layer ${one.layer + 1}` },
    el("span", { class: "quiet" }, `layer ${one.layer + 1}`),
    ...Array.from({ length: heads }, (_, head) => {
      const read = readHead(scene, one, head, Math.min(chosen.sequence, sequences - 1));
      const here = one === chosen.site && head === chosen.head;
      const entropy = entropyOf(read).toFixed(2);
      return el(
        "button",
        {
          type: "button",
          class: "multiple",
          "aria-pressed": `${here}`,
          "aria-label": `Layer ${one.layer + 1}, head ${head + 1}, entropy ${entropy} bits`,
          "data-head": head,
          onclick: () => move(follow({ layer: one.layer, head })),
        },
        makeThumb({ rows: read.rows, columns: read.columns, paint: paint(read) }),
        el("span", {}, entropy),
      );
    }),
  );
}

/** The mean entropy of the rows whose word is no padding, in bits. */
function entropyOf(read) {
  const rows = Array.from({ length: read.rows }, (_, row) => row);
  const real = rows.filter((row) => read.queries[row] !== PADDING);
  const used = real.length ? real : rows;
  const total = used.reduce((sum, row) => sum + rowEntropy(read, row), 0);
  return total / Math.max(1, used.length);
}

function rowEntropy(read, row) {
  let sum = 0;
  for (let column = 0; column < read.columns; column += 1) {
    const weight = read.weight(row, column);
    if (weight > 0) sum -= weight * Math.log2(weight);
  }
  return sum;
}
