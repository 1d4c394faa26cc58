// Moves of queues: how far they are; begin one after a count, pause it, lead its messages back.

import { api } from "./api.js";
import { ask, button, confirmed, field, h, notify } from "./dom.js";
import { count, rate, since } from "./format.js";
import { LiveTable } from "./table.js";

const again = (one) => one.suppressed + one.flagged;
const progress = (one) => one.expected === null ? String(one.moved) : `${one.moved} of ${one.expected}`;

function bar(name, one) {
  if (!one.expected) return progress(one);
  const value = Math.min(one.moved, one.expected);
  return [h("progress", { max: one.expected, value, "aria-label": `Progress of ${name}` }), ` ${progress(one)}`];
}

// "orders" or "orders = orders.new" on each line.
export function readPairs(text) {
  const pairs = [];
  for (const line of text.split("\n").map((one) => one.trim()).filter(Boolean)) {
    const [source, ...rest] = line.split("=").map((one) => one.trim());
    if (!source || rest.length > 1) throw new Error(`${line}: write QUEUE or QUEUE = QUEUE THERE`);
    pairs.push({ source, destination: rest[0] ?? "" });
  }
  if (!pairs.length) throw new Error("Name one queue at least.");
  return pairs;
}

// Places are virtual hosts of this gateway and upstreams.
function bodyOf(given) {
  const [source, source_vhost] = JSON.parse(given.from);
  const [destination, destination_vhost] = JSON.parse(given.to);
  return {
    name: given.name, source, source_vhost, destination, destination_vhost,
    queues: readPairs(given.queues), rate: Number(given.rate), batch: Number(given.batch),
    grace_seconds: Number(given.grace), wait_seconds: Number(given.wait), retries: Number(given.retries), refused: given.refused,
    notes: given.notes,
  };
}

const START = { name: "", from: "", to: "", queues: "", rate: 0, batch: 500, grace: 1, wait: 10, retries: 3, refused: "stop", notes: true };

function askForMove(places, values) {
  const first = places.find(([key]) => key === values.from) ?? places[0];
  const other = places.find(([key]) => key === values.to) ?? places.find((one) => one !== first) ?? first;
  return ask({
    title: "Move queues",
    text: "Each queue is emptied into another one, once. Nothing is moved before you have seen the counts.",
    action: "Count",
    body: [
      h("div", { class: "row" },
        field({ name: "from", label: "From", options: places, value: first[0] }),
        field({ name: "to", label: "To", options: places, value: other[0] })),
      field({
        name: "queues", label: "Queues", type: "textarea", required: true, value: values.queues,
        hint: "One per line; orders = orders.new for another name there.",
      }),
      h("details", {}, h("summary", {}, "Name, rate and faults"), h("div", { class: "row" },
        field({ name: "name", label: "Name", maxlength: 64, pattern: "[A-Za-z0-9._~\\-]*", value: values.name, hint: "Empty: one is made up." }),
        field({ name: "rate", label: "Messages per second", type: "number", min: 0, step: "any", required: true, value: values.rate, hint: "0: no limit." }),
        field({ name: "batch", label: "Messages in a batch", type: "number", min: 1, max: 10000, required: true, value: values.batch }),
        field({ name: "grace", label: "Seconds until a queue is empty", type: "number", min: 0, max: 3600, step: "any", required: true, value: values.grace, hint: "Without a message." }),
        field({
          name: "wait", label: "Seconds to wait when it goes on", type: "number", min: 0, max: 3600, step: "any", required: true,
          value: values.wait, hint: "At most, until messages that were under way are back.",
        }),
        field({ name: "retries", label: "Retries of a message", type: "number", min: 0, max: 1000, required: true, value: values.retries }),
        field({ name: "refused", label: "Then a message that is not taken", value: values.refused, options: [["stop", "ends the move"], ["reject", "is rejected at its source"]] }),
        field({ name: "notes", label: "Mark messages", type: "checkbox", value: values.notes, hint: "Without marks a rollback cannot count." }))),
    ],
    submit: async (given) => {
      const body = bodyOf(given);
      const { queues } = await api.countMove(body);
      return { values: given, body, queues };
    },
  });
}

function askToBegin({ body, queues }) {
  const told = (number) => number === null ? "not told" : number.toLocaleString();
  const table = new LiveTable({
    label: "counts", key: (one) => JSON.stringify([one.source, one.destination]),
    columns: [
      { label: "Queue", mono: true, value: (one) => one.source },
      { label: "To", mono: true, value: (one) => one.destination },
      { label: "Messages", numeric: true, value: (one) => told(one.messages) },
      { label: "There already", numeric: true, value: (one) => told(one.there) },
    ],
  });
  table.update(queues);
  const known = queues.every((one) => one.messages !== null);
  const sum = queues.reduce((all, one) => all + (one.messages ?? 0), 0);
  return ask({
    title: known ? `Move ${count(sum, "message")}?` : "Move the messages?",
    text: "Producers and consumers of the old queues should be gone.",
    action: "Move", wide: true, body: table.node,
    submit: () => api.makeMove(body),
  });
}

