// One event stream over as many connections as it takes: each begins where the last one broke.

import { EventStreamParser, jitter, sleep } from "./amqp-events.js";
import { GatewayError, problemOf, ProblemError, StreamClosedError, UnreachableError } from "./problems.js";

const LONGEST_MS = 30_000;
const SILENCE = 3; // heartbeats that may be missed
const NONE = 204;

/** @typedef {import("./requests.js").Requests} Requests */

/**
 * @typedef {object} StreamEvent
 * @property {string} type  "message", unless the stream was asked for another by `event`
 * @property {string} id  cursor: a stream that is opened with it as `lastEventId` goes on behind
 *   this event
 * @property {any} data  what `raw` says; with `format: "text"` the body of the message
 * @property {string} raw  the text of the event: numbers have all their digits here
 */

/**
 * @typedef {object} Parameters  of the API, as `/openapi.json` describes them
 * @property {string} [from]  where the first connection begins: latest, earliest, offset:N,
 *   time:RFC3339, -PT5M
 * @property {"json" | "full" | "cloudevents" | "text"} [format]
 * @property {"auto" | "base64"} [payload]
 * @property {string | string[]} [filter]
 * @property {string} [selector]
 * @property {"memory" | "durable"} [journal]
 * @property {"none" | "on-next" | "explicit"} [ack]
 * @property {number} [credit]
 * @property {number} [lease_ms]
 * @property {"pause" | "skip" | "latest" | "close"} [slow]
 * @property {"none" | "subject" | "type" | "source"} [event]
 * @property {number} [heartbeat]  seconds
 */

/**
 * @typedef {object} Ours
 * @property {AbortSignal} [signal]  ends the loop, without an error
 * @property {string} [lastEventId]  the `id` of the last event of an earlier stream
 * @property {(event: StreamEvent) => void} [control]  what the gateway says of the stream itself:
 *   `gateway.open` says how it resumed, `gateway.gap` what was lost
 * @property {(lost: { error: GatewayError | null, wait_ms: number }) => void} [lost]  the
 *   connection broke, and another follows after so long. Without an error the gateway ended it
 */

/** @typedef {Parameters & Ours} FollowOptions */

/**
 * @param {Parameters} parameters
 * @param {[string, string][]} first
 */
function queryOf(parameters, first) {
  const query = new URLSearchParams(first);
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of [value].flat()) if (one !== undefined) query.append(name, String(one));
  }
  return query;
}

/**
 * Follow a stream. Returns when the signal is aborted, or when the gateway says that the cursor is
 * one of a stream that is over. Throws `ProblemError` where asking again is of no use, and
 * `StreamClosedError`. A loop that is left closes the connection.
 * @param {Requests} requests
 * @param {string} path
 * @param {string[]} sources
 * @param {FollowOptions} [options]
 * @returns {AsyncGenerator<StreamEvent, void, void>}
 */
export async function* follow(requests, path, sources, options = {}) {
  const { signal, lastEventId = "", control, lost, ...parameters } = options;
  const query = queryOf(parameters, sources.map((one) => ["source", one]));
  const ending = signal ?? new AbortController().signal;
  const connection = new Connection(requests, `${path}?${query}`, lastEventId, parameters.format === "text");
  for (;;) {
    /** @type {GatewayError | null} */
    let error = null;
    try {
      for await (const event of connection.events(ending)) {
        if (event.type.startsWith("gateway.")) {
          control?.(event);
          connection.heed(event);
        } else yield event;
      }
    } catch (thrown) {
      if (ending.aborted) return;
      if (!(thrown instanceof GatewayError) || connection.isFinal(thrown)) throw thrown;
      error = thrown;
    }
    if (ending.aborted || connection.over) return;
    const wait = connection.pause(error);
    lost?.({ error, wait_ms: Math.round(wait) });
    await sleep(wait, ending);
  }
}

