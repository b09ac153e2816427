/** Two recordings in words and in numbers: the verdict, what each said, what each computed, pass by pass. */

import { el } from "./dom.js";
import { facts, passesOf, sayBytes, sayNumber, sayPercent, sceneAt } from "./facts.js";
import { move, place } from "./place.js";

/** What a pass is called. */
export function sayPass({ kind, number }) {
  if (kind === "decode") return `turn ${number}`;
  if (kind === "encode") return "the question read";
  if (kind === "training") return "training step";
  const at = facts.passes.findIndex((one) => one.kind === kind && one.number === number);
  return facts.passes.length > 1 || at < 0 ? `pass ${at < 0 ? number + 1 : at + 1}` : "this pass";
}

/** What matters most, in a few sentences: whether it says the same and how surely, and the work. */
export function sayVerdict(twin) {
  const told = [...sayWords(twin), ...sayLoss(twin), sayWork(twin)];
  const changed = twin.passes.some((pair) => !pair.before || !pair.after || pair.changes.length);
  if (!changed) told.push("No step and no shape differs.");
  return told.join(" ");
}

function sayWords(twin) {
  const [before, after] = ["before", "after"].map((side) =>
    twin.passes.map((pair) => pair[side]?.word).filter((word) => word !== null && word !== undefined),
  );
  if (!before.length || !after.length) return [];
  if (before.join(" ") !== after.join(" ")) return [`It says “${after.join(" ")}” instead of “${before.join(" ")}”.`];
  const sure = twin.passes.filter(
    (pair) => (pair.before?.chance ?? null) !== null && (pair.after?.chance ?? null) !== null,
  );
  const far = (pair) => Math.abs(pair.before.chance - pair.after.chance);
  const most = sure.reduce((best, pair) => (!best || far(pair) > far(best) ? pair : best), null);
  if (!most || !far(most)) return ["It says the same."];
  const { word, chance } = most.before;
  return [
    `It says the same; the chance of “${word}” goes from ${sayPercent(chance)} to ${sayPercent(most.after.chance)}.`,
  ];
}

function sayLoss(twin) {
  return twin.passes
    .filter(({ before, after }) => before && after && before.loss !== null && before.loss !== after.loss)
    .map(
      (pair) =>
        `The loss of the ${sayPass(pair)} goes from ${sayNumber(pair.before.loss)} to ${sayNumber(pair.after.loss)}.`,
    );
}

/** The multiplications of the answer, or where there is none of all. */
function sayWork(twin) {
  const answer = twin.passes.filter((pair) => pair.kind !== "training");
  const [name, passes] =
    answer.length && answer.length < twin.passes.length ? ["The answer", answer] : ["It", twin.passes];
  const [one, other] = ["before", "after"].map((side) =>
    passes.reduce((sum, pair) => sum + (pair[side]?.products ?? 0), 0),
  );
  if (one === other) return `${name} takes as many multiplications: ${group(one)}.`;
  return `${name} takes ${group(other)} multiplications instead of ${group(one)}, ${sayRatio(one, other)}.`;
}

function sayRatio(one, other) {
  if (!one) return "none before";
  if (other >= 2 * one) return `${(other / one).toFixed(1)} times as many`;
  const share = Math.abs(100 * (1 - other / one));
  return `${share < 10 ? share.toFixed(1) : share.toFixed(0)}\u00a0% ${other < one ? "fewer" : "more"}`;
}

/** Word by word: what each recording chose, and how sure it was. */
export function drawSaid(twin) {
  const rows = twin.passes.map(drawWord).filter(Boolean);
  if (!rows.length) return null;
  return table(["", "as recorded", twin.name], rows, "In words");
}

function drawWord(pair) {
  const { before, after } = pair;
  if ((before?.loss ?? after?.loss ?? null) !== null) {
    const cells = [before, after].map((side) => el("td", {}, side ? `loss ${sayNumber(side.loss)}` : "—"));
    return row(pair, cells, before?.loss !== after?.loss);
  }
  if ((before?.word ?? after?.word ?? null) === null) return null;
  const other = before && after && before.word !== after.word && pair.as_likely !== null;
  return row(
    pair,
    [
      drawChance(before),
      drawChance(after, other && `“${before.word}” has ${sayPercent(pair.as_likely)} after the same words`),
    ],
    !before || !after || before.word !== after.word || before.chance !== after.chance,
  );
}

