/**
 * The error that an answer other than 2xx stands for.
 * @param {Response} answer
 */
export function problemOf(answer: Response): Promise<ProblemError>;
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
}
/** The gateway cannot be reached, or the connection broke. `cause` is what `fetch` threw. */
export class UnreachableError extends GatewayError {
}
/** An event stream has ended for good, and says why. */
export class StreamClosedError extends GatewayError {
}
/** No reply came in time. The request may have been done: its reply may just be late. */
export class ReplyTimeoutError extends GatewayError {
}
/** The gateway has refused a request. */
export class ProblemError extends GatewayError {
    /**
     * @param {number} status  of the answer
     * @param {ProblemDocument} problem
     * @param {number} [retryAfterMs]  how long the gateway asks to wait
     */
    constructor(status: number, problem: ProblemDocument, retryAfterMs?: number);
    status: number;
    problem: ProblemDocument;
    retryAfterMs: number;
    /** @returns {ProblemKind} */
    get kind(): ProblemKind;
    /** What became of the caller's message. */
    get outcome(): string;
    /** Whether the same request may be sent again; "with-idempotency-key": if it had one. */
    get safeToRetry(): boolean | "with-idempotency-key";
    /** Whether asking again, as it is, is of no use to a reader. */
    get final(): boolean;
}
/**
 * Which problem it is: the last segment of its `type`. `/problems/KIND` of a gateway explains it.
 */
export type ProblemKind = "already-settled" | "address-not-found" | "backpressure" | "conflict" | "destination-full" | "digest-mismatch" | "draining" | "forbidden" | "head-too-large" | "idempotency-in-progress" | "idempotency-key" | "idempotency-mismatch" | "idempotency-required" | "internal-error" | "invalid-argument" | "invalid-cursor" | "invalid-field" | "invalid-request" | "invalid-token" | "journal-trimmed" | "keys-unavailable" | "lease-lost" | "message-refused" | "method-not-allowed" | "no-consumer" | "not-attempted" | "not-found" | "not-implemented" | "outcome-unknown" | "outcome-unsupported" | "quota" | "reply-timeout" | "resource-locked" | "schema" | "too-large" | "too-many-connections" | "too-slow" | "unauthorized" | "unroutable" | "unsupported-media-type" | (string & {});
/**
 * A problem document (RFC 9457). Members that a kind adds come beside these.
 */
export type ProblemDocument = {
    /**
     * reference to the page of the problem
     */
    type?: string | undefined;
    title?: string | undefined;
    status?: number | undefined;
    /**
     * what was wrong with this request
     */
    detail?: string | undefined;
    /**
     * of the caller's message: "not-sent", "refused", "unknown" ...
     */
    outcome?: string | undefined;
    safe_to_retry?: boolean | "with-idempotency-key" | undefined;
    retry_after_ms?: number | undefined;
    /**
     * places in the request
     */
    errors?: {
        pointer: string;
        detail: string;
    }[] | undefined;
    /**
     * of an error in RabbitMQ's form
     */
    error?: string | undefined;
    /**
     * the same
     */
    reason?: string | undefined;
};
