/** What comes in: words, ids and the rows that they pick, or a picture and its patches. */

import { sayShape } from "./facts.js";
import { idsOf, listSites, makerOf, matrixOf, valued } from "./sites.js";

/** Words, ids and rows: what is looked up, or what an image becomes. */
export function tellEntrance(scene, pass, turn, told) {
  const lookup = pass.steps.find((step) => step.op === "embedding" && !step.block && valued(step) && isMain(step));
  const image = pass.steps.find((step) => step.op.startsWith("conv") && !step.block && isGiven(step));
  const first = lookup ?? (image && listSites(scene).length ? image : null);
  if (!first) return [];
  const words = listWords(pass);
  const rows = matrixOf(first, first.outputs[0]);
  const station = first.station;
  const moments = [];
  if (lookup) {
    const count = rows.rows;
    const known = readIds(lookup);
    const ids = known.length ? known : idsOf(scene, pass, count);
    if (words.length && !told.has("words")) {
      moments.push({
        act: "words",
        words,
        ids,
        station,
        title: "Words",
        says: `${count} words. A network cannot read; it can count.`,
        step: lookup,
      });
    }
    if (ids.length && !told.has("words")) {
      const title = words.length ? "Every word is a number" : "Numbers come in";
      const example = words.length
        ? `“${words[0]}” is number ${ids[0]}.`
        : `${ids.length} ids come in: ${ids.slice(0, 8).join(", ")}${ids.length > 8 ? " …" : ""}.`;
      moments.push({ act: "ids", words, ids, station, title, says: example, step: lookup });
    }
    const table = lookup.inputs.find((one) => one.role === "parameter")?.shape[0] ?? null;
    const from = table ? ` of a table with ${table.toLocaleString("en")} rows` : " of a learnt table";
    moments.push({
      act: "rows",
      words,
      ids,
      matrix: rows,
      station,
      seconds: turn ? 2 : 3.4,
      step: lookup,
      ...sayRows(scene, pass, turn, rows, first, from),
    });
    told.add("words");
    const sum = !told.has("sum") && findSum(pass, lookup);
    if (sum) {
      told.add("sum");
      moments.push({ ...sum, words, station });
    }
  } else {
    const patches = pass.steps.find(
      (step) => step.op === "transpose" && valued(step) && step.inputs.some((one) => goesBack(step, one, first)),
    );
    const given = matrixOf(first, first.inputs[0]);
    if (given)
      moments.push({
        act: "tensor",
        matrices: channels(first, first.inputs[0]),
        title: "A picture",
        says: `What comes in is numbers already: ${sayShape(first.inputs[0].shape)}.`,
        step: first,
      });
    const matrix = matrixOf(patches ?? first, (patches ?? first).outputs[0]);
    if (matrix)
      moments.push({
        act: "rows",
        words: [],
        ids: [],
        matrix,
        station,
        title: "Every patch becomes a row",
        says: `A convolution reads the picture patch by patch: ${matrix.rows} rows of ${matrix.columns} numbers.`,
        step: patches ?? first,
      });
  }
  return moments;
}

function sayRows(scene, pass, turn, rows, first, from) {
  const shape = sayShape(first.outputs[0].shape);
  if (turn) {
    const says = `The answer so far has ${rows.rows} words; each picks its row, ${shape}.`;
    return { title: `Turn ${scene.turn}: read it all again`, says };
  }
  if (pass.kind === "decode") {
    return { title: "The answer begins", says: `With one word that means: start. It picks its row, ${shape}.` };
  }
  const says = `Each id picks one row${from}: ${rows.columns} numbers for each, ${shape}.`;
  return { title: "Every number picks a row", says };
}

/** Whether a lookup is that of words: the first, and no table of places that is read by counting. */
function isMain(step) {
  return (
    step.inputs.some((one) => one.role === "ids") &&
    !step.inputs.some((one) => /arange|position/.test(one.source ?? ""))
  );
}

function isGiven(step) {
  return step.inputs[0]?.source === null && step.inputs[0].shape.length > 2;
}

function goesBack(step, record, target) {
  for (let far = 0; far < 4; far += 1) {
    const maker = makerOf(step, record);
    if (!maker) return false;
    if (maker === target) return true;
    record = maker.inputs.find((one) => one.source);
    if (!record) return false;
  }
  return false;
}

/** The words of what a pass reads, one for each row. */
export function listWords(pass) {
  const rows = pass.tokens.decoder_input ?? pass.tokens.src ?? [];
  return rows[0] ?? [];
}

function readIds(lookup) {
  const record = lookup.inputs.find((one) => one.role === "ids");
  const maker = makerOf(lookup, record);
  const block = record?.block ?? maker?.outputs.find((one) => one.source === record.source)?.block;
  if (!block) return [];
  return block.values.slice(0, block.shape.at(-1));
}

/** Where something is added to the rows that is of their places alone: counted, or the same for every sequence. */
function findSum(pass, lookup) {
  const at = pass.steps.indexOf(lookup);
  for (const step of pass.steps.slice(at, at + 8)) {
    if (step.op !== "add" || step.block) continue;
    const parts = step.inputs.map((record) => matrixOf(step, record));
    const whole = matrixOf(step, step.outputs[0]);
    if (parts.length !== 2 || parts.some((part) => !part || part.rows !== whole?.rows)) continue;
    const { shape } = step.inputs[1];
    const isShared = shape.length < step.outputs[0].shape.length || shape[0] < step.outputs[0].shape[0];
    if (!isShared && makerOf(step, step.inputs[1])?.op !== "positions") continue;
    return {
      act: "sum",
      parts,
      whole,
      step,
      title: "Where each stands",
      seconds: 3.2,
      says: `Rows do not know their order, so a pattern for every place is added: ${sayShape(step.inputs[1].shape)}${isShared ? ", the same for every sequence" : ""}. The shape stays.`,
    };
  }
  return null;
}

/** The first channels of a tensor, each as a matrix. */
export function channels(step, record) {
  const shape = record.block?.shape ?? matrixOf(step, record)?.record.block.shape;
  if (!shape) return [];
  const count = shape.length > 3 ? Math.min(16, shape[1]) : 1;
  return Array.from({ length: count }, (_, head) => ({ ...matrixOf(step, record, { head }) })).filter(
    (one) => one.rows,
  );
}
