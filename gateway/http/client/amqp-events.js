// Event streams of the AMQP gateway: one connection per browser, shared by all its tabs.
//
//   import { AmqpEvents } from "https://gateway.example/client/amqp-events.js";
//
//   const events = new AmqpEvents("/v1/%2F/events?source=exchange:prices%3Fbinding%3D%23", {
//     token: async () => (await fetch("/token")).text(),   // or ticket, or neither (cookie)
//   });
//   events.addEventListener("message", ({ data, lastEventId }) => show(JSON.parse(data)));
//   events.addEventListener("gateway.gap", ({ data }) => warn(JSON.parse(data).lost));
//   events.addEventListener("error", ({ detail }) => note(detail));
//   events.close();
//
// Tabs of one origin with the same URL elect a leader with a Web Lock. The leader has the stream
// and passes every event to the others over a BroadcastChannel. When the leader ends in any way, its
// lock is released: the next leader collects the events that other tabs have and it lacks, and
// resumes with the newest cursor, so that no tab misses an event or gets one twice. Without Web
// Locks (pages that are not a secure context) every tab has a stream of its own.
//
// Options:
//   token      async () => string: a bearer token; called for every connection, when a token is
//              refused, and when the gateway announces its expiry (a PATCH then extends the stream)
//   ticket     async () => string: a URL with a new stream ticket; called when there is none or the
//              last one is refused
//   headers    object of additional request headers
//   transport  "fetch" (default) or "eventsource", which can send no headers
//   credentials  "same-origin" (default), "include" or "omit": whether cookies are sent
//   lastEventId  cursor to begin with
//   share      false: a stream that is not shared with other tabs
//   name       distinguishes streams with the same URL, such as those of different users
//
// Events: those of the stream under their names ("message", "gateway.open", ...); "open"; "error"
// with {detail: {status, problem, final}}; "role" with {detail: "leader" | "follower" | "alone"}.

const RECENT = 512; // events that a tab keeps for a leader that comes to power
const GATHER_MS = 150; // how long a new leader listens to what others have
const LONGEST_MS = 30_000;
const SILENCE = 3; // heartbeats that may be missed

/** @typedef {{ type?: string, data?: string, id: string }} Told  a cursor has no data */
/** @typedef {{ status: number, problem?: any, final: boolean }} Failure */

/**
 * @typedef {object} Options  see above
 * @property {() => Promise<string>} [token]
 * @property {() => Promise<string>} [ticket]
 * @property {Record<string, string>} [headers]
 * @property {"fetch" | "eventsource"} [transport]
 * @property {RequestCredentials} [credentials]
 * @property {string} [lastEventId]
 * @property {boolean} [share]
 * @property {string} [name]
 * @property {string[]} [types]  names of events that `event=` gives, with "eventsource"
 */

/**
 * Ends with the signal, without an error.
 * @param {number} ms
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
export const sleep = (ms, signal) => new Promise((resume) => {
  const done = () => {
    clearTimeout(timer);
    signal.removeEventListener("abort", done);
    resume();
  };
  const timer = setTimeout(done, signal.aborted ? 0 : ms);
  signal.addEventListener("abort", done);
});

/** @param {number} ms */
export const jitter = (ms) => ms * (0.5 + Math.random());

// The event stream interpretation of the WHATWG HTML standard, section 9.2.6.
export class EventStreamParser {
  /**
   * @param {{ onevent: (event: { type: string, data: string, id: string }) => void,
   *   oncursor: (id: string) => void, onretry: (ms: number) => void }} handlers
   */
  constructor({ onevent, oncursor, onretry }) {
    this.onevent = onevent;
    this.oncursor = oncursor;
    this.onretry = onretry;
    this.decoder = new TextDecoder("utf-8"); // drops one byte order mark at the very beginning
    this.rest = "";
    this.afterReturn = false;
    this.id = "";
    this.type = "";
    this.data = "";
    this.sawId = false;
  }

  clear() {
    this.type = "";
    this.data = "";
    this.sawId = false;
  }

