/** A block that is unfolded, drawn: frames, nodes with name and shape, and the ways between them. */

import { svgEl } from "./dom.js";
import { facts } from "./facts.js";
import { HEAD } from "./flow.js";
import { nodeOf } from "./nodes.js";
import { place } from "./place.js";
import { countOf, isBlock, isList, nameOf } from "./tree.js";

const PAD = 14;
const pen = document.createElement("canvas").getContext("2d");

/** A drawn box at its place in the frame around it; `depth` tells frames inside each other apart. */
export function drawBox(box, depth = 0) {
  return box.open ? drawFrame(box, depth) : drawNode(box);
}

function drawFrame(box, depth) {
  const { part, member, width, height } = box;
  const surface = depth % 2 ? "page" : "card";
  return svgEl(
    "g",
    { transform: at(box), class: "frame", "data-depth": depth },
    svgEl("rect", { class: `body on_${surface}`, width, height, rx: 14 }),
    ...box.ways.map(({ long, d }) => svgEl("path", { class: long ? "way long" : "way", d, "marker-end": "url(#tip)" })),
    drawHead(box, depth),
    part.kind === "run" && !isList(part) && drawMembers(part, member, width),
    ...box.boxes.map((one) => drawBox(one, depth + 1)),
  );
}

/** The head of a frame: what it is, and that a touch folds it. */
function drawHead(box, depth) {
  const { part, member, key, width } = box;
  const name = isList(part) ? nameOf(part) : nameOf({ ...part, kind: "step", step: member });
  const room = width - (part.kind === "run" && !isList(part) ? 250 : 70);
  const title = cut(depth ? name : pathOf(part, member), "bold 19px", room);
  const kind = cut(sayKind(part, member), "15px", room - measure(title, "bold 19px") - 12);
  return svgEl(
    "g",
    {
      class: "head",
      role: "button",
      tabindex: 0,
      "data-key": key,
      "data-fold": depth ? "one" : "all",
      "aria-expanded": "true",
      "aria-description": `fold ${pathOf(part, member)}`,
    },
    svgEl("rect", { class: "touch", x: 4, y: 4, width: width - 8, height: HEAD - 10, rx: 10 }),
    svgEl("text", { class: "sign", x: 24, y: 31, "text-anchor": "middle" }, "−"),
    svgEl("text", { class: "name", x: 44, y: 30 }, title),
    svgEl("text", { class: "quiet", x: 56 + measure(title, "bold 19px"), y: 30 }, kind),
  );
}

/** Which of those that are alike is shown, and ways to the one before and the next. */
function drawMembers(part, member, width) {
  const number = part.steps.indexOf(member);
  const go = (by, sign, x, label) =>
    svgEl(
      "g",
      { class: "member", role: "button", tabindex: 0, "data-by": by, "data-member": number, "aria-label": label },
      svgEl("rect", { class: "touch", x: x - 20, y: 6, width: 40, height: HEAD - 14, rx: 10 }),
      svgEl("text", { class: "sign", x, y: 31, "text-anchor": "middle" }, sign),
    );
  return svgEl(
    "g",
    {},
    number > 0 && go(-1, "‹", width - 178, "The one before"),
    svgEl(
      "text",
      { class: "number", x: width - 100, y: 30, "text-anchor": "middle" },
      `${number + 1} of ${part.steps.length} alike`,
    ),
    number < part.steps.length - 1 && go(1, "›", width - 26, "The next one"),
  );
}

/** A part that is not open: a step, or a block that a touch unfolds. */
function drawNode(box) {
  const { part, member, key, width, height } = box;
  const block = isBlock(part);
  const step = member;
  const surface = surfaceOf(part);
  const name = cut(nameOf(part), "bold 17px", width - 2 * PAD - (block ? 26 : 0));
  const kind = cut(
    part.kind === "run" ? `× ${part.steps.length}` : sayOp(step),
    "14px",
    width - 2 * PAD - 34 - measure(name, "bold 17px"),
  );
  const group = svgEl("g", {
    transform: at(box),
    class: `part${block ? " block" : ""}${isChosen(part) ? " chosen" : ""}`,
    role: "button",
    tabindex: 0,
    "data-key": key,
    "aria-expanded": block ? "false" : null,
    "aria-description": sayPart(part, step),
  });
  group.style.cssText = ["fill", "line", "text", "quiet"]
    .map((role) => `--${role}:var(--${surface}-${role},var(--card-${role}))`)
    .join(";");
  group.append(
    ...(part.kind === "step" ? [] : [svgEl("rect", { class: "behind", x: 6, y: -6, width: width - 6, height, rx: 9 })]),
    svgEl("rect", { class: "body", width, height, rx: 9 }),
    svgEl("text", { class: "name", x: PAD, y: 24 }, name),
    svgEl("text", { class: "quiet", x: PAD + measure(name, "bold 17px") + 8, y: 24 }, kind),
    part.kind === "group"
      ? svgEl("text", { class: "shape_line", x: PAD, y: 47 }, `${count(part).toLocaleString("en")} steps`)
      : drawShape(step, surface, width),
    svgEl("text", { class: "does", x: PAD, y: 67 }, cut(sayMore(part, step, block), "14px", width - 2 * PAD)),
  );
  if (block) group.append(svgEl("text", { class: "sign", x: width - 20, y: 26, "text-anchor": "middle" }, "+"));
  return group;
}

