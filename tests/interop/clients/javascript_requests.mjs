// Requests with replies through the shipped JavaScript client, against a gateway that is killed and
// started again. Responders in other programs answer by `reply_to`. Prints a line of JSON for each
// check: what it saw.

import { createInterface } from "node:readline";
import { Gateway, GatewayError, ReplyTimeoutError } from "../../../gateway/http/client/index.js";

const [base] = process.argv.slice(2);
const gateway = new Gateway(base, { user: "guest", password: "guest" });
const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

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
const error = (work) => work.then((got) => { throw new Error(`no error: ${got}`); }, (thrown) => thrown);
const replyQueues = async () => (await gateway.queues()).filter(({ name }) => name.startsWith("replies."));
const numbers = (count) => Array.from({ length: count }, (_, n) => n);

await gateway.declareQueue("calls.nobody");

for (const responder of ["pika", "ours"]) {
  await gateway.declareQueue(`calls.${responder}`);
  await check(`${responder} replies`, async () => {
    const reply = await gateway.request(`calls.${responder}`, { body: { text: "one" }, properties: { n: 1 } });
    return [reply.body, reply.content_type, reply.source.startsWith("queue:replies.")];
  });

  // All over one stream, and each gets its own reply.
  await check(`${responder} replies to many`, async () => {
    const found = await Promise.all(numbers(200).map((n) => gateway.request(`calls.${responder}`, `${n}`)));
    const queues = await replyQueues();
    const readers = (await gateway.consumers()).filter(({ queue }) => queue === queues[0].name);
    return [found.every(({ body }, n) => body.text === `re: ${n}`), queues.length, readers.length];
  });
}

await check("no reply", async () => {
  const late = await error(gateway.request("calls.nobody", "text", { timeout: 300 }));
  // The request expires with its promise.
  while ((await gateway.browse("calls.nobody")).ready) await new Promise((done) => { setTimeout(done, 50); });
  const stop = new AbortController();
  const waiting = gateway.request("calls.nobody", "text", { signal: stop.signal });
  setTimeout(() => stop.abort(new RangeError("enough")), 100);
  const aborted = await error(waiting);
  const before = await error(gateway.request("calls.nobody", "text", { signal: AbortSignal.abort() }));
  const missing = await error(gateway.request("calls.missing", "text"));
  const own = await error(gateway.request("calls.nobody", { body: "text", reply_to: "me" }));
  const never = await error(gateway.request("calls.nobody", "text", { timeout: Infinity }));
  return [late instanceof ReplyTimeoutError && late instanceof GatewayError, aborted.message,
    before.name, missing.kind, own.name, never.name];
});

// The requests are in the queue, the responder answers while nobody reads.
await check("the gateway is killed", async () => {
  await gateway.declareQueue("calls.later");
  const waiting = numbers(50).map((n) => gateway.request("calls.later", `${n}`, { timeout: 120_000 }));
  while ((await gateway.queue("calls.later")).ready < 50) await new Promise((done) => { setTimeout(done, 50); });
  await restarted();
  await gateway.publish("calls.go", "now");
  const found = await Promise.all(waiting);
  return [found.every(({ body }, n) => body.text === `re: ${n}`), (await replyQueues()).length];
});

// The connection of the stream breaks again and again, with replies on their way.
await check("the stream breaks", async () => {
  let opened = 0;
  const breaking = async (url, options) => {
    const answer = await fetch(url, options);
    if (!url.includes("/events?") || !answer.ok) return answer;
    opened += 1;
    let left = opened < 5 ? 2 : Infinity; // pieces of the stream that still come
    const cut = new TransformStream({
      transform(piece, controller) {
        left -= 1;
        if (left < 0) controller.error(new TypeError("cut"));
        else controller.enqueue(piece);
      },
    });
    return new Response(answer.body.pipeThrough(cut), answer);
  };
  const unsteady = new Gateway(base, { user: "guest", password: "guest", fetch: breaking });
  const found = [];
  while (opened < 5) { // each round brings a piece at least
    const first = found.length;
    const asked = numbers(10).map((n) => unsteady.request("calls.pika", `${first + n}`, { timeout: 60_000 }));
    found.push(...await Promise.all(asked));
  }
  await unsteady.close();
  return [found.every(({ body }, n) => body.text === `re: ${n}`), opened];
});

await check("close", async () => {
  const waiting = error(gateway.request("calls.nobody", "text"));
  while (!(await gateway.queue("calls.nobody")).ready) await new Promise((done) => { setTimeout(done, 50); });
  await gateway.close();
  const closed = await waiting;
  const queues = await replyQueues();
  const reply = await gateway.request("calls.pika", "again"); // which opens another
  await gateway.close();
  return [closed.name, queues.length, reply.body.text, (await replyQueues()).length];
});

// Without a request that waits the program ends by itself: nothing is closed here.
await check("ends by itself", async () => (await gateway.request("calls.pika", "last")).body.text);
input.return?.();
process.stdin.destroy();
