"""What must cross unharmed: messages in the canonical form of `clients/proton_values.py`.

`CASES` are small and sent in one go; `LARGE` are the sizes of bodies that are sent one at a time.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

Json = dict[str, Any]
MARK = "case"
"""The application property that says which case a message is."""


def typed(kind: str, value: Any, name: str = "value") -> Json:
    return {"$type": kind, name: value}


def number(kind: str, value: int) -> Any:
    return typed(kind, str(value))


def binary(octets: bytes) -> Json:
    return typed("binary", base64.b64encode(octets).decode())


def symbol(text: str) -> Json:
    return typed("symbol", text)


def mapping(*pairs: tuple[Any, Any]) -> Json:
    return typed("map", [list(pair) for pair in pairs])


def array(of: str, *values: Any, descriptor: Any = None) -> Json:
    found = {"$type": "array", "of": of, "value": list(values)}
    return found if descriptor is None else {**found, "descriptor": descriptor}


def described(descriptor: Any, value: Any) -> Json:
    return {"$type": "described", "descriptor": descriptor, "value": value}


_WIDTHS = {"byte": 8, "short": 16, "int": 32, "long": 64}


def _whole() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind, width in _WIDTHS.items():
        top = (1 << width) - 1
        unsigned = {"0": 0, "1": 1, "255": 255, "half": 1 << width - 1, "top": top}
        half = (1 << width - 1) - 1
        signed = {"0": 0, "1": 1, "minus-1": -1, "127": 127, "minus-128": -128}
        signed |= {"top": half, "bottom": -half - 1}
        if width > 8:
            unsigned["256"], signed["128"], signed["minus-129"] = 256, 128, -129
        if width == 64:
            # up to 2**53 + 2**32 rhea reads a rounded number; above that, octets
            unsigned["61-bits"] = signed["61-bits"] = (1 << 60) + 1
        for name, value in unsigned.items():
            found[f"u{kind}-{name}"] = number(f"u{kind}", value)
        for name, value in signed.items():
            plain = kind == "long" and abs(value) < 1 << 53
            found[f"{kind}-{name}"] = value if plain else number(kind, value)
    return found


SCALARS: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    **_whole(),
    "float-half": typed("float", "3f000000", "bits"),
    "float-minus-0": typed("float", "80000000", "bits"),
    "float-nan": typed("float", "7fc00000", "bits"),
    "float-infinity": typed("float", "ff800000", "bits"),
    "float-smallest": typed("float", "00000001", "bits"),
    "double-1": typed("double", "3ff0000000000000", "bits"),
    "double-minus-0": typed("double", "8000000000000000", "bits"),
    "double-nan": typed("double", "7ff8000000000000", "bits"),
    "double-infinity": typed("double", "7ff0000000000000", "bits"),
    "double-pi": typed("double", "400921fb54442d18", "bits"),
    "decimal32": typed("decimal32", "a2500001", "bits"),
    "decimal64": typed("decimal64", "2238000000000001", "bits"),
    "decimal128": typed("decimal128", "22080000000000000000000000000001", "bits"),
    "char-a": typed("char", "a"),
    "char-beyond-16-bits": typed("char", "\U0001f407"),
    "timestamp": number("timestamp", 1_700_000_000_123),
    "timestamp-0": number("timestamp", 0),
    "timestamp-before-1970": number("timestamp", -1),
    "uuid": typed("uuid", "12345678-9abc-def0-1234-56789abcdef0"),
    "binary": binary(b"\x00\xff\xfe"),
    "binary-empty": binary(b""),
    "binary-256": binary(bytes(range(256))),
    "string": "grün ✓ \U0001f407",
    "string-empty": "",
    "string-255": "x" * 255,
    "string-256": "ü" * 128,
    "symbol": symbol("amqp:symbol"),
    "symbol-empty": symbol(""),
    "symbol-256": symbol("s" * 256),
}

_ARRAY_OF: dict[str, tuple[Any, ...]] = {
    "boolean": (True, False, True),
    "ubyte": (number("ubyte", 0), number("ubyte", 255)),
    "ushort": (number("ushort", 65535),),
    "uint": (number("uint", 0), number("uint", 1), number("uint", (1 << 32) - 1)),
    "ulong": (number("ulong", 0), number("ulong", (1 << 64) - 1)),
    "byte": (number("byte", -128), number("byte", 127)),
    "short": (number("short", -32768),),
    "int": (number("int", 1), number("int", -(1 << 31))),
    "long": (0, -1, number("long", -(1 << 63))),
    "float": (typed("float", "3f000000", "bits"),),
    "double": (typed("double", "3ff0000000000000", "bits"),),
    "decimal32": (typed("decimal32", "a2500001", "bits"),),
    "decimal64": (typed("decimal64", "2238000000000001", "bits"),),
    "decimal128": (typed("decimal128", "22080000000000000000000000000001", "bits"),),
    "char": (typed("char", "a"), typed("char", "\U0001f407")),
    "timestamp": (number("timestamp", 1), number("timestamp", 1_700_000_000_123)),
    "uuid": (typed("uuid", "12345678-9abc-def0-1234-56789abcdef0"),),
    "binary": (binary(b""), binary(b"\x00\xff")),
    "string": ("", "grün ✓", "x" * 300),
    "symbol": (symbol("a"), symbol("b" * 300)),
    "list": ([1, "two", None], []),
    "map": (mapping(("k", "v"), (1, True)), mapping()),
}

COMPOUNDS: dict[str, Any] = {
    "list": [1, "two", None, True, [symbol("three"), []]],
    "list-empty": [],
    "list-300": [f"item {at}" for at in range(300)],
    "map": mapping(("text", "value"), ("number", number("uint", 7)), ("void", None)),
    "map-empty": mapping(),
    "map-of-odd-keys": mapping((symbol("s"), 1), (number("ulong", 5), 2), (True, 3), (9, 4)),
    "map-in-its-order": mapping(("z", 1), ("a", 2), ("m", 3)),
    "map-nested": mapping(("outer", mapping(("inner", [mapping(("deep", 1))])))),
    "described-by-symbol": described(symbol("example:point:list"), [1, 2]),
    "described-by-ulong": described(number("ulong", 0x0000_4D2E_0000_0001), "text"),
    "described-in-list": [described(symbol("example:a"), 1), mapping(("k", described("d", 2)))],
    **{f"array-of-{of}": array(of, *values) for of, values in _ARRAY_OF.items()},
    "array-empty": array("int"),
    "array-described": array("int", number("int", 1), descriptor=symbol("example:int")),
}

IDS = {
    "string": "id-1",
    "ulong": number("ulong", (1 << 64) - 1),
    "uuid": typed("uuid", "12345678-9abc-def0-1234-56789abcdef0"),
    "binary": binary(b"\x00\x01\xff"),
}

PROPERTIES: Json = {
    "message_id": "id-1",
    "user_id": binary(b"guest"),
    "to": "somewhere/else",
    "subject": "the subject",
    "reply_to": "replies",
    "correlation_id": "c-1",
    "content_type": symbol("text/plain; charset=utf-8"),
    "content_encoding": symbol("identity"),
    "absolute_expiry_time": number("timestamp", 4_000_000_000_123),
    "creation_time": number("timestamp", 1_700_000_000_123),
    "group_id": "group",
    "group_sequence": number("uint", (1 << 32) - 1),
    "reply_to_group_id": "reply group",
}

HEADERS: dict[str, Json] = {
    "durable": {"durable": True},
    "not-durable": {"durable": False},
    "priority-0": {"priority": number("ubyte", 0)},
    "priority-9": {"priority": number("ubyte", 9)},
    "ttl": {"ttl": number("uint", 3_600_000)},
    "all": {
        "durable": True,
        "priority": number("ubyte", 7),
        "ttl": number("uint", 3_600_000),
        "first_acquirer": False,
        "delivery_count": number("uint", 0),
    },
}

_DATA = {"kind": "data", "sections": [base64.b64encode(b"body").decode()]}

BODIES: dict[str, Json] = {
    "data": _DATA,
    "data-empty": {"kind": "data", "sections": [""]},
    "data-three": {"kind": "data", "sections": ["YQ==", "", "YmM="]},
    "data-255": {"kind": "data", "sections": [base64.b64encode(b"x" * 255).decode()]},
    "data-256": {"kind": "data", "sections": [base64.b64encode(b"x" * 256).decode()]},
    "sequence": {"kind": "sequence", "sections": [[1, "two", None]]},
    "sequence-two": {"kind": "sequence", "sections": [[1], [symbol("two"), []]]},
    "value-string": {"kind": "value", "value": "text"},
    "value-binary": {"kind": "value", "value": binary(b"\x00")},
}


def _cases() -> dict[str, Json]:
    found: dict[str, Json] = {}
    for name, value in {**SCALARS, **COMPOUNDS}.items():
        found[f"value-{name}"] = {"body": {"kind": "value", "value": value}}
        annotations = mapping((symbol("x-opt-tried"), value))
        found[f"annotation-{name}"] = {"message_annotations": annotations, "body": _DATA}
    for name, value in SCALARS.items():
        found[f"property-{name}"] = {
            "application_properties": mapping(("tried", value)),
            "body": _DATA,
        }
    for name, header in HEADERS.items():
        found[f"header-{name}"] = {"header": header, "body": _DATA}
    for name, value in PROPERTIES.items():
        found[f"field-{name}"] = {"properties": {name: value}, "body": _DATA}
    found["field-all"] = {"properties": PROPERTIES, "body": _DATA}
    for name, value in IDS.items():
        for field in ("message_id", "correlation_id"):
            found[f"field-{field}-{name}"] = {"properties": {field: value}, "body": _DATA}
    for name, body in BODIES.items():
        found[f"body-{name}"] = {"body": body}
    found["footer"] = {"body": _DATA, "footer": mapping((symbol("x-opt-sum"), binary(b"\x01")))}
    found["annotation-key-ulong"] = {
        "message_annotations": mapping((number("ulong", 77), "by number")),
        "body": _DATA,
    }
    for name, message in found.items():
        properties = message.setdefault("application_properties", mapping())
        message["application_properties"] = mapping((MARK, name), *map(tuple, properties["value"]))
    found["bare"] = {"body": _DATA}
    return found


CASES = _cases()

LARGE = {
    "0": 0,
    "1": 1,
    "64-KiB": 64 << 10,
    "1-MiB": 1 << 20,
    "1-MiB-and-1": (1 << 20) + 1,
    "100-MiB": 100 << 20,
}


def digest(size: int) -> str:
    """Of the body that the programs generate."""
    pattern = bytes(range(251))
    found = hashlib.sha256()
    whole, rest = divmod(size, 251 * 4096)
    for _ in range(whole):
        found.update(pattern * 4096)
    found.update((pattern * 4096)[:rest])
    return found.hexdigest()
