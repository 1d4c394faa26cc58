// All exchanges of a virtual host; make and delete. One exchange: where its messages go.

import { api } from "./api.js";
import { ask, button, confirmed, field, h, notify, say } from "./dom.js";
import { count } from "./format.js";
import { may, mayPublish } from "./session.js";
import { LiveTable } from "./table.js";
import { readArguments, showArguments } from "./typed.js";
import { addBinding, bindingTable } from "./view-bindings.js";
import { chips } from "./view-queues.js";

const KINDS = ["direct", "fanout", "topic", "headers", "x-selector", "x-matcher", "x-lossy"];
const ours = (one) => one.name === "" || one.name.startsWith("amq.");

function flags(one) {
  return [one.durable && "durable", one.auto_delete && "auto-delete", one.internal && "internal"]
    .filter(Boolean);
}

async function add(vhost, refresh) {
  const made = await ask({
    title: "Add an exchange",
    action: "Add exchange",
    body: [
      field({ name: "name", label: "Name", required: true, maxlength: 255 }),
      field({ name: "type", label: "Type", options: KINDS }),
      h("div", { class: "row" }, field({ name: "durable", label: "Durable", type: "checkbox", value: true }),
        field({ name: "auto_delete", label: "Auto-delete", type: "checkbox" }),
        field({ name: "internal", label: "Internal", type: "checkbox" })),
      field({
        name: "arguments", label: "Arguments", type: "textarea",
        hint: "One name = value per line, such as alternate-exchange = unrouted",
      }),
    ],
    submit: ({ name, ...given }) => api.putExchange(vhost, name, {
      ...given, arguments: readArguments(given.arguments),
    }),
  });
  if (made) {
    notify(`Exchange ${made.name} is there.`);
    await refresh();
  }
}

async function removeExchange(vhost, one) {
  const text = one.bindings ? `${count(one.bindings, "binding")} will be deleted with it.` : "It has no bindings.";
  if (!(await confirmed(`Delete exchange ${one.name}?`, text, "Delete exchange"))) return false;
  await api.deleteExchange(vhost, one.name);
  notify(`Exchange ${one.name} deleted.`);
  return true;
}

export function open({ vhost, link }) {
  const total = h("span", { class: "count" });
  const table = new LiveTable({
    label: "exchanges",
    filter: true,
    key: (one) => `${one.name} ${one.type}`,
    columns: [
      {
        label: "Name", mono: true, value: (one) => one.name || "(default)",
        make: (one) => one.name ? h("a", { href: link("exchanges", one.name), title: one.name }, one.name) : "(default)",
      },
      { label: "Type", value: (one) => one.type },
      { label: "Bindings", numeric: true, value: (one) => one.bindings },
      {
        label: "Features", sort: false, className: "features",
        value: (one) => [...flags(one), ...showArguments(one.arguments)].join(" · "),
        make: (one) => chips([...flags(one), ...showArguments(one.arguments)]),
      },
    ],
    actions: may.configure(vhost) && ((row) => ours(row) || !may.configure(vhost, row.name) ? [] : [
      { label: "Delete", danger: true, work: async (one) => { await removeExchange(vhost, one); await refresh(); } },
    ]),
  });

  async function refresh() {
    try {
      const exchanges = await api.exchanges(vhost);
      total.textContent = exchanges.length;
      table.update(exchanges);
    } catch (error) {
      table.fail(error);
    }
  }

  return {
    title: "Exchanges",
    count: total,
    tools: [may.configure(vhost) && button("Add exchange", () => add(vhost, refresh), { class: "primary" })],
    body: [h("section", {}, table.node)],
    refresh,
  };
}

export function openOne({ vhost, name, link, go }) {
  let exchange = null;
  const features = h("p", { class: "features" });
  const note = h("p", { class: "hint", role: "status" });
  const from = bindingTable("bindings from this exchange", { vhost, link, refresh, empty: "No bindings from this exchange." });
  const to = bindingTable("bindings to this exchange", { vhost, link, refresh, empty: "No bindings to this exchange." });

  async function refresh() {
    try {
      const [found, bindings] = await Promise.all([api.exchange(vhost, name), api.bindings(vhost)]);
      exchange = found;
      const words = [found.type, ...flags(found), ...showArguments(found.arguments)];
      if (features.dataset.shown !== words.join()) {
        features.dataset.shown = words.join();
        features.replaceChildren(...chips(words));
      }
      from.update(bindings.filter((one) => one.source === name));
      to.update(bindings.filter((one) => one.destination_type === "exchange" && one.destination === name));
      say(note, "", "hint");
    } catch (error) {
      say(note, error.message, "hint bad");
    }
  }

  const tools = [
    may.read(vhost, name) && may.write(vhost) && button("Add binding", () => addBinding(vhost, refresh, { source: name })),
    mayPublish(vhost, name) && h("a", { class: "button", href: `${link("publish")}?exchange=${encodeURIComponent(name)}` }, "Publish"),
    may.read(vhost, name) && h("a", { class: "button", href: `${link("live")}?source=${encodeURIComponent(`exchange:${name}?binding=#`)}` }, "Listen"),
  ];
  if (!ours({ name }) && may.configure(vhost, name)) {
    tools.push(button("Delete", async () => {
      // It may be pressed before the first answer is there.
      if (await removeExchange(vhost, exchange ?? (await api.exchange(vhost, name)))) go("exchanges");
    }, { class: "danger" }));
  }
  return {
    title: name,
    kind: "Exchange",
    back: ["exchanges", "Exchanges"],
    tools,
    body: [note, h("section", {}, features),
      h("section", {}, h("h2", {}, "From here"), from.node),
      h("section", {}, h("h2", {}, "To here"), to.node)],
    refresh,
  };
}
