// An event stream, told to a view: its events, and how it stands with the connection.

import { follow } from "./api.js";

export class Stream {
  constructor(handlers) {
    this.handlers = handlers;
    this.abort = null;
  }

  get running() {
    return this.abort !== null;
  }

  stop() {
    this.abort?.abort();
    this.abort = null;
  }

  async listen(vhost, source) {
    this.stop();
    const mine = this.abort = new AbortController();
    this.handlers.state("Connecting.", "");
    const options = {
      signal: mine.signal,
      control: (event) => this.take(event),
      lost: () => this.handlers.state("Reconnecting.", ""),
    };
    try {
      for await (const { data } of follow(vhost, source, options)) {
        if (this.abort === mine) this.handlers.message(data);
      }
    } catch (error) {
      if (this.abort !== mine) return;
      this.stop();
      this.handlers.state(`Ended: ${error.message}`, "bad");
    }
  }

  take({ type, data }) {
    const { state, gap } = this.handlers;
    if (type === "gateway.open") state(data.resume === "fresh" ? "Listening." : `Listening again (${data.resume}).`, "");
    else if (type === "gateway.gap") gap(data);
  }
}
