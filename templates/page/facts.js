/** What the page knows: the packed trace, unpacked once, and the few questions asked of it. */

export const facts = {};
const UNITS = ["bytes", "kB", "MB", "GB", "TB"];

/** Unpack the trace that the page carries. */
export async function loadFacts(packed) {
  const bytes = Uint8Array.from(atob(packed.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  Object.assign(facts, JSON.parse(await new Response(stream).text()));
  for (const pass of facts.passes) {
    pass.byId = new Map(pass.steps.map((step) => [step.id, step]));
    for (const step of pass.steps) step.pass = pass;
  }
}

/** Let every step know its node on a map; on the poster of X-Ray's own model their ids say so. */
export function joinMap(number) {
  const joined = facts.maps[number]?.joined;
  facts.passes.forEach((pass, at) => {
    pass.nodes = joined?.[at].nodes;
    pass.steps.forEach((step, place) => {
      step.node = joined ? (pass.nodes[joined[at].at[place]] ?? null) : undefined;
    });
  });
}

/** The phases that were recorded, in order. */
export function listPhases() {
  return [...new Set(facts.scenes.map((scene) => scene.phase))];
}

/** The scenes of a phase: one for training, one for each turn of inference. */
export function scenesOf(phase) {
  return facts.scenes.filter((scene) => scene.phase === phase);
}

/** The scene of a place, or the nearest there is. */
export function sceneAt(place) {
  const scenes = scenesOf(place.phase);
  return scenes.find((scene) => scene.turn === place.turn) ?? scenes.at(-1) ?? facts.scenes[0];
}

/** The passes that a scene looks at together. */
export function passesOf(scene) {
  return scene.passes.map((number) => facts.passes[number]);
}

/** All steps of a scene, in order. */
export function stepsOf(scene) {
  return passesOf(scene).flatMap((pass) => pass.steps);
}

/** A step of a scene by its id. */
export function findStep(scene, id) {
  for (const pass of passesOf(scene)) {
    const step = pass.byId.get(id);
    if (step) return step;
  }
  return null;
}

/** The chapter of the walk for a place; none for a model that has no stations. */
export function chapterAt(place, scene) {
  const told = facts.chapters.filter((one) => one.station === place.station);
  const exact = told.find((one) => one.phase === scene.phase && one.turn === scene.turn);
  return exact ?? (facts.ours ? undefined : told[0]);
}

/** The record as its maker put it out, with the values if any were kept. */
export function madeRecord(step, record) {
  if (record.block || record.source === null) return record;
  const maker = step.pass.byId.get(record.source) ?? findAnywhere(record.source);
  const made = maker?.outputs.find((one) => same(one.shape, record.shape) && one.source === record.source);
  return made ?? record;
}

function findAnywhere(id) {
  return facts.passes.find((pass) => pass.kind === "encode" && pass.byId.has(id))?.byId.get(id);
}

/** Whether two lists hold the same. */
export function same(one, other) {
  return one.length === other.length && one.every((value, place) => value === other[place]);
}

/** The words of a scene under a name, for one sequence; none where there are none. */
export function wordsOf(scene, name, sequence = 0) {
  for (const pass of passesOf(scene)) {
    const rows = pass.tokens[name];
    if (rows?.length) return rows[Math.min(sequence, rows.length - 1)];
  }
  return [];
}

const WORDS_ALONG = { src_len: "src", tgt_len: "decoder_input", "tgt_len+1": "tgt" };

/** The words along an axis of a tensor; none where it is no axis of words, or of another length. */
export function wordsAlong(scene, axis, size, sequence = 0) {
  const words = WORDS_ALONG[axis] ? wordsOf(scene, WORDS_ALONG[axis], sequence) : [];
  return words.length === size ? words : [];
}

/** A value as it is read: four digits, whole numbers as they are, what is no number by name. */
export function sayNumber(value) {
  if (value === null || value === undefined) return "—";
  if (typeof value === "string") return { nan: "NaN", inf: "∞", "-inf": "−∞" }[value] ?? value;
  if (Number.isInteger(value)) return String(value);
  if (value !== 0 && Math.abs(value) < 1e-4) return value.toExponential(3);
  return String(Number(value.toPrecision(4)));
}

/** A chance in per cent, never rounded down to nothing. */
export function sayPercent(chance) {
  const share = chance * 100;
  if (share <= 0) return "0 %";
  if (share >= 100) return "100 %";
  if (share >= 99.95) return ">99.9 %";
  return share >= 0.1 ? `${share.toFixed(1)} %` : `${Number(share.toPrecision(2))} %`;
}

/** Why there are no values to show. */
export function sayMissing() {
  if (facts.has_values) return `The values of this are not in the file, which carries ${facts.kept}.`;
  const remedy = facts.ours
    ? "A page made with xray page has them."
    : "xray page of a model that can be run keeps them.";
  return `The trace was recorded without values. ${remedy}`;
}

/** A shape as 8×4×10×8. */
export function sayShape(shape) {
  return shape.length ? shape.join("×") : "one number";
}

/** Bytes as people read them: "10.2 kB". */
export function sayBytes(count) {
  let size = count;
  let unit = 0;
  while (size >= 1000 && unit < UNITS.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return unit ? `${Number(size.toPrecision(3))} ${UNITS[unit]}` : `${count} bytes`;
}
