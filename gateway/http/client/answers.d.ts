/**
 * One queue with details. Counters start with the gateway; rates are per second over the last few
 * seconds.
 */
export type QueueDetail = {
    vhost: string;
    name: string;
    durable: boolean;
    exclusive: boolean;
    auto_delete: boolean;
    arguments: {
        [name: string]: Argument;
    };
    /**
     * arguments that are unknown or have no effect here, one
     * sentence each
     */
    warnings: Array<string>;
    /**
     * 2 for queues created by 0.8a2 and the drafts, 10 by links of
     * 1.0, else x-max-priority; 1 is the order of arrival
     */
    priority_levels: number;
    /**
     * ready and unacknowledged
     */
    messages: number;
    ready: number;
    unacknowledged: number;
    /**
     * octets of ready message bodies
     */
    octets: number;
    /**
     * ready messages that are in the store only
     */
    paged: number;
    consumers: number;
    /**
     * of the policy in force; empty if there is none
     */
    policy: string;
    operator_policy: string;
    /**
     * what both set; where an argument
     * sets the same, the smaller number counts, or the argument
     */
    effective_policy_definition: {
        [name: string]: any;
    };
    published: number;
    delivered: number;
    acked: number;
    redelivered: number;
    publish_rate: number;
    deliver_rate: number;
};
/**
 * One exchange.
 */
export type ExchangeView = {
    vhost: string;
    name: string;
    type: string;
    durable: boolean;
    auto_delete: boolean;
    internal: boolean;
    arguments: {
        [name: string]: Argument;
    };
    bindings: number;
};
/**
 * One binding. `id` is derived from the other members and never changes.
 */
export type BindingView = {
    id: string;
    vhost: string;
    source: string;
    destination: string;
    destination_type: string;
    routing_key: string;
    arguments: {
        [name: string]: Argument;
    };
};
/**
 * One consumer.
 */
export type ConsumerView = {
    vhost: string;
    queue: string;
    tag: string;
    client: string;
    no_ack: boolean;
    exclusive: boolean;
    priority: number;
    prefetch: number;
    /**
     * unsettled deliveries of the consumer
     */
    held: number;
    active: boolean;
};
/**
 * The authenticated user.
 */
export type Session = {
    user: string;
    scheme: string;
    expires_at: string | null;
    /**
     * limits of the
     * credential within the user's permissions; null: none. Each has its actions, the virtual host,
     * the kind and the name of what they are for, and whether the name is meant literally
     */
    rights?: (string | boolean | string[])[][] | null | undefined;
    /**
     * of the user; null for a credential with limits
     */
    tags?: string[] | null | undefined;
    /**
     * of the user; null for a credential with
     * limits
     */
    permissions?: Permissions[] | null | undefined;
};
/**
 * Number of purged messages.
 */
export type Removed = {
    messages: number;
};
/**
 * `next` is the value of `after` for the next page; an empty page is the last one.
 */
export type Page = {
    ready: number;
    messages: Array<Looked>;
    next: string | null;
};
/**
 * The data of an event, in the format `json`.
 */
export type EventMessage = {
    source: string;
    id?: string | number | TypedValue | null | undefined;
    correlation_id?: string | number | TypedValue | null | undefined;
    subject?: string | null | undefined;
    to?: string | null | undefined;
    reply_to?: string | null | undefined;
    content_type?: string | null | undefined;
    content_encoding?: string | null | undefined;
    type?: string | null | undefined;
    app_id?: string | null | undefined;
    durable?: boolean | null | undefined;
    priority?: number | null | undefined;
    ttl_ms?: number | null | undefined;
    time?: string | null | undefined;
    expires_at?: string | null | undefined;
    user_id?: string | null | undefined;
    group?: {
        [name: string]: string | number;
    } | null | undefined;
    traceparent?: string | null | undefined;
    tracestate?: string | null | undefined;
    properties?: {
        [name: string]: any;
    } | null | undefined;
    /**
     * absent in a declared route
     */
    exchange?: string | null | undefined;
    routing_key?: string | null | undefined;
    redelivered?: boolean | null | undefined;
    properties_unreadable?: boolean | null | undefined;
    /**
     * with `ack=explicit`
     */
    lock?: EventLock | null | undefined;
    body: ShownBody;
};
/**
 * An AMQP value; types that JSON lacks are {"$type": ..., "value": ...}.
 */
