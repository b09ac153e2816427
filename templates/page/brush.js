/** Painting on a canvas in the colours of the page: cells, words, ribbons, and what lies under the pointer. */

import { sayNumber } from "./facts.js";

const TINY = 4; // smaller cells are painted as one picture
const FONT = '"Source Sans Pro", system-ui, sans-serif';

/** A brush for one picture of a given size. */
export function takeBrush(canvas, width, height) {
  const scale = Math.min(2, devicePixelRatio || 1);
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.textBaseline = "middle";
  return { pen, width, height, paint: paints(), hits: [] };
}

let painted = { theme: "", paint: null };

function paints() {
  const { theme } = document.documentElement.dataset;
  if (painted.theme === theme) return painted.paint;
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  const paint = {
    of,
    text: of("page-text"),
    quiet: of("page-quiet"),
    page: of("page-fill"),
    plus: of("line-training"),
    minus: of("accent-decoder"),
    zero: of("card-fill"),
    low: of("cell-weight_low"),
    high: of("cell-weight_high"),
    hidden: of("cell-weight_hidden"),
    encoder: of("accent-encoder") || of("line-encoder"),
    decoder: of("accent-decoder"),
    inference: of("accent-inference"),
    station: of("accent-station"),
    found: of("accent-boundary"),
  };
  painted = { theme, paint };
  return paint;
}

const mixed = new Map();

/** A colour between two, in 32 steps. */
export function mix(from, to, share) {
  const step = Math.round(Math.max(0, Math.min(1, share)) * 32);
  const key = from + to + step;
  if (!mixed.has(key)) {
    const [one, other] = [from, to].map((hex) => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)));
    const between = one.map((part, at) => Math.round(part + ((other[at] - part) * step) / 32));
    mixed.set(key, `#${between.map((part) => part.toString(16).padStart(2, "0")).join("")}`);
  }
  return mixed.get(key);
}

/** From 0 to 1, slow at both ends. */
export function ease(share) {
  const held = Math.max(0, Math.min(1, share));
  return held * held * (3 - 2 * held);
}

/** The share of one among many that begin one after the other. */
export function stagger(share, at, count, overlap = 0.6) {
  const long = 1 / (1 + (count - 1) * (1 - overlap));
  return ease((share - at * long * (1 - overlap)) / long);
}

/** Some words; gives their width. A halo keeps them apart from what lies under them. */
export function write(
  brush,
  text,
  x,
  y,
  { size = 16, ink = brush.paint.text, weight = 400, align = "left", share = 1, halo = "" } = {},
) {
  const { pen } = brush;
  if (share <= 0) return 0;
  pen.globalAlpha = share;
  pen.font = `${weight} ${size}px ${FONT}`;
  pen.fillStyle = ink;
  pen.textAlign = align;
  if (halo) {
    pen.strokeStyle = halo;
    pen.lineWidth = size / 4;
    pen.lineJoin = "round";
    pen.strokeText(text, x, y);
  }
  pen.fillText(text, x, y);
  pen.globalAlpha = 1;
  return pen.measureText(text).width;
}

/** How wide some words are. */
export function widthOf(brush, text, size, weight = 400) {
  brush.pen.font = `${weight} ${size}px ${FONT}`;
  return brush.pen.measureText(text).width;
}

/** A name with its shape, every digit in the hue of its axis. */
export function writeShape(brush, name, shape, axes, x, y, { size = 15, share = 1, align = "left" } = {}) {
  const parts = shape.flatMap((number, at) => [
    ...(at ? [["×", brush.paint.quiet]] : []),
    [`${number}`, brush.paint.of(`axis-${(axes[at] || "").split(/[*+-]/)[0]}`) || brush.paint.text],
  ]);
  const total =
    widthOf(brush, `${name} `, size, 700) + parts.reduce((sum, [text]) => sum + widthOf(brush, text, size, 700), 0);
  let left = align === "center" ? x - total / 2 : x;
  left += write(brush, `${name} `, left, y, { size, weight: 700, share });
  for (const [text, ink] of parts) left += write(brush, text, left, y, { size, weight: 700, ink, share });
}

/** The largest value of a matrix, for its colours. */
export function mostOf(matrix) {
  matrix.most ??= measure(matrix);
  return matrix.most;
}

function measure(matrix) {
  let most = 0;
  for (let row = 0; row < matrix.rows; row += 1) {
    for (let column = 0; column < matrix.columns; column += 1) {
      const value = matrix.at(row, column);
      if (typeof value === "number" && Math.abs(value) < 1e8) most = Math.max(most, Math.abs(value));
    }
  }
  return most || 1;
}

