// The messages of a queue, oldest first and then as they come, without taking them: pages of the
// browse API, asked for again at the end. Told like a stream (stream.js).

import { api } from "./api.js";

const PAGE = 50;
const AGAIN_MS = 2000;

export class Browse {
  constructor(handlers) {
    this.handlers = handlers;
    this.current = null;
  }

  get running() {
    return this.current !== null;
  }

  stop() {
    this.current = null;
  }

  async listen(vhost, queue) {
    const mine = this.current = {};
    let after;
    while (this.current === mine) {
      try {
        const told = await api.browse(vhost, queue, { limit: PAGE, after });
        if (this.current !== mine) return;
        this.handlers.state("Browsing.", "");
        for (const { message } of told.messages) this.handlers.message(message);
        after = told.next ?? after;
      } catch (error) {
        if (this.current !== mine) return;
        if (error.final) {
          this.stop();
          this.handlers.state(`Ended: ${error.message}`, "bad");
          return;
        }
        this.handlers.state("Trying again.", "");
      }
      await new Promise((resume) => setTimeout(resume, AGAIN_MS));
    }
  }
}