export type Argument = null | boolean | string | number | ArgumentMap | Array<null | boolean | string | number | ArgumentMap | Array<any>>;
/**
 * Regular expressions, searched for anywhere in a name; an empty one matches nothing.
 */
export type Permissions = {
    vhost: string;
    configure: string;
    write: string;
    read: string;
};
/**
 * One browsed message.
 */
export type Looked = {
    position: string;
    /**
     * number of earlier deliveries
     */
    deliveries: number;
    expires?: string | null | undefined;
    message: ReceivedFullMessage | ReceivedMessage;
    /**
     * with `crossings`: the encoding in which it came; 0-9-1 is
     * that of 0-8, 0-9 and HTTP too
     */
    came_as?: string | null | undefined;
    /**
     * with `crossings`: readers of other encodings
     */
    seen_as?: SeenAs[] | null | undefined;
};
/**
 * An AMQP value of a type that JSON lacks.
 */
export type TypedValue = {
    $type: "null" | "boolean" | "byte" | "ubyte" | "short" | "ushort" | "int" | "uint" | "long" | "ulong" | "float" | "double" | "decimal" | "decimal32" | "decimal64" | "decimal128" | "char" | "timestamp" | "uuid" | "binary" | "string" | "symbol" | "short-string" | "described" | "map" | "array";
    /**
     * binary in base64, times as in RFC 3339, maps as pairs
     */
    value?: any;
    /**
     * octets of text that is not UTF-8
     */
    base64?: string | null | undefined;
    /**
     * octets of a floating-point or decimal number, in hexadecimal
     */
    bits?: string | null | undefined;
    /**
     * of a timestamp
     */
    unit?: "s" | "ms" | null | undefined;
    /**
     * of a described value
     */
    descriptor?: any;
    /**
     * type of the elements of an array
     */
    of?: string | null | undefined;
    /**
     * octet before the elements of an array, in hexadecimal
     */
    constructor?: string | null | undefined;
    /**
     * of an array
     */
    descriptors?: any[] | null | undefined;
};
/**
 * Lease of a message that an event brings.
 */
export type EventLock = {
    /**
     * settles it, at `/v1/{vhost}/deliveries/{token}`
     */
    token: string;
    until: string;
    /**
     * default: `1`
     */
    delivery_count?: number | undefined;
};
/**
 * `json` if the content type says JSON and the octets are JSON, `text` if it says text and they are
 * UTF-8, else `base64`.
 */
export type ShownBody = {
    /**
     * body sections of AMQP 1.0,
     * unless they are plain data
     */
    kind?: "data" | "none" | "value" | "sequence" | null | undefined;
    json?: any;
    text?: string | null | undefined;
    base64?: string | null | undefined;
    /**
     * the body is too large for JSON; `view=raw` has it
     */
    omitted?: "too-large" | null | undefined;
    /**
     * length of an omitted body
     */
    octets?: number | null | undefined;
};
/**
 * Names and values. Types that JSON lacks have the members `$type` and `value`.
 */
export type ArgumentMap = {
    [name: string]: Argument;
};
/**
 * A message with all sections, in the full view.
 */
export type ReceivedFullMessage = {
    view: "full";
    header?: MessageHeader | null | undefined;
    properties?: MessageProperties | null | undefined;
    legacy?: LegacyProperties | null | undefined;
    application_properties?: {
        [name: string]: any;
    } | null | undefined;
    delivery_annotations?: {
        [name: string]: any;
    } | null | undefined;
    message_annotations?: {
        [name: string]: any;
    } | null | undefined;
    footer?: {
        [name: string]: any;
    } | null | undefined;
    body: ShownBody;
};
/**
 * A message in the simple view. Members that it lacks are absent.
 */
