// One message beside its form for readers of other versions, and the content of a capsule.

import { h, newId, say } from "./dom.js";
import { count } from "./format.js";
import { sectionsOf, showOf } from "./message.js";

const FIDELITY = {
  exact: "Everything arrives, and comes back as it was, octet by octet.",
  equivalent: "Everything arrives, and comes back with the same names, types and values.",
  edited: "The message came with a capsule and was changed on its way: the changes count.",
  natural: "Whether everything arrives was not checked (crossing.mode).",
};
const MODERN = "1.0";
const BODY = "Body";
// These share their encoding: a message does not tell which of them it came by.
const ENCODINGS = { "0-9-1": "0-8 to 0-9-1" };
const nameOf = (version) => ENCODINGS[version] ?? version;

// Everything that a message has, by section and name: {value, node()}.
function rowsOf(message) {
  const rows = sectionsOf(message).flatMap(([title, pairs]) => pairs.map(([name, value]) =>
    [`${title}: ${name}`, { value, node: () => showOf(title)(value) }]));
  const { kind = "data", base64 = "" } = message.body ?? {};
  const size = base64 ? Math.floor(base64.length * 3 / 4) - (base64.match(/=*$/)[0].length) : 0;
  const body = `${kind}, ${count(size, "octet")}`;
  return new Map([...rows, [BODY, { value: body, node: () => body }]]);
}

function sentence({ fidelity, inexact, declined }) {
  if (declined !== undefined) return `These readers do not get it: ${declined}`;
  const names = inexact.join(", ");
  if (fidelity === "capsule") return `A capsule keeps what this version has no equal for, so that it comes back as it was: ${names}.`;
  if (fidelity === "lossy") return `Lost for these readers: ${names}.`;
  return FIDELITY[fidelity] ?? fidelity;
}

function table(came, seen, name) {
  const [here, there] = [rowsOf(came), rowsOf(seen.message)];
  const cell = (found) => h("td", {}, found ? found.node() : h("span", { class: "hint" }, "nothing"));
  const keys = [...here.keys(), ...there.keys()].filter((key) => key !== BODY);
  const rows = [...new Set(keys), BODY].map((key) => {
    const differs = JSON.stringify(here.get(key)?.value) !== JSON.stringify(there.get(key)?.value);
    return h("tr", { class: differs ? "differs" : undefined }, h("th", { scope: "row" }, key, differs && h("span", { class: "type" }, "differs")),
      cell(here.get(key)), cell(there.get(key)));
  });
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Came as ${name}, seen as ${nameOf(seen.version)}` },
    h("table", { class: "beside" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Property"),
      h("th", { scope: "col" }, `Came as ${name}`), h("th", { scope: "col" }, `Seen as ${nameOf(seen.version)}`))), h("tbody", {}, rows)));
}

// `look` asks for a page of the queue. The message is the one behind that at position `before`, if it
// is still there.
export function crossingsNode(look, position, before) {
  const load = async () => {
    const { messages: [one] } = await look({ limit: 1, after: before, crossings: true });
    return one?.position === position ? one : null;
  };
  const content = h("div", { class: "crossed" });
  const details = h("details", { class: "crossings" }, h("summary", {}, "As other versions see it"), content);

  async function fill() {
    const one = await load();
    if (!one) {
      content.replaceChildren(h("p", { class: "hint" }, "The message is not there any more."));
      return;
    }
    const id = newId("version");
    const select = h("select", { id }, one.seen_as.map((seen) => h("option", { value: seen.version }, nameOf(seen.version))));
    const note = h("p", { class: "hint", role: "status" });
    const place = h("div", {});
    const show = () => {
      const seen = one.seen_as.find((each) => each.version === select.value);
      say(note, sentence(seen));
      place.replaceChildren(...(seen.message ? [table(one.message, seen, nameOf(one.came_as))] : []));
    };
    if (one.seen_as.some((seen) => seen.version === MODERN)) select.value = MODERN;
    select.addEventListener("change", show);
    content.replaceChildren(h("div", { class: "field" }, h("label", { for: id }, `Came as ${nameOf(one.came_as)}; seen as`), select), note, place);
    show();
  }

  details.addEventListener("toggle", async () => {
    if (!details.open || content.childElementCount) return;
    try {
      await fill();
    } catch (error) {
      content.replaceChildren(h("p", { class: "bad" }, error.message));
    }
  });
  return details;
}
