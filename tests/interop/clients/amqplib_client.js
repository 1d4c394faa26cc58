// npm amqplib: promises, confirms, returns, and channel errors. Prints one JSON line per check.
"use strict";
const path = require("path");
const amqp = require(path.join(process.env.INTEROP_NODE_MODULES, "amqplib"));

const [host, port, ...wanted] = process.argv.slice(2);
const MANY = 200;
const unique = (prefix) => `${prefix}-${Math.random().toString(16).slice(2, 14)}`;

async function connect(options = {}) {
  const settings = { username: "guest", password: "guest", vhost: "/", heartbeat: 0, ...options };
  const connection = await amqp.connect({ hostname: host, port: Number(port), ...settings });
  connection.on("error", () => {});
  return connection;
}

// Run act(channel); report the code the server closed the channel with.
async function refused(act) {
  const connection = await connect();
  const channel = await connection.createChannel();
  const closed = new Promise((resolve) => channel.on("error", (error) => resolve(error.code)));
  act(channel).catch(() => {});
  const code = await closed;
  const other = await connection.createChannel();
  await other.assertQueue("", { exclusive: true });
  await connection.close();
  return { code, alive: true };
}

const checks = {
  async get() {
    const connection = await connect();
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue(unique("node"));
    channel.sendToQueue(queue, Buffer.from("hello"), {
      contentType: "text/plain",
      correlationId: "c-1",
      headers: { n: 7, s: "x", deep: { list: [1, "two", null, true] } },
    });
    const seen = await channel.get(queue);
    channel.ack(seen);
    const empty = (await channel.get(queue)) === false;
    await channel.deleteQueue(queue);
    await connection.close();
    return {
      body: seen.content.toString(),
      content_type: seen.properties.contentType,
      correlation_id: seen.properties.correlationId,
      headers: seen.properties.headers,
      redelivered: seen.fields.redelivered,
      then_empty: empty,
    };
  },

  async order() {
    const connection = await connect();
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    await channel.prefetch(50);
    const bodies = [];
    const done = new Promise((resolve) => {
      channel.consume(queue, (message) => {
        bodies.push(message.content.toString());
        channel.ack(message);
        if (bodies.length === MANY) resolve();
      });
    });
    for (let number = 0; number < MANY; number++) {
      channel.sendToQueue(queue, Buffer.from(String(number)), { persistent: true });
    }
    await channel.waitForConfirms();
    await done;
    await connection.close();
    const inOrder = bodies.every((body, index) => body === String(index));
    return { count: bodies.length, in_order: inOrder };
  },

  async returned() {
    const connection = await connect();
    const channel = await connection.createConfirmChannel();
    const back = new Promise((resolve) => channel.on("return", resolve));
    channel.publish("", unique("nobody"), Buffer.from("come back"), { mandatory: true });
    const message = await back;
    await channel.waitForConfirms();
    await connection.close();
    const { replyCode, replyText } = message.fields;
    return { code: replyCode, text: replyText, body: message.content.toString() };
  },

  async requeue() {
    const connection = await connect();
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue(unique("node"));
    channel.sendToQueue(queue, Buffer.from("again"));
    const first = await channel.get(queue);
    channel.nack(first, false, true);
    const second = await channel.get(queue);
    channel.reject(second, false);
    const gone = (await channel.get(queue)) === false;
    await channel.deleteQueue(queue);
    await connection.close();
    return { redelivered: [first.fields.redelivered, second.fields.redelivered], gone };
  },

  missing_queue: () => refused((channel) => channel.checkQueue(unique("none"))),
  inequivalent: () =>
    refused(async (channel) => {
      const { queue } = await channel.assertQueue(unique("node"), { autoDelete: true });
      await channel.assertQueue(queue, { autoDelete: true, maxLength: 3 });
    }),
  async exclusive() {
    const owner = await connect();
    const { queue } = await (await owner.createChannel()).assertQueue("", { exclusive: true });
    const seen = await refused((channel) => channel.checkQueue(queue));
    await owner.close();
    return seen;
  },
  missing_exchange: () =>
    refused(async (channel) => channel.publish(unique("none"), "k", Buffer.alloc(0))),
  double_ack: () =>
    refused(async (channel) => {
      const { queue } = await channel.assertQueue("", { exclusive: true });
      channel.sendToQueue(queue, Buffer.from("x"));
      const message = await channel.get(queue);
      channel.ack(message);
      channel.ack(message);
    }),

  async bad_credentials() {
    try {
      await (await connect({ password: "wrong" })).close();
    } catch (error) {
      return { refused: /403/.test(error.message) };
    }
    return { refused: false };
  },
  async unknown_vhost() {
    try {
      await (await connect({ vhost: "/no-such-host" })).close();
    } catch (error) {
      return { refused: /ConnectionClose/.test(error.message) }; // it does not tell the code
    }
    return { refused: false };
  },
};

const timeout = (seconds) =>
  new Promise((_, reject) => setTimeout(() => reject(new Error("timeout")), seconds * 1000));

(async () => {
  for (const name of wanted.length ? wanted : Object.keys(checks)) {
    let line;
    try {
      line = { check: name, got: await Promise.race([checks[name](), timeout(45)]) };
    } catch (error) {
      line = { check: name, error: String(error && error.stack) };
    }
    console.log(JSON.stringify(line));
  }
  process.exit(0);
})();
