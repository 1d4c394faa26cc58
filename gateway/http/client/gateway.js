// A gateway as a program uses it. Members of messages, options and answers have the names of the
// HTTP API, which `/openapi.json` of each gateway describes.

import { follow } from "./follow.js";
import { newId } from "./identifiers.js";
import { Replies } from "./replies.js";
import { Requests } from "./requests.js";

const MESSAGE = "application/vnd.amqp-gateway.message+json";
const BATCH = "application/vnd.amqp-gateway.batch+json";

const part = encodeURIComponent;

/** @typedef {import("./answers.js").QueueDetail} QueueDetail */
/** @typedef {import("./answers.js").ExchangeView} ExchangeView */
/** @typedef {import("./answers.js").BindingView} BindingView */
/** @typedef {import("./answers.js").ConsumerView} ConsumerView */

/**
 * The body of a message. Text, or octets; or said in JSON. What is received has one of the last.
 * @typedef {string | Uint8Array | { json: any } | { text: string } | { base64: string }} Body
 */

/**
 * A message. Types that JSON lacks are `{"$type": "uuid", "value": ...}`.
 * @typedef {object} Message
 * @property {Body} [body]
 * @property {string} [id]
 * @property {string} [to]  the address it goes to, in a batch without one of its own
 * @property {string} [content_type]  that of the body unless set
 * @property {boolean} [durable]  true unless set
 * @property {number} [priority]
 * @property {number} [ttl_ms]
 * @property {Record<string, any>} [properties]  application properties, headers
 * @property {string} [subject]
 * @property {string} [reply_to]
 * @property {any} [correlation_id]
 * @property {string} [type]
 * @property {string} [app_id]
 * @property {{ id?: string, sequence?: number }} [group]
 * @property {string} [routing_key]
 * @property {string} [ordering_key]
 */

/**
 * Where messages go: an address (the name of a queue, `/queues/NAME`, `/exchanges/NAME/KEY`), or
 * one of the others by name.
 * @typedef {string | { queue: string } | { exchange: string, routing_key?: string }
 *   | { route: string, parameters?: Record<string, string> }} Target
 */

/**
 * @typedef {object} PublishOptions
 * @property {string | boolean} [key]  makes it safe to send again what got no answer, for this
 *   package and for the caller, who says the same key then; `true`: a new one
 * @property {AbortSignal} [signal]
 * @property {number} [retries]  how often it is repeated, where that is safe; that of the gateway
 *   unless set
 */

/**
 * @typedef {object} Receipt
 * @property {string} outcome
 * @property {"disk" | "memory" | "mixed"} durability
 * @property {string} message_id
 * @property {string} address
 * @property {string[]} [warnings]
 */

/**
 * @typedef {object} Results  one for each message, in their order
 * @property {number} accepted
 * @property {number} failed
 * @property {{ index: number, id?: string, status: number, outcome: string,
 *   problem?: import("./problems.js").ProblemDocument }[]} results
 */

/**
 * @typedef {object} ReceiveOptions
 * @property {number} [max]
 * @property {number} [wait_ms]
 * @property {number} [lease_ms]
 * @property {"simple" | "full"} [view]
 * @property {"auto" | "base64"} [payload]
 * @property {"lease" | "auto"} [mode]  auto: accepted when the answer is written
 * @property {string | string[]} [filter]
 * @property {string} [selector]
 * @property {string} [group]
 * @property {number} [max_deliveries]
 */

/**
 * @typedef {object} Settlement
 * @property {string} token
 * @property {"accepted" | "released" | "rejected" | "modified" | "renewed"} outcome
 * @property {number} [lease_ms]
 * @property {string} [reason]
 * @property {string} [description]
 * @property {boolean} [delivery_failed]
 * @property {boolean} [undeliverable_here]
 * @property {Record<string, any>} [annotations]
 */

/**
 * @typedef {object} Declared
 * @property {boolean} [durable]  true unless set
 * @property {boolean} [auto_delete]
 * @property {Record<string, any>} [arguments]
 */

/**
 * @typedef {object} Binding
 * @property {string} source
 * @property {string} destination
 * @property {"queue" | "exchange"} [destination_type]
 * @property {string} [routing_key]
 * @property {Record<string, any>} [arguments]
 */

