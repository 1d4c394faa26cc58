// What a program in TypeScript sees of the client. Never run: the compiler reads it.

import {
  AmqpEvents, type Delivery, Gateway, GatewayError, ProblemError, type QueueDetail, ReplyTimeoutError,
  UnreachableError,
} from "../../../gateway/http/client/index.js";

const gateway = new Gateway("https://gateway.example", { token: async () => "token", vhost: "shop" });
await gateway.declareQueue("orders", { durable: true, arguments: { "x-max-length": 5 } });
const receipt = await gateway.publish({ exchange: "shop", routing_key: "new" }, { body: { json: 1 }, priority: 4 });
const durability: "disk" | "memory" | "mixed" = receipt.durability;
const { results } = await gateway.publishBatch([{ to: "orders", body: "text" }], { atomic: true });
const deliveries: Delivery[] = await gateway.receive("orders", { max: 10, wait_ms: 1000 });
for (const one of deliveries) await one.reject({ reason: durability });
await gateway.settle([{ token: results[0].outcome, outcome: "released" }]);

const queues: QueueDetail[] = await gateway.queues();
const ready: number = queues[0].ready + (await gateway.consumers())[0].held;
const { bindings } = (await gateway.exchanges())[ready];
// @ts-expect-error: no such member
console.log((await gateway.bindings())[bindings].key);

const { body } = await gateway.request({ queue: "calls" }, "text", { timeout: 500, signal: AbortSignal.timeout(9) });
const text: string | null | undefined = body.text;
// @ts-expect-error: the reply address is the package's
await gateway.request("calls", { body: text ?? "", reply_to: "me" });

// @ts-expect-error: a misspelt option
await gateway.receive("orders", { lease: 5 });
// @ts-expect-error: no such outcome
await gateway.settle([{ token: "", outcome: "lost" }]);

try {
  for await (const event of gateway.follow("queue:orders", { signal: AbortSignal.timeout(1), journal: "durable" })) {
    const id: string = event.id;
    gateway.follow([id], { lastEventId: id });
  }
} catch (error) {
  if (error instanceof ProblemError && error.kind === "address-not-found") throw new Error(error.problem.detail);
  if (error instanceof ReplyTimeoutError) await gateway.close();
  if (error instanceof UnreachableError || error instanceof GatewayError) throw error;
}

export const events = new AmqpEvents("/v1/%2F/events?source=queue:orders", { share: false });
