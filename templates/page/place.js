/** Where the reader is: one record, kept in the address so that a link leads back to it. */

export const place = {
  view: "walk",
  phase: "",
  turn: 0,
  station: 1,
  layer: 0,
  head: 0,
  sequence: 0,
  step: "",
  attention: "encoder",
  axis: "",
  map: 0,
  moment: 0,
  word: -1,
  mask: "",
  block: "",
  open: "",
  marks: "",
  twin: 0,
};
const NUMBERS = new Set(["turn", "station", "layer", "head", "sequence", "map", "moment", "word", "twin"]);
const STEPS = new Set(["view", "phase", "station", "step", "map", "attention", "block", "twin"]);
const DEFAULTS = { ...place };
const listeners = [];

/** Call back whenever the reader moves, with the names of what changed. */
export function onMove(listener) {
  listeners.push(listener);
}

/** Move: change some of the place, note it in the address, tell everyone. Back leads to where a large step began. */
export function move(changes, { back = false } = {}) {
  const changed = new Set(Object.keys(changes).filter((name) => place[name] !== changes[name]));
  if (!changed.size) return;
  Object.assign(place, changes);
  try {
    const large = !back && [...changed].some((name) => STEPS.has(name));
    if (!back) history[large ? "pushState" : "replaceState"](null, "", writeHash());
  } catch {
    // a sandbox may forbid it; the page works without
  }
  for (const listener of listeners) listener(changed);
}

/** Change some of the place and note it in the address, without telling anyone: what is drawn next shows it. */
export function amend(changes) {
  Object.assign(place, changes);
  try {
    history.replaceState(null, "", writeHash());
  } catch {
    // a sandbox may forbid it; the page works without
  }
}

/** The place as the end of an address. */
export function writeHash() {
  const parts = Object.entries(place).filter(
    ([name, value]) => name === "view" || (value !== DEFAULTS[name] && value !== ""),
  );
  return `#${parts.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&")}`;
}

/** What an address says of the place, the rest as at first; what it does not know is left out. */
export function readHash(hash) {
  const found = { ...DEFAULTS };
  for (const part of hash.replace(/^#/, "").split("&")) {
    const [name, value] = part.split("=");
    if (!(name in DEFAULTS) || value === undefined) continue;
    try {
      const text = decodeURIComponent(value);
      if (!NUMBERS.has(name)) found[name] = text;
      else if (/^\d{1,6}$/.test(text)) found[name] = Number(text);
    } catch {
      // half an escape: not ours
    }
  }
  return found;
}
