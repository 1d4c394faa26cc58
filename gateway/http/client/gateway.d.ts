/** A message that was received. Until its lease ends nobody else gets it. */
export class Delivery {
    /**
     * @param {Gateway} gateway
     * @param {any} told
     */
    constructor(gateway: Gateway, told: any);
    /** @type {Message & { exchange?: string, body: any }} */
    message: Message & {
        exchange?: string;
        body: any;
    };
    /** @type {string} Names it in a settlement; there is none in mode "auto". */
    token: string;
    /** @type {string | null} When the lease ends. */
    lock_until: string | null;
    /** @type {number} Which delivery of the message this is, from 1. */
    delivery_count: number;
    /** @type {boolean} */
    redelivered: boolean;
    /** The message is done with. */
    accept(): Promise<{
        outcome: string;
        lock_until?: string;
    }>;
    /**
     * It returns to its position in the queue.
     * @param {{ failed?: boolean }} [options]
     */
    release(options?: {
        failed?: boolean;
    }): Promise<{
        outcome: string;
        lock_until?: string;
    }>;
    /**
     * It becomes a dead letter.
     * @param {{ reason?: string, description?: string }} [options]
     */
    reject(options?: {
        reason?: string;
        description?: string;
    }): Promise<{
        outcome: string;
        lock_until?: string;
    }>;
    /**
     * It returns to the queue with annotations.
     * @param {{ delivery_failed?: boolean, undeliverable_here?: boolean,
     *   annotations?: Record<string, any> }} [options]
     */
    modify(options?: {
        delivery_failed?: boolean;
        undeliverable_here?: boolean;
        annotations?: Record<string, any>;
    }): Promise<{
        outcome: string;
        lock_until?: string;
    }>;
    /**
     * The lease ends so many milliseconds from now.
     * @param {number} lease_ms
     */
    renew(lease_ms: number): Promise<{
        outcome: string;
        lock_until?: string;
    }>;
    #private;
}
/** One virtual host of a gateway. */
export class Gateway {
    /**
     * @param {string | URL} [base]  such as https://gateway.example; without one the page's origin
     * @param {import("./requests.js").Access & { vhost?: string }} [options]
     */
    constructor(base?: string | URL, options?: import("./requests.js").Access & {
        vhost?: string;
    });
    requests: Requests;
    vhost: string;
    path: string;
    admin: string;
    /**
     * Publish one message. When the answer is there every queue that it was routed to has it.
     * @param {Target} to
     * @param {string | Uint8Array | Message} message  text, octets, or a message with properties
     * @param {PublishOptions} [options]
     * @returns {Promise<Receipt>}
     */
    publish(to: Target, message: string | Uint8Array | Message, options?: PublishOptions): Promise<Receipt>;
    /**
     * Publish a body as it is, however large; what else the message has are `Amqp-` fields.
     * @param {Target} to
     * @param {Blob | ArrayBuffer | ArrayBufferView} body
     * @param {Record<string, string>} [fields]  Structured Fields, and the content type
     * @param {PublishOptions} [options]
     * @returns {Promise<Receipt>}
     */
    publishBody(to: Target, body: Blob | ArrayBuffer | ArrayBufferView, fields?: Record<string, string>, options?: PublishOptions): Promise<Receipt>;
    /**
     * Publish many messages in one request. Some may fail: each has a result. If all fail for the
     * same reason, that is thrown.
     * @param {(string | Uint8Array | Message)[]} messages
     * @param {PublishOptions & { to?: Target, atomic?: boolean, on_error?: "continue" | "stop" }}
     *   [options]  `to`: where all of them go; otherwise each says so itself
     * @returns {Promise<Results>}
     */
    publishBatch(messages: (string | Uint8Array | Message)[], options?: PublishOptions & {
        to?: Target;
        atomic?: boolean;
        on_error?: "continue" | "stop";
    }): Promise<Results>;
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
    request(to: Target, message: string | Uint8Array | import("./replies.js").RequestMessage, options?: import("./replies.js").RequestOptions): Promise<import("./replies.js").Reply>;
    /** End what `request` has opened: its stream and its queue. Requests that wait are rejected. */
    close(): Promise<void>;
    /**
     * Take messages out of a queue and lease them. There may be none.
     * @param {string} queue
     * @param {ReceiveOptions & { signal?: AbortSignal }} [options]
     * @returns {Promise<Delivery[]>}
     */
    receive(queue: string, options?: ReceiveOptions & {
        signal?: AbortSignal;
    }): Promise<Delivery[]>;
    /**
     * Settle many deliveries at once. Each has its own result, in their order.
     * @param {Settlement[]} settlements
     * @returns {Promise<{ index: number, token: string, status: number, outcome?: string,
     *   problem?: import("./problems.js").ProblemDocument }[]>}
     */
    settle(settlements: Settlement[]): Promise<{
        index: number;
        token: string;
        status: number;
        outcome?: string;
        problem?: import("./problems.js").ProblemDocument;
    }[]>;
    /**
     * Look at the messages of a queue without taking them. An empty page is the last one.
     * @param {string} queue
     * @param {{ limit?: number, after?: string, view?: "simple" | "full",
     *   payload?: "auto" | "base64", crossings?: boolean }} [page]  `after`: what the page before gave
     *   as `next`; `crossings`: each message also as readers of other versions get it
     * @returns {Promise<import("./answers.js").Page>}
     */
    browse(queue: string, page?: {
        limit?: number;
        after?: string;
        view?: "simple" | "full";
        payload?: "auto" | "base64";
        crossings?: boolean;
    }): Promise<import("./answers.js").Page>;
    /**
     * Follow events for as long as the loop goes on, over any number of connections. An exchange
     * gives copies of its messages. A queue is consumed.
     * @param {string | string[]} sources  `queue:NAME`, `exchange:NAME?binding=KEY`, `route:NAME`
     * @param {import("./follow.js").FollowOptions} [options]
     */
    follow(sources: string | string[], options?: import("./follow.js").FollowOptions): AsyncGenerator<import("./follow.js").StreamEvent, void, void>;
    /**
     * @param {string} name
     * @param {Declared & { priority_levels?: 1 | 2 | 10 }} [options]
     * @returns {Promise<QueueDetail>}
     */
    declareQueue(name: string, options?: Declared & {
        priority_levels?: 1 | 2 | 10;
    }): Promise<QueueDetail>;
    /**
     * @param {string} name
     * @param {Declared & { type?: string, internal?: boolean }} [options]  direct unless set
     * @returns {Promise<ExchangeView>}
     */
    declareExchange(name: string, options?: Declared & {
        type?: string;
        internal?: boolean;
    }): Promise<ExchangeView>;
    /**
     * The `id` of the answer names the binding.
     * @param {Binding} binding
     * @returns {Promise<BindingView>}
     */
    bind(binding: Binding): Promise<BindingView>;
    /**
     * @param {string} id
     * @returns {Promise<null>}
     */
    unbind(id: string): Promise<null>;
    /**
     * The number of messages that were lost with it.
     * @param {string} name
     * @param {{ if_unused?: boolean, if_empty?: boolean }} [only]
     * @returns {Promise<import("./answers.js").Removed>}
     */
    deleteQueue(name: string, only?: {
        if_unused?: boolean;
        if_empty?: boolean;
    }): Promise<import("./answers.js").Removed>;
    /**
     * @param {string} name
     * @param {{ if_unused?: boolean }} [only]
     * @returns {Promise<null>}
     */
    deleteExchange(name: string, only?: {
        if_unused?: boolean;
    }): Promise<null>;
    /**
     * Remove the messages that nobody has received.
     * @param {string} name
     * @returns {Promise<import("./answers.js").Removed>}
     */
    purgeQueue(name: string): Promise<import("./answers.js").Removed>;
    /**
     * @param {string} name
     * @returns {Promise<QueueDetail>}
     */
    queue(name: string): Promise<QueueDetail>;
    /**
     * @param {string} name
     * @returns {Promise<ExchangeView>}
     */
    exchange(name: string): Promise<ExchangeView>;
    /** @returns {Promise<QueueDetail[]>} */
    queues(): Promise<QueueDetail[]>;
    /** @returns {Promise<ExchangeView[]>} */
    exchanges(): Promise<ExchangeView[]>;
    /** @returns {Promise<BindingView[]>} */
    bindings(): Promise<BindingView[]>;
    /** @returns {Promise<ConsumerView[]>} */
    consumers(): Promise<ConsumerView[]>;
    /**
     * Who the gateway takes the caller for.
     * @returns {Promise<import("./answers.js").Session>}
     */
    session(): Promise<import("./answers.js").Session>;
    #private;
}
export type QueueDetail = import("./answers.js").QueueDetail;
export type ExchangeView = import("./answers.js").ExchangeView;
export type BindingView = import("./answers.js").BindingView;
export type ConsumerView = import("./answers.js").ConsumerView;
/**
 * The body of a message. Text, or octets; or said in JSON. What is received has one of the last.
 */
