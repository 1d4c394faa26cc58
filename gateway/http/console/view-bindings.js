// Bindings as a drawing and, saying the same, as a table.

import { api } from "./api.js";
import { ask, button, confirmed, field, h, newId, notify, s, say } from "./dom.js";
import { cut, graphOf, layout } from "./drawing.js";
import { count } from "./format.js";
import { LiveTable } from "./table.js";
import { readArguments, showArguments } from "./typed.js";

const MOST_NODES = 250;
const SUBTITLE = 14;

export function keyText(one) {
  const shown = showArguments(one.arguments);
  return [one.routing_key, shown.length && `(${shown.join(", ")})`].filter(Boolean).join(" ");
}

export function bindingTable(label, { vhost, link, refresh, empty, filter }) {
  const place = (kind, name) => h("a", { href: link(`${kind}s`, name), title: name }, name);
  return new LiveTable({
    label, empty, filter, key: (one) => one.id,
    columns: [
      { label: "From exchange", mono: true, value: (one) => one.source, make: (one) => place("exchange", one.source) },
      { label: "Key", mono: true, value: (one) => one.routing_key },
      { label: "Arguments", value: (one) => showArguments(one.arguments).join(", ") },
      { label: "To", mono: true, value: (one) => `${one.destination_type} ${one.destination}`, make: (one) => [`${one.destination_type} `, place(one.destination_type, one.destination)] },
    ],
    actions: () => [{ label: "Remove", danger: true, does: "Remove this binding", work: (one) => unbind(vhost, one, refresh) }],
  });
}

async function unbind(vhost, one, refresh) {
  const key = keyText(one) || "no key";
  const text = `${one.source} will no longer route messages with ${key} to ${one.destination_type} ${one.destination}.`;
  if (!(await confirmed("Remove this binding?", text, "Remove binding"))) return;
  await api.deleteBinding(vhost, one.id);
  notify("Binding removed.");
  await refresh();
}

export async function addBinding(vhost, refresh, { source = "" } = {}) {
  const made = await ask({
    title: "Add a binding",
    action: "Add binding",
    body: [
      field({ name: "source", label: "From exchange", required: true, maxlength: 255, value: source }),
      h("div", { class: "row" },
        field({ name: "destination_type", label: "To a", options: ["queue", "exchange"] }),
        field({ name: "destination", label: "Called", required: true, maxlength: 255 })),
      field({ name: "routing_key", label: "Key", maxlength: 255, hint: "For a topic exchange, * is one word and # any number of words." }),
      field({ name: "arguments", label: "Arguments", type: "textarea", rows: 2, hint: "One name = value per line, such as x-match = all" }),
    ],
    submit: (given) => api.postBinding(vhost, { ...given, arguments: readArguments(given.arguments) }),
  });
  if (made) {
    notify(`Messages go from ${made.source} to ${made.destination}.`);
    await refresh();
  }
}

// --- the drawing -------------------------------------------------------------------------------

function sentence(box, arrows) {
  const says = (one, other) => `${other.replace(" ", " called ")}${one.keys.some(Boolean) ? ` with key ${one.keys.filter(Boolean).join(" and ")}` : ""}`;
  const out = arrows.filter(({ from }) => from === box.id).map((one) => says(one, one.to));
  const inward = arrows.filter(({ to }) => to === box.id).map((one) => says(one, one.from));
  const parts = [`${box.kind === "queue" ? "Queue" : "Exchange"} ${box.name}, ${box.note}`];
  if (inward.length) parts.push(`gets messages from ${inward.join(", ")}`);
  if (out.length) parts.push(`sends messages to ${out.join(", ")}`);
  if (!inward.length && !out.length) parts.push("not bound");
  return `${parts.join("; ")}.`;
}

class Drawing {
  constructor(link) {
    this.link = link;
    const hint = newId("hint");
    this.svg = s("svg", { role: "group", "aria-label": "Drawing of the bindings", "aria-describedby": hint });
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
      href: this.link(`${one.kind}s`, one.name), class: `box ${one.kind}`, tabindex: "-1",
      "aria-label": sentence(one, this.edges),
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

export function open({ vhost, link }) {
  const total = h("span", { class: "count" });
  const note = h("p", { class: "hint", role: "status" });
  const drawing = new Drawing(link);
  const table = bindingTable("bindings", { vhost, link, refresh, empty: "No bindings." });
  const wanted = h("input", { type: "search", "aria-label": "Filter drawing and table", placeholder: "Filter", oninput: () => show(), autocomplete: "off", spellcheck: "false" });
  const unbound = field({ name: "unbound", label: "Show unbound exchanges and queues", type: "checkbox", onchange: () => show() });
  let known = null;

  function show() {
    if (!known) return;
    const { exchanges, queues, bindings } = known;
    const options = { wanted: wanted.value.trim(), unbound: unbound.querySelector("input").checked };
    const graph = graphOf(exchanges, queues, bindings, options);
    const many = graph.nodes.length > MOST_NODES;
    drawing.node.hidden = many || !graph.nodes.length;
    if (!drawing.node.hidden) drawing.show(graph);
    const low = options.wanted.toLowerCase();
    table.update(bindings.filter((one) => [one.source, one.destination, one.label].some((text) => text.toLowerCase().includes(low))));
    let text = "";
    if (many) text = `${graph.nodes.length} nodes are too many to draw: use the filter.`;
    else if (!graph.nodes.length) text = low ? "Nothing matches the filter." : "All bindings are to the default exchange.";
    else text = `${count(graph.nodes.length, "box").replace("boxs", "boxes")}, ${count(graph.edges.length, "arrow")}.`;
    say(note, text, "hint");
  }

  async function refresh() {
    try {
      const [{ exchanges }, { queues }, { bindings }] = await Promise.all(
        [api.exchanges(vhost), api.queues(vhost), api.bindings(vhost)]);
      const shown = bindings.filter((one) => one.source).map((one) => ({ ...one, label: keyText(one) }));
      known = { exchanges, queues, bindings: shown };
      total.textContent = shown.length;
      show();
    } catch (error) {
      drawing.node.hidden = true;
      say(note, error.message, "hint bad");
    }
  }

  return {
    title: "Bindings",
    count: total,
    tools: [button("Add binding", () => addBinding(vhost, refresh), { class: "primary" })],
    body: [
      h("section", {}, h("div", { class: "filters" }, wanted, unbound), note, drawing.node),
      h("section", {}, h("h2", {}, "As a table"), table.node),
    ],
    refresh,
    resized: show,
  };
}
