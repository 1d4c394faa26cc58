// The bridge: other brokers, the virtual hosts that show their queues, shovels and moves; and a
// drawing of who talks to whom in which version.

import { api } from "./api.js";
import { h, notify, say } from "./dom.js";
import { nodeId } from "./drawing.js";
import { since } from "./format.js";
import { Graph } from "./graph.js";
import { may } from "./session.js";
import { LiveTable } from "./table.js";
import { modesSection } from "./view-modes.js";
import { movesSection } from "./view-moves.js";
import { chips } from "./view-queues.js";

const MOST_CLIENTS = 40;

// Programs of one kind are one box on the left, virtual hosts stand in the middle, other brokers on
// the right, unless a shovel or a move empties them. "queue" is the name of the layout for its last layer.
function graphOf({ connections, upstreams, facades, shovels, moves }, vhost) {
  const nodes = new Map();
  const edges = new Map();
  const node = (kind, name, note) => {
    const id = nodeId(kind, name);
    if (!nodes.has(id)) nodes.set(id, { id, kind, name, note });
    return id;
  };
  const edge = (from, to, key) => {
    const place = JSON.stringify([from, to]);
    const found = edges.get(place) ?? { from, to, keys: [] };
    if (key && !found.keys.includes(key)) found.keys.push(key);
    edges.set(place, found);
  };
  const host = (name) => node("exchange", `vhost ${name}`, "virtual host");
  const named = (text) => upstreams.find((known) => text.startsWith(`${known.name}: `));
  const running = moves.filter((one) => one.state === "running");
  const emptied = new Set([...shovels.map((one) => named(one.source)?.name), ...running.map((one) => one.source)]);
  const broker = (name) => {
    const one = upstreams.find((known) => known.name === name);
    const product = [one?.product, one?.product_version].filter(Boolean).join(" ");
    return node(emptied.has(name) ? "exchange" : "queue", name, product || "not reached");
  };
  host(vhost);
  for (const one of upstreams) broker(one.name);
  const programs = new Map();
  for (const one of connections) {
    const key = JSON.stringify([one.product || "AMQP client", one.version, one.vhost]);
    programs.set(key, (programs.get(key) ?? 0) + 1);
  }
  for (const [key, number] of [...programs].slice(0, MOST_CLIENTS)) {
    const [product, version, there] = JSON.parse(key);
    const from = node("exchange", product, "clients");
    edge(from, host(there), `${version}${number > 1 ? ` × ${number}` : ""}`);
  }
  for (const one of facades) {
    edge(host(one.vhost), broker(one.upstream), one.version || one.state);
    if (one.successor) edge(host(one.vhost), broker(one.successor), one.successor_version || one.successor_state);
  }
  for (const one of shovels) {
    const end = (text, version) => {
      const upstream = named(text);
      return upstream ? [broker(upstream.name), version] : [host(text.slice(0, text.indexOf(": "))), ""];
    };
    const [from, came] = end(one.source, one.source_version);
    const [to, went] = end(one.destination, one.destination_version);
    const said = `shovel ${one.name}${came || went ? ` ${[came, went].filter(Boolean).join(" to ")}` : ""}`;
    if (from !== to) edge(from, to, said);
  }
  for (const one of running) {
    const end = (name) => upstreams.some((known) => known.name === name) ? broker(name) : host(name);
    const [from, to] = [end(one.source), end(one.destination)];
    if (from !== to) edge(from, to, `move ${one.name}`);
  }
  return { nodes: [...nodes.values()], edges: [...edges.values()] };
}

function sentence(box, edges) {
  const plain = (id) => id.replace(/^(exchange|queue) /, "");
  const says = (one, id) => `${plain(id)}${one.keys.length ? ` (${one.keys.join(", ")})` : ""}`;
  const out = edges.filter((one) => one.from === box.id).map((one) => says(one, one.to));
  const inward = edges.filter((one) => one.to === box.id).map((one) => says(one, one.from));
  const parts = [`${box.name}, ${box.note}`];
  if (inward.length) parts.push(`reached from ${inward.join(", ")}`);
  if (out.length) parts.push(`talks to ${out.join(", ")}`);
  return `${parts.join("; ")}.`;
}

// The abilities that a probe has found; or how it stands with the probe.
function abilities({ can }) {
  if (!can?.abilities) return can && can.state !== "unknown" ? [can.state === "failed" ? "probe failed" : can.state] : [];
  return Object.entries(can.abilities).filter(([, able]) => able).map(([name]) => name);
}

const time = { label: "Since", value: (one) => one.since ? since(one.since) : "", sort: (one) => String(one.since) };
const wrong = { label: "Last error", value: (one) => one.error };

