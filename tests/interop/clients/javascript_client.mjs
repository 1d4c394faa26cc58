// The shipped JavaScript client in Node, against a gateway that is killed and started again.
// Prints a line of JSON for each check: what it saw.

import { createInterface } from "node:readline";
import { Gateway, GatewayError, ProblemError, UnreachableError } from "../../../gateway/http/client/index.js";

const [base, nowhere] = process.argv.slice(2);
const gateway = new Gateway(base, { user: "guest", password: "guest" });
const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const PATIENCE = AbortSignal.timeout(150_000);

async function check(name, work) {
  try {
    console.log(JSON.stringify({ check: name, got: await work() }));
  } catch (error) {
    console.log(JSON.stringify({ check: name, error: String(error), where: error.stack }));
  }
}

async function restarted() {
  console.log(JSON.stringify({ ask: "restart" }));
  await input.next();
}

// The error that some work ends with.
async function error(work) {
  try {
    await work;
  } catch (thrown) {
    return thrown;
  }
  throw new Error("there was no error");
}

const numbered = (n) => ({ id: `n-${n}`, body: { json: { n } }, properties: { n } });

await check("declare", async () => {
  const queue = await gateway.declareQueue("js.orders", { arguments: { "x-max-length": 100 } });
  await gateway.declareQueue("js.orders", { arguments: { "x-max-length": 100 } });
  await gateway.declareQueue("js/odd #1?", {});
  const exchange = await gateway.declareExchange("js.shop", { type: "topic" });
  const bound = await gateway.bind({ source: "js.shop", destination: "js.orders", routing_key: "order.#" });
  const again = await gateway.bind({ source: "js.shop", destination: "js.orders", routing_key: "order.#" });
  return [queue.durable, exchange.type, bound.id === again.id];
});

await check("list", async () => {
  const [queues, exchanges, bindings, consumers] = await Promise.all(
    [gateway.queues(), gateway.exchanges(), gateway.bindings(), gateway.consumers()]);
  const ours = (found) => found.map((one) => one.name).filter((name) => name.startsWith("js")).sort();
  return [ours(queues), ours(exchanges), bindings.find((one) => one.source === "js.shop").routing_key,
    consumers.length, (await gateway.queue("js.orders")).arguments, (await gateway.exchange("js.shop")).type,
    (await gateway.session()).user];
});

await check("publish", async () => {
  const receipts = [
    await gateway.publish("js.orders", "text"),
    await gateway.publish("js.orders", new Uint8Array([0, 255])),
    await gateway.publish({ exchange: "js.shop", routing_key: "order.new" },
      { ...numbered(1), properties: { who: "Grüße", at: { $type: "ubyte", value: 3 } }, priority: 4 }),
    await gateway.publish({ queue: "js/odd #1?" }, "odd"),
    await gateway.publishBody("js.orders", new Blob(["raw"]), { "Content-Type": "text/x-raw" }),
  ];
  return receipts.map((one) => `${one.outcome} ${one.durability}`);
});

await check("publish with a key", async () => {
  const first = await gateway.publish("js.orders", "once", { key: "js-once" });
  const again = await gateway.publish("js.orders", "once", { key: "js-once" });
  const other = await gateway.publish({ queue: "js/odd #1?" }, "made", { key: true });
  return [first.message_id === again.message_id, other.outcome];
});

await check("browse", async () => {
  const page = await gateway.browse("js.orders", { limit: 2 });
  const next = await gateway.browse("js.orders", { limit: 100, after: page.next });
  return [page.ready, page.messages.length, next.messages.length];
});

await check("receive", async () => {
  const found = await gateway.receive("js.orders", { max: 10, lease_ms: 60_000 });
  const bodies = found.map(({ message }) => message.body);
  const { who, at } = found[2].message.properties;
  const [first, second, third, ...rest] = found;
  await first.accept();
  const repeated = await first.accept();
  const [before, renewed] = [second.lock_until, await second.renew(120_000)];
  await second.reject({ reason: "js" });
  await third.release({ failed: true });
  const results = await gateway.settle(rest.map(({ token }) => ({ token, outcome: "accepted" })));
  const [again] = await gateway.receive("js.orders", { wait_ms: 5000 });
  await again.modify({ annotations: { "x-opt-tried": 1 } });
  const [auto] = await gateway.receive("js.orders", { mode: "auto" });
  return [bodies, who, at, repeated.outcome, renewed.outcome, before < second.lock_until,
    results.map((one) => one.status), again.delivery_count, auto.delivery_count, auto.token,
    (await gateway.receive("js.orders")).length];
});

