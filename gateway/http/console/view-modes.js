// Modes of the addresses of a facade with a successor: which broker has their messages.

import { api } from "./api.js";
import { ask, button, field, h, notify } from "./dom.js";
import { count, since } from "./format.js";
import { LiveTable } from "./table.js";

const MODES = [
  ["shadow", "shadow: old; copies at new are compared"],
  ["mirror", "mirror: old and new; consumers at old"],
  ["new-primary", "new-primary: new; old gets copies"],
  ["new-only", "new-only: new"],
  ["old-only", "old-only: old"],
];

const names = (text) => text.split("\n").map((one) => one.trim()).filter(Boolean);
const place = (one) => one.kind === "queue" ? one.name : `exchange ${one.name}`;
const mode = (one) => one.target ? `${one.mode} to ${one.target}` : one.mode;

function differences(one) {
  const found = Object.entries(one.differences).map(([name, number]) => `${name} ${number}`);
  return found.join(", ") || (one.compared ? `none of ${one.compared}` : "");
}

// The clients and keys that are at the broker that is not the primary one already.
function first(one) {
  const found = [];
  if (one.users.length) found.push(`producers ${one.users.join(", ")}`);
  if (one.percent) found.push(`producers of ${one.percent} % of keys`);
  if (one.consumers.length) found.push(`consumers ${one.consumers.join(", ")}`);
  if (one.keys) found.push(`${one.keys} % of keys${one.opened ? "" : ", after what was there before"}`);
  return found.join("; ");
}

// `changed` is called after each change.
export function modesSection({ changed }) {
  const tool = button("Change modes", () => change(), { class: "primary" });
  const table = new LiveTable({
    label: "modes", key: (one) => JSON.stringify([one.vhost, one.kind, one.name]),
    empty: "All addresses are at the old broker only.",
    columns: [
      { label: "Address", mono: true, value: place },
      { label: "Mode", value: mode },
      { label: "Other broker first", value: first },
      { label: "Publishes held", numeric: true, value: (one) => one.held },
      { label: "Moved", numeric: true, value: (one) => one.moved },
      { label: "Brought over", numeric: true, value: (one) => one.brought },
      { label: "Copies", numeric: true, value: (one) => one.copied },
      { label: "Copies lost", numeric: true, value: (one) => one.copies_lost },
      { label: "Differences", value: differences },
      { label: "Since", value: (one) => since(one.since), sort: (one) => String(one.since) },
      { label: "Last error", value: (one) => one.error },
    ],
    actions: () => [
      { label: "Change mode", when: (one) => may && !one.target, work: (one) => change(one) },
    ],
  });
  const node = h("section", { hidden: true },
    h("div", { class: "titled" }, h("h2", {}, "Modes"), tool), table.node);
  let may = false;
  let facades = [];

  async function change(one) {
    const listed = (kind) => one && one.kind === kind ? one.name : "";
    const told = await ask({
      title: "Change modes",
      text: "Clients stay connected. Name an exchange together with its queues: they change in one step.",
      action: "Change",
      body: [
        h("div", { class: "row" },
          field({ name: "vhost", label: "Virtual host", options: facades.map((each) => each.vhost), value: one?.vhost }),
          field({ name: "mode", label: "Mode", options: MODES })),
        field({ name: "queues", label: "Queues", type: "textarea", value: listed("queue"), hint: "One per line." }),
        field({ name: "exchanges", label: "Exchanges", type: "textarea", value: listed("exchange"), hint: "One per line." }),
        h("details", {}, h("summary", {}, "Some clients first"),
          field({ name: "users", label: "Producers", type: "textarea", value: one?.users.join("\n"), hint: "Users whose messages go to the other broker, one per line." }),
          field({ name: "percent", label: "Keys of producers, %", type: "number", value: one?.percent ?? 0, hint: "Their messages go there, and are brought over." }),
          field({ name: "consumers", label: "Consumers", type: "textarea", value: one?.consumers.join("\n"), hint: "Users or client ids, one per line; in old-only and new-only." }),
          field({ name: "keys", label: "Keys, %", type: "number", value: one?.keys ?? 0, hint: "Their messages are consumed at the other broker." })),
      ],
      submit: async (given) => {
        const body = {
          mode: given.mode, queues: names(given.queues), exchanges: names(given.exchanges),
          users: names(given.users), percent: Number(given.percent),
          consumers: names(given.consumers), keys: Number(given.keys),
        };
        return api.changeModes(given.vhost, body);
      },
    });
    if (!told) return;
    notify(`${count(told.modes.length, "name")} will be ${told.modes[0]?.target || told.modes[0]?.mode}.`);
    await changed();
  }

  return {
    node,
    update(shown, modes, allowed) {
      may = allowed;
      facades = shown.filter((one) => one.successor);
      node.hidden = !facades.length;
      tool.hidden = !may;
      table.update(modes);
    },
  };
}
