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
    constructor(gateway: Host);
    gateway: Host;
    queue: string;
    cursor: string;
    /** @type {Map<string, Waiting>} */
    waiting: Map<string, Waiting>;
    /** @type {AbortController | null} */
    stream: AbortController | null;
    /** @type {Promise<any> | null} */
    opened: Promise<any> | null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    idle: ReturnType<typeof setTimeout> | undefined;
    /**
     * Publish a request and wait for its reply.
     * @param {Target} to
     * @param {RequestMessage} message
     * @param {RequestOptions} options
     * @returns {Promise<Reply>}
     */
    request(to: Target, message: RequestMessage, { timeout, signal }: RequestOptions): Promise<Reply>;
    /**
     * @param {Target} to
     * @param {Message} message
     * @param {AbortSignal} signal
     */
    send(to: Target, message: Message, signal: AbortSignal): Promise<void>;
    /** Declare the queue and begin to read it. */
    open(): Promise<void>;
    /** @param {AbortSignal} signal */
    read(signal: AbortSignal): Promise<void>;
    /** Without requests that wait, the stream ends after a while: it would keep a program from ending. */
    rest(): void;
    /**
     * The stream ends, and the next request opens another.
     * @param {any} error  what the requests that wait are rejected with
     */
    end(error: any): void;
    /** End the stream and delete the queue. Requests that wait are rejected. */
    close(): Promise<void>;
}
export type Message = import("./gateway.js").Message;
export type Target = import("./gateway.js").Target;
/**
 * The message that came in reply, as events show it.
 */
export type Reply = import("./answers.js").EventMessage;
/**
 * A request is a message whose reply address and correlation id are this package's.
 */
export type RequestMessage = Omit<Message, "reply_to" | "correlation_id">;
export type RequestOptions = {
    /**
     * milliseconds until the promise is rejected; 30,000 unless set. The
     * request expires at the same time, unless it has a `ttl_ms`
     */
    timeout?: number | undefined;
    /**
     * rejects the promise with its reason. The request is not recalled
     */
    signal?: AbortSignal | undefined;
};
/**
 * What a `Gateway` does here.
 */
export type Host = {
    declareQueue: (name: string, options: {
        arguments: Record<string, any>;
    }) => Promise<any>;
    deleteQueue: (name: string) => Promise<any>;
    publish: (to: Target, message: Message, options: import("./gateway.js").PublishOptions) => Promise<any>;
    follow: (source: string, options: import("./follow.js").FollowOptions) => AsyncIterable<import("./follow.js").StreamEvent>;
};
export type Waiting = {
    resolve: (reply: Reply) => void;
    reject: (error: any) => void;
};
