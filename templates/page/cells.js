/** What a box of the map shows when it is near: its tensors in cells, with words and numbers as far as there is room. */

import { cells, frame, mostOf, widthOf, write } from "./brush.js";
import { rangesIn, sayPlace } from "./panes.js";
import { place } from "./place.js";
import { darken, nameColumns, nameRows, sideOf } from "./placing.js";
import { hiddenAt } from "./sites.js";

const SMALLEST = 1.25; // no cell is smaller; what there is no room for then is left out
const GAP = 8;
const CAPTION = 15;
const KINDS = { ".": "visible", p: "padding", f: "future", b: "both" };

/** Paint the tensors of a box beside its label; whether there was room for it. */
export function paintBox(brush, { element, tensors, on, isWide }, label) {
  const aside = !isWide && on.width > 3.5 * on.height && on.width - label.width > on.width * 0.4;
  const room = aside
    ? { x: on.x + label.width, y: on.y + 6, width: on.width - label.width - 8, height: on.height - 12 }
    : { x: on.x + 10, y: on.y + label.height + 2, width: on.width - 20, height: on.height - label.height - 10, isWide };
  if (room.width < 60 || room.height < 24) return false;
  const ink = getComputedStyle(element.querySelector(":scope > text")).fill;
  paintPanes(brush, { ...brush, paint: { ...brush.paint, text: ink, found: ink } }, tensors, room);
  return true;
}

/** Paint tensors into a room, as many panes as fit, their words with a brush of its own. */
export function paintPanes(brush, worded, tensors, room) {
  const plan = planNamed(worded, tensors, room) ?? { ...planPanes(tensors, room), side: 0, top: 0 };
  let at = 0;
  for (const tensor of tensors) {
    const from = Math.max(0, Math.min(headOf(tensor), tensor.panes - plan.each));
    for (let pane = from; pane < Math.min(from + plan.each, tensor.panes); pane += 1) {
      const spot = {
        x: plan.x + (at % plan.across) * (plan.width + GAP),
        y: plan.y + Math.floor(at / plan.across) * (plan.height + GAP + plan.caption),
        wide: plan.wide,
        high: plan.high,
      };
      const own = { ...plan, first: at % plan.across === 0, upper: at < plan.across };
      paintPane(brush, worded, tensor, pane, spot, own);
      if (plan.caption) writeCaption(worded, tensors, tensor, pane, pane === from, spot, own);
      at += 1;
    }
  }
}

/** The panes with words beside and above them, where they can be read then; null where they cannot. */
function planNamed(brush, tensors, room) {
  const { rowWords, columnWords, rows, columns } = tensors[0];
  const side = rowWords.length === rows ? Math.min(sideOf(brush, rowWords, 13) + 8, room.width * 0.3) : 0;
  const top = columnWords.length === columns ? Math.min(48, sideOf(brush, columnWords, 12) * 0.8 + 12) : 0;
  for (const [left, above] of [
    [side, top],
    [side, 0],
  ]) {
    if (!left && !above) continue;
    const smaller = {
      ...room,
      x: room.x + left,
      y: room.y + above,
      width: room.width - left,
      height: room.height - above,
    };
    const plan = planPanes(tensors, smaller);
    if (plan.high >= 10 && (!above || plan.wide >= 16)) return { ...plan, side: left, top: above };
  }
  return null;
}

/** How many panes stand how large in how many rows, and where they begin. */
function planPanes(tensors, room) {
  const { rows, columns, panes } = tensors[0];
  let each = panes;
  let best = null;
  for (;;) {
    const caption = room.height > 90 && (panes > 1 || tensors.length > 1) ? CAPTION : 0;
    best = { ...arrange(each * tensors.length, { rows, columns, panes }, room, caption), each, caption };
    if (Math.min(best.wide, best.high) >= SMALLEST || each === 1) break;
    each = Math.max(1, Math.floor(each * 0.75));
  }
  const wide = Math.max(SMALLEST, best.wide);
  const high = Math.max(SMALLEST, best.high);
  const shown = {
    rows: Math.min(rows, Math.max(1, Math.floor(best.highest / high))),
    columns: Math.min(columns, Math.max(1, Math.floor(best.widest / wide))),
  };
  const width = shown.columns * wide;
  const height = shown.rows * high;
  const { across, down, caption } = best;
  return {
    ...{ each, across, caption, wide, high, width, height, shown },
    x: room.x + (room.isWide ? 0 : 1) * Math.max(0, (room.width - across * width - (across - 1) * GAP) / 2),
    y: room.y + caption + Math.max(0, (room.height - down * (height + caption) - (down - 1) * GAP) / 2),
  };
}