await check("batch", async () => {
  const all = await gateway.publishBatch([1, 2, 3].map(numbered), { to: "js.orders", atomic: true });
  const some = await gateway.publishBatch([{ to: "js.orders", body: "a" }, { to: "js.nowhere", body: "b" }]);
  const none = await error(gateway.publishBatch(["a", "b"], { to: "js.nowhere" }));
  return [all.accepted, all.failed, some.accepted, some.results.map((one) => one.status),
    some.results[1].problem.type, none.kind, (await gateway.purgeQueue("js.orders")).messages];
});

await check("problems", async () => {
  const missing = await error(gateway.publish("js.nowhere", "text"));
  const strange = await error(gateway.publish("js.orders", { durabel: true }));
  const stranger = new Gateway(base, { user: "guest", password: "wrong" });
  const unknown = await error(stranger.session());
  const events = await error(gateway.follow("queue:js.nowhere").next());
  const silent = await error(new Gateway(nowhere, { retries: 1 }).queues());
  const aborted = await error(gateway.receive("js.orders", { wait_ms: 60_000, signal: AbortSignal.timeout(50) }));
  return [[missing, strange, unknown, events, silent].map((one) => one instanceof GatewayError),
    [missing, strange, unknown, events].map((one) => one instanceof ProblemError && `${one.status} ${one.kind} ${one.outcome}`),
    strange.problem.errors[0].pointer, missing.message.includes("js.nowhere"), missing.final,
    silent instanceof UnreachableError, silent.cause instanceof Error, aborted.name];
});

await check("tokens", async () => {
  let asked = 0;
  const renewed = new Gateway(base, { token: () => { asked += 1; return "expired"; } });
  const refused = await error(renewed.session());
  return [refused.status, asked];
});

// A reader that comes back where it was, whatever has come meanwhile.
await check("follow", async () => {
  const [numbers, opened, lost] = [[], [], []];
  const exchange = "js.followed";
  await gateway.declareExchange(exchange, { type: "fanout" });
  const put = (n) => gateway.publish({ exchange }, numbered(n));
  const events = gateway.follow(`exchange:${exchange}?binding=#`, {
    journal: "durable",
    signal: PATIENCE,
    control({ type, data }) {
      if (type !== "gateway.open") return;
      opened.push(data.resume);
      if (opened.length === 1) put(0).then(() => put(1)).then(() => put(2));
    },
    lost: ({ error: why, wait_ms }) => lost.push(why instanceof GatewayError && wait_ms >= 0),
  });
  for await (const { type, id, data, raw } of events) {
    if (type !== "message" || !id || JSON.parse(raw).id !== data.id) throw new Error(raw);
    numbers.push(data.body.json.n);
    if (numbers.length === 3) {
      await put(3); // on its way or not
      await restarted();
      await put(4);
      await put(5);
    }
    if (numbers.length === 6) break;
  }
  return [numbers, opened, lost.length > 0 && lost.every(Boolean)];
});

await check("follow again", async () => {
  const exchange = "js.followed";
  const source = `exchange:${exchange}?binding=#`;
  const found = [];
  for await (const { id, data } of gateway.follow(source, { journal: "durable", from: "earliest", signal: PATIENCE })) {
    found.push([id, data.body.json.n]);
    if (found.length === 6) break;
  }
  const [, [lastEventId]] = found;
  const behind = [];
  const stop = new AbortController();
  for await (const { data } of gateway.follow([source], { journal: "durable", lastEventId, signal: stop.signal, format: "full" })) {
    behind.push(data.application_properties.n);
    if (behind.length === 4) stop.abort(); // ends the loop by itself
  }
  return [found.map(([, n]) => n), behind];
});

