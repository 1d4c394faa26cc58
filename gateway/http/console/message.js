// A message as people read it: what it says, its properties with their types, where it died.

import { h } from "./dom.js";
import { count } from "./format.js";
import { describe } from "./typed.js";

const HEX_ROWS = 32;
const PER_ROW = 16;
const JSON_INDENT = "  ";
const SECTIONS = [
  ["header", "Header"], ["properties", "Properties"], ["legacy", "Only in AMQP 0-8 to 0-10"],
  ["application_properties", "Application properties"],
  ["message_annotations", "Message annotations"], ["delivery_annotations", "Delivery annotations"],
  ["footer", "Footer"],
];
const STANDARD = new Set(["Header", "Properties", "Only in AMQP 0-8 to 0-10"]);
const SHOWN_ELSEWHERE = new Set(["legacy exchange", "legacy routing_key", "header first_acquirer"]);
const MOMENTS = new Set(["properties creation_time", "properties absolute_expiry_time"]);
const TEXTUAL = /^(text\/|application\/(xml|javascript|yaml)\b)|\+xml\b/;
// Clients of 0-8 name the character set of a text as its coding, which is no compression.
const CHARSET = /^(utf-?8|us-ascii|ascii|identity)$/i;
const DEATH_COLUMNS = [
  ["count", "Count"], ["reason", "Reason"], ["queue", "Queue"], ["exchange", "Exchange"],
  ["routing-keys", "Routing keys"], ["time", "Time"],
];

// Pretty JSON from its own words: numbers keep their digits, repeated keys stay.
export function prettyJson(text) {
  JSON.parse(text);
  let depth = 0;
  let made = "";
  const line = () => `\n${JSON_INDENT.repeat(depth)}`;
  const words = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g);
  words.forEach((word, at) => {
    if (word === "{" || word === "[") {
      const empty = words[at + 1] === "}" || words[at + 1] === "]";
      depth += 1;
      made += empty ? word : word + line();
    } else if (word === "}" || word === "]") {
      depth -= 1;
      made += words[at - 1] === "{" || words[at - 1] === "[" ? word : line() + word;
    } else if (word === ",") made += word + line();
    else made += word === ":" ? ": " : word;
  });
  return made;
}

function octetsOf(base64) {
  return Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
}

function textOf(octets) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(octets);
  } catch {
    return null;
  }
}

// By the content type: JSON and text as such, anything else as octets.
export function bodyNode({ kind, base64 = "" } = {}, contentType = "", coding = "") {
  const octets = octetsOf(base64);
  if (!octets.length) return emptyBody();
  const type = String(contentType).toLowerCase();
  const text = (coding && !CHARSET.test(coding)) || (kind && kind !== "data") ? null : textOf(octets);
  if (text !== null && /^application\/json\b|\+json\b/.test(type)) {
    try {
      return pre(prettyJson(text));
    } catch {
      return pre(text);
    }
  }
  return text !== null && TEXTUAL.test(type) ? pre(text) : hexDump(octets);
}

function emptyBody() {
  return h("p", { class: "empty-body" }, "Empty body");
}

function pre(text) {
  return h("pre", { tabindex: "0", role: "region", "aria-label": "Body" }, text);
}

function hexDump(octets) {
  const rows = [];
  for (let at = 0; at < octets.length && rows.length < HEX_ROWS; at += PER_ROW) {
    const row = [...octets.slice(at, at + PER_ROW)];
    const hex = row.map((one) => one.toString(16).padStart(2, "0")).join(" ");
    const text = row.map((one) => (one >= 0x20 && one < 0x7f ? String.fromCharCode(one) : "."));
    rows.push(`${at.toString(16).padStart(4, "0")}  ${hex.padEnd(PER_ROW * 3)} ${text.join("")}`);
  }
  const rest = octets.length - HEX_ROWS * PER_ROW;
  if (rest > 0) rows.push(`and ${count(rest, "more octet")}`);
  return [h("p", { class: "hint" }, `Binary, ${count(octets.length, "octet")}`),
    h("pre", { class: "hex", tabindex: "0", role: "region", "aria-label": "Body, hexadecimal" },
      rows.join("\n"))];
}

