// One queue: numbers, arguments, who consumes, what is bound, and its messages without taking them.

import { api } from "./api.js";
import { Chart } from "./chart.js";
import { crossingsNode } from "./crossings.js";
import { button, h, say } from "./dom.js";
import { octets, rate } from "./format.js";
import { MOST } from "./history.js";
import { messageItem, valueNode } from "./message.js";
import { Pages } from "./pages.js";
import { may, mayPublish } from "./session.js";
import { LiveTable } from "./table.js";
import { showArguments } from "./typed.js";
import { chips, purge, queueFlags, removeQueue } from "./view-queues.js";

const FIGURES = [
  ["Ready", (one) => one.ready.toLocaleString()],
  ["Unacked", (one) => one.unacknowledged.toLocaleString()],
  ["Consumers", (one) => one.consumers.toLocaleString()],
  ["In /s", (one) => rate(one.publish_rate)],
  ["Out /s", (one) => rate(one.deliver_rate)],
  ["Size of ready", (one) => octets(one.octets)],
  ["Published", (one) => one.published.toLocaleString()],
  ["Delivered", (one) => one.delivered.toLocaleString()],
  ["Redelivered", (one) => one.redelivered.toLocaleString()],
];

export function open({ vhost, name, link, go }) {
  let queue = null;
  // Since this view was opened.
  const points = [];
  const charts = [
    new Chart({ title: "Messages per second", text: rate, series: [["In", (one) => one.queue.publish_rate], ["Out", (one) => one.queue.deliver_rate]] }),
    new Chart({
      title: "Messages", text: (value) => value.toLocaleString(),
      series: [["Ready", (one) => one.queue.ready], ["Unacked", (one) => one.queue.unacknowledged]],
    }),
  ];
  const note = h("p", { class: "hint", role: "status" });
  const figures = FIGURES.map(([label]) => {
    const value = h("dd", {}, "–");
    return { value, node: h("div", {}, h("dt", {}, label), value) };
  });
  const features = h("p", { class: "features" });
  const argumentList = h("dl", { class: "properties" });
  const consumers = new LiveTable({
    label: "consumers", key: (one) => `${one.client} ${one.tag}`, empty: "Nobody consumes.",
    columns: [
      { label: "Tag", mono: true, value: (one) => one.tag },
      { label: "Client", value: (one) => one.client },
      { label: "Prefetch", numeric: true, value: (one) => one.prefetch || "none" },
      { label: "Held", numeric: true, value: (one) => one.held },
      { label: "Mode", value: (one) => [one.no_ack ? "automatic ack" : "ack", one.exclusive && "exclusive", !one.active && "waiting"].filter(Boolean).join(", ") },
    ],
  });
  const bindings = new LiveTable({
    label: "bindings of this queue", key: (one) => one.id, empty: "Only the default exchange's binding.",
    columns: [
      { label: "Exchange", mono: true, value: (one) => one.source, make: (one) => h("a", { href: link("exchanges", one.source) }, one.source) },
      { label: "Key", mono: true, value: (one) => one.routing_key },
      { label: "Arguments", value: (one) => showArguments(one.arguments).join(", ") },
    ],
  });
  const messages = new Pages({
    label: "Messages, oldest first",
    empty: "The queue has no ready messages.",
    look: (page) => api.browse(vhost, name, page),
    item: ({ message, position }, number, before) => {
      const item = messageItem(message, [`#${number}`]);
      item.append(crossingsNode((page) => api.browse(vhost, name, page), position, before));
      return item;
    },
  });


  function show() {
    FIGURES.forEach(([, text], at) => say(figures[at].value, text(queue)));
    const inForce = Object.entries(queue.effective_policy_definition);
    const flags = JSON.stringify([queueFlags(queue), inForce]);
    if (features.dataset.shown !== flags) {
      features.dataset.shown = flags;
      features.replaceChildren(...chips(queueFlags(queue)));
      const pairs = Object.entries(queue.arguments);
      argumentList.replaceChildren(...pairs.map(([key, value]) =>
        h("div", {}, h("dt", {}, key), h("dd", {}, valueNode(value)))));
      argumentList.append(...inForce.map(([key, value]) =>
        h("div", {}, h("dt", {}, `${key} (by policy)`), h("dd", {}, String(value)))));
      if (!pairs.length && !inForce.length) argumentList.replaceChildren(h("div", {}, h("dt", {}, "Arguments"), h("dd", {}, "none")));
    }
  }

  const draw = () => charts.forEach((one) => one.show(points));

  // A button may be pressed before the first answer is there.
  const known = async () => queue ?? api.queue(vhost, name);

  async function refresh() {
    try {
      queue = await api.queue(vhost, name);
      points.push({ at: Date.now(), queue });
      if (points.length > MOST) points.shift();
      show();
      draw();
      say(note, "", "hint");
      const [all, bound] = await Promise.all([api.consumers(vhost), api.bindings(vhost)]);
      consumers.update(all.filter((one) => one.queue === name));
      bindings.update(bound.filter((one) => one.source && one.destination_type === "queue" && one.destination === name));
    } catch (error) {
      say(note, error.message, "hint bad");
    }
  }

  return {
    title: name,
    kind: "Queue",
    back: ["queues", "Queues"],
    tools: [
      mayPublish(vhost) && h("a", { class: "button", href: `${link("publish")}?queue=${encodeURIComponent(name)}` }, "Publish"),
      may.read(vhost, name) && h("a", { class: "button", href: `${link("live")}?source=${encodeURIComponent(`queue:${name}`)}` }, "Live"),
      may.read(vhost, name) && button("Purge", async () => { await purge(vhost, await known()); await refresh(); }),
      may.configure(vhost, name) && button("Delete", async () => { if (await removeQueue(vhost, await known())) go("queues"); }, { class: "danger" }),
    ],
    body: [
      note,
      h("section", {}, h("dl", { class: "figures" }, figures.map((one) => one.node)), features, argumentList),
      h("section", {}, h("div", { class: "titled" }, h("h2", {}, "Messages"), may.read(vhost, name) && button("Look", () => messages.load())), messages.node),
      h("div", { class: "columns" },
        h("section", {}, h("h2", {}, "Consumers"), consumers.node),
        h("section", {}, h("h2", {}, "Bindings"), bindings.node)),
      h("div", { class: "charts" }, charts.map((one) => one.node)),
    ],
    refresh,
    resized: draw,
  };
}