  /** @param {Uint8Array | undefined} octets */
  push(octets) {
    let text = this.decoder.decode(octets, { stream: true });
    if (this.afterReturn && text) {
      if (text[0] === "\n") text = text.slice(1); // the other half of a CR LF
      this.afterReturn = false;
    }
    text = this.rest + text;
    let from = 0;
    for (let at = 0; at < text.length; at += 1) {
      const letter = text[at];
      if (letter !== "\n" && letter !== "\r") continue;
      this.line(text.slice(from, at));
      if (letter === "\r") {
        if (at + 1 === text.length) this.afterReturn = true;
        else if (text[at + 1] === "\n") at += 1;
      }
      from = at + 1;
    }
    this.rest = text.slice(from);
  }

  /** @param {string} line */
  line(line) {
    if (line === "") {
      this.dispatch();
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value[0] === " ") value = value.slice(1);
    if (field === "data") this.data += `${value}\n`;
    else if (field === "event") this.type = value;
    else if (field === "id" && !value.includes("\0")) {
      this.id = value;
      this.sawId = true;
    } else if (field === "retry" && /^[0-9]+$/.test(value)) this.onretry(Number(value));
  }

  dispatch() {
    const { type, data, sawId, id } = this;
    this.clear();
    if (data) this.onevent({ type: type || "message", data: data.slice(0, -1), id });
    else if (sawId) this.oncursor(id);
  }
}

class Refused extends Error {
  /**
   * @param {number} status
   * @param {any} problem
   */
  constructor(status, problem) {
    super(problem?.detail ?? `status ${status}`);
    this.status = status;
    this.problem = problem;
  }

  // Whether asking again, as it is, can be of any use.
  get final() {
    if (this.status === 408 || this.status === 429 || this.status >= 500) return false;
    return !this.problem?.safe_to_retry;
  }
}

export class AmqpEvents extends EventTarget {
  #url;
  /** @type {Options} */
  #options;
  #ending = new AbortController();
  /** @type {BroadcastChannel | null} */
  #channel = null;
  #role = "";
  #id;
  #count = 0; // of the events of this stream, over all leaders
  /** @type {[number, Told][]} */
  #recent = []; // [count, event]
  #retry = 2500;
  #heartbeat = 15;
  #failures = 0;
  #ticket = "";
  /** @type {any[] | null} */
  #gathered = null;

  /**
   * @param {string | URL} url
   * @param {Options} [options]
   */
  constructor(url, options = {}) {
    super();
    this.#url = new URL(url, globalThis.location?.href).href;
    this.#options = { transport: "fetch", credentials: "same-origin", share: true, ...options };
    this.#id = options.lastEventId ?? "";
    const shared = this.#options.share && globalThis.navigator?.locks && globalThis.BroadcastChannel;
    if (shared) this.#stand(`amqp-events ${this.#options.name ?? ""} ${this.#url}`);
    else this.#run("alone");
  }

