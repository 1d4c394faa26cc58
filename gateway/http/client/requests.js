// One request and its answer: address, credentials, errors, and repetition where it is safe.

import { jitter, sleep } from "./amqp-events.js";
import { problemOf, ProblemError, UnreachableError } from "./problems.js";

const JSON_TYPE = "application/json";
const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 10_000;
/** Statuses of what may pass by itself. */
const PASSING = new Set([408, 409, 429, 502, 503, 504]);
const PASSING_CONFLICT = "idempotency-in-progress";

/**
 * @typedef {object} Access
 * @property {string} [user]  with `password`: HTTP Basic
 * @property {string} [password]
 * @property {string | (() => string | Promise<string>)} [token]  a bearer token. A function is
 *   called for each request, and once more when a token is refused
 * @property {Record<string, string>} [headers]  fields that every request has
 * @property {RequestCredentials} [credentials]  whether the browser adds what it has itself;
 *   "same-origin" unless set
 * @property {typeof globalThis.fetch} [fetch]  another than the global one
 * @property {number} [retries]  how often a request is repeated, where that is safe; 2 unless set
 */

/**
 * @typedef {object} Call
 * @property {any} [body]  what JSON can say, or octets: a Blob, an ArrayBuffer, a view of one
 * @property {Record<string, string>} [headers]
 * @property {AbortSignal} [signal]
 * @property {boolean} [repeatable]  whether a repetition does no harm if the first request had an
 *   effect; so it is with GET and PUT, and with an `Idempotency-Key`
 * @property {number} [retries]  another number than that of `Access`
 */

/** @param {any} body */
const isOctets = (body) => body instanceof ArrayBuffer || ArrayBuffer.isView(body) || body instanceof Blob;

/** @param {string} text */
function basic(text) {
  let octets = "";
  for (const one of new TextEncoder().encode(text)) octets += String.fromCharCode(one);
  return `Basic ${btoa(octets)}`;
}

/** The requests of one caller to one gateway. */
export class Requests {
  /** @type {Access} */
  #access;

  /**
   * @param {string | URL} [base]  the gateway, such as https://gateway.example; without one the
   *   page's own origin
   * @param {Access} [access]
   */
  constructor(base, access = {}) {
    const found = base ?? globalThis.location?.origin;
    if (found === undefined) throw new TypeError("where the gateway is must be said here");
    this.base = String(found).replace(/\/+$/, "");
    this.#access = access;
    this.retries = access.retries ?? 2;
  }

  /** Whether another credential may be had after one was refused. */
  get renewable() {
    return typeof this.#access.token === "function";
  }

  /**
   * The fields of a request.
   * @param {Record<string, string>} [more]
   */
  async head(more) {
    const { headers, token, user, password } = this.#access;
    /** @type {Record<string, string>} */
    const found = { ...headers, ...more };
    if (token !== undefined) {
      found.Authorization = `Bearer ${typeof token === "function" ? await token() : token}`;
    } else if (user !== undefined) found.Authorization = basic(`${user}:${password ?? ""}`);
    return found;
  }

  /**
   * The answer, whatever its status. Throws `UnreachableError`, and what aborted the signal.
   * @param {string} method
   * @param {string} path
   * @param {Call} [call]
   */
  async fetch(method, path, { body, headers, signal } = {}) {
    const ask = this.#access.fetch ?? globalThis.fetch;
    const head = await this.head(headers);
    const octets = body === undefined || isOctets(body);
    if (!octets && !("Content-Type" in head)) head["Content-Type"] = JSON_TYPE;
    try {
      return await ask(this.base + path, {
        method,
        headers: head,
        body: octets ? body : JSON.stringify(body),
        signal,
        cache: "no-store",
        credentials: this.#access.credentials ?? "same-origin",
      });
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new UnreachableError("The gateway cannot be reached.", { cause: error });
    }
  }

  /**
   * The answer to a request that was not refused. Throws `ProblemError` and `UnreachableError`.
   * @param {string} method
   * @param {string} path
   * @param {Call} [call]
   */
  async send(method, path, call = {}) {
    const repeatable = call.repeatable ?? (method === "GET" || method === "PUT");
    const retries = call.retries ?? this.retries;
    const never = new AbortController().signal;
    let renewed = !this.renewable;
    for (let failures = 0; ; failures += 1) {
      let wait = jitter(Math.min(FIRST_WAIT_MS * 2 ** failures, LONGEST_WAIT_MS));
      try {
        const answer = await this.fetch(method, path, call);
        if (answer.ok) return answer;
        throw await problemOf(answer);
      } catch (error) {
        if (error instanceof ProblemError && error.status === 401 && !renewed) {
          renewed = true;
          continue;
        }
        if (failures >= retries || !mayRepeat(error, repeatable)) throw error;
        if (error instanceof ProblemError) wait = Math.max(wait, error.retryAfterMs);
      }
      await sleep(wait, call.signal ?? never);
      call.signal?.throwIfAborted();
    }
  }

  /**
   * The JSON of the answer, `null` if it has none.
   * @param {string} method
   * @param {string} path
   * @param {Call} [call]
   * @returns {Promise<any>}
   */
  async call(method, path, call) {
    const answer = await this.send(method, path, call);
    const type = answer.headers.get("Content-Type") ?? "";
    if (answer.status === 204 || !type.includes("json")) {
      await answer.body?.cancel();
      return null;
    }
    try {
      return await answer.json();
    } catch (error) {
      if (call?.signal?.aborted) throw error;
      throw new UnreachableError("The answer broke off.", { cause: error });
    }
  }
}

/**
 * @param {unknown} error
 * @param {boolean} repeatable
 */
function mayRepeat(error, repeatable) {
  if (error instanceof UnreachableError) return repeatable;
  if (!(error instanceof ProblemError) || !PASSING.has(error.status)) return false;
  if (error.status === 409 && error.kind !== PASSING_CONFLICT) return false;
  if (!error.problem.type) return repeatable; // a proxy between says so
  return error.safeToRetry === true || (error.safeToRetry === "with-idempotency-key" && repeatable);
}