/** What comes out of a step, in the hues of its axes. */
function drawShape(step, surface, width) {
  const record = step.outputs[0];
  if (!record) return svgEl("text", { class: "shape_line", x: PAD, y: 47 }, "—");
  const text = svgEl("text", { class: "shape_line", x: PAD, y: 47 });
  if (!record.shape.length) text.append("one number");
  record.shape.forEach((size, place_) => {
    const axis = record.axes[place_] ?? "";
    const first = axis.split(/[*+-]/)[0];
    if (place_) text.append(svgEl("tspan", { class: "times" }, "×"));
    const digit = svgEl("tspan", { "data-axis": axis && axis !== "1" ? axis : null }, `${size}`);
    if (axis && axis !== "1") digit.style.fill = `var(--digit-${surface}-${first},var(--text))`;
    text.append(digit);
  });
  const used = measure(record.shape.join("×") || "one number", "bold 18px");
  const axes = record.axes.map((axis) => axis || "·").join("×");
  if (record.axes.some(Boolean))
    text.append(svgEl("tspan", { class: "axes_line", dx: 8 }, cut(axes, "13px", width - 2 * PAD - used - 8)));
  return text;
}

/** The surface that a part is drawn on: that of its node on a poster, elsewhere that of its kind. */
function surfaceOf(part) {
  if (part.kind === "group") return "op_block";
  const node = nodeOf(part.step);
  const own = node
    ?.querySelector("[fill^='var(--']")
    ?.getAttribute("fill")
    .match(/--([\w]+)-fill/)?.[1];
  if (own && !own.startsWith("op_") && !["card", "page", "note"].includes(own)) return own;
  return part.step.block ? "op_block" : `op_${part.step.sort ?? "other"}`;
}

function isChosen(part) {
  return place.step !== "" && part.steps.some((step) => step.id === place.step && part.kind !== "group");
}

function pathOf(part, member) {
  if (part.kind === "whole") return facts.title;
  return isList(part) ? nameOf(part) : `${member.path}${member.call ? ` (call ${member.call + 1})` : ""}`;
}

function sayKind(part, member) {
  const steps = count(part.kind === "run" ? { steps: [member] } : part);
  return [isList(part) ? "" : (member.module ?? ""), `${steps.toLocaleString("en")} steps`].filter(Boolean).join(" · ");
}

function sayOp(step) {
  return step.module || step.op;
}

function sayMore(part, step, block) {
  if (part.kind === "group") return "gathered to fit; touch to open";
  const params = step.params ? `${step.params.toLocaleString("en")} parameters` : "";
  if (block) return [`${count(part).toLocaleString("en")} steps`, params].filter(Boolean).join(" · ");
  if (handsOn(step)) return "hands on the same tensor";
  return step.does ?? (params || (step.module ? step.op : ""));
}

/** Whether what comes out is the very tensor that another step made, as from a dropout that is off. */
function handsOn(step) {
  return step.outputs.length > 0 && step.outputs.every((one) => one.source && one.source !== step.id);
}

function sayPart(part, step) {
  const shape = step.outputs[0]?.shape.join(" by ") ?? "nothing";
  const path = part.kind === "step" ? step.path : nameOf(part);
  return isBlock(part) ? `open ${path}, ${count(part)} steps` : `${path}, ${step.op}, ${shape}`;
}

function count(part) {
  return part.steps.reduce((sum, step) => sum + countOf(step), 0);
}

function at({ x, y }) {
  return `translate(${x} ${y})`;
}

const widths = new Map();

function measure(text, font) {
  const key = font + text;
  if (!widths.has(key)) {
    pen.font = `${font} "Source Sans Pro", system-ui, sans-serif`;
    widths.set(key, pen.measureText(text).width);
  }
  return widths.get(key);
}

/** A text as far as there is room for it. */
function cut(text, font, room) {
  if (!text || measure(text, font) <= room) return text ?? "";
  let end = text.length;
  while (end > 0 && measure(`${text.slice(0, end)}…`, font) > room) end -= 1;
  return end ? `${text.slice(0, end)}…` : "";
}