/** What is known of a stream from one connection to the next. */
class Connection {
  /**
   * @param {Requests} requests
   * @param {string} path
   * @param {string} id
   * @param {boolean} plain  the data is text and not JSON
   */
  constructor(requests, path, id, plain) {
    this.requests = requests;
    this.path = path;
    this.id = id;
    this.plain = plain;
    this.retry = 1000;
    this.heartbeat = 15;
    this.failures = 0;
    this.renewed = false;
    this.over = false;
  }

  /** @param {GatewayError} error */
  isFinal(error) {
    if (error instanceof StreamClosedError) return true;
    if (!(error instanceof ProblemError)) return false;
    if (error.status === 401 && this.requests.renewable && !this.renewed) {
      this.renewed = true;
      return false;
    }
    return error.final;
  }

  /** @param {GatewayError | null} error */
  pause(error) {
    if (error) this.failures += 1;
    const doubled = this.retry * 2 ** Math.max(0, this.failures - 1);
    const wait = jitter(Math.min(doubled, Math.max(LONGEST_MS, this.retry)));
    return error instanceof ProblemError ? Math.max(wait, error.retryAfterMs) : wait;
  }

  /** @param {StreamEvent} event */
  heed({ type, data }) {
    if (type === "gateway.open") this.heartbeat = data.heartbeat;
    else if (type === "gateway.reauth") void this.renew(data.refresh);
    else if (type === "gateway.close" && data.reconnect === false) throw new StreamClosedError(data.reason);
  }

  /**
   * Extend the stream with a new credential. If that fails the stream ends with the old one, and
   * the next connection asks for another.
   * @param {string} path
   */
  async renew(path) {
    if (!this.requests.renewable) return;
    try {
      const answer = await this.requests.fetch("PATCH", path);
      await answer.body?.cancel();
    } catch {
      // The next connection says what is wrong.
    }
  }

  /**
   * The events of one connection, as the reader takes them: what it does not take stays in the
   * socket, so that the gateway sees a slow reader.
   * @param {AbortSignal} ending
   * @returns {AsyncGenerator<StreamEvent, void, void>}
   */
  async *events(ending) {
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    ending.addEventListener("abort", stop, { once: true });
    if (ending.aborted) stop();
    try {
      const answer = await this.open(attempt);
      if (answer === null) return;
      /** @type {{ type?: string, data?: string, id: string }[]} */
      const come = [];
      const parser = new EventStreamParser({
        onevent: (event) => come.push(event),
        oncursor: (id) => come.push({ id }),
        onretry: (ms) => { this.retry = ms; },
      });
      const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).getReader();
      for (;;) {
        const { done, value } = await this.within(attempt, reader.read());
        if (done) return;
        parser.push(value);
        for (const { type = "message", data, id } of come.splice(0)) {
          this.id = id || this.id;
          if (data === undefined) continue;
          const plain = this.plain && !type.startsWith("gateway.");
          yield { type, id, data: plain ? data : JSON.parse(data), raw: data };
          if (ending.aborted) return;
        }
      }
    } finally {
      attempt.abort();
      ending.removeEventListener("abort", stop);
    }
  }

  /**
   * The answer, `null` if the stream is over.
   * @param {AbortController} attempt
   */
  async open(attempt) {
    /** @type {Record<string, string>} */
    const headers = { Accept: "text/event-stream" };
    if (this.id) headers["Last-Event-ID"] = this.id;
    const asked = this.requests.fetch("GET", this.path, { headers, signal: attempt.signal });
    const answer = await this.within(attempt, asked);
    if (answer.status === NONE) {
      this.over = true;
      return null;
    }
    if (!answer.ok) throw await problemOf(answer);
    this.failures = 0;
    this.renewed = false;
    return answer;
  }

  /**
   * What comes, unless there is silence for longer than the heartbeats allow.
   * @template T
   * @param {AbortController} attempt
   * @param {Promise<T>} coming
   */
  async within(attempt, coming) {
    const dog = setTimeout(() => attempt.abort(), this.heartbeat * SILENCE * 1000);
    try {
      return await coming;
    } catch (error) {
      throw error instanceof GatewayError ? error
        : new UnreachableError("The connection of the stream broke.", { cause: error });
    } finally {
      clearTimeout(dog);
    }
  }
}
