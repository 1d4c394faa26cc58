// Messages of AMQP 1.0 as JSON, and as octets by way of rhea's own codec. The form is described in
// proton_values.py.
"use strict";

const crypto = require("crypto");
const rhea = require("rhea");

const types = rhea.types;
const LARGE = 4096;
const PATTERN = Buffer.from(Array.from({ length: 251 }, (_, octet) => octet));
const WHOLE = 2n ** 53n - 1n;

const HEADER = [
  ["durable", "boolean"],
  ["priority", "ubyte"],
  ["ttl", "uint"],
  ["first_acquirer", "boolean"],
  ["delivery_count", "uint"],
];
const PROPERTIES = [
  ["message_id", "*"],
  ["user_id", "binary"],
  ["to", "string"],
  ["subject", "string"],
  ["reply_to", "string"],
  ["correlation_id", "*"],
  ["content_type", "symbol"],
  ["content_encoding", "symbol"],
  ["absolute_expiry_time", "timestamp"],
  ["creation_time", "timestamp"],
  ["group_id", "string"],
  ["group_sequence", "uint"],
  ["reply_to_group_id", "string"],
];
const MAPS = {
  0x71: "delivery_annotations",
  0x72: "message_annotations",
  0x74: "application_properties",
  0x78: "footer",
};

// The name rhea gives each constructor, and the type it stands for.
const NAMES = {
  Null: "null", Boolean: "boolean", True: "boolean", False: "boolean",
  Ubyte: "ubyte", Byte: "byte", Ushort: "ushort", Short: "short",
  Uint: "uint", SmallUint: "uint", Uint0: "uint", Int: "int", SmallInt: "int",
  Ulong: "ulong", SmallUlong: "ulong", Ulong0: "ulong", Long: "long", SmallLong: "long",
  Float: "float", Double: "double", Decimal32: "decimal32", Decimal64: "decimal64",
  Decimal128: "decimal128", CharUTF32: "char", Timestamp: "timestamp", Uuid: "uuid",
  Vbin8: "binary", Vbin32: "binary", Str8: "string", Str32: "string",
  Sym8: "symbol", Sym32: "symbol", List0: "list", List8: "list", List32: "list",
  Map8: "map", Map32: "map", Array8: "array", Array32: "array",
};
// The constructor an array of each type is written with.
const ELEMENTS = {
  null: "Null", boolean: "Boolean", ubyte: "Ubyte", byte: "Byte", ushort: "Ushort", short: "Short",
  uint: "Uint", int: "Int", ulong: "Ulong", long: "Long", float: "Float", double: "Double",
  decimal32: "Decimal32", decimal64: "Decimal64", decimal128: "Decimal128", char: "CharUTF32",
  timestamp: "Timestamp", uuid: "Uuid", binary: "Vbin32", string: "Str32", symbol: "Sym32",
  list: "List32", map: "Map32",
};

// --- values: JSON to rhea ------------------------------------------------------------------------

function kindOf(value) {
  if (value === null) return ["null", null];
  if (Array.isArray(value)) return ["list", value];
  if (typeof value === "object") {
    if ("$type" in value) return [value.$type, "value" in value ? value.value : value.bits];
    return ["map", Object.entries(value)];
  }
  if (typeof value === "number") return [Number.isInteger(value) ? "long" : "double", value];
  return [typeof value === "boolean" ? "boolean" : "string", value];
}

function wide(text, signed) {
  const octets = Buffer.alloc(8);
  if (signed) octets.writeBigInt64BE(BigInt(text));
  else octets.writeBigUInt64BE(BigInt(text));
  return octets;
}

function floating(kind, value) {
  if (typeof value === "number") return value;
  const octets = Buffer.from(value, "hex");
  return kind === "float" ? octets.readFloatBE(0) : octets.readDoubleBE(0);
}

