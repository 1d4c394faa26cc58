// Requests with a reply: one reply queue and one stream of it for all requests of a `Gateway`.
//
// The queue is durable and the stream accepts a reply when later ones have come, so that a reply that
// comes while the connection is broken, or the gateway is down, is read after it. What is read twice
// has no request any more, and is dropped. The queue ends by itself when nobody has read from it for
// a while.

import { newId } from "./identifiers.js";
import { GatewayError, ReplyTimeoutError, StreamClosedError } from "./problems.js";

const TIMEOUT_MS = 30_000;
/** What a timer takes. */
const LONGEST_MS = 2 ** 31 - 1;
const EXPIRES_MS = 300_000;
/** How long the stream is kept for further requests. */
const IDLE_MS = 5_000;
const CREDIT = 100;

/** @typedef {import("./gateway.js").Message} Message */
/** @typedef {import("./gateway.js").Target} Target */

/**
 * The message that came in reply, as events show it.
 * @typedef {import("./answers.js").EventMessage} Reply
 */

/**
 * A request is a message whose reply address and correlation id are this package's.
 * @typedef {Omit<Message, "reply_to" | "correlation_id">} RequestMessage
 */

/**
 * @typedef {object} RequestOptions
 * @property {number} [timeout]  milliseconds until the promise is rejected; 30,000 unless set. The
 *   request expires at the same time, unless it has a `ttl_ms`
 * @property {AbortSignal} [signal]  rejects the promise with its reason. The request is not recalled
 */

/**
 * What a `Gateway` does here.
 * @typedef {object} Host
 * @property {(name: string, options: { arguments: Record<string, any> }) => Promise<any>} declareQueue
 * @property {(name: string) => Promise<any>} deleteQueue
 * @property {(to: Target, message: Message, options: import("./gateway.js").PublishOptions) =>
 *   Promise<any>} publish
 * @property {(source: string, options: import("./follow.js").FollowOptions) =>
 *   AsyncIterable<import("./follow.js").StreamEvent>} follow
 */

/** @typedef {{ resolve: (reply: Reply) => void, reject: (error: any) => void }} Waiting */

/** The replies to the requests of one `Gateway`. */
export class Replies {
  /** @param {Host} gateway */
  constructor(gateway) {
    this.gateway = gateway;
    this.queue = `replies.${newId()}`;
    this.cursor = "";
    /** @type {Map<string, Waiting>} */
    this.waiting = new Map();
    /** @type {AbortController | null} */
    this.stream = null;
    /** @type {Promise<any> | null} */
    this.opened = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.idle = undefined;
  }

  /**
   * Publish a request and wait for its reply.
   * @param {Target} to
   * @param {RequestMessage} message
   * @param {RequestOptions} options
   * @returns {Promise<Reply>}
   */
  async request(to, message, { timeout = TIMEOUT_MS, signal }) {
    for (const own of ["reply_to", "correlation_id"]) {
      if (own in message) throw new TypeError(`${own} of a request is set by this package`);
    }
    if (!(timeout > 0 && timeout <= LONGEST_MS)) throw new RangeError(`timeout is 1 to ${LONGEST_MS} ms`);
    signal?.throwIfAborted();
    clearTimeout(this.idle);
    const id = newId();
    const failing = new AbortController();
    const stop = () => failing.abort(signal?.reason);
    signal?.addEventListener("abort", stop, { once: true });
    const text = `No reply came within ${timeout} ms.`;
    const timer = setTimeout(() => failing.abort(new ReplyTimeoutError(text)), timeout);
    /** @type {Promise<Reply>} */
    const reply = new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      failing.signal.addEventListener("abort", () => reject(failing.signal.reason), { once: true });
    });
    const asked = { id, ttl_ms: Math.ceil(timeout), ...message, reply_to: this.queue, correlation_id: id };
    this.send(to, asked, failing.signal).catch((error) => this.waiting.get(id)?.reject(error));
    try {
      return await reply;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", stop);
      this.waiting.delete(id);
      failing.abort();
      this.rest();
    }
  }

  /**
   * @param {Target} to
   * @param {Message} message
   * @param {AbortSignal} signal
   */
  async send(to, message, signal) {
    this.opened ??= this.open();
    await this.opened;
    // It is repeated until the time is over: the key keeps it from being done twice.
    if (!signal.aborted) await this.gateway.publish(to, message, { key: true, signal, retries: Infinity });
  }

  /** Declare the queue and begin to read it. */
  async open() {
    const stream = this.stream = new AbortController();
    try {
      await this.gateway.declareQueue(this.queue, { arguments: { "x-expires": EXPIRES_MS } });
    } catch (error) {
      this.end(error);
      throw error;
    }
    if (!stream.signal.aborted) void this.read(stream.signal);
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    /** @type {any} */
    let ended = new StreamClosedError("The stream of replies has ended.");
    const options = { ack: /** @type {const} */ ("on-next"), credit: CREDIT, signal, lastEventId: this.cursor };
    try {
      for await (const { id, data } of this.gateway.follow(`queue:${this.queue}`, options)) {
        this.cursor = id || this.cursor;
        this.waiting.get(data.correlation_id)?.resolve(data);
      }
    } catch (error) {
      ended = error;
    }
    if (!signal.aborted) this.end(ended);
  }

  /** Without requests that wait, the stream ends after a while: it would keep a program from ending. */
  rest() {
    clearTimeout(this.idle);
    if (this.stream && !this.waiting.size) this.idle = setTimeout(() => this.end(null), IDLE_MS);
  }

  /**
   * The stream ends, and the next request opens another.
   * @param {any} error  what the requests that wait are rejected with
   */
  end(error) {
    clearTimeout(this.idle);
    this.stream?.abort();
    this.stream = this.opened = null;
    for (const one of [...this.waiting.values()]) one.reject(error);
  }

  /** End the stream and delete the queue. Requests that wait are rejected. */
  async close() {
    const opened = this.opened;
    this.end(new GatewayError("The client was closed."));
    this.cursor = "";
    if (opened === null) return;
    await opened.catch(() => null);
    await this.gateway.deleteQueue(this.queue);
  }
}