await check("follow a queue", async () => {
  await gateway.publish("js.orders", "plain text");
  const stop = new AbortController();
  let text;
  for await (const { data } of gateway.follow("queue:js.orders", { format: "text", signal: stop.signal })) {
    text = data;
    stop.abort();
  }
  const leased = [];
  await gateway.declareQueue("js.leased");
  await gateway.publishBatch(["a", "b"], { to: "js.leased" });
  for await (const { data } of gateway.follow("queue:js.leased", { ack: "explicit", credit: 1, signal: PATIENCE })) {
    leased.push(data.body.text);
    await gateway.settle([{ token: data.lock.token, outcome: "accepted" }]);
    if (leased.length === 2) break;
  }
  return [text, leased];
});

// What a gateway does not do when it is asked: it falls silent, pushes back, ends a stream.
await check("a stream with troubles", async () => {
  const problem = (status, told, headers = {}) => new Response(JSON.stringify(told), { status, headers });
  const stream = (text, signal) => new Response(new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(text));
      signal.addEventListener("abort", () => controller.error(signal.reason));
    },
  }));
  const opening = 'retry: 1\nid: c0\nevent: gateway.open\ndata: {"heartbeat": 0.05}\n\n';
  const one = (n) => `id: c${n}\ndata: {"n": ${n}}\n\n`;
  const over = 'event: gateway.close\ndata: {"reason": "deleted", "reconnect": false}\n\n';
  const asked = [];
  const tokens = ["old", "new"];
  const script = [
    ({ signal }) => stream(opening + one(1) + one(2).slice(0, -1), signal), // and then nothing
    () => problem(503, { type: "/problems/draining", safe_to_retry: true }),
    () => problem(502, "a proxy's page"),
    () => problem(401, { type: "/problems/unauthorized" }),
    () => { throw new TypeError("fetch failed"); },
    ({ signal }) => stream(opening + one(2) + over, signal),
  ];
  const fetch = async (_, options) => {
    asked.push([options.headers["Last-Event-ID"] ?? "", options.headers.Authorization]);
    return script.shift()(options);
  };
  const token = () => tokens[Math.min(1, Math.floor(asked.length / 4))];
  const faked = new Gateway("http://fake", { fetch, token });
  const [numbers, lost] = [[], []];
  let ended;
  try {
    for await (const { data } of faked.follow("queue:q", { lost: ({ error }) => lost.push(error.name) })) numbers.push(data.n);
  } catch (thrown) {
    ended = `${thrown.name}: ${thrown.message}`;
  }
  return [numbers, asked.map((each) => each.join(" ")), lost, ended];
});

await check("repetitions", async () => {
  const answers = [];
  let asked = 0;
  const fetch = async () => {
    asked += 1;
    const next = answers.shift();
    if (next === undefined) throw new TypeError("fetch failed");
    return new Response(JSON.stringify(next[1]), { status: next[0], headers: { "Content-Type": "application/json" } });
  };
  const faked = new Gateway("http://fake", { fetch, retries: 1 });
  const busy = [503, { type: "/problems/backpressure", safe_to_retry: true }];
  const unknown = [504, { type: "/problems/outcome-unknown", safe_to_retry: "with-idempotency-key" }];
  const done = [201, { outcome: "accepted" }];
  const times = [];
  for (const [given, key] of [[[busy, done]], [[unknown, done]], [[unknown, done], true], [[]], [[], "k"], [[[409, { type: "/problems/unroutable", safe_to_retry: true }]]]]) {
    [asked, answers.length] = [0, 0];
    answers.push(...given);
    const outcome = await faked.publish("q", "text", { key }).then(() => "accepted", (thrown) => thrown.kind ?? thrown.name);
    times.push(`${asked} ${outcome}`);
  }
  return times;
});

await check("delete", async () => {
  const bound = (await gateway.bindings()).find((one) => one.source === "js.shop");
  await gateway.unbind(bound.id);
  await gateway.deleteExchange("js.shop", { if_unused: true });
  const { messages } = await gateway.deleteQueue("js/odd #1?");
  const again = await error(gateway.deleteQueue("js/odd #1?", { if_empty: true }));
  return [messages, again.kind];
});

process.exit(0);