// What rhea's writers take for a scalar.
function scalar(kind, plain) {
  switch (kind) {
    case "boolean": return plain;
    case "ulong": return wide(plain, false);
    case "long": return wide(plain, true);
    case "timestamp": return wide(plain, true);
    case "ubyte": case "byte": case "ushort": case "short": case "uint": case "int":
      return Number(plain);
    case "float": case "double": return floating(kind, plain);
    case "decimal32": case "decimal64": case "decimal128": return Buffer.from(plain, "hex");
    case "char": return plain.codePointAt(0);
    case "uuid": return Buffer.from(plain.replaceAll("-", ""), "hex");
    case "binary": return Buffer.from(plain, "base64");
    default: return plain;
  }
}

function wrap(value, place) {
  const [found, plain] = kindOf(value);
  const kind = !place || place === "*" || found === "null" ? found : place;
  switch (kind) {
    case "null": return types.Null();
    case "list": return types.wrap_list(plain.map((one) => wrap(one)));
    case "map": return types.Map32(plain.flat(1).map((one) => wrap(one)));
    case "array": return wrapArray(value);
    case "described": return types.described(wrap(value.descriptor), wrap(value.value));
    case "decimal32": return types.Decimal32(scalar(kind, plain));
    case "decimal64": return types.Decimal64(scalar(kind, plain));
    case "decimal128": return types.Decimal128(scalar(kind, plain));
    default: return types[`wrap_${kind}`](scalar(kind, plain));
  }
}

function wrapArray(value) {
  const items = value.value.map((one) => {
    const [, plain] = kindOf(one);
    if (value.of === "list") return plain.map((part) => wrap(part));
    if (value.of === "map") return plain.flat(1).map((part) => wrap(part));
    return scalar(value.of, plain);
  });
  const descriptor = "descriptor" in value ? wrap(value.descriptor) : undefined;
  return types.wrap_array(items, types[ELEMENTS[value.of]].typecode, descriptor);
}

// --- values: rhea to JSON ------------------------------------------------------------------------

const typed = (kind, value, name = "value") => ({ $type: kind, [name]: value });

function whole(kind, value) {
  let number = value;
  if (value instanceof Date) number = value.getTime();
  if (Buffer.isBuffer(value)) {
    return kind === "ulong" ? value.readBigUInt64BE(0) : value.readBigInt64BE(0);
  }
  return BigInt(Number(number));
}

function bits(kind, value) {
  if (Buffer.isBuffer(value)) return value.toString("hex");
  const octets = Buffer.alloc(kind === "float" ? 4 : 8);
  if (kind === "float") octets.writeFloatBE(value);
  else octets.writeDoubleBE(value);
  return octets.toString("hex");
}

function uuid(octets) {
  const hex = octets.toString("hex");
  return [[0, 8], [8, 12], [12, 16], [16, 20], [20, 32]].map((at) => hex.slice(...at)).join("-");
}

function unwrap(item) {
  if (item.descriptor) {
    const { descriptor } = item;
    const bare = Object.assign(Object.create(Object.getPrototypeOf(item)), item);
    delete bare.descriptor;
    return { $type: "described", descriptor: unwrap(descriptor), value: unwrap(bare) };
  }
  const kind = NAMES[item.type.name];
  const { value } = item;
  switch (kind) {
    case "null": return null;
    case "boolean": return Boolean(value);
    case "string": return value;
    case "list": return value.map(unwrap);
    case "map": return typed("map", pairs(value.map(unwrap)));
    case "array": return unwrapArray(item);
    case "long": {
      const number = whole(kind, value);
      const plain = number >= -WHOLE && number <= WHOLE;
      return plain ? Number(number) : typed(kind, String(number));
    }
    case "float": case "double": case "decimal32": case "decimal64": case "decimal128":
      return typed(kind, bits(kind, value), "bits");
    case "char": return typed(kind, String.fromCodePoint(value));
    case "uuid": return typed(kind, uuid(value));
    case "binary": return typed(kind, value.toString("base64"));
    case "symbol": return typed(kind, value);
    default: return typed(kind, String(whole(kind, value)));
  }
}

