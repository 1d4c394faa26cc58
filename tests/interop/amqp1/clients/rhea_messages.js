// Sender and receiver on rhea; the command line is that of words.py.
"use strict";

const rhea = require("rhea");
// rhea hands out decoded messages only, without their types: keep the octets beside them.
const codec = require("rhea/lib/message.js");
const plainly = codec.decode;
codec.decode = (octets) => Object.assign(plainly(octets), { octets });
const { encode, decode } = require("./rhea_values.js");

function parse(argv) {
  const words = { settled: false, mechanism: "PLAIN", seconds: "60", count: "1", credit: "10" };
  Object.assign(words, { outcome: "accepted", url: "amqp://guest:guest@127.0.0.1:5672" });
  [words.verb, words.address] = argv;
  for (let at = 2; at < argv.length; at += 1) {
    const name = argv[at].replace(/^--/, "");
    if (!(name in words)) throw new Error(`unknown option ${argv[at]}`);
    if (name === "settled") words.settled = true;
    else words[name] = argv[(at += 1)];
  }
  return words;
}

function connect(words) {
  const url = new URL(words.url);
  const options = { host: url.hostname, port: Number(url.port), reconnect: false };
  Object.assign(options, { idle_time_out: 30000, username: "anonymous" });
  if (words.mechanism === "PLAIN") {
    options.username = decodeURIComponent(url.username);
    options.password = decodeURIComponent(url.password);
  }
  return rhea.create_container().connect(options);
}

function fail(why) {
  process.stderr.write(`${why}\n`);
  process.exit(1);
}

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

function guard(connection, words) {
  const watch = setTimeout(() => fail(`nothing more in ${words.seconds} s`), words.seconds * 1000);
  for (const name of ["connection_error", "session_error", "sender_error", "receiver_error"]) {
    connection.on(name, (context) => {
      const endpoint = context.receiver || context.sender || context.session || context.connection;
      fail(`${name}: ${JSON.stringify(endpoint.error || context.connection.error)}`);
    });
  }
  connection.on("disconnected", (context) => {
    if (!connection.is_closed()) fail(`disconnected: ${context.error}`);
  });
  connection.on("connection_close", () => clearTimeout(watch));
}

function send(connection, words, lines) {
  const waiting = lines.map((line) => encode(JSON.parse(line)));
  const outcomes = new Map();
  const order = [];
  const sender = connection.open_sender({
    target: words.address,
    snd_settle_mode: words.settled ? 1 : 0,
    autosettle: true,
  });
  const note = (delivery, outcome) => {
    outcomes.set(delivery.id, outcome);
    if (outcomes.size === lines.length) {
      order.forEach((id) => say({ outcome: outcomes.get(id) }));
      connection.close();
    }
  };
  sender.on("sendable", () => {
    while (sender.sendable() && waiting.length) {
      const delivery = sender.send(waiting.shift(), undefined, 0);
      order.push(delivery.id);
      if (words.settled) note(delivery, null);
    }
  });
  for (const outcome of ["accepted", "rejected", "released", "modified"]) {
    sender.on(outcome, (context) => {
      // rhea reports "modified" as "released" as well
      if (!outcomes.has(context.delivery.id)) note(context.delivery, outcome);
    });
  }
}

function receive(connection, words) {
  let left = Number(words.count);
  let given = Math.min(left, Number(words.credit));
  const receiver = connection.open_receiver({
    source: words.address,
    credit_window: 0,
    autoaccept: false,
  });
  receiver.on("receiver_open", () => receiver.add_credit(given));
  receiver.on("message", ({ message, delivery }) => {
    say(decode(message.octets));
    if (words.outcome === "accepted") delivery.accept();
    else if (words.outcome === "rejected") delivery.reject();
    else if (words.outcome === "released") delivery.release();
    else delivery.modified({ delivery_failed: true });
    left -= 1;
    if (!left) {
      connection.close();
    } else if (given < Number(words.count)) {
      given += 1;
      receiver.add_credit(1);
    }
  });
}

function main() {
  const words = parse(process.argv.slice(2));
  const connection = connect(words);
  guard(connection, words);
  if (words.verb === "receive") {
    receive(connection, words);
    return;
  }
  const chunks = [];
  process.stdin.on("data", (chunk) => chunks.push(chunk));
  process.stdin.on("end", () => {
    const lines = Buffer.concat(chunks).toString().split("\n").filter((line) => line.trim());
    send(connection, words, lines);
  });
}

main();
