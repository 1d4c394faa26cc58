// All queues of a virtual host: depth, rates, arguments; make, purge, delete.

import { api } from "./api.js";
import { ask, button, confirmed, field, h, notify, say } from "./dom.js";
import { count, internal, rate } from "./format.js";
import { may } from "./session.js";
import { LiveTable } from "./table.js";
import { readArguments, showArguments } from "./typed.js";

export function queueFlags(one) {
  return [one.durable && "durable", one.exclusive && "exclusive", one.auto_delete && "auto-delete",
    one.policy && `policy ${one.policy}`, one.operator_policy && `operator policy ${one.operator_policy}`]
    .filter(Boolean);
}

// Whether they are shown, for as long as this page is open.
let shownInternal = false;

export function chips(words) {
  return words.map((one) => h("span", { class: "chip" }, one));
}

export async function purge(vhost, one) {
  const text = `${count(one.ready, "message")} that nobody has received yet will be lost. Messages that consumers hold are not touched.`;
  if (!(await confirmed(`Purge ${one.name}?`, text, "Purge"))) return;
  const gone = await api.purgeQueue(vhost, one.name);
  notify(`${count(gone.messages, "message")} removed from ${one.name}.`);
}

export async function removeQueue(vhost, one) {
  const text = [one.messages ? `${count(one.messages, "message")} in it will be lost.` : "It is empty.",
    one.consumers ? `${count(one.consumers, "consumer")} will be cancelled.` : "It has no consumers."];
  if (!(await confirmed(`Delete queue ${one.name}?`, text, "Delete queue"))) return false;
  await api.deleteQueue(vhost, one.name);
  notify(`Queue ${one.name} deleted.`);
  return true;
}

async function add(vhost, refresh) {
  const made = await ask({
    title: "Add a queue",
    action: "Add queue",
    body: [
      field({ name: "name", label: "Name", required: true, maxlength: 255 }),
      h("div", { class: "row" }, field({ name: "durable", label: "Durable", type: "checkbox", value: true }),
        field({ name: "auto_delete", label: "Auto-delete", type: "checkbox" })),
      field({
        name: "arguments", label: "Arguments", type: "textarea",
        hint: "One name = value per line, such as x-message-ttl = 60000",
      }),
    ],
    submit: (given) => api.putQueue(vhost, given.name, {
      durable: given.durable, auto_delete: given.auto_delete,
      arguments: readArguments(given.arguments),
    }),
  });
  if (made) {
    notify(`Queue ${made.name} is there.`);
    await refresh();
  }
}

export function open({ vhost, link }) {
  // Those in which the gateway keeps event streams.
  const across = field({
    name: "internal", label: "", type: "checkbox", value: shownInternal,
    onchange: (event) => { shownInternal = event.target.checked; refresh(); },
  });
  across.hidden = true;
  const table = new LiveTable({
    label: "queues",
    filter: true,
    beside: across,
    key: (one) => one.name,
    empty: "No queues in this virtual host.",
    columns: [
      { label: "Name", value: (one) => one.name, mono: true, make: (one) => h("a", { href: link("queues", one.name), title: one.name }, one.name) },
      { label: "Ready", numeric: true, value: (one) => one.ready },
      { label: "Unacked", numeric: true, value: (one) => one.unacknowledged },
      { label: "Consumers", numeric: true, value: (one) => one.consumers },
      { label: "In /s", numeric: true, value: (one) => rate(one.publish_rate) },
      { label: "Out /s", numeric: true, value: (one) => rate(one.deliver_rate) },
      {
        label: "Features", sort: false, className: "features",
        value: (one) => [...queueFlags(one), ...showArguments(one.arguments)].join(" · "),
        make: (one) => chips([...queueFlags(one), ...showArguments(one.arguments)]),
      },
    ],
    actions: (may.read(vhost) || may.configure(vhost)) && ((row) => [
      may.read(vhost, row.name) && { label: "Purge", work: async (one) => { await purge(vhost, one); await refresh(); } },
      may.configure(vhost, row.name) && { label: "Delete", danger: true, work: async (one) => { await removeQueue(vhost, one); await refresh(); } },
    ].filter(Boolean)),
  });
  const total = h("span", { class: "count" });
  async function refresh() {
    try {
      const queues = await api.queues(vhost);
      const hidden = queues.filter((one) => internal(one.name)).length;
      across.hidden = !hidden;
      say(across.querySelector("label"), `Show ${count(hidden, "internal queue")}`);
      total.textContent = shownInternal ? queues.length : queues.length - hidden;
      table.update(shownInternal ? queues : queues.filter((one) => !internal(one.name)));
    } catch (error) {
      table.fail(error);
    }
  }

  return {
    title: "Queues",
    count: total,
    tools: [may.configure(vhost) && button("Add queue", () => add(vhost, refresh), { class: "primary" })],
    body: [h("section", { id: "queues" }, table.node)],
    refresh,
  };
}