export type Body = string | Uint8Array | {
    json: any;
} | {
    text: string;
} | {
    base64: string;
};
/**
 * A message. Types that JSON lacks are `{"$type": "uuid", "value": ...}`.
 */
export type Message = {
    body?: Body | undefined;
    id?: string | undefined;
    /**
     * the address it goes to, in a batch without one of its own
     */
    to?: string | undefined;
    /**
     * that of the body unless set
     */
    content_type?: string | undefined;
    /**
     * true unless set
     */
    durable?: boolean | undefined;
    priority?: number | undefined;
    ttl_ms?: number | undefined;
    /**
     * application properties, headers
     */
    properties?: Record<string, any> | undefined;
    subject?: string | undefined;
    reply_to?: string | undefined;
    correlation_id?: any;
    type?: string | undefined;
    app_id?: string | undefined;
    group?: {
        id?: string;
        sequence?: number;
    } | undefined;
    routing_key?: string | undefined;
    ordering_key?: string | undefined;
};
/**
 * Where messages go: an address (the name of a queue, `/queues/NAME`, `/exchanges/NAME/KEY`), or
 * one of the others by name.
 */
export type Target = string | {
    queue: string;
} | {
    exchange: string;
    routing_key?: string;
} | {
    route: string;
    parameters?: Record<string, string>;
};
export type PublishOptions = {
    /**
     * makes it safe to send again what got no answer, for this
     * package and for the caller, who says the same key then; `true`: a new one
     */
    key?: string | boolean | undefined;
    signal?: AbortSignal | undefined;
    /**
     * how often it is repeated, where that is safe; that of the gateway
     * unless set
     */
    retries?: number | undefined;
};
export type Receipt = {
    outcome: string;
    durability: "disk" | "memory" | "mixed";
    message_id: string;
    address: string;
    warnings?: string[] | undefined;
};
/**
 * one for each message, in their order
 */
