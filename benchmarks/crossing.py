"""A message of 0-9-1 written in 1.0 and the other way: ours, and pamqp with Qpid Proton.

The other two are the parts of a bridge: one reads the properties, the other gets them field by
field and writes them. They do not check whether all came through; ours does, and attaches a capsule
where it did not. ``same``: all headers are alike; ``new``: each has its own message-id.
"""

import struct
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.codec import BATCH, Work, collector, frame, in_turns
from benchmarks.rows import Row

GROUP = "crossing"
OTHERS = "pamqp + proton"
BODY = bytes(256)
WAYS = ("0-9-1 to 1.0", "1.0 to 0-9-1")
HEADERS = ("same", "new")


def properties(number: int) -> Any:
    from gateway.message import Properties

    return Properties(
        durable=True, priority=4, message_id=f"message-{number}", correlation_id="c-1",
        content_type="text/plain", application={"number": 5, "text": "value", "flag": True},
    )  # fmt: skip


def messages(way: str, new: bool) -> list[Any]:
    from gateway.adapters.methods.content import BASIC
    from gateway.adapters.performatives.content import SECTIONS
    from gateway.message import Message

    found = []
    for number in range(BATCH):
        header = BASIC.write(properties(number if new else 0))
        dialect: Any = BASIC
        if way == WAYS[1]:
            message = Message(BASIC, header, BODY, "", "bench", BASIC.essentials(header))
            header, dialect = crossing()(message, SECTIONS)[0], SECTIONS
        found.append(Message(dialect, header, BODY, "", "bench", dialect.essentials(header)))
    return found


def crossing() -> Any:
    from gateway.crossing.crossing import Crossing

    return Crossing(b"k" * 32)


def our_work(way: str, new: bool) -> Work:
    from gateway.adapters.methods.content import BASIC
    from gateway.adapters.performatives.content import SECTIONS
    from gateway.adapters.performatives.sections import pieces

    given, cross = messages(way, new), crossing()

    def to_new() -> None:
        if new:  # or the second batch would find its headers there
            cross._conversions.clear()
        for message in given:
            b"".join(pieces(*cross(message, SECTIONS)))

    def to_old() -> None:
        if new:
            cross._conversions.clear()
        for message in given:
            header, body = cross(message, BASIC)
            b"".join((frame(2, struct.pack(">HHQ", 60, 0, len(body)) + header), frame(3, body)))

    return to_new if way == WAYS[0] else to_old


def their_work(way: str, new: bool) -> Work:
    from pamqp import commands, header
    from pamqp.body import ContentBody
    from pamqp.frame import marshal, unmarshal

    from gateway.adapters.performatives.sections import pieces

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import proton

    given = messages(way, new)
    if way == WAYS[0]:
        head = struct.pack(">HHQ", 60, 0, len(BODY))
        octets = [(frame(2, head + message.header), message.body) for message in given]

        def to_new() -> None:
            for framed, body in octets:
                known = unmarshal(framed)[2].properties
                found = proton.Message(body=body)
                found.inferred = True
                found.durable = known.delivery_mode == 2
                found.priority = known.priority
                found.id = known.message_id
                found.correlation_id = known.correlation_id
                found.content_type = known.content_type
                found.properties = known.headers
                found.encode()

        return to_new
    written = [b"".join(pieces(message.header, message.body)) for message in given]

    def to_old() -> None:
        for data in written:
            found = proton.Message()
            found.decode(data)
            known = commands.Basic.Properties(
                content_type=found.content_type,
                headers=found.properties,
                delivery_mode=2 if found.durable else 1,
                priority=found.priority,
                correlation_id=found.correlation_id,
                message_id=found.id,
            )
            marshal(header.ContentHeader(0, len(found.body), known), 1)
            marshal(ContentBody(bytes(found.body)), 1)

    return to_old


def row(way: str, headers: str, seconds: float, repeat: int) -> Row:
    found = Row(GROUP, f"{way}, {headers} headers", "msg/s", against=OTHERS)
    new = headers == "new"
    try:
        works = our_work(way, new), their_work(way, new)
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
