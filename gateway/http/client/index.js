// The JavaScript client of the AMQP gateway, for browsers and Node.

export * from "./answers.js";
export { AmqpEvents, EventStreamParser } from "./amqp-events.js";
export { Delivery, Gateway } from "./gateway.js";
export { GatewayError, ProblemError, ReplyTimeoutError, StreamClosedError, UnreachableError } from "./problems.js";
export { Requests } from "./requests.js";