/** @param {Uint8Array} octets */
function base64(octets) {
  const pieces = [];
  for (let at = 0; at < octets.length; at += 0x8000) {
    pieces.push(String.fromCharCode(...octets.subarray(at, at + 0x8000)));
  }
  return btoa(pieces.join(""));
}

/** @param {string | Uint8Array | Message} given */
function messageOf(given) {
  const message = typeof given === "string" || given instanceof Uint8Array ? { body: given } : given;
  return message.body instanceof Uint8Array ? { ...message, body: { base64: base64(message.body) } } : message;
}

/** @param {Record<string, any>} given */
function queryOf(given) {
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  return set.length ? `?${new URLSearchParams(set.map(([name, value]) => [name, String(value)]))}` : "";
}

/** A message that was received. Until its lease ends nobody else gets it. */
export class Delivery {
  #gateway;

  /**
   * @param {Gateway} gateway
   * @param {any} told
   */
  constructor(gateway, told) {
    this.#gateway = gateway;
    /** @type {Message & { exchange?: string, body: any }} */
    this.message = told.message;
    /** @type {string} Names it in a settlement; there is none in mode "auto". */
    this.token = told.token ?? "";
    /** @type {string | null} When the lease ends. */
    this.lock_until = told.lock_until ?? null;
    /** @type {number} Which delivery of the message this is, from 1. */
    this.delivery_count = told.delivery_count;
    /** @type {boolean} */
    this.redelivered = told.redelivered;
  }

  /**
   * @param {string} method
   * @param {string} action
   * @param {object} [body]
   * @returns {Promise<{ outcome: string, lock_until?: string }>}
   */
  #do(method, action, body) {
    const path = `${this.#gateway.path}/deliveries/${part(this.token)}${action}`;
    return this.#gateway.requests.call(method, path, { body, repeatable: true });
  }

  /** The message is done with. */
  accept() {
    return this.#do("DELETE", "");
  }

  /**
   * It returns to its position in the queue.
   * @param {{ failed?: boolean }} [options]
   */
  release(options = {}) {
    return this.#do("POST", "/release", options);
  }

  /**
   * It becomes a dead letter.
   * @param {{ reason?: string, description?: string }} [options]
   */
  reject(options = {}) {
    return this.#do("POST", "/reject", options);
  }

  /**
   * It returns to the queue with annotations.
   * @param {{ delivery_failed?: boolean, undeliverable_here?: boolean,
   *   annotations?: Record<string, any> }} [options]
   */
  modify(options = {}) {
    return this.#do("POST", "/modify", options);
  }

  /**
   * The lease ends so many milliseconds from now.
   * @param {number} lease_ms
   */
  async renew(lease_ms) {
    const told = await this.#do("PATCH", "", { lease_ms });
    this.lock_until = told.lock_until ?? null;
    return told;
  }
}

/** One virtual host of a gateway. */
export class Gateway {
  /** @type {Replies | null} */
  #replies = null;

  /**
   * @param {string | URL} [base]  such as https://gateway.example; without one the page's origin
   * @param {import("./requests.js").Access & { vhost?: string }} [options]
   */
  constructor(base, options = {}) {
    const { vhost = "/", ...access } = options;
    this.requests = new Requests(base, access);
    this.vhost = vhost;
    this.path = `/v1/${part(vhost)}`;
    this.admin = `/v1/admin/vhosts/${part(vhost)}`;
  }

  // --- publishing --------------------------------------------------------------------------------

