/** The steps as a tree that opens: block by block, down to single operations. */

import { el, shapeEl } from "./dom.js";
import { facts, findStep, sayShape, sceneAt, stepsOf } from "./facts.js";
import { drawMarks } from "./marks.js";
import { collapseAll, expandAll, isOpen, memberOf, openKeys, openTo, toggle } from "./opened.js";
import { amend, move, place } from "./place.js";
import { countOf, isBlock, isList, keyOf, nameOf, partsOf, wholeOf } from "./tree.js";

/** The view with the tree; what is chosen is shown in it. */
export function drawTree() {
  const scene = sceneAt(place);
  const step = place.step && findStep(scene, place.step);
  if (step) amend({ open: openTo(step, wholeOf(scene)) });
  const steps = stepsOf(scene);
  const first = steps[0]?.outputs[0];
  const keys = openKeys();
  const tree = el(
    "ul",
    { class: "tree", role: "tree", "aria-label": "Steps", onclick: onTouch, onkeydown: onKey },
    ...partsOf(wholeOf(scene)).map((part) => drawItem(part, keys, 1)),
  );
  (tree.querySelector(".chosen") ?? tree.querySelector("[role=treeitem]"))?.setAttribute("tabindex", "0");
  return [
    el("h2", {}, facts.stations.length ? "Steps" : facts.title),
    el(
      "p",
      {},
      `${steps.length.toLocaleString("en")} steps were recorded in this pass`,
      first ? `; out of the whole came ${sayShape(first.shape)}.` : ".",
      " Touch a block to open it, here or on the map.",
    ),
    el(
      "div",
      { class: "row" },
      el("button", { type: "button", onclick: () => expandAll(wholeOf(scene)) }, "expand all"),
      el("button", { type: "button", onclick: collapseAll }, "collapse all"),
    ),
    ...drawMarks(),
    tree,
  ];
}

function drawItem(part, keys, level) {
  const block = isBlock(part);
  const member = memberOf(part, keys);
  const open = block && isOpen(part, keys);
  const chosen = part.kind !== "group" && member.id === place.step;
  const item = el(
    "li",
    {
      role: "treeitem",
      "aria-level": level,
      "aria-expanded": block ? `${open}` : null,
      "aria-selected": `${chosen}`,
      class: chosen ? "chosen" : "",
      tabindex: "-1",
      "data-id": isList(part) ? null : member.id,
      "data-key": keyOf(part, member),
    },
    el(
      "span",
      { class: "line", title: isList(part) ? nameOf(part) : member.path },
      el("span", { class: "sign", "aria-hidden": "true" }, block ? (open ? "▾" : "▸") : ""),
      el("span", { class: "name" }, nameOf(part), sayCount(part, member)),
      isList(part) || !member.outputs[0] ? "" : shapeEl(member.outputs[0].shape, member.outputs[0].axes),
    ),
    open && el("ul", { role: "group" }, ...partsOf(part, member).map((one) => drawItem(one, keys, level + 1))),
  );
  item.shows = part;
  return item;
}

function sayCount(part, member) {
  if (part.kind === "group") return el("small", {}, `${part.steps.length} of them`);
  if (part.kind !== "run")
    return member.block ? el("small", {}, `${(countOf(member) - 1).toLocaleString("en")} inside`) : "";
  const number = part.steps.indexOf(member) + 1;
  return el("small", {}, isList(part) ? `× ${part.steps.length}` : `× ${part.steps.length}, number ${number} is shown`);
}

function onTouch(event) {
  const item = event.target.closest("[role=treeitem]");
  if (item) activate(item);
}

/** Open or close a block; choose a step, and where it is a block, its step too. */
function activate(item) {
  const part = item.shows;
  const id = item.dataset.id;
  if (isBlock(part)) toggle(part);
  if (id && id !== place.step) move({ step: id, view: part.step.block ? place.view : "step" });
}

function onKey(event) {
  const item = event.target.closest("[role=treeitem]");
  if (!item || event.ctrlKey || event.altKey || event.metaKey) return;
  const items = [...event.currentTarget.querySelectorAll("[role=treeitem]")];
  const at = items.indexOf(item);
  const expanded = item.getAttribute("aria-expanded");
  if (event.key === "ArrowDown") go(items[at + 1]);
  else if (event.key === "ArrowUp") go(items[at - 1]);
  else if (event.key === "Home") go(items[0]);
  else if (event.key === "End") go(items.at(-1));
  else if (event.key === "ArrowRight" && expanded === "true") go(items[at + 1]);
  else if (event.key === "ArrowRight" && expanded === "false") again(item);
  else if (event.key === "ArrowLeft" && expanded === "true") again(item);
  else if (event.key === "ArrowLeft") go(item.parentElement.closest("[role=treeitem]"));
  else if (event.key === "Enter" || event.key === " ") activate(item);
  else if (!event.key.startsWith("Arrow")) return;
  event.preventDefault();
  event.stopPropagation();
}

/** Open or close by key: the focus stays on the item, which is drawn anew. */
function again(item) {
  const { key } = item.dataset;
  toggle(item.shows);
  go([...document.querySelectorAll(".tree [data-key]")].find((one) => one.dataset.key === key));
}

function go(item) {
  if (!item) return;
  for (const other of item.closest(".tree").querySelectorAll('[tabindex="0"]')) other.setAttribute("tabindex", "-1");
  item.setAttribute("tabindex", "0");
  item.focus();
}
