// Answers of the HTTP API as types. Made of the schemas of /openapi.json, whose names they have:
// python -m tests.http.client_types > gateway/http/client/answers.js

/**
 * One queue with details. Counters start with the gateway; rates are per second over the last few
 * seconds.
 * @typedef {object} QueueDetail
 * @property {string} vhost
 * @property {string} name
 * @property {boolean} durable
 * @property {boolean} exclusive
 * @property {boolean} auto_delete
 * @property {{ [name: string]: Argument }} arguments
 * @property {Array<string>} warnings  arguments that are unknown or have no effect here, one
 *   sentence each
 * @property {number} priority_levels  2 for queues created by 0.8a2 and the drafts, 10 by links of
 *   1.0, else x-max-priority; 1 is the order of arrival
 * @property {number} messages  ready and unacknowledged
 * @property {number} ready
 * @property {number} unacknowledged
 * @property {number} octets  octets of ready message bodies
 * @property {number} paged  ready messages that are in the store only
 * @property {number} consumers
 * @property {string} policy  of the policy in force; empty if there is none
 * @property {string} operator_policy
 * @property {{ [name: string]: any }} effective_policy_definition  what both set; where an argument
 *   sets the same, the smaller number counts, or the argument
 * @property {number} published
 * @property {number} delivered
 * @property {number} acked
 * @property {number} redelivered
 * @property {number} publish_rate
 * @property {number} deliver_rate
 */

/**
 * One exchange.
 * @typedef {object} ExchangeView
 * @property {string} vhost
 * @property {string} name
 * @property {string} type
 * @property {boolean} durable
 * @property {boolean} auto_delete
 * @property {boolean} internal
 * @property {{ [name: string]: Argument }} arguments
 * @property {number} bindings
 */

/**
 * One binding. `id` is derived from the other members and never changes.
 * @typedef {object} BindingView
 * @property {string} id
 * @property {string} vhost
 * @property {string} source
 * @property {string} destination
 * @property {string} destination_type
 * @property {string} routing_key
 * @property {{ [name: string]: Argument }} arguments
 */

/**
 * One consumer.
 * @typedef {object} ConsumerView
 * @property {string} vhost
 * @property {string} queue
 * @property {string} tag
 * @property {string} client
 * @property {boolean} no_ack
 * @property {boolean} exclusive
 * @property {number} priority
 * @property {number} prefetch
 * @property {number} held  unsettled deliveries of the consumer
 * @property {boolean} active
 */

/**
 * The authenticated user.
 * @typedef {object} Session
 * @property {string} user
 * @property {string} scheme
 * @property {string | null} expires_at
 * @property {Array<Array<Array<string> | string | boolean>> | null} [rights]  limits of the
 *   credential within the user's permissions; null: none. Each has its actions, the virtual host,
 *   the kind and the name of what they are for, and whether the name is meant literally
 * @property {Array<string> | null} [tags]  of the user; null for a credential with limits
 * @property {Array<Permissions> | null} [permissions]  of the user; null for a credential with
 *   limits
 */

/**
 * Number of purged messages.
 * @typedef {object} Removed
 * @property {number} messages
 */

/**
 * `next` is the value of `after` for the next page; an empty page is the last one.
 * @typedef {object} Page
 * @property {number} ready
 * @property {Array<Looked>} messages
 * @property {string | null} next
 */

/**
 * The data of an event, in the format `json`.
 * @typedef {object} EventMessage
 * @property {string} source
 * @property {string | number | TypedValue | null} [id]
 * @property {string | number | TypedValue | null} [correlation_id]
 * @property {string | null} [subject]
 * @property {string | null} [to]
 * @property {string | null} [reply_to]
 * @property {string | null} [content_type]
 * @property {string | null} [content_encoding]
 * @property {string | null} [type]
 * @property {string | null} [app_id]
 * @property {boolean | null} [durable]
 * @property {number | null} [priority]
 * @property {number | null} [ttl_ms]
 * @property {string | null} [time]
 * @property {string | null} [expires_at]
 * @property {string | null} [user_id]
 * @property {{ [name: string]: string | number } | null} [group]
 * @property {string | null} [traceparent]
 * @property {string | null} [tracestate]
 * @property {{ [name: string]: any } | null} [properties]
 * @property {string | null} [exchange]  absent in a declared route
 * @property {string | null} [routing_key]
 * @property {boolean | null} [redelivered]
 * @property {boolean | null} [properties_unreadable]
 * @property {EventLock | null} [lock]  with `ack=explicit`
 * @property {ShownBody} body
 */