// `places()` gives [key, label] of where queues may be; `changed` is called after each change.
export function movesSection({ places, changed }) {
  const tool = button("Move queues", begin, { class: "primary" });
  tool.hidden = true;
  let may = false;
  let table = null;
  const holder = h("div", {});

  function build(allowed) {
    may = allowed;
    tool.hidden = !may;
    table = new LiveTable({
      label: "moves", key: (one) => one.name, empty: "No queues have been moved.",
      columns: [
        { label: "Name", mono: true, value: (one) => one.name },
        { label: "State", value: (one) => one.state },
        { label: "From", mono: true, value: (one) => one.source },
        { label: "To", mono: true, value: (one) => one.destination },
        { label: "Moved", className: "progress", value: progress, sort: (one) => one.moved, make: (one) => bar(one.name, one) },
        { label: "Per second", numeric: true, value: (one) => one.state === "running" ? rate(one.rate) : "", sort: (one) => one.rate },
        { label: "Came again", numeric: true, value: again },
        { label: "Rejected", numeric: true, value: (one) => one.rejected },
        { label: "Since", value: (one) => since(one.changed), sort: (one) => String(one.changed) },
        { label: "Last error", value: (one) => one.error },
      ],
      actions: () => [
        { label: "Queues", work: showQueues },
        ...(may ? [
          { label: "Pause", when: (one) => one.state === "running", work: (one) => change(one, "pause", "is paused") },
          { label: "Resume", when: (one) => one.state === "paused" || one.state === "failed", work: (one) => change(one, "resume", "runs") },
          { label: "Roll back", when: (one) => one.state !== "running" && !one.reverses, work: rollBack },
          { label: "Forget", danger: true, when: (one) => one.state !== "running", work: forget },
        ] : []),
      ],
    });
    holder.replaceChildren(table.node);
  }

  async function change(one, action, told) {
    await api.changeMove(one.name, action);
    notify(`Move ${one.name} ${told}.`);
    await changed();
  }

  async function begin() {
    let values = START;
    for (;;) {
      const counted = await askForMove(places(), values);
      if (!counted) return;
      values = counted.values;
      const made = await askToBegin(counted);
      if (!made) continue;
      notify(`Move ${made.name} has begun.`);
      await changed();
      return;
    }
  }

  async function rollBack(one) {
    const back = await ask({
      title: `Roll ${one.name} back?`,
      text: ["All messages that are in the new queues go to the old ones, also those that others have published there.",
        "Messages that consumers have taken do not come back."],
      body: field({ name: "force", label: "Also if the old queues have messages", type: "checkbox", hint: "Those that come back stand behind them." }),
      action: "Roll back", danger: true,
      submit: ({ force }) => api.changeMove(one.name, "rollback", { force }),
    });
    if (!back) return;
    notify(`Move ${back.name} brings the messages back.`);
    await changed();
  }

  async function forget(one) {
    const text = "Its record is removed, so it can neither go on nor be rolled back. Messages stay where they are.";
    if (!(await confirmed(`Forget ${one.name}?`, text, "Forget"))) return;
    await api.forgetMove(one.name);
    notify(`Move ${one.name} is forgotten.`);
    await changed();
  }

  async function showQueues({ name }) {
    const one = await api.move(name);
    const queues = new LiveTable({
      label: `queues of ${name}`, key: (row) => row.queue,
      columns: [
        { label: "Queue", mono: true, value: (row) => row.source },
        { label: "To", mono: true, value: (row) => row.destination },
        { label: "Moved", className: "progress", value: progress, sort: (row) => row.moved, make: (row) => bar(row.source, row) },
        { label: "Came again", numeric: true, value: again },
        { label: "Rejected", numeric: true, value: (row) => row.rejected },
        ...(one.reverses ? [{ label: "Returned", numeric: true, value: (row) => row.returned }] : []),
        { label: "State", value: (row) => row.done ? "done" : "" },
      ],
    });
    queues.update(one.queues);
    await ask({ title: `Queues of ${name}`, body: queues.node, action: "Close", wide: true });
  }

  return {
    node: h("section", {}, h("div", { class: "titled" }, h("h2", {}, "Moves"), tool), holder),
    update(moves, allowed) {
      if (table === null || allowed !== may) build(allowed);
      table.update(moves);
    },
  };
}
