"""Which elements and attributes a specification file may contain.

This is the part of ``specs/README.md`` that a program can check; nothing outside it is accepted.
"""

from typing import NamedTuple


class Shape(NamedTuple):
    """What an element must have, may have, and may contain."""

    required: frozenset[str]
    optional: frozenset[str]
    children: frozenset[str]


def shape(required: str, optional: str = "", children: str = "") -> Shape:
    return Shape(
        frozenset(required.split()), frozenset(optional.split()), frozenset(children.split())
    )


OPERATION = shape(
    "name number",
    "as from replies content header header-required result pack must should may extension errata "
    "section in replies-in",
    "field exception",
)

SHAPES: dict[str, Shape] = {
    "protocol": shape(
        "name family header",
        "major minor revision revisions port",
        "header framing types domains constants conditions class struct described restricted",
    ),
    "header": shape("name octets"),
    "framing": shape(
        "size-counts", "end pack command-header", "head identity content-header carrier"
    ),
    "head": shape("", "", "part"),
    "identity": shape("", "", "part"),
    "content-header": shape("", "", "part"),
    "carrier": shape("name frame-type", "nested", "part"),
    "part": shape("name width", "value escape escape-width unit"),
    "types": shape("", "", "type"),
    "type": shape("name kind", "width length count code of in", "encoding"),
    "encoding": shape("name code category width"),
    "domains": shape("", "", "domain"),
    "domain": shape("name type", "of", "value"),
    "value": shape("name value"),
    "constants": shape("", "", "constant"),
    "constant": shape("name kind value", "scope extension"),
    "conditions": shape("", "", "condition"),
    "condition": shape("name", "constant symbol scope nearest"),
    "class": shape(
        "name",
        "number extension section",
        "properties method command control struct domain role",
    ),
    "properties": shape("", "presence", "field"),
    "method": OPERATION,
    "command": OPERATION,
    "control": OPERATION,
    "role": shape("name implement"),
    "exception": shape("name error"),
    "struct": shape("name", "code size pack errata section", "field"),
    "described": shape("name source code", "symbol provides section", "field"),
    "restricted": shape("name source", "provides scope section", "value"),
    "field": shape(
        "name type",
        "as reserved trailing required multiple default requires of extension",
        "exception",
    ),
}

CHOICES: dict[tuple[str, str], frozenset[str]] = {
    ("protocol", "family"): frozenset(["command-frames", "methods", "segments", "performatives"]),
    ("framing", "size-counts"): frozenset(["body", "body-and-end", "rest", "frame"]),
    ("type", "kind"): frozenset(
        [
            "bit",
            "boolean",
            "null",
            "unsigned",
            "signed",
            "float",
            "decimal",
            "time",
            "uuid",
            "character",
            "fixed",
            "text",
            "octets",
            "table",
            "map",
            "list",
            "array",
            "set",
            "struct",
            "content",
        ]
    ),
    ("encoding", "category"): frozenset(["fixed", "variable", "compound", "array"]),
    ("constant", "kind"): frozenset(["frame-type", "limit", "mark", "port", "reply"]),
    ("constant", "scope"): frozenset(["channel", "connection"]),
    ("carrier", "nested"): frozenset(["yes"]),
    ("properties", "presence"): frozenset(["flags", "none"]),
    ("condition", "nearest"): frozenset(["yes"]),
    ("condition", "scope"): frozenset(["link", "session", "connection"]),
    ("restricted", "scope"): frozenset(["link", "session", "connection", "transaction"]),
    ("role", "name"): frozenset(["client", "server", "sender", "receiver"]),
    ("role", "implement"): frozenset(["must", "should", "may"]),
    ("struct", "errata"): frozenset(["qpid"]),
    ("field", "reserved"): frozenset(["yes"]),
    ("field", "trailing"): frozenset(["yes"]),
    ("field", "required"): frozenset(["yes"]),
    ("field", "multiple"): frozenset(["yes"]),
    **{
        (kind, switch): frozenset(["yes"])
        for kind in ("method", "command", "control")
        for switch in ("content", "header-required")
    },
    **{(kind, "errata"): frozenset(["qpid"]) for kind in ("method", "command", "control")},
}