function drawChance(side, more) {
  if (!side) return el("td", { class: "quiet" }, "not said");
  if (side.chance === null) return el("td", {}, el("b", {}, side.word));
  const bar = el("i", {});
  bar.style.setProperty("--share", `${side.chance * 100}%`);
  return el(
    "td",
    {},
    el("b", {}, side.word),
    el("span", { class: "twin_bar" }, bar),
    el("small", {}, sayPercent(side.chance)),
    more && el("small", { class: "quiet" }, more),
  );
}

/** Pass by pass: how many scores and multiplications, how many bytes made and kept. */
export function drawWork(twin) {
  const sides = twin.passes.flatMap((pair) => [pair.before, pair.after]).filter(Boolean);
  const columns = [
    { name: "rows × keys", read: (side) => side.square?.join("×") ?? null, say: String },
    { name: "multiplications", read: (side) => side.products, say: group, bars: true },
    { name: "new tensors", read: (side) => side.stored, say: sayBytes },
    { name: "kept", read: (side) => side.kept, say: sayBytes },
  ].filter(({ read }) => sides.some((side) => read(side) !== null));
  const rows = twin.passes.map((pair) => {
    const differs = columns.some(({ read }) => readBoth(pair, read)[0] !== readBoth(pair, read)[1]);
    const most = mostOf(twin, pair.kind);
    return row(
      pair,
      columns.map((column) => drawPair(pair, column, most)),
      differs,
    );
  });
  return table(["", ...columns.map(({ name }) => name)], rows, "In work");
}

function readBoth({ before, after }, read) {
  return [before, after].map((side) => (side ? read(side) : null));
}

/** The most multiplications of any pass of a kind. */
function mostOf(twin, kind) {
  const alike = twin.passes.filter((pair) => pair.kind === kind);
  return Math.max(1, ...alike.flatMap((pair) => [pair.before?.products ?? 0, pair.after?.products ?? 0]));
}

function drawPair(pair, { read, say, bars }, most) {
  const [one, other] = readBoth(pair, read);
  const [was, is] = [one, other].map((value) => (value === null ? "—" : say(value)));
  const told = one === other ? [was] : [el("span", {}, was), " ", el("b", {}, `→ ${is === was ? group(other) : is}`)];
  return el("td", {}, ...told, bars && one !== other && drawBars(one, other, most));
}

function drawBars(one, other, most) {
  return el(
    "span",
    { class: "twin_bars", "aria-hidden": "true" },
    ...[one, other].map((value) => {
      const bar = el("i", {});
      bar.style.setProperty("--share", `${(100 * (value ?? 0)) / most}%`);
      return bar;
    }),
  );
}

/** A row of a pass; where the passes are told apart by turns it leads there. */
function row(pair, cells, differs) {
  const scene = facts.scenes.find((one) =>
    passesOf(one).some((pass) => pass.kind === pair.kind && pass.number === pair.number),
  );
  const here = sceneAt(place) === scene;
  const name = scene
    ? el(
        "button",
        {
          type: "button",
          "aria-current": here ? "true" : null,
          onclick: () => move({ phase: scene.phase, turn: scene.turn }),
        },
        sayPass(pair),
      )
    : sayPass(pair);
  return el(
    "tr",
    { class: [differs && "differs", here && "here"].filter(Boolean).join(" ") || null },
    el("th", { scope: "row" }, name),
    ...cells,
  );
}

function table(names, rows, title) {
  return el(
    "div",
    { class: "twin_table", role: "region", "aria-label": title, tabindex: "0" },
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, ...names.map((name) => (name ? el("th", { scope: "col" }, name) : el("td", {}))))),
      el("tbody", {}, ...rows),
    ),
  );
}

/** A count with commas. */
export function group(count) {
  return count.toLocaleString("en");
}