/**
 * An AMQP value; types that JSON lacks are {"$type": ..., "value": ...}.
 * @typedef {null | boolean | string | number | ArgumentMap | Array<null | boolean | string | number | ArgumentMap | Array<any>>} Argument
 */

/**
 * Regular expressions, searched for anywhere in a name; an empty one matches nothing.
 * @typedef {object} Permissions
 * @property {string} vhost
 * @property {string} configure
 * @property {string} write
 * @property {string} read
 */

/**
 * One browsed message.
 * @typedef {object} Looked
 * @property {string} position
 * @property {number} deliveries  number of earlier deliveries
 * @property {string | null} [expires]
 * @property {ReceivedFullMessage | ReceivedMessage} message
 * @property {string | null} [came_as]  with `crossings`: the encoding in which it came; 0-9-1 is
 *   that of 0-8, 0-9 and HTTP too
 * @property {Array<SeenAs> | null} [seen_as]  with `crossings`: readers of other encodings
 */

/**
 * An AMQP value of a type that JSON lacks.
 * @typedef {object} TypedValue
 * @property {"null" | "boolean" | "byte" | "ubyte" | "short" | "ushort" | "int" | "uint" | "long" |
 *   "ulong" | "float" | "double" | "decimal" | "decimal32" | "decimal64" | "decimal128" | "char" |
 *   "timestamp" | "uuid" | "binary" | "string" | "symbol" | "short-string" | "described" | "map" |
 *   "array"} $type
 * @property {any} [value]  binary in base64, times as in RFC 3339, maps as pairs
 * @property {string | null} [base64]  octets of text that is not UTF-8
 * @property {string | null} [bits]  octets of a floating-point or decimal number, in hexadecimal
 * @property {"s" | "ms" | null} [unit]  of a timestamp
 * @property {any} [descriptor]  of a described value
 * @property {string | null} [of]  type of the elements of an array
 * @property {string | null} [constructor]  octet before the elements of an array, in hexadecimal
 * @property {Array<any> | null} [descriptors]  of an array
 */

/**
 * Lease of a message that an event brings.
 * @typedef {object} EventLock
 * @property {string} token  settles it, at `/v1/{vhost}/deliveries/{token}`
 * @property {string} until
 * @property {number} [delivery_count]  default: `1`
 */

/**
 * `json` if the content type says JSON and the octets are JSON, `text` if it says text and they are
 * UTF-8, else `base64`.
 * @typedef {object} ShownBody
 * @property {"data" | "value" | "sequence" | "none" | null} [kind]  body sections of AMQP 1.0,
 *   unless they are plain data
 * @property {any} [json]
 * @property {string | null} [text]
 * @property {string | null} [base64]
 * @property {"too-large" | null} [omitted]  the body is too large for JSON; `view=raw` has it
 * @property {number | null} [octets]  length of an omitted body
 */

/**
 * Names and values. Types that JSON lacks have the members `$type` and `value`.
 * @typedef {{ [name: string]: Argument }} ArgumentMap
 */

/**
 * A message with all sections, in the full view.
 * @typedef {object} ReceivedFullMessage
 * @property {"full"} view
 * @property {MessageHeader | null} [header]
 * @property {MessageProperties | null} [properties]
 * @property {LegacyProperties | null} [legacy]
 * @property {{ [name: string]: any } | null} [application_properties]
 * @property {{ [name: string]: any } | null} [delivery_annotations]
 * @property {{ [name: string]: any } | null} [message_annotations]
 * @property {{ [name: string]: any } | null} [footer]
 * @property {ShownBody} body
 */

