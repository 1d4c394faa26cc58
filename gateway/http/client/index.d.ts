export * from "./answers.js";
export { Requests } from "./requests.js";
export { AmqpEvents, EventStreamParser } from "./amqp-events.js";
export { Delivery, Gateway } from "./gateway.js";
export { GatewayError, ProblemError, ReplyTimeoutError, StreamClosedError, UnreachableError } from "./problems.js";
