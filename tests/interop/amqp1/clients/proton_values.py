"""Messages of AMQP 1.0 as JSON, and as octets by way of Qpid Proton's own codec.

Null, booleans, strings, lists and whole numbers of up to 53 bits (long) stand for themselves.
Everything else is `{"$type": ..., "value": ...}`; numbers are text there, floating points and
decimals `{"$type": ..., "bits": hex}`. What is written is canonical; what is read may also use
objects (map with string keys) and fractions (double).

A message is an object of sections: `header`, `delivery_annotations`, `message_annotations`,
`properties`, `application_properties`, `body`, `footer`. A body is `{"kind": "data", "sections":
[base64, ...]}` or `{"kind": "data", "size": n}` (generated; written with its sha256 when large),
`{"kind": "sequence", "sections": [[...], ...]}`, `{"kind": "value", "value": ...}` or
`{"kind": "none"}`. `rhea_values.js` does the same with rhea's codec.
"""

import base64
import hashlib
import struct
import uuid
from typing import Any

from proton import Data, Delivery

OUTCOMES = {
    "accepted": Delivery.ACCEPTED,
    "rejected": Delivery.REJECTED,
    "released": Delivery.RELEASED,
    "modified": Delivery.MODIFIED,
}
OUTCOME_NAMES = {code: name for name, code in OUTCOMES.items()}

LARGE = 4096  # octets of one data section; more is told by size and digest
PATTERN = bytes(range(251))  # a prime, so that octets that moved are seen
WHOLE = (1 << 53) - 1

HEADER = (
    ("durable", "boolean"),
    ("priority", "ubyte"),
    ("ttl", "uint"),
    ("first_acquirer", "boolean"),
    ("delivery_count", "uint"),
)
PROPERTIES = (
    ("message_id", "*"),
    ("user_id", "binary"),
    ("to", "string"),
    ("subject", "string"),
    ("reply_to", "string"),
    ("correlation_id", "*"),
    ("content_type", "symbol"),
    ("content_encoding", "symbol"),
    ("absolute_expiry_time", "timestamp"),
    ("creation_time", "timestamp"),
    ("group_id", "string"),
    ("group_sequence", "uint"),
    ("reply_to_group_id", "string"),
)
MAPS = {0x71: "delivery_annotations", 0x72: "message_annotations", 0x74: "application_properties"}
MAPS[0x78] = "footer"
KINDS = {0x75: "data", 0x76: "sequence", 0x77: "value"}

CODES = {
    "null": Data.NULL,
    "boolean": Data.BOOL,
    "ubyte": Data.UBYTE,
    "byte": Data.BYTE,
    "ushort": Data.USHORT,
    "short": Data.SHORT,
    "uint": Data.UINT,
    "int": Data.INT,
    "char": Data.CHAR,
    "ulong": Data.ULONG,
    "long": Data.LONG,
    "timestamp": Data.TIMESTAMP,
    "float": Data.FLOAT,
    "double": Data.DOUBLE,
    "decimal32": Data.DECIMAL32,
    "decimal64": Data.DECIMAL64,
    "decimal128": Data.DECIMAL128,
    "uuid": Data.UUID,
    "binary": Data.BINARY,
    "string": Data.STRING,
    "symbol": Data.SYMBOL,
    "list": Data.LIST,
    "map": Data.MAP,
    "array": Data.ARRAY,
}
NAMES = {code: name for name, code in CODES.items()}
NUMBERS = {"ubyte", "byte", "ushort", "short", "uint", "int", "ulong", "long", "timestamp"}


# --- values: JSON to Proton ----------------------------------------------------------------------


def kind_of(value):
    """The AMQP type a JSON value stands for, and its value without the wrapping."""
    if isinstance(value, dict) and "$type" in value:
        return value["$type"], value.get("value", value.get("bits"))
    if value is None:
        return "null", None
    for kind, name in ((bool, "boolean"), (int, "long"), (float, "double"), (str, "string")):
        if isinstance(value, kind):
            return name, value
    return ("list", value) if isinstance(value, list) else ("map", list(value.items()))


