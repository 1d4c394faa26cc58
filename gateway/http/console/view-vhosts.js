// Virtual hosts: what is in them; make, enter, delete.

import { api } from "./api.js";
import { ask, button, confirmed, field, h, notify } from "./dom.js";
import { count } from "./format.js";
import { may } from "./session.js";
import { LiveTable } from "./table.js";

export function open({ vhost, linkIn, refreshVhosts }) {
  const total = h("span", { class: "count" });
  const table = new LiveTable({
    label: "virtual hosts",
    key: (one) => one.name,
    columns: [
      { label: "Name", mono: true, value: (one) => one.name, make: (one) => h("a", { href: linkIn(one.name, "queues") }, one.name) },
      { label: "Queues", numeric: true, value: (one) => one.queues },
      { label: "Exchanges", numeric: true, value: (one) => one.exchanges },
      { label: "Consumers", numeric: true, value: (one) => one.consumers },
      { label: "Ready", numeric: true, value: (one) => one.ready },
      { label: "Unacked", numeric: true, value: (one) => one.unacknowledged },
      { label: "Published", numeric: true, value: (one) => one.published },
      { label: "Delivered", numeric: true, value: (one) => one.delivered },
    ],
    actions: may.administer() && ((row) => row.name === "/" || row.name === vhost ? [] : [{ label: "Delete", danger: true, work: remove }]),
  });

  async function add() {
    const made = await ask({
      title: "Add a virtual host",
      text: "You get all permissions in it; set those of others under Users.",
      action: "Add virtual host",
      body: field({ name: "name", label: "Name", required: true, maxlength: 255 }),
      submit: ({ name }) => api.putVhost(name),
    });
    if (made) notify(`Virtual host ${made.name} is there.`);
    await refresh();
  }

  async function remove(one) {
    const text = [`${count(one.queues, "queue")} with ${count(one.ready + one.unacknowledged, "message")} are deleted with it, and its connections are closed.`,
      "This cannot be undone."];
    if (!(await confirmed(`Delete virtual host ${one.name}?`, text, "Delete virtual host"))) return;
    await api.deleteVhost(one.name);
    notify(`Virtual host ${one.name} deleted.`);
    await refresh();
  }

  async function refresh() {
    try {
      const { vhosts } = await api.vhosts();
      total.textContent = vhosts.length;
      table.update(vhosts);
      refreshVhosts(vhosts);
    } catch (error) {
      table.fail(error);
    }
  }

  return {
    title: "Virtual hosts",
    count: total,
    tools: [may.administer() && button("Add virtual host", add, { class: "primary" })],
    body: [h("section", {}, table.node)],
    refresh,
  };
}