  get url() { return this.#url; }

  get lastEventId() { return this.#id; }

  get role() { return this.#role; }

  get closed() { return this.#ending.signal.aborted; }

  close() {
    if (this.closed) return;
    this.#ending.abort();
    this.#channel?.close();
  }

  // --- one of many -------------------------------------------------------------------------------

  /** @param {string} name */
  #stand(name) {
    const { signal } = this.#ending;
    this.#channel = new BroadcastChannel(name);
    this.#channel.onmessage = ({ data }) => this.#hear(data);
    this.#become("follower");
    this.#channel.postMessage({ kind: "join" });
    navigator.locks.request(name, { signal }, async () => {
      await this.#gather();
      await this.#run("leader");
    }).catch((error) => {
      if (!signal.aborted) this.#fail(error, false);
    });
  }

  /** @param {any} said  by another tab */
  #hear(said) {
    if (this.closed) return;
    const leads = this.#role === "leader";
    if (said.kind === "event" && !leads) this.#receive(said.count, said.event);
    else if (said.kind === "state" && !leads) {
      // Somebody who has just come begins here; others are at least as far.
      if (!this.#count) [this.#count, this.#id] = [said.count, this.#id || said.id];
      this.#retry = said.retry;
    } else if (said.kind === "open" && !leads) this.dispatchEvent(new Event("open"));
    else if (said.kind === "failed" && !leads) this.#tell(said.detail);
    else if (said.kind === "join" && leads) this.#say("state");
    else if (said.kind === "gather" && !leads) {
      const events = this.#recent.filter(([count]) => count > said.count);
      this.#say("have", { events });
    } else if (said.kind === "have") this.#gathered?.push(said);
  }

  /**
   * @param {string} kind
   * @param {object} [more]
   */
  #say(kind, more = {}) {
    if (!this.#channel || this.closed) return;
    const { count, id, retry } = { count: this.#count, id: this.#id, retry: this.#retry };
    this.#channel.postMessage({ kind, count, id, retry, ...more });
  }

  // What the last leader has told others before it went, and not us.
  async #gather() {
    this.#gathered = [];
    this.#say("gather");
    await sleep(GATHER_MS, this.#ending.signal);
    const found = this.#gathered ?? [];
    this.#gathered = null;
    if (!this.#count && found.length) {
      // We have just come: what was before is not for us.
      const newest = found.reduce((one, other) => (other.count > one.count ? other : one));
      [this.#count, this.#id] = [newest.count, newest.id];
    }
    const events = found.flatMap((one) => one.events).sort(([one], [other]) => one - other);
    for (const [count, event] of events) this.#receive(count, event);
  }

  /**
   * @param {number} count
   * @param {Told} event
   */
  #receive(count, event) {
    if (count <= this.#count) return;
    this.#count = count;
    this.#take(event);
  }

  /**
   * An event of the stream, from the gateway or from the leader. A cursor has no data.
   * @param {Told} event
   */
  #take(event) {
    this.#id = event.id || this.#id;
    this.#recent.push([this.#count, event]);
    if (this.#recent.length > RECENT) this.#recent.shift();
    if (event.data === undefined) return;
    const { type = "message", data, id } = event;
    this.#heed(type, data);
    this.dispatchEvent(new MessageEvent(type, { data, lastEventId: id, origin: new URL(this.#url).origin }));
  }

  /**
   * @param {string} type
   * @param {string} data
   */
  #heed(type, data) {
    if (!type.startsWith("gateway.")) return;
    const told = JSON.parse(data);
    if (type === "gateway.open") this.#heartbeat = told.heartbeat;
    else if (type === "gateway.drain") this.#retry = told.retry;
    else if (type === "gateway.reauth" && this.#role !== "follower") this.#renew(told.refresh);
    else if (type === "gateway.close" && told.reconnect === false) {
      this.#tell({ status: 0, problem: { detail: told.reason }, final: true });
      queueMicrotask(() => this.close());
    }
  }

  /** @param {string} role */
  #become(role) {
    this.#role = role;
    this.dispatchEvent(new CustomEvent("role", { detail: role }));
  }

  /** @param {Failure} detail */
  #tell(detail) {
    this.dispatchEvent(new CustomEvent("error", { detail }));
    if (detail.final) this.close();
  }

  /**
   * @param {any} error
   * @param {boolean} final
   */
  #fail(error, final) {
    const detail = { status: error.status ?? 0, problem: error.problem ?? { detail: String(error) }, final };
    this.#channel?.postMessage({ kind: "failed", detail });
    this.#tell(detail);
  }

  // --- the stream --------------------------------------------------------------------------------

  /** @param {string} role */
  async #run(role) {
    const { signal } = this.#ending;
    if (signal.aborted) return;
    // Whoever makes one of these listens to it first.
    await Promise.resolve();
    this.#become(role);
    this.#say("state");
    let refused = 0;
    while (!signal.aborted) {
      try {
        await (this.#options.transport === "eventsource" ? this.#watch() : this.#read());
        refused = 0;
      } catch (thrown) {
        if (signal.aborted) return;
        const error = /** @type {Partial<Refused>} */ (thrown);
        const renewable = this.#options.token || this.#options.ticket;
        this.#ticket = "";
        this.#failures += 1;
        if (error.status === 401 && renewable && !refused) refused += 1; // once more, with a new one
        else if (thrown instanceof Refused) this.#fail(thrown, thrown.final);
      }
      if (signal.aborted) return;
      await sleep(this.#pause(), signal);
    }
  }

  #pause() {
    const doubled = this.#retry * 2 ** Math.max(0, this.#failures - 1);
    return jitter(Math.min(doubled, Math.max(LONGEST_MS, this.#retry)));
  }

  async #address() {
    if (!this.#options.ticket) return new URL(this.#url);
    this.#ticket ||= await this.#options.ticket();
    return new URL(this.#ticket, this.#url);
  }

  /** @param {Told} event */
  #came(event) {
    this.#count += 1;
    this.#say("event", { event });
    this.#take(event);
  }

  #opened() {
    this.#failures = 0;
    this.#say("open");
    this.dispatchEvent(new Event("open"));
  }

  /** @returns {Promise<Record<string, string>>} */
  async #head() {
    const { headers = {}, token } = this.#options;
    return token ? { ...headers, Authorization: `Bearer ${await token()}` } : { ...headers };
  }

  async #read() {
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    this.#ending.signal.addEventListener("abort", stop, { once: true });
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let dog;
    const alive = () => {
      clearTimeout(dog);
      dog = setTimeout(stop, this.#heartbeat * SILENCE * 1000);
    };
    try {
      alive();
      /** @type {Record<string, string>} */
      const headers = { ...await this.#head(), Accept: "text/event-stream" };
      if (this.#id) headers["Last-Event-ID"] = this.#id;
      const answer = await fetch(await this.#address(), {
        headers,
        cache: "no-store",
        credentials: this.#options.credentials,
        signal: attempt.signal,
      });
      if (answer.status === 204) throw new Refused(204, { detail: "the stream is over" });
      if (!answer.ok) throw await this.#refusal(answer);
      this.#opened();
      const parser = new EventStreamParser({
        onevent: (event) => this.#came(event),
        oncursor: (id) => this.#came({ id }),
        onretry: (ms) => { this.#retry = ms; },
      });
      const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done || attempt.signal.aborted) return;
        alive();
        parser.push(value);
      }
    } finally {
      clearTimeout(dog);
      attempt.abort();
      this.#ending.signal.removeEventListener("abort", stop);
    }
  }

  /** @param {Response} answer */
  async #refusal(answer) {
    let problem;
    try {
      problem = await answer.json();
    } catch {
      problem = { detail: answer.statusText };
    }
    const wait = Number(answer.headers.get("Retry-After"));
    if (wait > 0) this.#retry = Math.max(this.#retry, wait * 1000);
    return new Refused(answer.status, problem);
  }

  // The browser's own, which hides why it was refused and does not show comments.
  async #watch() {
    const address = await this.#address();
    address.searchParams.set("errors", "inband");
    address.searchParams.set("keepalive", "event");
    if (this.#id) address.searchParams.set("last_event_id", this.#id);
    const include = this.#options.credentials === "include";
    const source = new EventSource(address, { withCredentials: include });
    const { signal } = this.#ending;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let dog;
    /** @type {() => void} */
    let stop = () => {};
    try {
      await /** @type {Promise<void>} */ (new Promise((resume, refuse) => {
        stop = resume;
        const alive = () => {
          clearTimeout(dog);
          dog = setTimeout(resume, this.#heartbeat * SILENCE * 1000);
        };
        /** @param {MessageEvent} event */
        const pass = ({ type, data, lastEventId }) => {
          alive();
          if (type === "gateway.error") {
            const { problem } = JSON.parse(data);
            refuse(new Refused(problem.status, problem));
          } else this.#came({ type, data, id: lastEventId });
        };
        for (const type of ["message", ...CONTROLS, ...(this.#options.types ?? [])]) {
          source.addEventListener(type, pass);
        }
        source.onopen = () => { alive(); this.#opened(); };
        source.onerror = () => {
          // Refused for good, and nobody says why: perhaps for a ticket that is too old.
          if (source.readyState === EventSource.CLOSED) refuse(new Error("the stream was refused"));
          else resume();
        };
        signal.addEventListener("abort", stop, { once: true });
        alive();
      }));
    } finally {
      clearTimeout(dog);
      signal.removeEventListener("abort", stop);
      source.close();
    }
  }

  /** @param {string} path */
  async #renew(path) {
    if (!this.#options.token) return;
    try {
      const where = new URL(path, this.#url);
      const answer = await fetch(where, {
        method: "PATCH",
        headers: await this.#head(),
        credentials: this.#options.credentials,
      });
      if (!answer.ok) throw await this.#refusal(answer);
    } catch (error) {
      // The stream ends with its credential, and the next connect asks for another.
      this.#fail(error, false);
    }
  }
}

const CONTROLS = ["open", "gap", "lag", "reauth", "keepalive", "cursor", "settled", "lock-lost", "drain", "warn",
  "sources", "error", "close"].map((name) => `gateway.${name}`);
