// Messages as they come, with their properties decoded. Nothing starts by itself: an address only
// fills the form in. A queue is browsed; consuming from it is chosen, and confirmed.

import { Browse } from "./browse.js";
import { confirmed, field, h, run, say } from "./dom.js";
import { clock } from "./format.js";
import { messageItem } from "./message.js";
import { Stream } from "./stream.js";

const MOST_MESSAGES = 200;
const EVERYTHING = "exchange:amq.topic?binding=#";
const QUEUE = "queue:";
const MODES = [["browse", "browse: they stay in the queue"], ["consume", "consume: they are taken out of the queue"]];

export function open({ vhost, query }) {
  let received = 0;
  let source = "";
  let word = "Listening";
  const list = h("ol", { id: "events", class: "messages", "aria-label": "Messages, newest first" });
  const state = h("p", { id: "listening", class: "hint", role: "status" }, "Not listening.");
  const start = h("button", { type: "submit", id: "listen-button", class: "primary" }, "Listen");
  const input = field({
    name: "source", label: "Source", required: true, value: query.get("source") || EVERYTHING,
    hint: "exchange:NAME?binding=KEY gets copies of published messages; queue:NAME shows a queue.",
  });
  const mode = field({ name: "mode", label: "Messages of a queue", options: MODES, value: "browse" });
  const clear = h("button", { type: "button", onclick: () => list.replaceChildren() }, "Clear");

  function tell(text, className) {
    say(state, text, `hint ${className}`);
    const on = current.running;
    say(start, on ? "Stop" : "Listen");
    start.setAttribute("aria-pressed", String(on));
  }

  function add(node) {
    list.prepend(node);
    while (list.children.length > MOST_MESSAGES) list.lastElementChild.remove();
  }

  const handlers = {
    state: tell,
    message(told) {
      received += 1;
      tell(`${word}: ${received} received.`, "");
      add(messageItem(told, [clock()]));
    },
    gap({ lost }) {
      add(h("li", { class: "bad" }, lost === null ? "Some messages were lost." : `${lost} messages were lost.`));
    },
  };
  const stream = new Stream(handlers);
  const browse = new Browse(handlers);
  let current = stream;

  // Whether the user wants what is about to happen. A route may stand for a queue.
  async function sure(wanted, browsing) {
    if (browsing || wanted.startsWith("exchange:")) return true;
    const what = wanted.startsWith(QUEUE) ? `queue ${wanted.slice(QUEUE.length)}` : wanted;
    return confirmed(`Consume from ${what}?`,
      "Every message that is shown here is removed from the queue, and no other consumer gets it.", "Consume");
  }

  const form = h("form", { id: "listen", class: "listen" }, h("div", {}, input, mode), h("div", { class: "actions" }, start, clear));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (current.running) {
      current.stop();
      tell("Not listening.", "");
      return;
    }
    const wanted = form.elements.source.value.trim();
    const browsing = wanted.startsWith(QUEUE) && form.elements.mode.value === "browse";
    run(start, async () => {
      if (!(await sure(wanted, browsing))) return;
      if (wanted !== source || browsing) list.replaceChildren();
      source = wanted;
      received = 0;
      word = browsing ? "Browsing" : "Listening";
      current = browsing ? browse : stream;
      current.listen(vhost, browsing ? wanted.slice(QUEUE.length) : wanted);
      tell("Connecting.", "");
    });
  });

  return {
    title: "Live messages",
    body: [h("section", {}, form, state), h("section", {}, list)],
    close: () => current.stop(),
  };
}