function unwrapArray(item) {
  const { typecode, descriptor } = item.array_constructor;
  const found = { $type: "array", of: NAMES[types.by_code[typecode].name] };
  if (descriptor) found.descriptor = unwrap(descriptor);
  found.value = item.value.map(unwrap);
  return found;
}

function pairs(items) {
  const found = [];
  for (let at = 0; at < items.length; at += 2) found.push([items[at], items[at + 1]]);
  return found;
}

// --- messages ------------------------------------------------------------------------------------

// A described value whose value may be described itself, which rhea's own types.described is not for.
const section = (code, value) => ({ code: types.wrap_ulong(code), value });

function composite(fields, given) {
  const values = fields.map(([name, kind]) => wrap(given[name] ?? null, kind));
  while (values.length && values[values.length - 1].value === null) values.pop();
  return types.wrap_list(values);
}

function mapping(given, symbolic) {
  const [, items] = kindOf(given);
  const keyed = symbolic && !("$type" in given);
  return wrap(typed("map", items.map(([k, v]) => [keyed ? typed("symbol", k) : k, v])));
}

function generated(size) {
  return Buffer.alloc(size, PATTERN);
}

function bodySections(body) {
  if (body.kind === "data") {
    const blobs = (body.sections ?? []).map((one) => Buffer.from(one, "base64"));
    if ("size" in body) blobs.push(generated(body.size));
    return blobs.map((one) => section(0x75, types.wrap_binary(one)));
  }
  if (body.kind === "sequence") return body.sections.map((one) => section(0x76, wrap(one)));
  return body.kind === "value" ? [section(0x77, wrap(body.value))] : [];
}

function encode(message) {
  const found = [];
  const map = (code, symbolic) => {
    if (MAPS[code] in message) found.push(section(code, mapping(message[MAPS[code]], symbolic)));
  };
  if ("header" in message) found.push(section(0x70, composite(HEADER, message.header)));
  map(0x71, true);
  map(0x72, true);
  if ("properties" in message) {
    found.push(section(0x73, composite(PROPERTIES, message.properties)));
  }
  map(0x74, false);
  found.push(...bodySections(message.body));
  map(0x78, true);
  const writer = new types.Writer();
  for (const one of found) {
    writer.write_typecode(0x00);
    writer.write(one.code);
    writer.write(one.value);
  }
  return writer.toBuffer();
}

function add(found, code, item) {
  if (code === 0x70 || code === 0x73) {
    const fields = code === 0x70 ? HEADER : PROPERTIES;
    const given = {};
    item.value.map(unwrap).forEach((one, at) => {
      if (one !== null) given[fields[at][0]] = one;
    });
    found[code === 0x70 ? "header" : "properties"] = given;
  } else if (code in MAPS) {
    found[MAPS[code]] = unwrap(item);
  } else if (code === 0x75) {
    const blob = item.value;
    const sections = found.body.sections ?? [];
    const sha256 = () => crypto.createHash("sha256").update(blob).digest("hex");
    sections.push(blob.length > LARGE
      ? { size: blob.length, sha256: sha256() } : blob.toString("base64"));
    found.body = { kind: "data", sections };
  } else if (code === 0x76) {
    const sections = found.body.sections ?? [];
    found.body = { kind: "sequence", sections: [...sections, unwrap(item)] };
  } else if (code === 0x77) {
    found.body = { kind: "value", value: unwrap(item) };
  } else {
    throw new Error(`no section has the descriptor ${code}`);
  }
}

function decode(octets) {
  const found = { body: { kind: "none" } };
  const reader = new types.Reader(octets);
  while (reader.remaining()) {
    reader.skip(1); // the octet that says "described"
    const code = Number(whole("ulong", reader.read().value));
    add(found, code, reader.read());
  }
  return found;
}

module.exports = { encode, decode };
