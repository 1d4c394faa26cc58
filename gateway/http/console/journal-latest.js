// The latest entries of the journal: who published what, and by which version.

import { api } from "./api.js";
import { octets } from "./format.js";
import { LiveTable } from "./table.js";

const LOOKED_AT = 50;
const SHOWN = 10;
const SMALL = 4096;
const MOST_LETTERS = 120;
const COLUMNS = ["pos", "ingest_ts", "address", "protocol", "client_id", "client_product", "user_id", "body_len"];

const cameBy = (protocol) => !protocol ? "the gateway" : protocol === "http" ? "HTTP" : protocol.replace(/^amqp-/, "AMQP ");

// The beginning of a body, as text if it is text.
function preview(base64) {
  const all = Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(all);
    if (!/[^\P{C}\s]/u.test(text)) return text.length > MOST_LETTERS ? `${text.slice(0, MOST_LETTERS)}\u2026` : text;
  } catch {
    // It is no text.
  }
  return `binary, ${octets(all.length)}`;
}

export class LatestEntries {
  constructor(vhost) {
    this.vhost = vhost;
    this.bodies = new Map();
    this.table = new LiveTable({
      label: "latest entries", key: (one) => one.pos, empty: `None that you may read among the last ${LOOKED_AT}.`,
      columns: [
        { label: "Position", numeric: true, value: (one) => one.pos },
        { label: "Taken", value: (one) => new Date(one.ingest_ts).toLocaleTimeString([], { hour12: false }), sort: (one) => one.ingest_ts },
        { label: "Address", mono: true, value: (one) => one.address },
        { label: "Came by", value: (one) => cameBy(one.protocol) },
        { label: "Client, user", value: (one) => [one.client_id || one.client_product, one.user_id].filter(Boolean).join(", ") },
        { label: "Body", mono: true, value: (one) => this.bodies.get(one.pos) ?? octets(one.body_len) },
      ],
    });
    this.node = this.table.node;
  }

  // `told`: the journal as a whole. Bodies are asked for once, and only small ones.
  async refresh({ start, end }) {
    const entries = [];
    // An answer ends with its segment; `next` rises with each.
    for (let from = Math.max(start, end - LOOKED_AT); from < end;) {
      const told = await api.journalEntries(this.vhost, from, LOOKED_AT, COLUMNS);
      entries.push(...told.entries);
      from = told.next > from ? told.next : end;
    }
    const latest = entries.slice(-SHOWN).reverse();
    const wanted = latest.filter((one) => one.body_len <= SMALL && !this.bodies.has(one.pos));
    await Promise.all(wanted.map(async ({ pos }) => {
      const { entries: [one] } = await api.journalEntries(this.vhost, pos, 1, ["pos", "body"]);
      if (one?.pos === pos) this.bodies.set(pos, preview(one.body ?? ""));
    }));
    const kept = new Set(latest.map((one) => one.pos));
    [...this.bodies.keys()].filter((pos) => !kept.has(pos)).forEach((pos) => this.bodies.delete(pos));
    this.table.update(latest);
  }
}
