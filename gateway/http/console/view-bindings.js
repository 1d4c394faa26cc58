// Bindings as a drawing and, saying the same, as a table.

import { api } from "./api.js";
import { ask, button, confirmed, field, h, notify, say } from "./dom.js";
import { graphOf } from "./drawing.js";
import { count, internal } from "./format.js";
import { Graph } from "./graph.js";
import { may } from "./session.js";
import { LiveTable } from "./table.js";
import { readArguments, showArguments } from "./typed.js";

const MOST_NODES = 250;

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
    actions: may.read(vhost) && may.write(vhost) && ((row) => may.read(vhost, row.source) && may.write(vhost, row.destination)
      ? [{ label: "Remove", danger: true, does: "Remove this binding", work: (one) => unbind(vhost, one, refresh) }] : []),
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

export function open({ vhost, link }) {
  const total = h("span", { class: "count" });
  const note = h("p", { class: "hint", role: "status" });
  const drawing = new Graph({ label: "Drawing of the bindings", href: (one) => link(`${one.kind}s`, one.name), sentence });
  const table = bindingTable("bindings", { vhost, link, refresh, empty: "No bindings." });
  const wanted = h("input", { type: "search", "aria-label": "Filter drawing and table", placeholder: "Filter", oninput: () => show(), autocomplete: "off", spellcheck: "false" });
  const unbound = field({ name: "unbound", label: "Show unbound exchanges and queues", type: "checkbox", onchange: () => show() });
  const inner = field({ name: "internal", label: "Show internal queues", type: "checkbox", onchange: () => show() });
  let known = null;

  function show() {
    if (!known) return;
    const within = inner.querySelector("input").checked;
    const { exchanges } = known;
    const queues = known.queues.filter((one) => within || !internal(one.name));
    const bindings = known.bindings.filter((one) => within || !internal(one.destination));
    total.textContent = bindings.length;
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
      const [exchanges, queues, bindings] = await Promise.all(
        [api.exchanges(vhost), api.queues(vhost), api.bindings(vhost)]);
      const shown = bindings.filter((one) => one.source).map((one) => ({ ...one, label: keyText(one) }));
      known = { exchanges, queues, bindings: shown };
      inner.hidden = !queues.some((one) => internal(one.name));
      show();
    } catch (error) {
      drawing.node.hidden = true;
      say(note, error.message, "hint bad");
    }
  }

  return {
    title: "Bindings",
    count: total,
    tools: [may.read(vhost) && may.write(vhost) && button("Add binding", () => addBinding(vhost, refresh), { class: "primary" })],
    body: [
      h("section", {}, h("div", { class: "filters" }, wanted, unbound, inner), note, drawing.node),
      h("section", {}, h("h2", {}, "As a table"), table.node),
    ],
    refresh,
    resized: show,
  };
}
