/** What follows an attention: wide rows, the other layers, a number for every word, the word that is taken. */

import { facts, sayPercent, sayShape } from "./facts.js";
import { listWords } from "./moments_in.js";
import { makerOf, matrixOf, valued, wordsAt } from "./sites.js";

const BENDS = /^(relu6?|gelu\w*|silu|swish|tanh|sigmoid|mish|elu|leaky_relu|quick_gelu)$/;

/** The rows made wide, thinned out, and made narrow again. */
export function tellWide(site, sites) {
  const { steps } = site.pass;
  const begin = steps.indexOf(site.mixed ?? site.softmax);
  const next = sites.find((one) => steps.indexOf(one.softmax) > begin);
  const part = steps.slice(begin, next ? steps.indexOf(next.softmax) : steps.length).filter((step) => !step.block);
  const width = site.query.linear?.inputs[0]?.shape.at(-1);
  const linears = part.filter((step) => ["linear", "addmm", "conv1d"].includes(step.op) && step.outputs[0]);
  const wide = linears.find(
    (step) => step.outputs[0].shape.at(-1) > width && step.outputs[0].shape.at(-1) !== 3 * width,
  );
  const back = wide && linears.slice(linears.indexOf(wide) + 1).find((step) => step.outputs[0].shape.at(-1) === width);
  if (!wide || !back) return null;
  const bent = makerOf(back, back.inputs[0]) ?? wide;
  const [input, large, thin, result] = [
    [wide, wide.inputs[0]],
    [wide, wide.outputs[0]],
    [bent, bent.outputs[0]],
    [back, back.outputs[0]],
  ].map(([step, record]) => matrixOf(step, record));
  if (!input || !large || !thin || !result) return null;
  let zeros = 0;
  for (let row = 0; row < thin.rows; row += 1)
    for (let column = 0; column < thin.columns; column += 1) zeros += thin.at(row, column) === 0;
  const share = zeros
    ? ` ${((100 * zeros) / (thin.rows * thin.columns)).toFixed(0)} % of the wide numbers are now zero.`
    : "";
  return {
    act: "wide",
    input,
    large,
    thin,
    result,
    ...wordsAt(site),
    station: wide.station,
    step: bent,
    seconds: 4,
    layer: site.layer,
    title: "Each row thinks alone",
    says: `${width} numbers become ${large.columns},${sayBent(bent)} and become ${result.columns} again.${share}`,
  };
}

/** How the wide rows are bent, where their step tells: by a function, or by a gate beside them that is. */
function sayBent(bent) {
  if (BENDS.test(bent.op)) return ` bend (${bent.op}),`;
  const gate = bent.inputs.map((one) => makerOf(bent, one)).find((maker) => maker && BENDS.test(maker.op));
  return bent.op === "mul" && gate ? ` are let through by a gate (${gate.op}),` : "";
}

/** What every layer reads, one after the other. */
export function tellLayers(first, sites) {
  const firsts = sites.filter((site) => site.kind === first.kind);
  const inputs = firsts
    .map((site) => site.query.linear && matrixOf(site.query.linear, site.query.linear.inputs[0]))
    .filter(Boolean);
  if (inputs.length < 2) return null;
  return {
    act: "layers",
    matrices: inputs,
    ...wordsAt(first),
    station: first.softmax.station,
    step: firsts[1].softmax,
    seconds: 3,
    title: `The same again, ${inputs.length} layers in all`,
    says: "Same shapes, other numbers: every layer reads what the one before it wrote.",
  };
}

/** Logits, the likeliest words, and the one that is taken. */
export function tellExit(scene, pass) {
  const words = listWords(pass);
  const told = [];
  const candidates = pass.candidates ?? [];
  const vocab = facts.sizes.tgt_vocab ?? facts.sizes.vocab;
  const head = pass.steps.findLast(
    (step) =>
      !step.block &&
      ["linear", "addmm"].includes(step.op) &&
      valued(step) &&
      (!vocab || step.outputs[0].shape.at(-1) === vocab),
  );
  const logits = head && matrixOf(head, head.outputs[0]);
  const input = head && matrixOf(head, head.inputs[0]);
  const station = head?.station ?? null;
  if (logits && input && pass.kind !== "encode" && logits.columns >= 2) {
    const many = logits.columns.toLocaleString("en");
    told.push({
      act: "logits",
      input,
      logits,
      words,
      station,
      step: head,
      seconds: scene.turn > 1 ? 1.8 : 3.4,
      title: candidates.length ? "One number for every word" : "The result",
      says: candidates.length
        ? `The last row becomes ${many} numbers, one for each word that could come next.`
        : `The last linear layer: ${sayShape(head.outputs[0].shape)}.`,
    });
  }
  const next = pass.tokens.new?.[0] ?? [];
  if (candidates.length) {
    told.push({
      act: "choose",
      candidates,
      words,
      station,
      step: pass.steps.find((step) => /next_word/.test(step.path)) ?? head,
      seconds: scene.turn > 1 ? 2.4 : 3.6,
      title: "The likeliest word is taken",
      says: `“${candidates[0][0]}” has ${sayPercent(candidates[0][1])}, “${candidates[1]?.[0] ?? ""}” ${sayPercent(candidates[1]?.[1] ?? 0)}.`,
    });
  }
  if (next.length) {
    const ends = /eos/.test(next[0]);
    told.push({
      act: "loop",
      words,
      next: next[0],
      station: facts.stations.at(-1)?.number ?? null,
      step: pass.steps.find((step) => /append/.test(step.path)) ?? null,
      seconds: scene.turn > 1 ? 2.2 : 3.4,
      title: ends ? "And that is the end" : "The word goes round",
      says: ends
        ? `${next[0]} says that the answer is whole.`
        : `“${next[0]}” joins the answer, and everything from the decoder's entrance on happens once more.`,
    });
  }
  return told;
}