/**
 * A message in the simple view. Members that it lacks are absent.
 * @typedef {object} ReceivedMessage
 * @property {string | TypedValue | null} [id]
 * @property {string | TypedValue | null} [correlation_id]
 * @property {boolean | null} [durable]
 * @property {number | null} [priority]
 * @property {number | null} [ttl_ms]
 * @property {string | TypedValue | null} [user_id]
 * @property {string | TypedValue | null} [to]
 * @property {string | TypedValue | null} [subject]
 * @property {string | TypedValue | null} [reply_to]
 * @property {string | TypedValue | null} [content_type]
 * @property {string | TypedValue | null} [content_encoding]
 * @property {string | null} [expires_at]
 * @property {string | null} [time]
 * @property {{ [name: string]: any } | null} [properties]
 * @property {{ [name: string]: any } | null} [annotations]
 * @property {string | TypedValue | null} [type]
 * @property {string | TypedValue | null} [app_id]
 * @property {string | TypedValue | null} [cluster_id]
 * @property {MessageGroup | null} [group]
 * @property {string | TypedValue} exchange
 * @property {string | TypedValue} routing_key
 * @property {boolean | null} [redelivered]
 * @property {Array<DeadLetter> | null} [dead_letter]  deaths of the message, the latest first
 * @property {boolean | null} [properties_unreadable]  true: the publisher's properties cannot be
 *   decoded
 * @property {ShownBody} body
 */

/**
 * A message as readers of another version get it, without the capsule that keeps what their form
 * does not express.
 * @typedef {object} SeenAs
 * @property {string} version
 * @property {string | null} [fidelity]  exact, equivalent, capsule, edited, lossy or natural
 * @property {Array<string> | null} [inexact]  properties that the form does not express; with
 *   fidelity `capsule` they come back as they were
 * @property {ReceivedFullMessage | ReceivedMessage | null} [message]  without its body if that has
 *   more than 65536 octets
 * @property {string | null} [declined]  why these readers do not get it
 */

/**
 * Header section of AMQP 1.0 (3.2.1).
 * @typedef {object} MessageHeader
 * @property {boolean | null} [durable]
 * @property {number | null} [priority]
 * @property {number | null} [ttl]  milliseconds
 * @property {boolean | null} [first_acquirer]
 * @property {number | null} [delivery_count]
 */

/**
 * Properties section of AMQP 1.0 (3.2.4).
 * @typedef {object} MessageProperties
 * @property {string | TypedValue | null} [message_id]
 * @property {string | TypedValue | null} [user_id]
 * @property {string | TypedValue | null} [to]
 * @property {string | TypedValue | null} [subject]
 * @property {string | TypedValue | null} [reply_to]
 * @property {string | TypedValue | null} [correlation_id]
 * @property {string | TypedValue | null} [content_type]
 * @property {string | TypedValue | null} [content_encoding]
 * @property {number | string | null} [absolute_expiry_time]
 * @property {number | string | null} [creation_time]
 * @property {string | TypedValue | null} [group_id]
 * @property {number | null} [group_sequence]
 * @property {string | TypedValue | null} [reply_to_group_id]
 */

/**
 * What AMQP 0-x has and 1.0 lacks.
 * @typedef {object} LegacyProperties
 * @property {string | TypedValue | null} [type]
 * @property {string | TypedValue | null} [app_id]
 * @property {string | TypedValue | null} [cluster_id]
 * @property {string | TypedValue | null} [exchange]
 * @property {string | TypedValue | null} [routing_key]
 */

/**
 * Group of messages.
 * @typedef {object} MessageGroup
 * @property {string | TypedValue | null} [id]
 * @property {number | null} [sequence]
 * @property {string | TypedValue | null} [reply_to]  group of the replies
 */

/**
 * One death of a message: the queue it left and why.
 * @typedef {object} DeadLetter
 * @property {string} queue
 * @property {string} reason
 * @property {number} count  deaths in this queue for this reason
 * @property {string} exchange
 * @property {Array<string>} routing_keys
 * @property {string | null} [first]  time of the first one
 * @property {string | null} [original_expiration]
 */

export {};
