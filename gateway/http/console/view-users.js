// Users, their tags and passwords, and what each may do in which virtual host.

import { api } from "./api.js";
import { ask, button, confirmed, field, h, notify } from "./dom.js";
import { LiveTable } from "./table.js";
import { chips } from "./view-queues.js";

const TAGS = [["administrator", "Administrator: may change everything"],
  ["monitoring", "Monitoring: may see everything"],
  ["impersonator", "Impersonator: may set another user id"]];

function tagFields(tags) {
  return h("fieldset", {}, h("legend", {}, "Tags"),
    TAGS.map(([name, label]) => field({ name, label, type: "checkbox", value: tags.includes(name) })));
}

const tagsOf = (given) => TAGS.map(([name]) => name).filter((name) => given[name]);

export function open({ vhost }) {
  const total = h("span", { class: "count" });
  let hosts = [vhost];

  const users = new LiveTable({
    label: "users",
    filter: true,
    key: (one) => one.name,
    columns: [
      { label: "User", mono: true, value: (one) => one.name },
      {
        label: "Tags", sort: false, value: (one) => one.tags.join(" "),
        make: (one) => chips(one.tags),
      },
      { label: "Logins from", value: (one) => (one.loopback_only ? "this machine only" : "anywhere") },
    ],
    actions: () => [
      { label: "Change", work: change },
      { label: "Permit", work: (one) => permit({ user: one.name, vhost, configure: ".*", write: ".*", read: ".*" }, true) },
      { label: "Remove", danger: true, work: removeUser },
    ],
  });

  const pattern = (label, name) => ({ label, mono: true, value: (one) => one[name] || "(nothing)" });
  const permissions = new LiveTable({
    label: "permissions",
    filter: true,
    key: (one) => JSON.stringify([one.user, one.vhost]),
    empty: "No permissions.",
    columns: [
      { label: "User", mono: true, value: (one) => one.user },
      { label: "Virtual host", mono: true, value: (one) => one.vhost },
      pattern("Configure", "configure"), pattern("Write", "write"), pattern("Read", "read"),
    ],
    actions: (row) => [
      { label: "Change", does: `Change what ${row.user} may in ${row.vhost}`, work: (one) => permit(one, false) },
      { label: "Remove", does: `Remove the permission of ${row.user} in ${row.vhost}`, danger: true, work: forbid },
    ],
  });

  async function add() {
    const made = await ask({
      title: "Add a user",
      action: "Add user",
      body: [
        field({ name: "name", label: "Name", required: true, maxlength: 255, autocomplete: "username" }),
        field({ name: "password", label: "Password", type: "password", required: true, autocomplete: "new-password" }),
        tagFields([]),
        field({ name: "permit", label: `All permissions in virtual host ${vhost}`, type: "checkbox", value: true }),
      ],
      submit: async (given) => {
        if (users.rows.some((one) => one.name === given.name)) throw new Error(`There is a user ${given.name} already.`);
        const user = await api.putUser(given.name, { password: given.password, tags: tagsOf(given) });
        if (given.permit) await api.putPermission(given.name, vhost, { configure: ".*", write: ".*", read: ".*" });
        return user;
      },
    });
    if (made) notify(`User ${made.name} added.`);
    await refresh();
  }

  async function change(one) {
    const made = await ask({
      title: `Change ${one.name}`,
      action: "Change user",
      body: [
        h("input", { hidden: true, autocomplete: "username", value: one.name }),
        field({ name: "password", label: "New password", type: "password", autocomplete: "new-password", hint: "Empty: unchanged." }),
        tagFields(one.tags),
      ],
      submit: (given) => api.putUser(one.name, {
        tags: tagsOf(given), ...(given.password ? { password: given.password } : {}),
      }),
    });
    if (made) notify(`User ${made.name} changed.`);
    await refresh();
  }

  async function removeUser(one) {
    const text = "Its permissions are removed, and its connections, sessions and streams are closed.";
    if (!(await confirmed(`Remove user ${one.name}?`, text, "Remove user"))) return;
    await api.deleteUser(one.name);
    notify(`User ${one.name} removed.`);
    await refresh();
  }

  async function permit(one, choose) {
    const made = await ask({
      title: `What ${one.user} may do`,
      text: "Regular expressions, searched for anywhere in a name: .* is everything, an empty one nothing.",
      action: "Set permission",
      body: [
        choose ? field({ name: "vhost", label: "Virtual host", options: hosts, value: one.vhost })
          : h("p", {}, "In virtual host ", h("code", {}, one.vhost)),
        field({ name: "configure", label: "Configure", value: one.configure, hint: "create and delete" }),
        field({ name: "write", label: "Write", value: one.write, hint: "publish to, bind" }),
        field({ name: "read", label: "Read", value: one.read, hint: "consume from, bind from" }),
      ],
      submit: ({ vhost: given, ...patterns }) => api.putPermission(one.user, given ?? one.vhost, patterns),
    });
    if (made) notify(`Permissions of ${one.user} set.`);
    await refresh();
  }

  async function forbid(one) {
    if (!(await confirmed(`Remove the permissions of ${one.user} in ${one.vhost}?`, "The user can then no longer open that virtual host.", "Remove permission"))) return;
    await api.deletePermission(one.user, one.vhost);
    notify(`${one.user} has no permissions in ${one.vhost} any more.`);
    await refresh();
  }

  async function refresh() {
    try {
      const [found, permitted, known] = await Promise.all([api.users(), api.permissions(), api.vhosts()]);
      total.textContent = found.users.length;
      hosts = known.vhosts.map((one) => one.name);
      users.update(found.users);
      permissions.update(permitted.permissions);
    } catch (error) {
      users.fail(error);
      permissions.update([]);
    }
  }

  return {
    title: "Users",
    count: total,
    tools: [button("Add user", add, { class: "primary" })],
    body: [
      h("section", {}, users.node),
      h("section", {}, h("h2", {}, "Permissions"), permissions.node),
    ],
    refresh,
  };
}
