// A form for one message with everything it can carry.

import { api } from "./api.js";
import { field, h, named, newId, run, say } from "./dom.js";
import { internal } from "./format.js";
import { HINTS, ID_TYPES, TYPES, fieldString, identifier, item, property } from "./typed.js";

const TEXTS = [
  ["Amqp-Reply-To", "Reply to"], ["Amqp-Subject", "Subject"], ["Amqp-Type", "Type"],
  ["Amqp-App-Id", "Application id"], ["Amqp-User-Id", "User id"], ["Amqp-Group-Id", "Group id"],
];
const NUMBERS = [["Amqp-Priority", "Priority", 255], ["Amqp-Ttl", "Expires after (ms)", 4294967295],
  ["Amqp-Group-Sequence", "Group sequence", 4294967295]];
const IDS = [["Amqp-Message-Id", "Message id"], ["Amqp-Correlation-Id", "Correlation id"]];

function propertyRow() {
  const hint = newId("hint");
  const name = h("input", { "data-part": "name", "aria-label": "Property name", placeholder: "name", autocomplete: "off", spellcheck: "false" });
  const value = h("input", { "data-part": "value", "aria-label": "Property value", placeholder: HINTS.string, autocomplete: "off", spellcheck: "false" });
  const type = h("select", { "data-part": "type", "aria-label": "Property type" }, TYPES.map((one) => h("option", { value: one }, one)));
  type.addEventListener("change", () => {
    value.placeholder = HINTS[type.value] ?? "whole number";
    value.disabled = type.value === "null";
  });
  const gone = h("button", { type: "button", "aria-label": "Remove this property" }, "×");
  const row = h("li", { class: "property", id: hint }, name, type, value, gone);
  gone.addEventListener("click", () => {
    const next = row.nextElementSibling ?? row.previousElementSibling;
    const form = row.closest("form");
    row.remove();
    (next?.querySelector("input") ?? form.querySelector(".add-property")).focus();
  });
  return row;
}

const KEPT = { disk: "kept on disk", memory: "kept in memory", mixed: "on disk in some of its queues" };

function headersOf(form, rows) {
  const given = named(form);
  const headers = { "Amqp-Durable": given.durable ? "?1" : "?0" };
  if (given["Content-Type"]) headers["Content-Type"] = given["Content-Type"];
  for (const [name] of TEXTS) if (given[name]) headers[name] = fieldString(given[name]);
  for (const [name] of NUMBERS) if (given[name]) headers[name] = item(given[name], "uint");
  for (const [name, label] of IDS) {
    if (!given[name]) continue;
    try {
      headers[name] = identifier(given[name], given[`${name} type`]);
    } catch (error) {
      throw new Error(`${label}: ${error.message}`);
    }
  }
  const members = [...rows.children].map((row) => {
    const part = (name) => row.querySelector(`[data-part=${name}]`).value;
    return property(part("name"), part("value"), part("type"));
  });
  if (members.length) headers["Amqp-Property"] = members.join(", ");
  return headers;
}

function bodyOf(form) {
  const text = form.elements.body.value;
  if (form.elements.form.value === "text") return new Blob([text]);
  try {
    return new Blob([Uint8Array.from(atob(text.replace(/\s/g, "")), (one) => one.charCodeAt(0))]);
  } catch {
    throw new Error("The body is not base64.");
  }
}

export function open({ vhost, query }) {
  const names = newId("names");
  const types = newId("types");
  const list = h("datalist", { id: names });
  const known = { queue: [], exchange: [] };
  const exchange = query.get("exchange");
  const radio = (value, label) => h("label", {}, h("input", { type: "radio", name: "kind", value, checked: value === (exchange ? "exchange" : "queue"), onchange: aim }), ` ${label}`);
  const target = field({ name: "target", label: "Queue", required: true, list: names, value: exchange ?? query.get("queue") ?? "" });
  const key = field({ name: "key", label: "Routing key" });
  const rows = h("ul", { class: "rows", "aria-label": "Application properties" });
  const output = h("output", { id: "published", "aria-live": "polite" });
  const send = h("button", { type: "submit", class: "primary" }, "Publish");
  const addRow = h("button", {
    type: "button", class: "add-property",
    onclick: () => {
      const row = propertyRow();
      rows.append(row);
      row.querySelector("input").focus();
    },
  }, "Add property");

  function aim() {
    const kind = form.elements.kind.value;
    key.hidden = kind === "queue";
    say(target.querySelector("label"), kind === "queue" ? "Queue" : "Exchange");
    list.replaceChildren(...known[kind].slice(0, 500).map((value) => h("option", { value })));
  }

  const form = h("form", { id: "publish" },
    h("fieldset", { class: "choice" }, h("legend", {}, "To"), radio("queue", "Queue"), radio("exchange", "Exchange")),
    h("div", { class: "row" }, target, key,
      field({ name: "Content-Type", label: "Content type", value: "application/json", list: types })),
    field({ name: "body", label: "Body", type: "textarea", rows: 7, value: '{"hello": "world"}' }),
    h("div", { class: "row" },
      field({ name: "form", label: "Body is written as", options: [["text", "text (UTF-8)"], ["base64", "base64"]] }),
      field({ name: "durable", label: "Durable", type: "checkbox", value: true })),
    h("fieldset", {}, h("legend", {}, "Application properties"), rows, addRow),
    h("details", {}, h("summary", {}, "Standard properties"),
      h("div", { class: "row" },
        IDS.map(([name, label]) => [field({ name, label }), field({ name: `${name} type`, label: `${label} is a`, options: ID_TYPES })]),
        TEXTS.map(([name, label]) => field({ name, label, maxlength: 255 })),
        NUMBERS.map(([name, label, max]) => field({ name, label, type: "number", min: 0, max, step: 1 })))),
    h("div", { class: "actions" }, send, output),
    list, h("datalist", { id: types }, ["application/json", "text/plain", "application/octet-stream"].map((value) => h("option", { value }))));

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    say(output, "", "");
    run(send, async () => {
      try {
        const given = named(form);
        const told = await api.publish(vhost, given, headersOf(form, rows), bodyOf(form));
        say(output, `Accepted as ${told.message_id}, ${KEPT[told.durability] ?? told.durability}`, "good");
      } catch (error) {
        say(output, error.message, "bad");
      }
    });
  });
  aim();

  async function refresh() {
    const names = (found) => found.map((one) => one.name).filter((name) => name && !internal(name));
    const [queues, exchanges] = await Promise.allSettled([api.queues(vhost), api.exchanges(vhost)]);
    if (queues.status === "fulfilled") known.queue = names(queues.value);
    if (exchanges.status === "fulfilled") known.exchange = names(exchanges.value);
    const shown = [...list.children].map((one) => one.value).join("\n");
    if (shown !== known[form.elements.kind.value].slice(0, 500).join("\n")) aim();
  }

  return { title: "Publish", body: [h("section", {}, form)], refresh };
}