export type Results = {
    accepted: number;
    failed: number;
    results: {
        index: number;
        id?: string;
        status: number;
        outcome: string;
        problem?: import("./problems.js").ProblemDocument;
    }[];
};
export type ReceiveOptions = {
    max?: number | undefined;
    wait_ms?: number | undefined;
    lease_ms?: number | undefined;
    view?: "full" | "simple" | undefined;
    payload?: "auto" | "base64" | undefined;
    /**
     * auto: accepted when the answer is written
     */
    mode?: "auto" | "lease" | undefined;
    filter?: string | string[] | undefined;
    selector?: string | undefined;
    group?: string | undefined;
    max_deliveries?: number | undefined;
};
export type Settlement = {
    token: string;
    outcome: "accepted" | "released" | "rejected" | "modified" | "renewed";
    lease_ms?: number | undefined;
    reason?: string | undefined;
    description?: string | undefined;
    delivery_failed?: boolean | undefined;
    undeliverable_here?: boolean | undefined;
    annotations?: Record<string, any> | undefined;
};
export type Declared = {
    /**
     * true unless set
     */
    durable?: boolean | undefined;
    auto_delete?: boolean | undefined;
    arguments?: Record<string, any> | undefined;
};
export type Binding = {
    source: string;
    destination: string;
    destination_type?: "queue" | "exchange" | undefined;
    routing_key?: string | undefined;
    arguments?: Record<string, any> | undefined;
};
import { Requests } from "./requests.js";
