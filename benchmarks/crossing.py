"""A message of 0-9-1 written in 1.0 and the other way: ours, and pamqp with Qpid Proton.

The other two are the parts of a bridge: one reads the properties, the other gets them field by
field and writes them. They do not check whether all came through; ours does, and attaches a capsule
where it did not. ``same``: all headers are alike; ``unique``: each has a message-id, a timestamp
and a trace header of its own.
"""

import struct
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import cycle
from typing import Any

from benchmarks.codec import BATCH, Work, collector, frame, in_turns
from benchmarks.rows import Row

GROUP = "crossing"
OTHERS = "pamqp + proton"
BODY = bytes(256)
WAYS = ("0-9-1 to 1.0", "1.0 to 0-9-1")
HEADERS = ("same", "unique")
BEGAN = 1_700_000_000
UNIQUE = 20_000


def properties(number: int) -> Any:
    from gateway.message import Properties

    return Properties(
        durable=True, priority=4, message_id=f"message-{number}", correlation_id="c-1",
        content_type="text/plain", creation_time=(BEGAN + number) * 1000,
        application={"number": 5, "flag": True, "traceparent": trace(number)},
    )  # fmt: skip


def trace(number: int) -> str:
    """A trace header (W3C Trace Context) of its own."""
    parent = number * 0x9E3779B97F4A7C15 & (1 << 64) - 1
    return f"00-{number << 64 | parent:032x}-{parent:016x}-01"


def batches(way: str, unique: bool) -> list[list[Any]]:
    """Messages of some batches: unique ones are more than any cache holds."""
    from gateway.adapters.methods.content import BASIC
    from gateway.adapters.performatives.content import SECTIONS
    from gateway.message import Message

    dialect: Any = BASIC if way == WAYS[0] else SECTIONS
    found = []
    for number in range(UNIQUE if unique else BATCH):
        header = dialect.write(properties(number if unique else 0))
        found.append(Message(dialect, header, BODY, "", "bench", dialect.essentials(header)))
    return [found[at : at + BATCH] for at in range(0, len(found), BATCH)]


def our_work(way: str, unique: bool) -> Work:
    from gateway.adapters.methods.content import BASIC
    from gateway.adapters.performatives.content import SECTIONS
    from gateway.adapters.performatives.sections import pieces
    from gateway.crossing.crossing import Crossing
    from gateway.message import cross_with

    given = cycle(batches(way, unique))
    cross_with(Crossing(b"k" * 32))

    def to_new() -> None:
        for message in next(given):
            b"".join(pieces(*message.form_for(SECTIONS)))  # type: ignore[arg-type]

    def to_old() -> None:
        for message in next(given):
            header, body = message.form_for(BASIC)
            b"".join((frame(2, struct.pack(">HHQ", 60, 0, len(body)) + header), frame(3, body)))

    return to_new if way == WAYS[0] else to_old


def their_work(way: str, unique: bool) -> Work:
    from pamqp import commands, header
    from pamqp.body import ContentBody
    from pamqp.frame import marshal, unmarshal

    from gateway.adapters.performatives.sections import pieces

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import proton

    given = batches(way, unique)
    if way == WAYS[0]:
        head = struct.pack(">HHQ", 60, 0, len(BODY))
        octets = cycle(
            [(frame(2, head + message.header), message.body) for message in batch]
            for batch in given
        )

        def to_new() -> None:
            for framed, body in next(octets):
                frame_of: Any = unmarshal(framed)[2]
                known = frame_of.properties
                found = proton.Message(body=body)
                found.inferred = True
                found.durable = known.delivery_mode == 2
                found.priority = known.priority
                found.id = known.message_id
                found.correlation_id = known.correlation_id
                found.content_type = known.content_type
                found.creation_time = known.timestamp.timestamp()
                found.properties = known.headers
                found.encode()

        return to_new
    written = cycle(
        [b"".join(pieces(message.header, message.body)) for message in batch]  # type: ignore[arg-type]
        for batch in given
    )

    def to_old() -> None:
        for data in next(written):
            found = proton.Message()
            found.decode(data)
            known = commands.Basic.Properties(
                content_type=found.content_type,
                headers=found.properties,
                delivery_mode=2 if found.durable else 1,
                priority=found.priority,
                correlation_id=found.correlation_id,
                message_id=found.id,
                timestamp=datetime.fromtimestamp(found.creation_time, UTC),
            )
            marshal(header.ContentHeader(0, len(found.body), known), 1)
            marshal(ContentBody(bytes(found.body)), 1)

    return to_old


def row(way: str, headers: str, seconds: float, repeat: int) -> Row:
    found = Row(GROUP, f"{way}, {headers} headers", "msg/s", against=OTHERS)
    unique = headers == "unique"
    try:
        works = our_work(way, unique), their_work(way, unique)
    except ImportError:
        found.note = f"{OTHERS}: not installed"
        return found
    return in_turns(found, *works, seconds, repeat)


def rows(wanted: Callable[[str], bool], quick: bool, repeat: int) -> Iterator[Row]:
    with collector():
        for way in WAYS:
            for headers in HEADERS:
                if wanted(f"{GROUP} {way} {headers} headers"):
                    yield row(way, headers, 0.1 if quick else 0.5, repeat)
