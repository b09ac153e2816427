/** What an attention has to tell: queries, keys and values, scores, what is hidden, shares, what each row takes. */

import { facts, sayNumber, sayPercent } from "./facts.js";
import { hiddenAt, matrixOf, quote, sizesOf, wordsAt } from "./sites.js";

/** One attention at full length. */
export function tellSite(site) {
  const chosen = { sequence: 0, head: strongestHead(site) };
  const read = (part) => part && matrixOf(part.step, part.record, chosen);
  const { heads } = sizesOf(site);
  const names = wordsAt(site);
  const { station } = site.softmax;
  const common = { site, chosen, heads, ...names, station, layer: site.layer };
  const input = site.query.linear && matrixOf(site.query.linear, site.query.linear.inputs[0], chosen);
  const source = site.key.linear && matrixOf(site.key.linear, site.key.linear.inputs[0], chosen);
  const three = ["query", "key", "value"].map(
    (name) => site[name]?.linear && matrixOf(site[name].linear, site[name].linear.outputs[0], chosen),
  );
  const [query, key, value] = ["query", "key", "value"].map((name) => read(site[name]));
  const scores = matrixOf(site.scores, site.scores.outputs[0], chosen);
  const scaled = site.scale && matrixOf(site.scale, site.scale.outputs[0], chosen);
  const weights = matrixOf(site.softmax, site.weights, chosen);
  const masked = site.mask && matrixOf(site.mask, site.mask.outputs[0], chosen);
  const hidden = hiddenBy(site, weights);
  const mixed = site.mixed && matrixOf(site.mixed, site.mixed.outputs[0], chosen);
  const d_k = query?.columns;
  const [asker, asked] = sidesOf(site);
  const told = [];
  if (input && three.every(Boolean)) {
    told.push({
      ...common,
      act: "three",
      sides: [asker, asked],
      input,
      source,
      three,
      step: site.query.linear,
      seconds: 4,
      title: site.crosses ? `The ${asker} asks, the ${asked} replies` : "Three views of each row",
      says: site.crosses
        ? `Queries come from the ${asker}; keys and values from what the encoder made${site.pass.tokens.decoder_input ? " of the question" : ""}.`
        : "Three linear layers make of every row a query (what it looks for), a key (what it offers) and a value (what it passes on).",
    });
    if (heads > 1 && query && three[0].columns === heads * query.columns && three[0].rows === query.rows) {
      told.push({
        ...common,
        act: "cut",
        whole: three[0],
        step: site.query.step,
        seconds: 4,
        title: `A cut into ${heads} heads`,
        says: `${three[0].columns} / ${heads} = ${d_k}: a view and a transpose. No number changes; every head keeps a slice of every row.`,
      });
      told.push({
        ...common,
        act: "wrong",
        whole: three[0],
        step: site.query.step,
        seconds: 4,
        title: "The wrong way: a view without the transpose",
        says: `The shape would be the same, ${heads} × ${three[0].rows} × ${d_k}, and no error would be raised; but a head would get a few whole rows instead of a slice of each.`,
      });
    }
  }
  if (query && key && scores) {
    told.push({
      ...common,
      act: "scores",
      query,
      key: turned(key, query),
      scores,
      step: site.scores,
      seconds: 6,
      title: "Every query meets every key",
      says: `Head ${chosen.head + 1}. A row times a column, number by number, added up: one score.`,
    });
  }
  const before = masked ?? scaled ?? scores;
  if (scaled && scores)
    told.push({
      ...common,
      act: "grid",
      from: scores,
      to: scaled,
      step: site.scale,
      seconds: 2.4,
      title: d_k ? `Divided by √${d_k}` : "Scaled",
      says: sayScale(scores, scaled),
    });
  if (hidden.count)
    told.push({
      ...common,
      act: "mask",
      from: scaled ?? scores ?? weights,
      hidden,
      step: site.mask ?? site.softmax,
      seconds: 3,
      title: "What may not be seen goes dark",
      says: `${hidden.count} of ${weights.rows * weights.columns} scores are hidden: ${hidden.why}.${(scaled ?? scores) ? "" : " The numbers are the shares that come out of the others."}`,
    });
  told.push({
    ...common,
    act: "softmax",
    from: before,
    weights,
    hidden,
    step: site.softmax,
    seconds: 4,
    title: "Shares of one whole",
    says: sayStrongest(weights, names, chosen),
  });
  if (value && mixed) {
    told.push({
      ...common,
      act: "blend",
      weights,
      value,
      mixed,
      step: site.mixed,
      seconds: 4.4,
      title: "Each row takes what it looked at",
      says: `The shares weigh the values: row by row, ${mixed.columns} numbers for each.`,
    });
  }
  return told;
}