export type ReceivedMessage = {
    id?: string | TypedValue | null | undefined;
    correlation_id?: string | TypedValue | null | undefined;
    durable?: boolean | null | undefined;
    priority?: number | null | undefined;
    ttl_ms?: number | null | undefined;
    user_id?: string | TypedValue | null | undefined;
    to?: string | TypedValue | null | undefined;
    subject?: string | TypedValue | null | undefined;
    reply_to?: string | TypedValue | null | undefined;
    content_type?: string | TypedValue | null | undefined;
    content_encoding?: string | TypedValue | null | undefined;
    expires_at?: string | null | undefined;
    time?: string | null | undefined;
    properties?: {
        [name: string]: any;
    } | null | undefined;
    annotations?: {
        [name: string]: any;
    } | null | undefined;
    type?: string | TypedValue | null | undefined;
    app_id?: string | TypedValue | null | undefined;
    cluster_id?: string | TypedValue | null | undefined;
    group?: MessageGroup | null | undefined;
    exchange: string | TypedValue;
    routing_key: string | TypedValue;
    redelivered?: boolean | null | undefined;
    /**
     * deaths of the message, the latest first
     */
    dead_letter?: DeadLetter[] | null | undefined;
    /**
     * true: the publisher's properties cannot be
     * decoded
     */
    properties_unreadable?: boolean | null | undefined;
    body: ShownBody;
};
/**
 * A message as readers of another version get it, without the capsule that keeps what their form
 * does not express.
 */
export type SeenAs = {
    version: string;
    /**
     * exact, equivalent, capsule, edited, lossy or natural
     */
    fidelity?: string | null | undefined;
    /**
     * properties that the form does not express; with
     * fidelity `capsule` they come back as they were
     */
    inexact?: string[] | null | undefined;
    /**
     * without its body if that has
     * more than 65536 octets
     */
    message?: ReceivedFullMessage | ReceivedMessage | null | undefined;
    /**
     * why these readers do not get it
     */
    declined?: string | null | undefined;
};
/**
 * Header section of AMQP 1.0 (3.2.1).
 */
export type MessageHeader = {
    durable?: boolean | null | undefined;
    priority?: number | null | undefined;
    /**
     * milliseconds
     */
    ttl?: number | null | undefined;
    first_acquirer?: boolean | null | undefined;
    delivery_count?: number | null | undefined;
};
/**
 * Properties section of AMQP 1.0 (3.2.4).
 */
export type MessageProperties = {
    message_id?: string | TypedValue | null | undefined;
    user_id?: string | TypedValue | null | undefined;
    to?: string | TypedValue | null | undefined;
    subject?: string | TypedValue | null | undefined;
    reply_to?: string | TypedValue | null | undefined;
    correlation_id?: string | TypedValue | null | undefined;
    content_type?: string | TypedValue | null | undefined;
    content_encoding?: string | TypedValue | null | undefined;
    absolute_expiry_time?: string | number | null | undefined;
    creation_time?: string | number | null | undefined;
    group_id?: string | TypedValue | null | undefined;
    group_sequence?: number | null | undefined;
    reply_to_group_id?: string | TypedValue | null | undefined;
};
/**
 * What AMQP 0-x has and 1.0 lacks.
 */
export type LegacyProperties = {
    type?: string | TypedValue | null | undefined;
    app_id?: string | TypedValue | null | undefined;
    cluster_id?: string | TypedValue | null | undefined;
    exchange?: string | TypedValue | null | undefined;
    routing_key?: string | TypedValue | null | undefined;
};
/**
 * Group of messages.
 */
export type MessageGroup = {
    id?: string | TypedValue | null | undefined;
    sequence?: number | null | undefined;
    /**
     * group of the replies
     */
    reply_to?: string | TypedValue | null | undefined;
};
/**
 * One death of a message: the queue it left and why.
 */
export type DeadLetter = {
    queue: string;
    reason: string;
    /**
     * deaths in this queue for this reason
     */
    count: number;
    exchange: string;
    routing_keys: Array<string>;
    /**
     * time of the first one
     */
    first?: string | null | undefined;
    original_expiration?: string | null | undefined;
};