def bits(kind, value):
    """A floating point or decimal from its octets in hex, or from the number itself."""
    if kind in ("float", "double"):
        if isinstance(value, str):
            return struct.unpack(">f" if kind == "float" else ">d", bytes.fromhex(value))[0]
        return float(value)
    octets = bytes.fromhex(value)
    return octets if kind == "decimal128" else int.from_bytes(octets, "big")


def put(data, value, kind=None):
    """Append one value; `kind` if the place has one of its own."""
    found, plain = kind_of(value)
    kind = found if kind in (None, "*") or found == "null" else kind
    if kind == "described":
        data.put_described()
        data.enter()
        put(data, value["descriptor"])
        put(data, value["value"])
        data.exit()
    elif kind == "list":
        put_all(data, data.put_list, plain)
    elif kind == "map":
        put_all(data, data.put_map, [part for pair in plain for part in pair])
    elif kind == "array":
        put_array(data, value)
    elif kind == "null":
        data.put_null()
    elif kind == "boolean":
        data.put_bool(plain)
    else:
        getattr(data, f"put_{kind}")(scalar(kind, plain))


def scalar(kind, plain):
    if kind in NUMBERS:
        return int(plain)
    if kind in ("float", "double") or kind.startswith("decimal"):
        return bits(kind, plain)
    if kind == "uuid":
        return uuid.UUID(plain)
    if kind == "binary":
        return base64.b64decode(plain)
    return plain


def put_all(data, opening, values):
    opening()
    data.enter()
    for value in values:
        put(data, value)
    data.exit()


def put_array(data, value):
    described = "descriptor" in value
    data.put_array(described, CODES[value["of"]])
    data.enter()
    if described:
        put(data, value["descriptor"])
    for item in value["value"]:
        put(data, item, value["of"])
    data.exit()


# --- values: Proton to JSON ----------------------------------------------------------------------


def typed(kind, value, name="value"):
    return {"$type": kind, name: value}


def get(data):
    """The current value as canonical JSON."""
    kind = data.type()
    if kind == Data.DESCRIBED:
        data.enter()
        data.next()
        descriptor = get(data)
        data.next()
        value = get(data)
        data.exit()
        return {"$type": "described", "descriptor": descriptor, "value": value}
    name = NAMES[kind]
    if name == "null":
        return None
    if name in ("list", "map"):
        items = get_all(data)
        return items if name == "list" else typed("map", pairs(items))
    if name == "array":
        return get_array(data)
    return plainly(name, getattr(data, f"get_{'bool' if name == 'boolean' else name}")())


def plainly(name, value):
    """A scalar as canonical JSON."""
    if name == "boolean":
        return bool(value)
    if name == "long" and -WHOLE <= value <= WHOLE:
        return int(value)
    if name == "string":
        return str(value)
    if name in NUMBERS:
        return typed(name, str(int(value)))
    if name in ("float", "double"):
        return typed(name, struct.pack(">f" if name == "float" else ">d", value).hex(), "bits")
    if name.startswith("decimal"):
        width = int(name[7:]) // 8
        octets = value if name == "decimal128" else int(value).to_bytes(width, "big")
        return typed(name, bytes(octets).hex(), "bits")
    if name == "binary":
        return typed(name, base64.b64encode(value).decode())
    return typed(name, str(value))


def get_all(data):
    items = []
    data.enter()
    while data.next():
        items.append(get(data))
    data.exit()
    return items


def pairs(items):
    return [list(pair) for pair in zip(items[::2], items[1::2], strict=True)]


def get_array(data):
    count, described, of = data.get_array()
    found: dict[str, Any] = {"$type": "array", "of": NAMES[of]}
    data.enter()
    if described:
        data.next()
        found["descriptor"] = get(data)
    values: list[Any] = []
    found["value"] = values
    for _ in range(count):
        data.next()
        values.append(get(data))
    data.exit()
    return found


# --- messages ------------------------------------------------------------------------------------


def section(code, write):
    """The octets of one section; `write` appends its value."""
    data = Data()
    data.put_described()
    data.enter()
    data.put_ulong(code)
    write(data)
    data.exit()
    return data.encode()


