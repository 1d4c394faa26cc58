"""Composites at work: performatives of frames, records in maps, defaults, error conditions."""

import struct
from typing import Any

from gateway.adapters.performatives.decoding import FieldError, read_value
from gateway.adapters.performatives.encoding import write_value
from gateway.adapters.performatives.wire.layouts import LISTS, Composite, any_
from gateway.adapters.performatives.wire.tables import (
    BY_CODE,
    CONDITIONS,
    DEFAULTS,
    FRAMES,
    SASL_FRAMES,
)
from gateway.errors import Condition, Lost
from gateway.values import Described

SCOPES = {Lost.LINK: "link", Lost.SESSION: "session", Lost.CONNECTION: "connection"}

_FRAME_READERS = [FRAMES[code].read if code in FRAMES else None for code in range(256)]


def read_performative(buf: bytes, at: int, end: int, sasl: bool = False) -> tuple[Any, int]:
    """The performative of a frame body and where its payload begins. Raises ``FieldError``, of
    which ``MissingField`` is one."""
    try:
        if buf[at] == 0 and buf[at + 1] == 0x53:
            reader = None if sasl else _FRAME_READERS[buf[at + 2]]
            if reader is not None:
                record, stop = reader(buf, at + 3)
                if stop > end:
                    raise FieldError("a performative runs past its frame")
                return record, stop
        record, stop = any_(buf, at, 0)
    except FieldError:
        raise
    except (struct.error, IndexError) as error:
        raise FieldError("a performative is cut short") from error
    except ValueError as error:
        raise FieldError(f"a performative cannot be read: {error}") from error
    if stop > end:
        raise FieldError("a performative runs past its frame")
    if getattr(record, "CODE", None) not in (SASL_FRAMES if sasl else FRAMES):
        raise FieldError(f"{type(record).__name__} is no performative of this layer")
    return record, stop


def read_composite(octets: bytes, at: int = 0, end: int | None = None) -> tuple[Any, int]:
    """A value that may be a composite, and where it ends. Raises ``FieldError``."""
    return read_value(octets, at, end, any_)


def as_record(value: Any) -> Any:
    """A described value, found in a map, as the record it stands for; anything else as it is."""
    if isinstance(value, Described) and value.descriptor in LISTS:
        return read_composite(write_value(value))[0]
    return value


def write(record: Composite) -> bytes:
    """A record as a described list."""
    return BY_CODE[record.CODE].write(record)


def effective(record: Composite, name: str) -> Any:
    """The value of a field, or its default; None if the specification gives none."""
    value = getattr(record, name)
    if value is None:
        return DEFAULTS.get(type(record), {}).get(name)
    return value


def symbol_for(condition: Condition, lost: Lost = Lost.NOTHING) -> str:
    """The error condition for a neutral one, for the scope that is lost."""
    scope = SCOPES.get(lost, "")
    return CONDITIONS.get((condition.value, scope)) or CONDITIONS[condition.value, ""]


_CONDITIONS = {symbol: name for (name, scope), symbol in reversed(CONDITIONS.items())}
_OTHERS = {
    "amqp:resource-deleted": "not-found",
    "amqp:frame-size-too-small": "content-too-large",
    "amqp:link:transfer-limit-exceeded": "resource-error",
    "amqp:link:stolen": "connection-forced",
    "amqp:transaction:unknown-id": "not-found",
    "amqp:transaction:rollback": "precondition-failed",
    "amqp:transaction:timeout": "precondition-failed",
}


def condition_for(symbol: str) -> Condition:
    """The neutral condition that a peer's error comes nearest to."""
    if symbol == "amqp:not-found":
        return Condition.NOT_FOUND
    if symbol == "amqp:invalid-field":
        return Condition.COMMAND_INVALID
    if symbol == "amqp:illegal-state":
        return Condition.UNEXPECTED_FRAME
    return Condition(_OTHERS.get(symbol) or _CONDITIONS.get(symbol, "internal-error"))
