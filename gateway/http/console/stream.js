// A reader of server-sent events on fetch rather than EventSource, which hides why a stream was
// refused. It comes back with its cursor when the connection breaks.

import { api, refused } from "./api.js";

export class Stream {
  constructor(handlers) {
    this.handlers = handlers;
    this.abort = null;
    this.cursor = "";
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
    const path = api.eventsPath(vhost, source);
    const mine = this.abort = new AbortController();
    this.cursor = "";
    this.handlers.state("Connecting.", "");
    while (this.abort === mine) {
      try {
        await this.read(path, mine.signal);
      } catch (error) {
        if (this.abort === mine && error.final) this.end(error.message, true);
      }
      if (this.abort !== mine) return;
      this.handlers.state("Reconnecting.", "");
      await new Promise((resume) => setTimeout(resume, 1000 + Math.random() * 2000));
    }
  }

  end(reason, bad) {
    this.stop();
    this.handlers.state(`Ended: ${reason}`, bad ? "bad" : "");
  }

  async read(path, signal) {
    const headers = { Accept: "text/event-stream" };
    if (this.cursor) headers["Last-Event-ID"] = this.cursor;
    const answer = await fetch(path, { headers, signal, cache: "no-store" });
    if (!answer.ok) throw await refused(answer);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) this.block(block);
    }
  }

  // One event, comment or cursor.
  block(text) {
    let kind = "message";
    let data = "";
    for (const line of text.split("\n")) {
      if (line.startsWith("event: ")) kind = line.slice(7);
      else if (line.startsWith("data: ")) data = line.slice(6);
      else if (line.startsWith("id: ")) this.cursor = line.slice(4);
    }
    if (data) this.take(kind, JSON.parse(data));
  }

  take(kind, told) {
    const { message, state, gap } = this.handlers;
    if (kind === "message") message(told);
    else if (kind === "gateway.open") state(told.resume === "fresh" ? "Listening." : `Listening again (${told.resume}).`, "");
    else if (kind === "gateway.gap") gap(told);
    else if (kind === "gateway.close" && !told.reconnect) this.end(told.reason, true);
  }
}