export function open({ vhost, link }) {
  const note = h("p", { class: "hint", role: "status" });
  const drawing = new Graph({
    label: "Drawing of who talks to whom in which version",
    href: (one) => link({ clients: "connections", "virtual host": "queues" }[one.note] ?? "bridge"),
    sentence,
  });
  const upstreams = new LiveTable({
    label: "upstreams", key: (one) => one.name, empty: "No upstreams are configured.",
    columns: [
      { label: "Name", mono: true, value: (one) => one.name },
      { label: "Address", mono: true, className: "address", value: (one) => one.address || one.addresses.join(", ") },
      { label: "AMQP", value: (one) => one.version },
      { label: "Broker", value: (one) => [one.product, one.product_version].filter(Boolean).join(" ") },
      { label: "Can", className: "features", sort: false, value: (one) => abilities(one).join(", "), make: (one) => chips(abilities(one)) },
      { label: "Virtual host", mono: true, value: (one) => one.vhost },
      { label: "User", value: (one) => one.user },
      { label: "Connections", numeric: true, value: (one) => one.connections },
      time, wrong,
    ],
  });
  const facades = new LiveTable({
    label: "facades", key: (one) => one.vhost, empty: "No virtual host shows the queues of an upstream.",
    columns: [
      { label: "Virtual host", mono: true, value: (one) => one.vhost },
      { label: "Upstream", mono: true, value: (one) => one.upstream },
      { label: "State", value: (one) => one.state },
      { label: "AMQP", value: (one) => one.version },
      { label: "Successor", value: (one) => one.successor && [one.successor, one.successor_state, one.successor_version].filter(Boolean).join(", ") },
      { label: "Published", numeric: true, value: (one) => one.published },
      { label: "Refused", numeric: true, value: (one) => one.refused },
      { label: "Under way", numeric: true, value: (one) => one.under_way },
      { label: "Subscriptions", numeric: true, value: (one) => one.feeds },
      time, wrong,
    ],
  });
  const shovels = new LiveTable({
    label: "shovels", key: (one) => one.name, empty: "No shovels are configured.",
    columns: [
      { label: "Name", mono: true, value: (one) => one.name },
      { label: "State", value: (one) => one.state },
      { label: "From", mono: true, value: (one) => one.source },
      { label: "To", mono: true, value: (one) => one.destination },
      { label: "Moved", numeric: true, value: (one) => one.moved },
      { label: "Parked", numeric: true, value: (one) => one.parked },
      { label: "Rejected", numeric: true, value: (one) => one.rejected },
      { label: "Under way", numeric: true, value: (one) => one.under_way },
      time, wrong,
    ],
    actions: () => [
      { label: "Pause", when: (one) => may.administer() && one.state !== "paused", work: (one) => change(one, "pause", "is paused") },
      { label: "Resume", when: (one) => may.administer() && one.state === "paused", work: (one) => change(one, "resume", "runs") },
    ],
  });
  const moves = movesSection({ places, changed: refresh });
  const modes = modesSection({ changed: refresh });

  // Where queues can be moved from or to. Those of a facade are its upstream's.
  function places() {
    const shown = new Set(known.facades.map((one) => one.vhost));
    return [...known.hosts.filter((one) => !shown.has(one)).map((one) => [JSON.stringify(["", one]), `virtual host ${one}`]),
      ...known.upstreams.map((one) => [JSON.stringify([one.name, "/"]), `upstream ${one.name}`])];
  }

  async function change(one, action, told) {
    await api.changeShovel(one.name, action);
    notify(`Shovel ${one.name} ${told}.`);
    await refresh();
  }

  async function modesOf(shown) {
    const changing = shown.filter((one) => one.successor);
    const found = await Promise.all(changing.map((one) => api.modes(one.vhost)));
    return changing.flatMap(({ vhost }, n) => found[n].modes.map((one) => ({ ...one, vhost })));
  }

  let known = null;

  function show() {
    if (known) drawing.show(graphOf(known, vhost));
  }

  async function refresh() {
    try {
      const [all, brokers, can, shown, moving, moved, clients] = await Promise.all(
        [api.vhosts(), api.upstreams(), api.capabilities(), api.facades(), api.shovels(),
          api.moves(), api.connections()]);
      known = { ...brokers, ...shown, ...moving, ...moved, ...clients, hosts: all.vhosts.map((one) => one.name) };
      const found = new Map(can.upstreams.map((one) => [one.name, one]));
      known.upstreams = known.upstreams.map((one) => ({ ...one, can: found.get(one.name) }));
      upstreams.update(known.upstreams);
      facades.update(known.facades);
      modes.update(known.facades, await modesOf(known.facades), may.administer());
      shovels.update(known.shovels);
      moves.update(known.moves, may.administer());
      say(note, "", "hint");
      drawing.node.hidden = false;
      show();
    } catch (error) {
      drawing.node.hidden = true;
      say(note, error.message, "hint bad");
    }
  }

  return {
    title: "Bridge",
    body: [
      h("section", {}, note, drawing.node),
      h("section", {}, h("h2", {}, "Upstreams"), upstreams.node),
      h("section", {}, h("h2", {}, "Facades"), facades.node),
      modes.node,
      h("section", {}, h("h2", {}, "Shovels"), shovels.node),
      moves.node,
    ],
    refresh,
    resized: show,
  };
}