/** The number of panes beside each other with which the cells are largest. */
function arrange(count, { rows, columns, panes }, room, caption) {
  const longest = panes > 1 ? 2.2 : 4;
  let best = null;
  for (let across = 1; across <= count; across += 1) {
    const down = Math.ceil(count / across);
    const widest = (room.width - (across - 1) * GAP) / across;
    const highest = (room.height - (down - 1) * GAP) / down - caption;
    const [w, h] = [widest / columns, highest / rows];
    const [wide, high] = [Math.min(w, h * (rows > 1 ? longest : 20), 150), Math.min(h, w * 1.6, 60)];
    if (!best || Math.min(wide, high) > Math.min(best.wide, best.high))
      best = { across, down, wide, high, widest, highest };
  }
  return best;
}

function paintPane(brush, worded, tensor, pane, spot, plan) {
  const whole = tensor.matrix(pane);
  const { rows, columns } = plan.shown;
  const isAll = whole.rows === rows && whole.columns === columns;
  const matrix = isAll ? whole : { ...whole, rows, columns, picture: null };
  paintValues(brush, tensor, matrix, spot);
  const lit = litRow(tensor);
  const size = Math.max(9, Math.min(16, spot.high * 0.62));
  if (plan.side && plan.first)
    nameRows(worded, tensor.rowWords.slice(0, rows), spot.x - 6, { top: spot.y, high: spot.high, size }, { lit });
  if (plan.top && plan.upper)
    nameColumns(worded, tensor.columnWords.slice(0, columns), spot.x, spot.y, spot.wide, { size: 12 });
  const [width, height] = [columns * spot.wide, rows * spot.high];
  if (tensor.panes > 1 && hasHeads(tensor) && pane === headOf(tensor))
    frame(worded, spot.x - 2, spot.y - 2, width + 4, height + 4, { line: 1.5 });
  if (lit >= 0 && lit < rows) frame(brush, spot.x, spot.y + lit * spot.high, width, spot.high);
  brush.hits.push({
    ...{ tensor, left: spot.x, top: spot.y, right: spot.x + width, bottom: spot.y + height },
    tell: (x, y) => ({
      ...{ tensor, pane },
      row: Math.min(rows - 1, Math.floor((y - spot.y) / spot.high)),
      column: Math.min(columns - 1, Math.floor((x - spot.x) / spot.wide)),
    }),
    frame: (marks, mark) => frameRegion(marks, tensor, pane, mark, spot, plan.shown),
  });
}

/** The cells in their colours, what is hidden dark, and the numbers in them where they can be read. */
function paintValues(brush, tensor, matrix, spot) {
  const { kind } = tensor;
  const inks = { mask: (row, column) => inkOfMask(brush, matrix.at(row, column)), id: () => brush.paint.zero };
  cells({ ...brush, hits: [] }, matrix, { ...spot, kind, most: mostOfAll(tensor), ink: inks[kind] });
  const isHidden = hiddenIn(tensor);
  if (isHidden) darken(brush, matrix, { place: spot }, (row, column) => (isHidden(row, column) ? 1 : 0));
  if (kind !== "mask" && spot.high >= 15 && spot.wide >= 15) writeNumbers(brush, tensor, matrix, spot, isHidden);
}

