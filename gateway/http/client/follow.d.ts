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
export function follow(requests: Requests, path: string, sources: string[], options?: FollowOptions): AsyncGenerator<StreamEvent, void, void>;
export type Requests = import("./requests.js").Requests;
export type StreamEvent = {
    /**
     * "message", unless the stream was asked for another by `event`
     */
    type: string;
    /**
     * cursor: a stream that is opened with it as `lastEventId` goes on behind
     * this event
     */
    id: string;
    /**
     * what `raw` says; with `format: "text"` the body of the message
     */
    data: any;
    /**
     * the text of the event: numbers have all their digits here
     */
    raw: string;
};
/**
 * of the API, as `/openapi.json` describes them
 */
export type Parameters = {
    /**
     * where the first connection begins: latest, earliest, offset:N,
     * time:RFC3339, -PT5M
     */
    from?: string | undefined;
    format?: "text" | "json" | "full" | "cloudevents" | undefined;
    payload?: "auto" | "base64" | undefined;
    filter?: string | string[] | undefined;
    selector?: string | undefined;
    journal?: "memory" | "durable" | undefined;
    ack?: "explicit" | "none" | "on-next" | undefined;
    credit?: number | undefined;
    lease_ms?: number | undefined;
    slow?: "pause" | "close" | "skip" | "latest" | undefined;
    event?: "type" | "none" | "source" | "subject" | undefined;
    /**
     * seconds
     */
    heartbeat?: number | undefined;
};
export type Ours = {
    /**
     * ends the loop, without an error
     */
    signal?: AbortSignal | undefined;
    /**
     * the `id` of the last event of an earlier stream
     */
    lastEventId?: string | undefined;
    /**
     * what the gateway says of the stream itself:
     * `gateway.open` says how it resumed, `gateway.gap` what was lost
     */
    control?: ((event: StreamEvent) => void) | undefined;
    /**
     * the
     * connection broke, and another follows after so long. Without an error the gateway ended it
     */
    lost?: ((lost: {
        error: GatewayError | null;
        wait_ms: number;
    }) => void) | undefined;
};
export type FollowOptions = Parameters & Ours;
import { GatewayError } from "./problems.js";
