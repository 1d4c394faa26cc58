// Typed values: what a person types -> Structured Fields (RFC 9651), JSON -> what a person reads.

const WHOLE = {
  byte: [-(2n ** 7n), 2n ** 7n - 1n], ubyte: [0n, 2n ** 8n - 1n],
  short: [-(2n ** 15n), 2n ** 15n - 1n], ushort: [0n, 2n ** 16n - 1n],
  int: [-(2n ** 31n), 2n ** 31n - 1n], uint: [0n, 2n ** 32n - 1n],
  long: [-(2n ** 63n), 2n ** 63n - 1n], ulong: [0n, 2n ** 64n - 1n],
};
export const TYPES = ["string", "boolean", "long", "int", "short", "byte", "ulong", "uint", "ushort",
  "ubyte", "double", "float", "timestamp", "uuid", "binary", "symbol", "char", "null"];
export const ID_TYPES = ["string", "uuid", "ulong", "binary"];
export const HINTS = {
  string: "text", boolean: "true or false", timestamp: "2026-08-21T10:00:00Z or ms",
  binary: "base64", uuid: "8-4-4-4-12 hex digits", char: "one character", null: "no value",
  double: "1.5e-7", float: "1.5",
};
const MOST_DIGITS = 15;

// Structured Field strings hold printable ASCII; anything else is a display string.
export function fieldString(text) {
  if (/^[\x20-\x7e]*$/.test(text)) return `"${text.replace(/[\\"]/g, "\\$&")}"`;
  let octets = "";
  for (const octet of new TextEncoder().encode(text)) {
    const plain = octet >= 0x20 && octet <= 0x7e && octet !== 0x25 && octet !== 0x22;
    octets += plain ? String.fromCharCode(octet) : "%" + octet.toString(16).padStart(2, "0");
  }
  return `%"${octets}"`;
}

function wholeValue(text, type) {
  if (!/^-?\d+$/.test(text)) throw new Error(`${text || "nothing"} is not a whole number`);
  const number = BigInt(text);
  const [low, high] = WHOLE[type];
  if (number < low || number > high) throw new Error(`${type} goes from ${low} to ${high}`);
  return text.replace("-", "").length <= MOST_DIGITS ? String(number) : `"${number}"`;
}

function moment(text) {
  const ms = /^-?\d+$/.test(text) ? Number(text) : Date.parse(text);
  if (Number.isNaN(ms)) throw new Error(`${text || "nothing"} is not a time`);
  return String(ms);
}

function base64(text) {
  const plain = text.replace(/\s/g, "");
  try {
    atob(plain);
  } catch {
    throw new Error("that is not base64");
  }
  return `:${plain}:`;
}

const WRITE = {
  boolean(text) {
    if (text !== "true" && text !== "false") throw new Error("a boolean is true or false");
    return text === "true" ? "?1" : "?0";
  },
  timestamp: moment,
  binary: base64,
  string: fieldString,
  symbol: fieldString,
  char: fieldString,
  uuid: (text) => fieldString(text.trim()),
};

function floating(text) {
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$|^-?inf(inity)?$|^nan$/i.test(text)) {
    throw new Error(`${text || "nothing"} is not a number`);
  }
  return `"${text}"`;
}

// The item of a value, without its type.
export function item(text, type) {
  if (type in WHOLE) return wholeValue(text.trim(), type);
  if (type === "double" || type === "float") return floating(text.trim());
  return WRITE[type](type === "boolean" ? text.trim() : text);
}

// One member of Amqp-Property.
export function property(name, text, type) {
  if (!name) throw new Error("a property needs a name");
  const key = fieldString(name);
  if (type === "null") return `${key};t=null`;
  try {
    return `${key};v=${item(text, type)};t=${type}`;
  } catch (error) {
    throw new Error(`${name}: ${error.message}`);
  }
}

export function identifier(text, type) {
  return type === "string" ? fieldString(text) : `${item(text, type)};t=${type}`;
}

// --- reading -----------------------------------------------------------------------------------

// What a JSON value is: {type, text} for one, {type, items} for a list, {type, entries} for a table.
// What JSON has no type for comes as {"$type", "value"}.
export function describe(value) {
  if (value === null) return { type: "null", text: "null" };
  if (Array.isArray(value)) return { type: "list", items: value };
  if (typeof value === "object") {
    return "$type" in value ? describeTyped(value) : { type: "table", entries: Object.entries(value) };
  }
  if (typeof value === "number") {
    return { type: Number.isInteger(value) ? "long" : "double", text: String(value) };
  }
  return { type: typeof value, text: String(value) };
}

function describeTyped(value) {
  const type = String(value.$type);
  const inner = "base64" in value ? value.base64 : value.value;
  if (type === "map" && Array.isArray(inner)) {
    return { type, entries: inner.map(([key, one]) => [describe(key).text ?? JSON.stringify(key), one]) };
  }
  if (type === "timestamp" && value.unit === "s") {
    const moment = new Date(Number(inner) * 1000);
    return { type, text: Number.isNaN(moment.getTime()) ? String(inner) : moment.toISOString() };
  }
  if (inner !== null && typeof inner === "object") return { ...describe(inner), type };
  return { type, text: String(inner ?? "") };
}

// Arguments of queues and bindings as a person writes them: name = value per line.
export function readArguments(text) {
  const found = {};
  for (const line of text.split("\n")) {
    if (!line.trim()) continue;
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`not an argument: ${line.trim()}`);
    found[line.slice(0, at).trim()] = readPlain(line.slice(at + 1).trim());
  }
  return found;
}

function readPlain(text) {
  if (/^(true|false|null|-?\d{1,15}|-?\d+\.\d+|".*"|[[{].*[\]}])$/.test(text)) {
    try {
      return JSON.parse(text);
    } catch {
      throw new Error(`not JSON: ${text}`);
    }
  }
  return text;
}

export function showArguments(table) {
  return Object.entries(table ?? {}).map(([name, value]) => {
    const { text } = describe(value);
    return `${name} = ${text ?? JSON.stringify(value)}`;
  });
}