/** What looks across, and what it looks at: an answer at a question where words were recorded. */
function sidesOf(site) {
  return site.pass.tokens.decoder_input ? ["answer", "question"] : ["decoder", "encoder"];
}

/** An attention that is not the first: what is new about it, else one picture of who looks at whom. */
export function tellMore(site, told) {
  const whole = tellSite(site);
  const find = (act) => whole.find((moment) => moment.act === act);
  const look = tellLook(site);
  if (site.crosses && find("three") && !told.has("crossing")) {
    told.add("crossing");
    return [find("three"), look];
  }
  const { rows, columns } = look.weights;
  if (look.hidden.count && rows > 2 && find("mask") && !told.has("hiding")) {
    told.add("hiding");
    return [find("mask"), find("softmax"), look].filter(Boolean);
  }
  return rows * columns > 1 ? [look] : [];
}

/** One attention in one picture. */
function tellLook(site) {
  const chosen = { sequence: 0, head: strongestHead(site) };
  const weights = matrixOf(site.softmax, site.weights, chosen);
  const names = wordsAt(site);
  const hidden = hiddenBy(site, weights);
  const title = site.crosses
    ? `The ${sidesOf(site).join(" looks at the ")}`
    : site.pass.kind === "decode"
      ? "The answer looks back at itself"
      : site.title;
  return {
    site,
    chosen,
    ...names,
    act: "look",
    weights,
    hidden,
    station: site.softmax.station,
    layer: site.layer,
    step: site.softmax,
    title,
    seconds: 2.6,
    says: sayStrongest(weights, names, chosen, weights.rows - 1),
  };
}

/** Keys as rows: where the product takes them lying on their side they are set up again. */
function turned(key, query) {
  if (key.columns === query.columns && key.rows !== query.columns) return key;
  return { rows: key.columns, columns: key.rows, record: key.record, at: (row, column) => key.at(column, row) };
}

/** The head that looks at one thing most, and so is the plainest to watch. */
function strongestHead(site) {
  const { heads } = sizesOf(site);
  let best = { head: 0, most: -1 };
  for (let head = 0; head < Math.min(heads, 32); head += 1) {
    const weights = matrixOf(site.softmax, site.weights, { head });
    let sum = 0;
    for (let row = 0; row < weights.rows; row += 1) {
      sum += Math.max(...Array.from({ length: weights.columns }, (_, column) => Number(weights.at(row, column)) || 0));
    }
    if (sum > best.most) best = { head, most: sum };
  }
  return best.head;
}

function hiddenBy(site, weights) {
  const is = hiddenAt(site);
  const record = site.mask?.inputs.find((one) => one.mask !== undefined);
  const cells = record && facts.masks[record.mask].cells?.[0];
  const letters = new Set();
  let count = 0;
  for (let row = 0; row < weights.rows; row += 1) {
    for (let column = 0; column < weights.columns; column += 1) {
      if (!is(row, column)) continue;
      count += 1;
      letters.add(cells?.[Math.min(row, cells.length - 1)]?.[column] ?? (column > row ? "f" : "x"));
    }
  }
  const names = { p: "padding", f: "the future", b: "padding in the future" };
  const why = Object.keys(names).filter((letter) => letters.has(letter));
  return { is, count, why: why.map((letter) => names[letter]).join(" and ") || "the mask says so" };
}

function sayScale(scores, scaled) {
  const [before, after] = [scores.at(0, 0), scaled.at(0, 0)];
  return `So that long rows do not shout: ${sayNumber(before)} becomes ${sayNumber(after)}.`;
}

function sayStrongest(weights, { queries, keys, sorts }, { head }, row = 0) {
  let best = { row, column: 0 };
  for (let at = row; at < weights.rows; at += 1) {
    for (let column = 0; column < weights.columns; column += 1) {
      if (Number(weights.at(at, column)) > Number(weights.at(best.row, best.column))) best = { row: at, column };
    }
  }
  const share = sayPercent(Number(weights.at(best.row, best.column)));
  const [query, key] = [quote(queries[best.row], sorts[0]), quote(keys[best.column], sorts[1])];
  return `Every row adds up to 1. In head ${head + 1}, ${query} gives ${share} of its attention to ${key}.`;
}
