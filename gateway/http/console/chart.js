// Lines over time as one small drawing. Its words say the same to users who do not see it.

import { h, s, say } from "./dom.js";

const HEIGHT = 132;
const BOX = { top: 10, bottom: 20, left: 4, right: 4 };
const LEAST_WIDTH = 220;
const MINUTE_MS = 60_000;
const STEPS = [1, 2, 5];

// The next of 1, 2, 5, 10, 20 ... that is not less.
function roundUp(number) {
  const power = 10 ** Math.floor(Math.log10(Math.max(number, 1)));
  return [...STEPS, 10].map((step) => step * power).find((one) => one >= number) ?? number;
}

// series: [[label, value(point)]]; `text` writes a value. A value of null breaks its line.
export class Chart {
  constructor({ title, series, text }) {
    this.title = title;
    this.series = series;
    this.text = text;
    this.svg = s("svg", { role: "img", height: HEIGHT });
    this.now = series.map(() => h("span", { class: "now" }));
    const legend = h("ul", { class: "legend" }, series.map(([label], at) => h("li", {},
      s("svg", { width: 22, height: 8, "aria-hidden": "true", class: `line line-${at}` }, s("path", { d: "M1 4H21" })),
      ` ${label} `, this.now[at])));
    this.node = h("section", { class: "chart" }, h("h2", {}, title), this.svg, legend);
  }

  show(points) {
    const width = Math.max(LEAST_WIDTH, Math.floor(this.svg.parentNode?.clientWidth ?? 0) - 34);
    const end = points.at(-1)?.at ?? Date.now();
    const lines = this.series.map(([, value]) => points.map((one) => [one.at, value(one)]));
    const known = lines.flat().map(([, value]) => value).filter((value) => value !== null);
    const top = roundUp(Math.max(0, ...known));
    const minutes = Math.max(1, Math.ceil((end - (points[0]?.at ?? end)) / MINUTE_MS - 0.1));
    const x = (at) => BOX.left + (1 - (end - at) / (minutes * MINUTE_MS)) * (width - BOX.left - BOX.right);
    const y = (value) => HEIGHT - BOX.bottom - (value / top) * (HEIGHT - BOX.top - BOX.bottom);
    const paths = lines.map((line, at) => s("path", { class: `line-${at}`, d: pathOf(line, x, y) }));
    const level = (value) => s("path", { class: "level", d: `M${BOX.left} ${y(value)}H${width - BOX.right}` });
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.svg.setAttribute("width", width);
    this.svg.replaceChildren(level(0), level(top / 2), level(top), ...paths,
      s("text", { x: BOX.left, y: y(top) + 13 }, this.text(top)),
      s("text", { x: BOX.left, y: HEIGHT - 5 }, `${minutes} min ago`),
      s("text", { x: width - BOX.right, y: HEIGHT - 5, class: "end" }, "now"));
    const words = this.series.map(([label], at) => {
      const values = lines[at].map(([, value]) => value).filter((value) => value !== null);
      const last = lines[at].at(-1)?.[1] ?? null;
      say(this.now[at], last === null ? "–" : this.text(last));
      return values.length ? `${label} ${this.text(values.at(-1))}, at most ${this.text(Math.max(...values))}` : `${label} not known`;
    });
    this.svg.setAttribute("aria-label", `${this.title} in the last ${minutes === 1 ? "minute" : `${minutes} minutes`}: ${words.join("; ")}.`);
  }
}

function pathOf(line, x, y) {
  let path = "";
  let pen = "M";
  for (const [at, value] of line) {
    if (value === null) pen = "M";
    else {
      path += `${pen}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
    }
  }
  return path;
}