// --- properties --------------------------------------------------------------------------------

function typeTag(type) {
  return h("span", { class: "type" }, type);
}

export function valueNode(value) {
  const { type, text, items, entries } = describe(value);
  if (items) {
    if (!items.length) return ["empty ", typeTag(type)];
    return h("ul", { class: "values" }, items.map((one) => h("li", {}, valueNode(one))));
  }
  if (entries) {
    if (!entries.length) return ["empty ", typeTag(type)];
    return h("dl", { class: "properties" }, entries.map(([name, one]) => pair(name, one)));
  }
  return [h("span", { class: "value" }, text === "" ? "\u201c\u201d" : text), " ", typeTag(type)];
}

// The types of standard properties are the standard's: only what may vary is said.
function standardNode(value) {
  const plain = value === null || typeof value !== "object";
  return plain ? h("span", { class: "value" }, describe(value).text) : valueNode(value);
}

function pair(name, value, show = valueNode) {
  return h("div", {}, h("dt", {}, name),
    h("dd", {}, name === "x-death" && Array.isArray(value) ? deathTable(value) : show(value)));
}

function deathText(value) {
  if (value === undefined || value === null) return "";
  if (Array.isArray(value)) return value.map(deathText).join(", ");
  const { type, text } = describe(value);
  if (type === "timestamp") return new Date(text).toLocaleString();
  return text ?? JSON.stringify(value);
}

export function deathTable(deaths) {
  const rows = deaths.filter((one) => one !== null && typeof one === "object");
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Dead-letter history" },
    h("table", { class: "deaths" },
      h("thead", {}, h("tr", {}, DEATH_COLUMNS.map(([, label]) => h("th", { scope: "col" }, label)))),
      h("tbody", {}, rows.map((one) => h("tr", {},
        DEATH_COLUMNS.map(([key]) => h("td", {}, deathText(one[key]))))))));
}

// The sections that have something in them: [title, [[name, value]]].
export function sectionsOf(told) {
  return SECTIONS.map(([section, title]) => {
    const { entries = [] } = describe(told[section] ?? {});
    const pairs = entries.filter(([name, value]) => !SHOWN_ELSEWHERE.has(`${section} ${name}`) &&
      !(name === "delivery_count" && value === 0));
    return [title, pairs.map(([name, value]) => [name, MOMENTS.has(`${section} ${name}`)
      ? { $type: "timestamp", value: new Date(Number(value)).toISOString() } : value])];
  }).filter(([, pairs]) => pairs.length);
}

function sectionsNode(sections) {
  return h("div", { class: "decoded" }, sections.map(([title, pairs]) => [h("p", { class: "minor" }, title),
    h("dl", { class: "properties" }, pairs.map(([name, value]) =>
      pair(name, value, showOf(title))))]));
}

export function deathsOf(told) {
  const deaths = told.application_properties?.["x-death"];
  return Array.isArray(deaths) ? deaths.filter((one) => one !== null && typeof one === "object") : [];
}

export const showOf = (title) => (STANDARD.has(title) ? standardNode : valueNode);

// The whole message, in its full view, as a list item. `meta` are words for its first line.
export function messageItem(told, meta) {
  const { legacy = {}, properties = {}, header = {} } = told;
  const sections = sectionsOf(told);
  const number = sections.reduce((sum, [, pairs]) => sum + pairs.length, 0);
  const details = h("details", {}, h("summary", {}, number === 1 ? "1 property" : `${number} properties`));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(sectionsNode(sections));
  });
  const words = [...meta, legacy.exchange ? `exchange ${legacy.exchange}` : "default exchange",
    legacy.routing_key && `key ${legacy.routing_key}`, properties.content_type,
    properties.message_id !== undefined && describe(properties.message_id).text,
    header.first_acquirer === false && "redelivered", told.properties_unreadable && "unreadable properties"];
  return h("li", { class: "message" },
    h("div", { class: "meta" }, words.filter(Boolean).map((one) => h("span", {}, String(one)))),
    bodyNode(told.body, properties.content_type, properties.content_encoding), number ? details : null);
}
