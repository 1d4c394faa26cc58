"""W3C trace context, from requests into messages and back.

``CURRENT`` holds the context of the current request. A message gets it as the headers
``traceparent`` and ``tracestate`` if its publisher set none; those of a publisher are never
overwritten. They are notes, which every version sees as ordinary headers and which leave the
publisher's octets unchanged.
"""

import re
from contextvars import ContextVar
from typing import NamedTuple

from gateway.message import Message

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
STATE = re.compile(r"[\x20-\x7e]{1,512}")


class Trace(NamedTuple):
    """``parent`` is a valid ``traceparent``; ``state`` may be empty."""

    parent: str
    state: str = ""

    @property
    def id(self) -> str:
        return self.parent[3:35]


CURRENT: ContextVar[Trace | None] = ContextVar("trace", default=None)


def read_trace(headers: list[tuple[bytes, bytes]]) -> Trace | None:
    """The context of a request with lower-case header names. Malformed and repeated fields are
    ignored (W3C Trace Context, 3.2)."""
    parents = [value for name, value in headers if name == b"traceparent"]
    if len(parents) != 1:
        return None
    parent = parents[0].decode("latin-1").strip()
    # Version 00 has exactly these fields; a later one may have more behind a dash.
    known, more = parent[:55], parent[55:]
    if not PARENT.fullmatch(known) or (more and (parent[:2] == "00" or more[0] != "-")):
        return None
    states = [v.decode("latin-1").strip() for name, v in headers if name == b"tracestate"]
    state = ",".join(one for one in states if one)
    return Trace(known if not more else parent, state if STATE.fullmatch(state) else "")


def stamp(message: Message) -> None:
    """Add the current context to a message unless it has one. Hot: usually one lookup."""
    trace = CURRENT.get()
    if trace is None or has_trace(message):
        return
    notes = dict(message.added_headers or {})
    notes[TRACEPARENT] = trace.parent
    if trace.state:
        notes[TRACESTATE] = trace.state
    message.added_headers = notes
    message.forget_properties()


def has_trace(message: Message) -> bool:
    if message.added_headers and TRACEPARENT in message.added_headers:
        return True
    if not message.essentials.has_headers or b"traceparent" not in message.header:
        return False
    try:
        return TRACEPARENT in (message.properties.application or {})
    except (ValueError, RecursionError):
        return True
    finally:
        message.forget_properties()


def trace_of(table: dict[str, object] | None) -> dict[str, str]:
    """The context in the headers of a message, for its readers."""
    found = {name: (table or {}).get(name) for name in (TRACEPARENT, TRACESTATE)}
    return {name: value for name, value in found.items() if isinstance(value, str)}
