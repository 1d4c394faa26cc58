// Messages of a queue, looked at without taking them, a page at a time.

import { button, h, say } from "./dom.js";

const PAGE = 25;

// `look({limit, after})` asks for a page; `item(entry, number, before)` makes its list items. `before`
// is the position of the one before it, if there is one.
export class Pages {
  constructor({ label, look, item, empty }) {
    this.look = look;
    this.item = item;
    this.empty = empty;
    this.note = h("p", { class: "hint", role: "status" }, "Browsing does not remove messages.");
    this.list = h("ol", { class: "messages", "aria-label": label });
    this.more = button("More", () => this.load(this.after));
    this.more.hidden = true;
    this.node = h("div", { class: "pages" }, this.note, this.list, this.more);
  }

  async load(after) {
    const told = await this.look({ limit: PAGE, after });
    if (!after) this.list.replaceChildren();
    const before = this.list.children.length;
    this.list.append(...told.messages.map((one, at) =>
      this.item(one, before + at + 1, at ? told.messages[at - 1].position : after)));
    const shown = this.list.children.length;
    this.after = told.next;
    this.more.hidden = told.messages.length === 0 || shown >= told.ready;
    say(this.note, told.ready ? `${shown.toLocaleString()} of ${told.ready.toLocaleString()} ready, oldest first. Browsing does not remove them.`
      : this.empty, "hint");
    return told.ready;
  }
}
