// Elements and figures. Names and reasons are other people's texts: they only ever become text nodes.

/** Makes an element; attributes with a function value are listeners, children are elements or texts. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Sets a text only where it differs: selections and screen readers are left in peace. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const KNOWN = (value) => value !== null && value !== undefined;

/** A number of at most five characters or so. */
export function short(value) {
  if (!KNOWN(value)) return "–";
  const size = Math.abs(value);
  for (const [scale, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= scale) return `${trimmed(value / (unit === "k" ? 1e3 : scale))}${unit}`;
  }
  return trimmed(value);
}

function trimmed(value) {
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(size < 1 ? 2 : 3)));
}

export const seconds = (value) => (KNOWN(value) ? `${short(value)} s` : "–");
export const percent = (value) => (KNOWN(value) ? `${Number((100 * value).toPrecision(3))} %` : "–");

/** A time of day, with its date where it is not today. */
export function clock(time) {
  if (!KNOWN(time)) return "–";
  const moment = new Date(time * 1000);
  const day = moment.toDateString() === new Date().toDateString() ? "" : `${moment.toLocaleDateString()} `;
  return day + moment.toLocaleTimeString([], { hour12: false });
}

/** How long something has lasted. */
export function lasting(span) {
  if (!KNOWN(span)) return "–";
  const s = Math.max(0, Math.round(span));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} days`;
}

/** A state as a colour, a shape and a word. */
export function statePill(state) {
  return h("span", { class: "state", "data-state": state }, state);
}

const SVG = "http://www.w3.org/2000/svg";

/** A small curve with its goal as a broken line. */
export class Sparkline {
  constructor(width = 110, height = 26) {
    this.width = width;
    this.height = height;
    this.element = document.createElementNS(SVG, "svg");
    for (const [name, value] of Object.entries({ class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" })) {
      this.element.setAttribute(name, value);
    }
    this.line = document.createElementNS(SVG, "line");
    this.path = document.createElementNS(SVG, "path");
    this.element.append(this.line, this.path);
  }

  draw(values, goal) {
    const top = Math.max(...values, KNOWN(goal) ? goal * 1.1 : 0, 1e-9);
    const y = (value) => (this.height - 2 - (this.height - 4) * (value / top)).toFixed(1);
    const step = values.length > 1 ? this.width / (values.length - 1) : 0;
    this.path.setAttribute("d", values.map((value, place) => `${place ? "L" : "M"}${(place * step).toFixed(1)} ${y(value)}`).join(""));
    const shown = KNOWN(goal) && values.length > 0;
    for (const [name, value] of Object.entries({ x1: 0, x2: shown ? this.width : 0, y1: shown ? y(goal) : 0, y2: shown ? y(goal) : 0 })) {
      this.line.setAttribute(name, value);
    }
  }
}

/** Says what came of something, for a few seconds. */
export function toast(text, kind = "") {
  const element = document.getElementById("toast");
  element.textContent = text;
  element.dataset.kind = kind;
  element.hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => { element.hidden = true; }, kind === "bad" ? 9000 : 4000);
}
