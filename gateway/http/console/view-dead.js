// Dead letters: what died, where and why; send it back or throw it away.

import { api } from "./api.js";
import { crossingsNode } from "./crossings.js";
import { ask, button, complain, confirmed, field, h, notify, run, say } from "./dom.js";
import { count } from "./format.js";
import { deathTable, deathsOf, messageItem } from "./message.js";
import { Pages } from "./pages.js";
import { may } from "./session.js";

const REASONS = [["", "died for any reason"], ["rejected", "were rejected"], ["expired", "expired"],
  ["maxlen", "did not fit"], ["delivery_limit", "were delivered too often"]];

// Queues that a dead letter exchange leads to, with the queues whose dead come there.
export function deadLetterQueues(queues, exchanges, bindings) {
  const reaches = new Map();
  const add = (name, from) => {
    if (!reaches.has(name)) reaches.set(name, new Set());
    reaches.get(name).add(from);
  };
  const known = new Set(queues.map((one) => one.name));
  for (const one of queues) {
    const exchange = one.arguments?.["x-dead-letter-exchange"];
    if (exchange === undefined) continue;
    const key = one.arguments["x-dead-letter-routing-key"];
    if (exchange === "") {
      if (known.has(key)) add(key, one.name);
      continue;
    }
    const seen = new Set([exchange]);
    const type = (name) => exchanges.find((each) => each.name === name)?.type;
    for (const name of seen) {
      for (const bound of bindings) {
        if (bound.source !== name) continue;
        if (type(name) === "direct" && key !== undefined && bound.routing_key !== key) continue;
        if (bound.destination_type === "queue") add(bound.destination, one.name);
        else seen.add(bound.destination);
      }
    }
  }
  return reaches;
}

export function open({ vhost, name, link, go }) {
  let reaches = new Map();
  const names = h("datalist", { id: "dead-letter-queues" });
  const sources = h("datalist", { id: "dead-letter-sources" });
  const chosen = field({ name: "queue", label: "Queue with dead letters", required: true, list: "dead-letter-queues", value: name ?? "" });
  const show = h("button", { type: "submit", class: "primary" }, "Show");
  const form = h("form", { class: "listen" }, chosen, h("div", { class: "actions" }, show), names, sources);
  const suggestions = h("ul", { class: "suggestions", "aria-label": "Queues that get dead letters" });
  const pages = new Pages({
    label: "Dead letters, oldest first",
    empty: "No dead letters here.",
    look: (page) => api.deadLetters(vhost, name, page),
    item: letterItem,
  });
  const redriveAll = may.write(vhost) && button("Redrive", () => redrive(), { class: "primary" });
  const purgeAll = button("Throw away", () => purge(), { class: "danger" });
  const tools = h("div", { class: "actions" }, redriveAll, purgeAll);
  tools.hidden = !name;

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = form.elements.queue.value;
    if (wanted === name) run(show, load);
    else go("dead-letters", wanted);
  });

  function letterItem({ message, position }, number, before) {
    const deaths = deathsOf(message);
    const [last] = deaths;
    const meta = [`#${number}`, last && `${last.reason} in ${last.queue}`,
      last && count(Number(last.count) || 1, "time")];
    const item = messageItem(message, meta);
    if (deaths.length) item.lastElementChild.before(h("h3", { class: "minor" }, "Where it died"), deathTable(deaths));
    item.append(crossingsNode((page) => api.deadLetters(vhost, name, page), position, before));
    return item;
  }

  async function load() {
    try {
      tools.hidden = !(await pages.load());
    } catch (error) {
      pages.list.replaceChildren();
      tools.hidden = true;
      say(pages.note, error.message, "hint bad");
    }
  }

  async function redrive() {
    const told = await ask({
      title: `Redrive ${name}`,
      text: "A message is removed from this queue when it is safely stored at its target.",
      action: "Redrive",
      body: [
        field({ name: "to", label: "To", options: [["queue", "the queue of its first death"], ["exchange", "the exchange of its first publish"]] }),
        h("div", { class: "row" },
          field({ name: "reason", label: "Only those that", options: REASONS }),
          field({ name: "queue", label: "Only those that died in", list: "dead-letter-sources" }),
          field({ name: "limit", label: "At most", type: "number", min: 1, max: 100000, step: 1, value: 1000, required: true }),
          field({ name: "rate", label: "Messages per second", type: "number", min: 1, max: 100000, step: 1, hint: "Empty: no limit." })),
      ],
      submit: ({ to, reason, queue, limit, rate }) => api.redrive(vhost, name, {
        to, limit: Number(limit), ...(rate ? { rate: Number(rate) } : {}),
        filter: { ...(reason ? { reason } : {}), ...(queue ? { queue } : {}) },
      }),
    });
    if (!told) return;
    const words = [`${count(told.redriven, "message")} redriven from ${name}`,
      told.skipped && `${told.skipped} skipped`, !told.complete && "more remain"].filter(Boolean);
    notify(`${words.join(", ")}.`);
    if (told.failed) {
      const why = [...new Set(told.failures.map((one) => one.reason))].join(", ");
      complain(new Error(`${count(told.failed, "message")} could not be redriven: ${why}.`));
    }
    await load();
  }

  async function purge() {
    if (!(await confirmed(`Throw away the dead letters in ${name}?`, "This cannot be undone.", "Throw away"))) return;
    const { purged } = await api.purgeDead(vhost, name);
    notify(`${count(purged, "message")} of ${name} thrown away.`);
    await load();
  }

  async function suggest() {
    const [queues, exchanges, bindings] = await Promise.all(
      [api.queues(vhost), api.exchanges(vhost), api.bindings(vhost)]);
    reaches = deadLetterQueues(queues, exchanges, bindings);
    const waiting = (queue) => queues.find((one) => one.name === queue)?.ready ?? 0;
    const shown = JSON.stringify([...reaches].map(([queue, from]) => [queue, waiting(queue), ...from]));
    if (suggestions.dataset.shown === shown) return;
    suggestions.dataset.shown = shown;
    sources.replaceChildren(...[...(reaches.get(name) ?? [])].map((value) => h("option", { value })));
    names.replaceChildren(...[...reaches.keys()].map((value) => h("option", { value })));
    suggestions.replaceChildren(...[...reaches].map(([queue, from]) => h("li", {},
      h("a", { href: link("dead-letters", queue), "aria-current": queue === name ? "true" : undefined }, queue),
      h("span", { class: "hint" }, ` ${count(waiting(queue), "message")}, from ${[...from].join(", ")}`))));
    if (!reaches.size) suggestions.replaceChildren(h("li", { class: "hint" }, "No queue here has a dead letter exchange that routes to a queue."));
  }

  async function refresh() {
    try {
      await suggest();
    } catch (error) {
      suggestions.replaceChildren(h("li", { class: "bad" }, error.message));
    }
  }

  return {
    title: "Dead letters",
    body: [
      h("section", {}, form, suggestions),
      name ? h("section", {}, h("div", { class: "titled" }, h("h2", {}, name), tools), pages.node) : null,
    ],
    refresh,
    opened: () => name && load(),
  };
}
