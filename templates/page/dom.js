/** Making elements: text is always text, never markup. */

const SVG = "http://www.w3.org/2000/svg";

/** The element with an id. */
export function byId(id) {
  return document.getElementById(id);
}

/** An element with attributes, `on…` handlers and children; false and null children are left out. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svgEl(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== false && child !== null && child !== undefined));
  return element;
}

/** A shape with every digit in the hue of its axis. */
export function shapeEl(shape, axes) {
  if (!shape.length) return el("span", { class: "shape" }, "one number");
  const parts = shape.flatMap((size, place) => {
    const axis = axes[place];
    const named = axis && axis !== "1";
    const digit = el(
      "b",
      { class: named ? `digit ${hue(axis)}` : "digit", "data-axis": named ? axis : null },
      `${size}`,
    );
    return place ? [el("i", {}, "×"), digit] : [digit];
  });
  return el("span", { class: "shape" }, ...parts);
}

/** The class that gives an axis word its hue; a compound word takes that of its first part. */
export function hue(axis) {
  return `hue_${axis.split(/[*+-]/)[0]}`;
}

/** A chooser with a label. */
export function chooser(name, options, value, onchange) {
  const select = el(
    "select",
    { "aria-label": name, onchange: (event) => onchange(event.target.value) },
    ...options.map(([key, text]) => el("option", { value: key, selected: `${key}` === `${value}` }, text)),
  );
  return el("label", { class: "chooser" }, el("span", { "aria-hidden": "true" }, name), select);
}

/** A chooser of one sequence of a batch, by its first words. */
export function sequenceChooser(count, words, value, onchange) {
  const options = Array.from({ length: count }, (_, at) => {
    const start = words(at)
      .filter((word) => word !== "<pad>")
      .slice(0, 4)
      .join(" ");
    return [at, start ? `${at + 1}: ${start} …` : `${at + 1} of ${count}`];
  });
  return chooser("sequence", options, value, (at) => onchange(Number(at)));
}

/** Say something to those who listen, and show it to those who look. */
export function say(text) {
  byId("said").textContent = text;
}
