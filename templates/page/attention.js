/** The attention explorer: every layer and head of the three kinds, with words on both axes. */

import { chooser, el, sequenceChooser } from "./dom.js";
import { facts, passesOf, sayMissing, sayNumber, sceneAt, wordsOf } from "./facts.js";
import { makeGrid, makeThumb } from "./grid.js";
import { move, place } from "./place.js";

const KINDS = {
  encoder: { title: "encoder", path: /^encoder\.layers\.(\d+)\.self_attention\.softmax$/, queries: "src", keys: "src" },
  decoder: {
    title: "decoder",
    path: /^decoder\.layers\.(\d+)\.self_attention\.softmax$/,
    queries: "decoder_input",
    keys: "decoder_input",
  },
  cross: {
    title: "cross",
    path: /^decoder\.layers\.(\d+)\.cross_attention\.softmax$/,
    queries: "decoder_input",
    keys: "src",
  },
};
const PADDING = "<pad>";

/** The layers of one kind of attention, with the weights that were kept. */
function listLayers(scene, kind) {
  return passesOf(scene).flatMap((pass) =>
    pass.steps
      .filter((step) => kind.path.test(step.path) && step.outputs[0]?.block?.shape.length === 4)
      .map((step) => ({ step, layer: Number(step.path.match(kind.path)[1]), block: step.outputs[0].block })),
  );
}

/** The view of attention: one head large, all heads small beside each other. */
export function drawAttention() {
  const scene = sceneAt(place);
  const kind = KINDS[place.attention] ?? KINDS.encoder;
  const layers = listLayers(scene, kind);
  const head = [el("h2", {}, "Attention"), drawKinds()];
  if (!layers.length) {
    return [...head, el("p", { class: "missing" }, sayMissing())];
  }
  const shown = layers.find((one) => one.layer === place.layer) ?? layers[0];
  const [sequences, heads] = shown.block.shape;
  const chosen = { head: Math.min(place.head, heads - 1), sequence: Math.min(place.sequence, sequences - 1) };
  return [
    ...head,
    el(
      "div",
      { class: "row" },
      chooser(
        "layer",
        layers.map((one) => [one.layer, `${one.layer + 1} of ${layers.length}`]),
        shown.layer,
        (layer) => move({ layer: Number(layer) }),
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
          (at) => wordsOf(scene, kind.queries, at),
          chosen.sequence,
          (sequence) => move({ sequence }),
        ),
    ),
    drawLarge(scene, kind, shown, chosen),
    el("h3", {}, "All layers and heads"),
    el(
      "p",
      { class: "quiet" },
      "Entropy in bits: 0 looks at one word only, ",
      el("span", {}, entropyMost(shown)),
      " looks at all alike.",
    ),
    el("div", { class: "multiples" }, ...layers.map((one) => drawRow(scene, kind, one, chosen))),
  ];
}

function drawKinds() {
  return el(
    "div",
    { class: "switch", role: "group", "aria-label": "Which attention" },
    ...Object.entries(KINDS).map(([name, kind]) =>
      el(
        "button",
        {
          type: "button",
          "aria-pressed": `${place.attention === name}`,
          "data-kind": name,
          onclick: () => move({ attention: name }),
        },
        kind.title,
      ),
    ),
  );
}

/** One head's weights as a function of row and column, with its words. */
function readHead(scene, kind, { block, step }, { head, sequence }) {
  const [, heads, rows, columns] = block.shape;
  const begin = (sequence * heads + head) * rows * columns;
  const queries = wordsOf(scene, kind.queries, sequence).slice(-rows);
  const keys = wordsOf(scene, kind.keys, sequence);
  const cells = cellsOf(step, sequence);
  const isHidden = (row, column) => {
    const line = cells && (cells.length > row ? cells[row] : cells[0]);
    return Boolean(line) && line[column] !== ".";
  };
  return {
    rows,
    columns,
    queries,
    keys,
    isHidden,
    weight: (row, column) => block.values[begin + row * columns + column],
  };
}

function cellsOf(step, sequence) {
  const reader = step.pass.byId.get(step.id.replace(".softmax#", ".mask#"));
  const record = reader?.inputs.find((one) => one.mask !== undefined);
  const cells = record && facts.masks[record.mask].cells;
  return cells ? cells[sequence % cells.length] : null;
}

function paint(read) {
  return (row, column) => {
    const value = read.weight(row, column);
    if (read.isHidden(row, column)) return { kind: "hidden" };
    return { kind: "weight", share: typeof value === "number" ? Math.max(0, Math.min(1, value)) ** 0.6 : 0 };
  };
}

function drawLarge(scene, kind, shown, chosen) {
  const read = readHead(scene, kind, shown, chosen);
  return el(
    "div",
    { class: "large", "data-layer": shown.layer, "data-head": chosen.head },
    makeGrid({
      name: `${kind.title} attention, layer ${shown.layer + 1}, head ${chosen.head + 1}, before dropout`,
      rows: read.rows,
      columns: read.columns,
      rowWords: read.queries,
      columnWords: read.keys,
      cell: 40,
      paint: paint(read),
      tell: (row, column) => tellWeight(read, row, column),
    }),
    el(
      "p",
      { class: "quiet" },
      `Rows are queries, columns keys; softmax weights before dropout, each row sums to 1. Entropy of this head ${entropyOf(read).toFixed(2)} bits.`,
    ),
  );
}

function tellWeight(read, row, column) {
  const query = read.queries[row] ?? `query ${row + 1}`;
  const key = read.keys[column] ?? `key ${column + 1}`;
  const hidden = read.isHidden(row, column) ? " (hidden by the mask)" : "";
  return `“${query}” looks at “${key}”: ${sayNumber(read.weight(row, column))}${hidden}`;
}

function drawRow(scene, kind, one, chosen) {
  const heads = one.block.shape[1];
  return el(
    "div",
    { class: "layer", role: "group", "aria-label": `Layer ${one.layer + 1}` },
    el("span", { class: "quiet" }, `layer ${one.layer + 1}`),
    ...Array.from({ length: heads }, (_, head) => {
      const read = readHead(scene, kind, one, { head, sequence: Math.min(chosen.sequence, one.block.shape[0] - 1) });
      const here = one.layer === place.layer && head === chosen.head;
      return el(
        "button",
        {
          type: "button",
          class: "multiple",
          "aria-pressed": `${here}`,
          "aria-label": `Layer ${one.layer + 1}, head ${head + 1}, entropy ${entropyOf(read).toFixed(2)} bits`,
          "data-head": head,
          onclick: () => move({ layer: one.layer, head }),
        },
        makeThumb({ rows: read.rows, columns: read.columns, paint: paint(read) }),
        el("span", {}, `${entropyOf(read).toFixed(2)}`),
      );
    }),
  );
}

function entropyMost({ block }) {
  return Math.log2(Math.max(1, block.shape[3])).toFixed(2);
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