  /** @param {Target | undefined} to */
  #messages(to) {
    if (to === undefined) return `${this.path}/messages`;
    if (typeof to === "string") return `${this.path}/addresses/${part(to)}/messages`;
    if ("queue" in to) return `${this.path}/queues/${part(to.queue)}/messages`;
    if ("route" in to) return `${this.path}/routes/${part(to.route)}/messages${queryOf(to.parameters ?? {})}`;
    const { exchange, routing_key } = to;
    return `${this.path}/exchanges/${part(exchange)}/messages${queryOf({ routing_key })}`;
  }

  /**
   * @param {Target | undefined} to
   * @param {any} body
   * @param {Record<string, string>} fields
   * @param {PublishOptions} options
   */
  #post(to, body, fields, { key, signal, retries }) {
    const headers = { ...fields };
    if (key) headers["Idempotency-Key"] = `"${key === true ? newId() : key}"`;
    const repeatable = Boolean(key);
    return this.requests.call("POST", this.#messages(to), { body, headers, signal, retries, repeatable });
  }

  /**
   * Publish one message. When the answer is there every queue that it was routed to has it.
   * @param {Target} to
   * @param {string | Uint8Array | Message} message  text, octets, or a message with properties
   * @param {PublishOptions} [options]
   * @returns {Promise<Receipt>}
   */
  publish(to, message, options = {}) {
    return this.#post(to, messageOf(message), { "Content-Type": MESSAGE }, options);
  }

  /**
   * Publish a body as it is, however large; what else the message has are `Amqp-` fields.
   * @param {Target} to
   * @param {Blob | ArrayBuffer | ArrayBufferView} body
   * @param {Record<string, string>} [fields]  Structured Fields, and the content type
   * @param {PublishOptions} [options]
   * @returns {Promise<Receipt>}
   */
  publishBody(to, body, fields = {}, options = {}) {
    return this.#post(to, body, fields, options);
  }

  /**
   * Publish many messages in one request. Some may fail: each has a result. If all fail for the
   * same reason, that is thrown.
   * @param {(string | Uint8Array | Message)[]} messages
   * @param {PublishOptions & { to?: Target, atomic?: boolean, on_error?: "continue" | "stop" }}
   *   [options]  `to`: where all of them go; otherwise each says so itself
   * @returns {Promise<Results>}
   */
  publishBatch(messages, options = {}) {
    const { to, atomic, on_error, ...more } = options;
    const body = { messages: messages.map(messageOf), atomic, on_error };
    return this.#post(to, body, { "Content-Type": BATCH }, more);
  }

  // --- requests and replies ----------------------------------------------------------------------

  /**
   * Publish a request and wait for its reply: the message that is published to the request's
   * `reply_to` (the name of a queue) with its correlation id. All requests share one queue and one
   * stream; a reply that comes while the connection is broken is not lost. Throws
   * `ReplyTimeoutError`, and what publishing throws.
   * @param {Target} to
   * @param {string | Uint8Array | import("./replies.js").RequestMessage} message
   * @param {import("./replies.js").RequestOptions} [options]
   * @returns {Promise<import("./replies.js").Reply>}
   */
  request(to, message, options = {}) {
    this.#replies ??= new Replies(this);
    return this.#replies.request(to, messageOf(message), options);
  }

  /** End what `request` has opened: its stream and its queue. Requests that wait are rejected. */
  async close() {
    const replies = this.#replies;
    this.#replies = null;
    await replies?.close();
  }

  // --- receiving ---------------------------------------------------------------------------------

  /**
   * Take messages out of a queue and lease them. There may be none.
   * @param {string} queue
   * @param {ReceiveOptions & { signal?: AbortSignal }} [options]
   * @returns {Promise<Delivery[]>}
   */
  async receive(queue, options = {}) {
    const { signal, ...body } = options;
    const leased = body.mode !== "auto";
    // Asked again with the same id, the gateway gives what it gave.
    /** @type {Record<string, string>} */
    const headers = leased ? { "Receive-Attempt-Id": newId() } : {};
    const path = `${this.path}/queues/${part(queue)}/deliveries`;
    const told = await this.requests.call("POST", path, { body, headers, signal, repeatable: leased });
    return (told?.deliveries ?? []).map((/** @type {any} */ one) => new Delivery(this, one));
  }

  /**
   * Settle many deliveries at once. Each has its own result, in their order.
   * @param {Settlement[]} settlements
   * @returns {Promise<{ index: number, token: string, status: number, outcome?: string,
   *   problem?: import("./problems.js").ProblemDocument }[]>}
   */
  async settle(settlements) {
    if (!settlements.length) return [];
    const path = `${this.path}/deliveries/settle`;
    return (await this.requests.call("POST", path, { body: settlements, repeatable: true })).results;
  }

  /**
   * Look at the messages of a queue without taking them. An empty page is the last one.
   * @param {string} queue
   * @param {{ limit?: number, after?: string, view?: "simple" | "full",
   *   payload?: "auto" | "base64", crossings?: boolean }} [page]  `after`: what the page before gave
   *   as `next`; `crossings`: each message also as readers of other versions get it
   * @returns {Promise<import("./answers.js").Page>}
   */
  browse(queue, page = {}) {
    return this.requests.call("GET", `${this.path}/queues/${part(queue)}/messages${queryOf(page)}`);
  }

  // --- following ---------------------------------------------------------------------------------

  /**
   * Follow events for as long as the loop goes on, over any number of connections. An exchange
   * gives copies of its messages. A queue is consumed.
   * @param {string | string[]} sources  `queue:NAME`, `exchange:NAME?binding=KEY`, `route:NAME`
   * @param {import("./follow.js").FollowOptions} [options]
   */
  follow(sources, options) {
    return follow(this.requests, `${this.path}/events`, [sources].flat(), options);
  }

  // --- topology ----------------------------------------------------------------------------------

  /**
   * @param {string} name
   * @param {Declared & { priority_levels?: 1 | 2 | 10 }} [options]
   * @returns {Promise<QueueDetail>}
   */
  declareQueue(name, options = {}) {
    return this.requests.call("PUT", `${this.admin}/queues/${part(name)}`, { body: options });
  }

  /**
   * @param {string} name
   * @param {Declared & { type?: string, internal?: boolean }} [options]  direct unless set
   * @returns {Promise<ExchangeView>}
   */
  declareExchange(name, options = {}) {
    return this.requests.call("PUT", `${this.admin}/exchanges/${part(name)}`, { body: options });
  }

  /**
   * The `id` of the answer names the binding.
   * @param {Binding} binding
   * @returns {Promise<BindingView>}
   */
  bind(binding) {
    return this.requests.call("POST", `${this.admin}/bindings`, { body: binding, repeatable: true });
  }

  /**
   * @param {string} id
   * @returns {Promise<null>}
   */
  unbind(id) {
    return this.requests.call("DELETE", `${this.admin}/bindings/${part(id)}`);
  }

  /**
   * The number of messages that were lost with it.
   * @param {string} name
   * @param {{ if_unused?: boolean, if_empty?: boolean }} [only]
   * @returns {Promise<import("./answers.js").Removed>}
   */
  deleteQueue(name, only = {}) {
    return this.requests.call("DELETE", `${this.admin}/queues/${part(name)}${queryOf(only)}`);
  }

  /**
   * @param {string} name
   * @param {{ if_unused?: boolean }} [only]
   * @returns {Promise<null>}
   */
  deleteExchange(name, only = {}) {
    return this.requests.call("DELETE", `${this.admin}/exchanges/${part(name)}${queryOf(only)}`);
  }

  /**
   * Remove the messages that nobody has received.
   * @param {string} name
   * @returns {Promise<import("./answers.js").Removed>}
   */
  purgeQueue(name) {
    return this.requests.call("DELETE", `${this.admin}/queues/${part(name)}/messages`);
  }

  /**
   * @param {string} name
   * @returns {Promise<QueueDetail>}
   */
  queue(name) {
    return this.requests.call("GET", `${this.admin}/queues/${part(name)}`);
  }

  /**
   * @param {string} name
   * @returns {Promise<ExchangeView>}
   */
  exchange(name) {
    return this.requests.call("GET", `${this.admin}/exchanges/${part(name)}`);
  }

  /** @returns {Promise<QueueDetail[]>} */
  async queues() {
    return (await this.requests.call("GET", `${this.admin}/queues`)).queues;
  }

  /** @returns {Promise<ExchangeView[]>} */
  async exchanges() {
    return (await this.requests.call("GET", `${this.admin}/exchanges`)).exchanges;
  }

  /** @returns {Promise<BindingView[]>} */
  async bindings() {
    return (await this.requests.call("GET", `${this.admin}/bindings`)).bindings;
  }

  /** @returns {Promise<ConsumerView[]>} */
  async consumers() {
    return (await this.requests.call("GET", `${this.admin}/consumers`)).consumers;
  }

  /**
   * Who the gateway takes the caller for.
   * @returns {Promise<import("./answers.js").Session>}
   */
  session() {
    return this.requests.call("GET", "/v1/session");
  }
}
