/** Where the parts of a block stand: in rows from the bottom up as data flows, long ways in lanes beside them. */

import { findStep, sceneAt } from "./facts.js";
import { isOpen, memberOf } from "./opened.js";
import { place } from "./place.js";
import { isBlock, isList, keyOf, needsOf, parentOf, partsOf } from "./tree.js";

export const NODE = { width: 250, height: 78 };
export const HEAD = 46;
const EDGE = 22; // between a frame and what it holds
const ROW = 40;
const BESIDE = 26;
const LANE = 13;
const WIDEST = 3; // more in a row than this stand in several rows
const MOST_LANES = 16;
const ENTRY = -1; // what comes from outside

/** A part with its size; where it is open, with what is inside and where that stands. Measures are the drawing's units. */
export function layOut(part, keys, always = false) {
  const member = memberOf(part, keys);
  const box = { part, member, key: keyOf(part, member), x: 0, y: 0, ...NODE, open: false, boxes: [], ways: [] };
  if (!isBlock(part) || !(always || isOpen(part, keys))) return box;
  const boxes = partsOf(part, member).map((one) => layOut(one, keys));
  const links = linksBetween(part, member, boxes);
  const rows = inRows(boxes, links);
  const lanes = lanesOf(boxes, links, rows);
  return { ...box, open: true, ...stand(boxes, rows, lanes, part.kind === "run" ? 400 : 300), boxes };
}

/** From which part data goes to which, ENTRY where it comes from outside of all. */
function linksBetween(part, member, boxes) {
  const holder = isList(part) ? parentOf(part.step) : member;
  const of = new Map();
  boxes.forEach((box, at) => {
    for (const step of box.part.steps) of.set(step, at);
  });
  const scene = sceneAt(place);
  const found = new Map();
  const whereIs = (id, pass) => {
    if (!found.has(id)) {
      let step = pass.byId.get(id) ?? findStep(scene, id);
      const known = Boolean(step);
      while (step && !of.has(step) && step !== holder) step = parentOf(step);
      found.set(id, step && of.has(step) ? of.get(step) : known ? ENTRY : null);
    }
    return found.get(id);
  };
  const links = new Map();
  boxes.forEach((box, to) => {
    for (const step of box.part.steps) {
      for (const id of needsOf(step)) {
        const from = whereIs(id, step.pass);
        if (from !== null && from < to) links.set(`${from} ${to}`, { from, to });
      }
    }
  });
  if (part.kind === "whole" || part.kind === "group") {
    for (const [key, link] of links) if (link.from === ENTRY) links.delete(key);
  }
  return [...links.values()];
}

/** The row of each part: above all that it needs; what needs nothing just below those that need it. */
function inRows(boxes, links) {
  const level = boxes.map(() => 0);
  boxes.forEach((_, at) => {
    for (const { from, to } of links) if (to === at && from !== ENTRY) level[at] = Math.max(level[at], level[from] + 1);
  });
  for (let at = boxes.length - 1; at >= 0; at -= 1) {
    if (links.some((link) => link.to === at)) continue;
    const after = links.filter((link) => link.from === at).map((link) => level[link.to]);
    if (after.length) level[at] = Math.max(0, Math.min(...after) - 1);
  }
  const rows = [];
  for (let at = 0; at <= Math.max(...level); at += 1) {
    const here = boxes.map((_, number) => number).filter((number) => level[number] === at);
    const wide = here.some((number) => boxes[number].open) ? 2 : WIDEST;
    for (let from = 0; from < here.length; from += wide) rows.push(here.slice(from, from + wide));
  }
  rows.forEach((row, at) => {
    for (const number of row) boxes[number].row = at;
  });
  return rows;
}

