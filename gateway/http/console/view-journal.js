// The journal: what is recorded, where it stands, for how long it stays, and who reads it.

import { api } from "./api.js";
import { confirmed, h, notify, say } from "./dom.js";
import { count, octets, since } from "./format.js";
import { LatestEntries } from "./journal-latest.js";
import { LiveTable } from "./table.js";

const number = (value) => value.toLocaleString();
const ago = (moment) => moment ? `${since(Date.parse(moment))} ago` : "";
const days = (seconds) => seconds >= 86400 ? `${number(Math.round(seconds / 8640) / 10)} d`
  : seconds >= 3600 ? `${number(Math.round(seconds / 360) / 10)} h` : `${number(seconds)} s`;
const EXAMPLE = '[[journal.recording]]\nvhost = "/"\naddress = "/queues/*"';

export function open({ vhost }) {
  const status = h("p", { class: "hint", role: "status" });
  const facts = h("dl", { class: "properties" });
  const off = h("section", { hidden: true }, h("h2", {}, "Nothing is recorded here"),
    h("p", {}, "Name the addresses in the configuration file, and start the gateway again:"),
    h("pre", { tabindex: "0", "aria-label": "example of a configuration" }, EXAMPLE),
    h("p", {}, "Event streams of exchanges with journal=durable are recorded without a rule."));

  const addresses = new LiveTable({
    label: "recorded addresses", key: (one) => one.address, filter: true, empty: "No entries that you may read.",
    columns: [
      { label: "Address", mono: true, value: (one) => one.address },
      { label: "Entries", numeric: true, value: (one) => number(one.entries), sort: (one) => one.entries },
      { label: "Octets in segments", numeric: true, value: (one) => octets(one.octets), sort: (one) => one.octets },
      { label: "First offset", numeric: true, value: (one) => one.first },
      { label: "Last offset", numeric: true, value: (one) => one.last },
    ],
  });
  const rules = new LiveTable({
    label: "rules", key: (one) => one.key, empty: "No rule is for this virtual host.",
    columns: [
      { label: "Addresses", mono: true, value: (one) => one.address },
      { label: "Recorded", value: (one) => one.record ? "yes" : "no" },
      { label: "Kept for", value: (one) => !one.record ? "" : one.keep_seconds === null ? "as all" : days(one.keep_seconds) },
      { label: "Octets of each", value: (one) => one.keep_octets === null ? "" : octets(one.keep_octets) },
    ],
  });
  const readers = new LiveTable({
    label: "readers", key: (one) => `${one.vhost}\n${one.name}`,
    empty: "No reader has a name. Spark streams get one by the option consumer.",
    columns: [
      { label: "Reader", mono: true, value: (one) => one.name },
      { label: "User", value: (one) => one.user || "reads the files" },
      { label: "Position", numeric: true, value: (one) => one.position },
      { label: "Behind", numeric: true, value: (one) => one.lag === null ? "another journal" : number(one.lag), sort: (one) => one.lag ?? -1 },
      { label: "Seen", value: (one) => ago(one.seen), sort: (one) => one.seen ?? "" },
    ],
    actions: (one) => one.vhost ? [{ label: "Forget", danger: true, work: forget }] : [],
  });
  const segments = new LiveTable({
    label: "segments", key: (one) => `${one.start}-${one.end}`, empty: "Nothing is sealed yet.",
    columns: [
      { label: "First position", numeric: true, value: (one) => one.start },
      { label: "Last position", numeric: true, value: (one) => one.end - 1 },
      { label: "Entries", numeric: true, value: (one) => number(one.entries), sort: (one) => one.entries },
      { label: "Octets", numeric: true, value: (one) => octets(one.octets), sort: (one) => one.octets },
      { label: "Oldest entry", value: (one) => ago(one.oldest), sort: (one) => one.oldest },
      { label: "Newest entry", value: (one) => ago(one.newest), sort: (one) => one.newest },
    ],
  });
  const latest = new LatestEntries(vhost);
  const more = h("p", { class: "hint" });
  const section = (title, ...nodes) => h("section", { hidden: true }, title ? h("h2", {}, title) : null, nodes);
  const there = [section("", facts), section("Latest entries", latest.node), section("Addresses", addresses.node), section("Readers", readers.node),
    section("Rules", rules.node), section("Segments", segments.node, more)];
  const show = (shown) => there.forEach((one) => { one.hidden = !shown; });

  async function forget(one) {
    const text = ["A reader that comes again under this name begins anew."];
    if (!(await confirmed(`Forget reader ${one.name}?`, text, "Forget reader"))) return;
    await api.forgetConsumer(vhost, one.name);
    notify(`Reader ${one.name} is forgotten.`);
    await refresh();
  }

  let shown = "";

  function tell(told) {
    const kept = `${days(told.keep_seconds)}, ${octets(told.keep_octets)} at most`;
    const found = [
      ["Journal", told.journal],
      ["Positions", told.end > told.start ? `${told.start} to ${told.end - 1}` : `none; the next is ${told.end}`],
      ["Not sealed", told.sealing ? count(told.end - told.sealed, "entry").replace("entrys", "entries") : "all: sealing is off, or pyarrow is missing"],
      ["Segments", `${octets(told.octets)}${told.oldest ? `, oldest entry ${ago(told.oldest)}` : ""}`],
      ["Kept", kept],
    ];
    const text = JSON.stringify(found);
    if (text === shown) return;
    shown = text;
    facts.replaceChildren(...found.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
  }

  async function refresh() {
    try {
      const told = await api.journal(vhost);
      say(status, "");
      off.hidden = told.recording || told.addresses.length > 0;
      show(Boolean(told.journal));
      tell(told);
      addresses.update(told.addresses);
      readers.update(told.consumers);
      rules.update(told.rules.map((one, at) => ({ ...one, key: at })));
      segments.update(told.segments);
      if (told.journal) await latest.refresh(told).catch((error) => latest.table.fail(error));
      say(more, told.more_segments ? "Older segments are not shown." : "");
      if (told.recording && !told.journal) say(status, "Nothing is recorded yet.");
    } catch (error) {
      show(false);
      say(status, error.status === 409 ? "This gateway keeps no journal: it is not durable." : error.message);
    }
  }

  return { title: "Journal", tools: [], body: [status, off, ...there], refresh };
}
