// Declares, publishes, receives, settles and lists by the types that openapi-typescript makes of
// /openapi.json, with openapi-fetch. Usage: node generated.js BASE QUEUE
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

declare const process: { argv: string[] };

function assert(good: boolean, told?: unknown): asserts good {
  if (!good) throw new Error(JSON.stringify(told) ?? "not so");
}

function same(found: unknown, wanted: unknown): void {
  assert(JSON.stringify(found) === JSON.stringify(wanted), { found, wanted });
}

const [base, queue] = process.argv.slice(2) as [string, string];
// Answers in JSON: raw bodies and lines are text.
type Json = "application/json" | `application/${string}+json`;
const client = createClient<paths, Json>({
  baseUrl: base,
  headers: { authorization: `Basic ${btoa("guest:guest")}` },
});
const vhost = "/";

const declared = await client.PUT("/v1/admin/vhosts/{vhost}/queues/{queue}", {
  params: { path: { vhost, queue } },
  body: { durable: true },
});
same(declared.data?.durable, true);

const message: components["schemas"]["NewMessage"] = {
  body: { json: { order: 17 } },
  subject: "created",
  priority: 4,
};
const published = await client.POST("/v1/{vhost}/queues/{queue}/messages", {
  params: { path: { vhost, queue } },
  headers: { "content-type": "application/vnd.amqp-gateway.message+json" },
  body: message,
});
assert(published.response.status === 201, published.error);
const receipt = published.data;
assert(receipt !== undefined && "message_id" in receipt);
same(receipt.outcome, "accepted");

const batch = await client.POST("/v1/{vhost}/queues/{queue}/messages", {
  params: { path: { vhost, queue } },
  headers: { "content-type": "application/vnd.amqp-gateway.batch+json" },
  body: { messages: [{ body: "first" }, { body: "second" }] },
});
assert(batch.data !== undefined && "accepted" in batch.data);
same(batch.data.accepted, 2);

const received = await client.POST("/v1/{vhost}/queues/{queue}/deliveries", {
  params: { path: { vhost, queue } },
  body: { max: 10 },
});
const [first, ...others] = received.data?.deliveries ?? [];
assert(first !== undefined && others.length === 2);
same(first.message.body.json, { order: 17 });
assert("id" in first.message);
same(first.message.id, receipt.message_id);
same(others.map((one) => one.message.body.text), ["first", "second"]);

const settled = await client.DELETE("/v1/{vhost}/deliveries/{token}", {
  params: { path: { vhost, token: first.token! } },
});
same(settled.data?.outcome, "accepted");
const done = await client.POST("/v1/{vhost}/deliveries/settle", {
  params: { path: { vhost } },
  body: others.map((one) => ({ token: one.token!, outcome: "accepted" as const })),
});
same(done.data?.results.map((one) => one.status), [200, 200]);

const listed = await client.GET("/v1/{vhost}/queues", { params: { path: { vhost } } });
same(
  listed.data?.queues.filter((one) => one.name === queue).map((one) => one.messages),
  [0],
);

const wrong = await client.POST("/v1/{vhost}/queues/{queue}/messages", {
  params: { path: { vhost, queue: "no such queue" } },
  headers: { "content-type": "application/vnd.amqp-gateway.message+json" },
  body: message,
});
same(wrong.error?.type, "/problems/address-not-found");
console.log("good");