/** The ways that do not lead to the next row: one lane for all that come from one part. */
function lanesOf(boxes, links, rows) {
  const long = new Map();
  const short = [];
  for (const link of links) {
    const from = link.from === ENTRY ? -1 : boxes[link.from].row;
    const to = boxes[link.to].row;
    if (to === from + 1) short.push(link);
    else if (to > from) {
      if (!long.has(link.from)) long.set(link.from, { from: link.from, to: [], low: from, high: to });
      const way = long.get(link.from);
      way.to.push(link.to);
      way.high = Math.max(way.high, to);
    }
  }
  const lanes = [];
  const ways = [...long.values()].sort((one, other) => one.high - one.low - (other.high - other.low));
  for (const way of ways) {
    const free = lanes.findIndex((held) => held.every((other) => way.high <= other.low || way.low >= other.high));
    way.lane = free >= 0 ? free : lanes.length;
    if (free < 0) lanes.push([]);
    lanes[way.lane].push(way);
  }
  return { short, long: ways.filter((way) => way.lane < MOST_LANES), count: Math.min(lanes.length, MOST_LANES), rows };
}

/** Put parts and ways where they stand, from the upper left of the frame. */
function stand(boxes, rows, { short, long, count }, least) {
  const wideOf = (row) => row.reduce((sum, number) => sum + boxes[number].width, (row.length - 1) * BESIDE);
  const inner = Math.max(least, ...rows.map(wideOf));
  const left = EDGE + count * LANE + (count ? 8 : 0);
  const width = left + inner + EDGE;
  const heights = rows.map((row) => Math.max(...row.map((number) => boxes[number].height)));
  const height = HEAD + heights.reduce((sum, one) => sum + one, 0) + rows.length * ROW + EDGE;
  let floor = height - EDGE - ROW / 2;
  const floors = [];
  rows.forEach((row, at) => {
    let x = left + (inner - wideOf(row)) / 2;
    for (const number of row) {
      boxes[number].x = x;
      boxes[number].y = floor - heights[at] + (heights[at] - boxes[number].height);
      x += boxes[number].width + BESIDE;
    }
    floors.push(floor);
    floor -= heights[at] + ROW;
  });
  const entry = { x: left + inner / 2, y: height };
  const top = (number) => (number === ENTRY ? entry : { x: middle(boxes[number]), y: boxes[number].y });
  const foot = (number) => ({ x: middle(boxes[number]), y: boxes[number].y + boxes[number].height });
  const ways = short.map(({ from, to }) => {
    const [a, b] = [top(from), foot(to)];
    const bend = Math.min(ROW, Math.abs(a.y - b.y)) * 0.5;
    return { long: false, d: `M${a.x},${a.y}C${a.x},${a.y - bend} ${b.x},${b.y + bend + 4} ${b.x},${b.y + 4}` };
  });
  for (const way of long) ways.push(...trace(way, { boxes, floors, rows, left, top, foot }));
  return { width, height, ways };
}

/** A long way: out of its part, along its lane, and into each part that it leads to, always between rows. */
function trace({ from, to, lane }, { boxes, floors, left, top, foot }) {
  const x = left - 8 - (lane + 1) * LANE + LANE / 2;
  const aside = (lane % 3) * 5 - 5;
  const begin = top(from);
  const out = from === ENTRY ? begin.y - 10 + aside / 2 : floors[boxes[from].row + 1] + ROW / 2 + aside;
  return to.map((number) => {
    const end = foot(number);
    const turn = floors[boxes[number].row] + ROW / 2 + aside + 2;
    const shift = end.x - 26;
    return { long: true, d: `M${begin.x - 26},${begin.y}V${out}H${x}V${turn}H${shift}V${end.y + 4}` };
  });
}

function middle(box) {
  return box.x + box.width / 2;
}

/** The box of a part in a drawn block, with where it stands in the whole; null where it is not shown. */
export function findBox(box, wanted, x = 0, y = 0) {
  for (const one of box.boxes) {
    if (wanted(one)) return { box: one, x: x + one.x, y: y + one.y };
    const found = one.open ? findBox(one, wanted, x + one.x, y + one.y) : null;
    if (found) return found;
  }
  return null;
}