/** The colour of a value, or of a weight between 0 and 1. */
export function inkOf(brush, value, most, kind) {
  const { paint } = brush;
  if (typeof value !== "number" || Math.abs(value) >= 1e8) return paint.hidden;
  if (kind === "weight") return mix(paint.low, paint.high, Math.max(0, value) ** 0.6);
  return mix(
    paint.zero,
    value < 0 ? paint.minus : paint.plus,
    0.06 + 0.94 * Math.min(1, Math.abs(value) / most) ** 0.8,
  );
}

/**
 * A matrix as cells from (x, y). `shown(row, column)` is how far a cell is there, `tell(row, column)` what it says
 * under the pointer, `ink(row, column)` a colour that is not its value's.
 */
export function cells(brush, matrix, { x, y, wide, high, kind = "value", shown, tell, ink, share = 1, most }) {
  const { pen } = brush;
  const full = most ?? mostOf(matrix);
  const tiny = Math.min(wide, high) < TINY && !shown && !ink;
  if (tiny) blit(brush, matrix, { x, y, wide, high, kind, share, full });
  const gap = Math.min(wide, high) > 5 ? 1 : 0;
  for (let row = 0; row < matrix.rows && !tiny; row += 1) {
    for (let column = 0; column < matrix.columns; column += 1) {
      const there = (shown ? shown(row, column) : 1) * share;
      if (there <= 0.01) continue;
      pen.globalAlpha = there;
      pen.fillStyle = ink?.(row, column) || inkOf(brush, matrix.at(row, column), full, kind);
      pen.fillRect(x + column * wide, y + row * high, wide - gap, high - gap);
    }
  }
  pen.globalAlpha = 1;
  if (share < 0.9) return;
  const right = x + matrix.columns * wide;
  const bottom = y + matrix.rows * high;
  brush.hits.push({
    left: x,
    top: y,
    right,
    bottom,
    tell: (across, down) => {
      const row = Math.min(matrix.rows - 1, Math.floor((down - y) / high));
      const column = Math.min(matrix.columns - 1, Math.floor((across - x) / wide));
      return tell ? tell(row, column) : sayNumber(matrix.at(row, column));
    },
  });
}

/** Very small cells as one picture, painted once and kept with the matrix. */
function blit(brush, matrix, { x, y, wide, high, kind, share, full }) {
  const { rows, columns } = matrix;
  const key = [document.documentElement.dataset.theme, kind, full, rows, columns].join();
  if (matrix.picture?.key !== key) {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [columns, rows];
    matrix.picture = { key, canvas };
    cells({ ...brush, hits: [], pen: canvas.getContext("2d") }, matrix, {
      x: 0,
      y: 0,
      wide: 1,
      high: 1,
      kind,
      most: full,
      shown: () => 1,
    });
  }
  const { pen } = brush;
  pen.globalAlpha = share;
  pen.imageSmoothingEnabled = Math.min(wide, high) * devicePixelRatio < 1;
  pen.drawImage(matrix.picture.canvas, x, y, columns * wide, rows * high);
  pen.globalAlpha = 1;
}

/** A ribbon from one height to another, filled from its beginning as far as `share`. */
export function ribbon(brush, from, to, { ink, share = 1, thick = 1, dim = 0.5 }) {
  if (share <= 0) return;
  const { pen } = brush;
  const middle = (from.x + to.x) / 2;
  pen.save();
  pen.beginPath();
  pen.rect(from.x - 1, 0, (to.x - from.x) * ease(share) + 2, brush.height);
  pen.clip();
  pen.globalAlpha = dim;
  pen.fillStyle = ink;
  pen.beginPath();
  pen.moveTo(from.x, from.top);
  pen.bezierCurveTo(middle, from.top, middle, to.top, to.x, to.top);
  pen.lineTo(to.x, to.top + (to.bottom - to.top) * thick);
  pen.bezierCurveTo(
    middle,
    to.top + (to.bottom - to.top) * thick,
    middle,
    from.top + (from.bottom - from.top) * thick,
    from.x,
    from.top + (from.bottom - from.top) * thick,
  );
  pen.closePath();
  pen.fill();
  pen.restore();
}

/** A frame around something that is meant. */
export function frame(brush, x, y, width, height, { ink = brush.paint.found, share = 1, line = 2 } = {}) {
  if (share <= 0) return;
  const { pen } = brush;
  pen.globalAlpha = share;
  pen.strokeStyle = ink;
  pen.lineWidth = line;
  pen.strokeRect(x - 1, y - 1, width + 1, height + 1);
  pen.globalAlpha = 1;
}
