// A drawing of boxes and arrows that the keyboard and a screen reader can use.

import { h, newId, s } from "./dom.js";
import { cut, layout } from "./drawing.js";

const SUBTITLE = 14;

export class Graph {
  // `href` gives the address of a box, `sentence` the words of a screen reader for it and its arrows.
  constructor({ label, href, sentence }) {
    this.href = href;
    this.sentence = sentence;
    const hint = newId("hint");
    this.svg = s("svg", { role: "group", "aria-label": label, "aria-describedby": hint });
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.canvas = h("div", { class: "canvas" }, this.svg);
    this.node = h("div", {},
      h("p", { class: "hint", id: hint }, "Tab enters the drawing, arrow keys move along the arrows, Enter opens a box. The table below has the same content."),
      this.canvas);
    this.drawn = "";
  }

  show(graph) {
    const width = Math.max(280, this.node.clientWidth || 800);
    const drawn = JSON.stringify([graph, width]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    const focused = this.boxes?.get(document.activeElement)?.id;
    const found = layout(graph, width);
    this.svg.setAttribute("viewBox", `0 0 ${found.width} ${found.height}`);
    this.svg.setAttribute("width", found.width);
    this.svg.setAttribute("height", found.height);
    this.edges = graph.edges;
    this.arrows = found.arrows.map((one) => ({ ...one, node: this.arrow(one) }));
    this.boxes = new Map(found.boxes.map((one) => [this.box(one), one]));
    this.svg.replaceChildren(
      s("g", { "aria-hidden": "true" }, this.arrows.map((one) => one.node)), ...this.boxes.keys(),
      s("g", { "aria-hidden": "true" }, found.boxes.map((one) => this.words(one))));
    const all = [...this.boxes.keys()];
    const current = all.find((one) => this.boxes.get(one).id === focused) ?? all[0];
    if (current) this.enter(current, focused !== undefined);
    this.light(null);
  }

  arrow({ path, head, label }) {
    return s("g", { class: "arrow" }, s("path", { class: "line", d: path }),
      head && s("path", { class: "head", d: head }),
      label && [
      s("rect", { x: label.x - 4, y: label.y - 9, width: label.width + 8, height: 18 }),
      s("text", { x: label.x, y: label.y + 4 }, label.text, s("title", {}, label.full)),
    ]);
  }

  box(one) {
    const made = s("a", {
      href: this.href(one), class: `box ${one.kind}`, tabindex: "-1",
      "aria-label": this.sentence(one, this.edges),
    },
    s("rect", { x: one.x, y: one.y, width: one.width, height: one.height, rx: one.kind === "queue" ? 5 : 18 }, s("title", {}, one.name)));
    made.addEventListener("focus", () => this.light(one.id));
    made.addEventListener("blur", () => this.light(null));
    made.addEventListener("mouseenter", () => this.light(one.id));
    made.addEventListener("mouseleave", () => this.light(null));
    return made;
  }

  // Beside the links, not in them: their names say the same and are never cut.
  words(one) {
    const middle = one.y + one.height / 2;
    return s("g", { class: "words" },
      s("text", { x: one.x + 12, y: middle - 2, class: "name" }, cut(one.name, one.width - 22)),
      s("text", { x: one.x + 12, y: middle + SUBTITLE, class: "note" }, cut(one.note, one.width - 22)));
  }

  light(id) {
    this.svg.classList.toggle("lit", id !== null);
    const near = new Set([id]);
    for (const { edge, node } of this.arrows) {
      const hot = edge.from === id || edge.to === id;
      node.classList.toggle("hot", hot);
      if (hot) near.add(edge.from).add(edge.to);
    }
    for (const [node, box] of this.boxes) node.classList.toggle("hot", near.has(box.id));
  }

  enter(node, focus) {
    for (const one of this.boxes.keys()) one.setAttribute("tabindex", one === node ? "0" : "-1");
    if (focus) node.focus();
  }

  key(event) {
    const box = this.boxes.get(event.target.closest("a"));
    const step = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
    if (!box || !step) return;
    event.preventDefault();
    const [across, down] = step;
    const linked = new Set(this.edges.filter((one) => (across > 0 ? one.from : one.to) === box.id)
      .map((one) => (across > 0 ? one.to : one.from)));
    const candidates = [...this.boxes].filter(([, one]) => down
      ? one.layer === box.layer && Math.sign(one.y - box.y) === down : linked.has(one.id));
    candidates.sort(([, a], [, b]) => Math.abs(a.y - box.y) - Math.abs(b.y - box.y));
    if (candidates.length) this.enter(candidates[0][0], true);
  }
}
