// What can go wrong, as typed errors.

/**
 * Which problem it is: the last segment of its `type`. `/problems/KIND` of a gateway explains it.
 * @typedef {"already-settled" | "address-not-found" | "backpressure" | "conflict"
 *   | "destination-full" | "digest-mismatch" | "draining" | "forbidden" | "head-too-large"
 *   | "idempotency-in-progress" | "idempotency-key" | "idempotency-mismatch"
 *   | "idempotency-required" | "internal-error" | "invalid-argument" | "invalid-cursor"
 *   | "invalid-field" | "invalid-request" | "invalid-token" | "journal-trimmed"
 *   | "keys-unavailable" | "lease-lost" | "message-refused" | "method-not-allowed"
 *   | "no-consumer" | "not-attempted" | "not-found" | "not-implemented" | "outcome-unknown"
 *   | "outcome-unsupported" | "quota" | "reply-timeout" | "resource-locked" | "schema"
 *   | "too-large" | "too-many-connections" | "too-slow" | "unauthorized" | "unroutable"
 *   | "unsupported-media-type" | (string & {})} ProblemKind
 */

/**
 * A problem document (RFC 9457). Members that a kind adds come beside these.
 * @typedef {object} ProblemDocument
 * @property {string} [type]  reference to the page of the problem
 * @property {string} [title]
 * @property {number} [status]
 * @property {string} [detail]  what was wrong with this request
 * @property {string} [outcome]  of the caller's message: "not-sent", "refused", "unknown" ...
 * @property {boolean | "with-idempotency-key"} [safe_to_retry]
 * @property {number} [retry_after_ms]
 * @property {{ pointer: string, detail: string }[]} [errors]  places in the request
 * @property {string} [error]  of an error in RabbitMQ's form
 * @property {string} [reason]  the same
 */

/** All errors of this package are one of these. */
export class GatewayError extends Error {
  name = "GatewayError";
}

/** The gateway cannot be reached, or the connection broke. `cause` is what `fetch` threw. */
export class UnreachableError extends GatewayError {
  name = "UnreachableError";
}

/** An event stream has ended for good, and says why. */
export class StreamClosedError extends GatewayError {
  name = "StreamClosedError";
}

/** No reply came in time. The request may have been done: its reply may just be late. */
export class ReplyTimeoutError extends GatewayError {
  name = "ReplyTimeoutError";
}

/** The gateway has refused a request. */
export class ProblemError extends GatewayError {
  name = "ProblemError";

  /**
   * @param {number} status  of the answer
   * @param {ProblemDocument} problem
   * @param {number} [retryAfterMs]  how long the gateway asks to wait
   */
  constructor(status, problem, retryAfterMs = problem.retry_after_ms ?? 0) {
    const detail = problem.detail ?? problem.reason;
    const title = problem.title ?? problem.error ?? `status ${status}`;
    super(detail ? `${title}: ${detail}` : title);
    this.status = status;
    this.problem = problem;
    this.retryAfterMs = retryAfterMs;
  }

  /** @returns {ProblemKind} */
  get kind() {
    return String(this.problem.type ?? "").split("/").at(-1) ?? "";
  }

  /** What became of the caller's message. */
  get outcome() {
    return this.problem.outcome ?? "unknown";
  }

  /** Whether the same request may be sent again; "with-idempotency-key": if it had one. */
  get safeToRetry() {
    return this.problem.safe_to_retry ?? false;
  }

  /** Whether asking again, as it is, is of no use to a reader. */
  get final() {
    if (this.status === 408 || this.status === 429 || this.status >= 500) return false;
    return this.safeToRetry !== true;
  }
}

/**
 * The error that an answer other than 2xx stands for.
 * @param {Response} answer
 */
export async function problemOf(answer) {
  const seconds = Number(answer.headers.get("Retry-After"));
  const wait = seconds > 0 ? seconds * 1000 : undefined;
  try {
    const told = await answer.json();
    if (told !== null && typeof told === "object") return new ProblemError(answer.status, told, wait);
  } catch {
    // A proxy's page, perhaps.
  }
  return new ProblemError(answer.status, { title: answer.statusText || undefined }, wait);
}