def composite(fields, given):
    """Fields in their order, without those at the end that were not given."""
    values = [(given.get(name), kind) for name, kind in fields]
    while values and values[-1][0] is None:
        values.pop()

    def write(data):
        data.put_list()
        data.enter()
        for value, kind in values:
            put(data, value, kind)
        data.exit()

    return write


def mapping(given, symbolic):
    """A section that is a map; a plain object in an annotation section has symbols for keys."""
    kind, items = kind_of(given)
    assert kind == "map", given
    if symbolic and "$type" not in given:
        items = [[typed("symbol", key), value] for key, value in items]
    return lambda data: put(data, typed("map", items))


def generated(size):
    return (PATTERN * (size // len(PATTERN) + 1))[:size]


def body_sections(body):
    kind = body["kind"]
    if kind == "data":
        blobs = [base64.b64decode(one) for one in body.get("sections", ())]
        blobs += [generated(body["size"])] if "size" in body else []
        for blob in blobs:
            if len(blob) > LARGE:  # Proton's encoder would try every power of two
                yield b"\x00\x53\x75\xb0" + struct.pack(">I", len(blob)) + blob
            else:
                yield section(0x75, lambda data, blob=blob: data.put_binary(blob))
    elif kind == "sequence":
        for items in body["sections"]:
            yield section(0x76, lambda data, items=items: put(data, items))
    elif kind == "value":
        yield section(0x77, lambda data: put(data, body["value"]))


def encode(message):
    """A message's octets."""
    found = []
    if "header" in message:
        found.append(section(0x70, composite(HEADER, message["header"])))
    found += [
        section(code, mapping(message[MAPS[code]], symbolic=True))
        for code in (0x71, 0x72)
        if MAPS[code] in message
    ]
    if "properties" in message:
        found.append(section(0x73, composite(PROPERTIES, message["properties"])))
    if "application_properties" in message:
        given = message["application_properties"]
        found.append(section(0x74, mapping(given, symbolic=False)))
    found += body_sections(message["body"])
    if "footer" in message:
        found.append(section(0x78, mapping(message["footer"], symbolic=True)))
    return b"".join(found)


def large_data(octets):
    """Length of the body if a large data section starts here, by what its encoder wrote."""
    for head in (b"\x00\x53\x75\xb0", b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x75\xb0"):
        if octets[: len(head)] == head:
            (size,) = struct.unpack_from(">I", octets, len(head))
            if size > LARGE:
                return len(head) + 4, size
    return None


def decode(octets):
    """A message's octets as canonical JSON."""
    found = {"body": {"kind": "none"}}
    octets = memoryview(octets)
    while octets:
        if large := large_data(octets):
            start, size = large
            blob = octets[start : start + size]
            assert len(blob) == size, "the data section ends early"
            add_data(found, blob)
            octets = octets[start + size :]
            continue
        data = Data()
        octets = octets[data.decode(bytes(octets[: 1 << 20])) :]
        data.rewind()
        data.next()
        add(found, data)
    return found


def add_data(found, blob):
    sections = found["body"].get("sections", [])
    if len(blob) > LARGE:
        sections.append({"size": len(blob), "sha256": hashlib.sha256(blob).hexdigest()})
    else:
        sections.append(base64.b64encode(blob).decode())
    found["body"] = {"kind": "data", "sections": sections}


def add(found, data):
    """Put the decoded section into the message."""
    data.enter()
    data.next()
    code = data.get_ulong()
    data.next()
    if code in (0x70, 0x73):
        fields = HEADER if code == 0x70 else PROPERTIES
        values = get_all(data)
        given = {name: one for (name, _), one in zip(fields, values, strict=False)}
        name = "header" if code == 0x70 else "properties"
        found[name] = {key: value for key, value in given.items() if value is not None}
    elif code in MAPS:
        found[MAPS[code]] = get(data)
    elif code == 0x75:
        add_data(found, data.get_binary())
    elif code == 0x76:
        sections = found["body"].get("sections", [])
        found["body"] = {"kind": "sequence", "sections": [*sections, get(data)]}
    elif code == 0x77:
        found["body"] = {"kind": "value", "value": get(data)}
    else:
        raise ValueError(f"no section has the descriptor {code}")
    data.exit()