/** The numbers of cells in which they fit: ids, values to two digits, weights in per cent. */
function writeNumbers(brush, tensor, matrix, spot, isHidden) {
  const size = Math.min(14, spot.high * 0.55);
  const most = mostOfAll(tensor);
  const numbers = { id: (value) => `${value}`, weight: sayShare, value: spot.wide < 30 ? () => "" : sayShort };
  for (let row = 0; row < matrix.rows; row += 1) {
    for (let column = 0; column < matrix.columns; column += 1) {
      const value = matrix.at(row, column);
      if (typeof value !== "number" || isHidden?.(row, column) || Math.abs(value) > 1e6) continue;
      const text = numbers[tensor.kind](value);
      if (text === "" || widthOf(brush, text, size, 600) > spot.wide - 4) continue;
      const strong = tensor.kind !== "id" && Math.abs(value) > 0.4 * most;
      write(brush, text, spot.x + (column + 0.5) * spot.wide, spot.y + (row + 0.5) * spot.high, {
        ...{ size, align: "center", weight: 600, ink: strong ? brush.paint.page : brush.paint.text },
      });
    }
  }
}

/** A weight in per cent, never rounded down to nothing or up to all. */
function sayShare(value) {
  const share = Math.round(value * 100);
  if (share === 0 && value > 0) return "";
  return share === 100 && value < 1 ? `${Math.floor(value * 1000) / 10}` : `${share}`;
}

function sayShort(value) {
  return value !== 0 && Math.abs(value) < 1e-3 ? "" : Number(value.toPrecision(2)).toString();
}

/** Which cells go dark: those that the mask hides, behind the mask and among the weights; null elsewhere. */
function hiddenIn({ site, step, lead }) {
  return site && (step === site.mask || step === site.softmax) ? hiddenAt(site, lead[0] ?? 0) : null;
}

function hasHeads(tensor) {
  return tensor.record.axes[tensor.paneAxis] === "heads";
}

function headOf(tensor) {
  return hasHeads(tensor) ? Math.min(place.head, tensor.panes - 1) : 0;
}

/** The row of the chosen word, where the rows of a tensor are the words that ask. */
function litRow({ site, rowWords }) {
  return site && place.word >= 0 && rowWords[place.word] !== undefined ? place.word : -1;
}

/** The largest value in all panes, without what is hidden: it has the strongest colour. */
function mostOfAll(tensor) {
  if (tensor.kind !== "value") return 1;
  if (tensor.most === undefined) {
    const isHidden = hiddenIn(tensor) ?? (() => false);
    const shown = (matrix) => ({ ...matrix, at: (...at) => (isHidden(...at) ? 0 : matrix.at(...at)) });
    tensor.most = Math.max(...Array.from({ length: tensor.panes }, (_, pane) => mostOf(shown(tensor.matrix(pane)))));
  }
  return tensor.most;
}

function inkOfMask(brush, letter) {
  return brush.paint.of(`cell-${KINDS[letter] ?? "weight_hidden"}`);
}

/** Which step and which head a pane shows, where it fits. */
function writeCaption(brush, tensors, tensor, pane, first, spot, plan) {
  const step = tensors.length > 1 ? tensor.step.path.split(".").at(-1) : "";
  const part = tensor.panes > 1 ? sayPlace(tensor, tensor.paneAxis, pane) : "";
  const texts = [[step, part].filter(Boolean).join(", "), part, first ? step : ""];
  const fitting = texts.find((text) => text && widthOf(brush, text, 12, 600) <= plan.width + GAP - 4);
  const text = fitting ?? (first ? step : "");
  if (text) write(brush, text, spot.x, spot.y - 8 - (plan.upper ? plan.top : 0), { size: 12, weight: 600 });
}

/** Frame what of a region of a tensor is in a pane. */
function frameRegion(brush, tensor, pane, { region, kind }, spot, shown) {
  const found = rangesIn(tensor, pane, region);
  if (!found) return;
  const [top, left] = [Math.max(0, found.rows[0]), Math.max(0, found.columns[0])];
  const [rows, columns] = [Math.min(found.rows[1], shown.rows) - top, Math.min(found.columns[1], shown.columns) - left];
  if (rows <= 0 || columns <= 0) return;
  const at = [spot.x + left * spot.wide, spot.y + top * spot.high, columns * spot.wide, rows * spot.high];
  frame(brush, ...at, { ink: brush.paint.page, line: 5 });
  frame(brush, ...at, { ink: kind === "made" ? brush.paint.text : brush.paint.found, line: kind === "own" ? 3.5 : 2 });
}
