// Who is connected over AMQP, how much they say, and the way to end it.

import { api } from "./api.js";
import { confirmed, h, notify } from "./dom.js";
import { octets, since } from "./format.js";
import { may } from "./session.js";
import { LiveTable } from "./table.js";

const SMOOTH = 0.5;

// Octets per second of each connection, from what the last looks saw.
class Rates {
  constructor() {
    this.seen = new Map();
  }

  look(connections) {
    const now = performance.now();
    const seen = new Map();
    for (const one of connections) {
      const before = this.seen.get(one.id);
      const made = { now, in: one.octets_in, out: one.octets_out, rateIn: 0, rateOut: 0 };
      if (before && now > before.now) {
        const per = (field, number) => Math.max(0, number - before[field]) * 1000 / (now - before.now);
        made.rateIn = SMOOTH * before.rateIn + (1 - SMOOTH) * per("in", one.octets_in);
        made.rateOut = SMOOTH * before.rateOut + (1 - SMOOTH) * per("out", one.octets_out);
      }
      seen.set(one.id, made);
    }
    this.seen = seen;
  }

  of(one, way) {
    const found = this.seen.get(one.id)?.[way] ?? 0;
    return found < 1 ? 0 : found;
  }
}

function client(one) {
  return [one.product, one.product_version, one.platform && `(${one.platform})`].filter(Boolean).join(" ");
}

export function open() {
  const total = h("span", { class: "count" });
  const rates = new Rates();
  const table = new LiveTable({
    label: "connections",
    filter: true,
    key: (one) => one.id,
    empty: "No AMQP connections.",
    columns: [
      { label: "Peer", mono: true, value: (one) => one.address },
      { label: "AMQP", value: (one) => one.version },
      { label: "Client", value: client },
      { label: "User", value: (one) => one.user },
      { label: "Virtual host", mono: true, value: (one) => one.vhost },
      { label: "State", value: (one) => one.state },
      { label: "Channels", numeric: true, value: (one) => one.channels },
      { label: "In /s", numeric: true, value: (one) => octets(rates.of(one, "rateIn")), sort: (one) => rates.of(one, "rateIn") },
      { label: "Out /s", numeric: true, value: (one) => octets(rates.of(one, "rateOut")), sort: (one) => rates.of(one, "rateOut") },
      { label: "In", numeric: true, value: (one) => octets(one.octets_in), sort: (one) => one.octets_in },
      { label: "Out", numeric: true, value: (one) => octets(one.octets_out), sort: (one) => one.octets_out },
      { label: "Since", value: (one) => one.since ? since(one.since) : "", sort: (one) => String(one.since) },
    ],
    actions: may.administer() && (() => [{ label: "Close", danger: true, work: close }]),
  });

  async function close(one) {
    const text = `${one.user || "Its user"} at ${one.address} receives the reason, and its unsettled messages return to its queues. Most clients reconnect.`;
    if (!(await confirmed("Close this connection?", text, "Close connection"))) return;
    await api.closeConnection(one.id);
    notify(`Connection of ${one.address} closed.`);
    await refresh();
  }

  async function refresh() {
    try {
      const { connections } = await api.connections();
      rates.look(connections);
      total.textContent = connections.length;
      table.update(connections);
    } catch (error) {
      table.fail(error);
    }
  }

  return { title: "Connections", count: total, body: [h("section", { id: "connections" }, table.node)], refresh };
}
