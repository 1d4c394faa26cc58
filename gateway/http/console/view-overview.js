// The gateway at a glance: its figures, and how they went in the last minutes.

import { h, say } from "./dom.js";
import { Chart } from "./chart.js";
import { octets, rate } from "./format.js";
import { past } from "./history.js";
import { may } from "./session.js";

const number = (value) => value.toLocaleString();
const FIGURES = [
  ["Ready", "ready", number], ["Unacked", "unacknowledged", number], ["Queues", "queues", number, "queues"],
  ["Exchanges", "exchanges", number, "exchanges"], ["Consumers", "consumers", number],
  ["Connections", "connections", number, "connections"], ["Channels", "channels", number],
  ["Event streams", "event_streams", number], ["Virtual hosts", "vhosts", number, "vhosts"],
  ["In memory", "octets", octets], ["Unrouted", "unrouted", number], ["Version", "version", String],
];
// Those of all virtual hosts are links only where a view shows all of them.
const WHOLE = new Set(["connections", "vhosts"]);

export function open({ link }) {
  const note = h("p", { class: "hint", role: "status" }, "Looking.");
  const list = h("dl", { class: "figures" });
  const shown = new Map();
  const figure = (name) => (point) => point.figures[name] ?? null;
  const charts = [
    new Chart({
      title: "Messages per second", text: rate,
      series: [["Published", (one) => one.rates.published], ["Delivered", (one) => one.rates.delivered], ["Acked", (one) => one.rates.acked]],
    }),
    new Chart({ title: "Messages in queues", text: number, series: [["Ready", figure("ready")], ["Unacked", figure("unacknowledged")]] }),
    new Chart({
      title: "Clients", text: number,
      series: may.monitor() ? [["Connections", figure("connections")], ["Consumers", figure("consumers")], ["Event streams", figure("event_streams")]]
        : [["Clients", figure("clients")], ["Consumers", figure("consumers")]],
    }),
  ];

  function fill(figures) {
    for (const [label, name, text, view] of FIGURES) {
      if (figures[name] === undefined) continue;
      if (!shown.has(name)) {
        const value = h("dd", {});
        const named = view && WHOLE.has(view) ? h("a", { href: link(view) }, label) : label;
        shown.set(name, value);
        list.append(h("div", {}, h("dt", {}, named), value));
      }
      say(shown.get(name), text(figures[name]));
    }
  }

  function draw() {
    const { points, failure } = past();
    const last = points.at(-1);
    if (last) fill(last.figures);
    for (const one of charts) one.show(points);
    const blocked = last?.figures.blocked;
    if (failure) say(note, failure.message, "hint bad");
    else if (blocked) say(note, `Publishers are paused: ${blocked}`, "bad");
    else if (last) say(note, may.monitor() ? "" : "Of the virtual hosts that you may use.", "hint");
  }

  return {
    title: "Overview",
    body: [note, h("section", {}, list), h("div", { class: "charts" }, charts.map((one) => one.node))],
    refresh: draw,
    opened: draw,
    resized: draw,
  };
}
