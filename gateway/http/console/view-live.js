// Messages as they come, with their properties decoded.

import { h, field, say } from "./dom.js";
import { clock } from "./format.js";
import { messageItem } from "./message.js";
import { Stream } from "./stream.js";

const MOST_MESSAGES = 200;
const EVERYTHING = "exchange:amq.topic?binding=#";

export function open({ vhost, query }) {
  let received = 0;
  let source = "";
  const list = h("ol", { id: "events", class: "messages", "aria-label": "Messages, newest first" });
  const state = h("p", { id: "listening", class: "hint", role: "status" }, "Not listening.");
  const start = h("button", { type: "submit", id: "listen-button", class: "primary" }, "Listen");
  const input = field({
    name: "source", label: "Source", required: true, value: query.get("source") || EVERYTHING,
    hint: "queue:NAME takes messages from the queue; exchange:NAME?binding=KEY gets copies.",
  });
  const clear = h("button", { type: "button", onclick: () => list.replaceChildren() }, "Clear");

  function tell(text, className) {
    say(state, text, `hint ${className}`);
    const on = stream.running;
    say(start, on ? "Stop" : "Listen");
    start.setAttribute("aria-pressed", String(on));
  }

  function add(node) {
    list.prepend(node);
    while (list.children.length > MOST_MESSAGES) list.lastElementChild.remove();
  }

  const stream = new Stream({
    state: tell,
    message(told) {
      received += 1;
      tell(`Listening: ${received} received.`, "");
      add(messageItem(told, [clock()]));
    },
    gap({ lost }) {
      add(h("li", { class: "bad" }, lost === null ? "Some messages were lost." : `${lost} messages were lost.`));
    },
  });

  const form = h("form", { id: "listen", class: "listen" }, input, h("div", { class: "actions" }, start, clear));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (stream.running) {
      stream.stop();
      tell("Not listening.", "");
      return;
    }
    const wanted = form.elements.source.value.trim();
    if (wanted !== source) list.replaceChildren();
    source = wanted;
    received = 0;
    stream.listen(vhost, source);
    tell("Connecting.", "");
  });

  return {
    title: "Live messages",
    body: [h("section", {}, form, state), h("section", {}, list)],
    close: () => stream.stop(),
    opened: () => query.get("source") && form.requestSubmit(),
  };
}
