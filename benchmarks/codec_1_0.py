"""Reading and writing a 1.0 message with its transfer: ours, Qpid Proton (C), Azure's pyamqp.

One message has a header, an annotation, six properties, three application properties and a data
section. Ours gives the canonical properties and the payload, proton its ``Message``; pyamqp and
ours also read and write the transfer performative, which proton has no function for.
"""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.codec import BATCH, BODIES, Work, collector, in_turns
from benchmarks.rows import Row

GROUP = "codec 1.0"
AIM = 1.0


def properties() -> Any:
    from gateway.message import Properties
    from gateway.values import Symbol

    return Properties(
        durable=True, priority=4, ttl=60000, message_id="message-0001", user_id=b"guest",
        to="/queues/bench", subject="bench", content_type="text/plain",
        creation_time=1790000000123, annotations={Symbol("x-opt-bench"): "a"},
        application={"number": 5, "text": "value", "flag": True},
    )  # fmt: skip


def octets(body: bytes) -> bytes:
    from gateway.adapters.performatives.content import SECTIONS
    from gateway.adapters.performatives.sections import pieces

    return b"".join(pieces(SECTIONS.write(properties()), body))  # type: ignore[arg-type]


def our_work(kind: str, body: bytes, transfer: bool) -> Work:
    from gateway.adapters.performatives.composites import read_performative
    from gateway.adapters.performatives.content import SECTIONS
    from gateway.adapters.performatives.sections import part, pieces
    from gateway.adapters.performatives.wire.layouts import Transfer, write_transfer

    head = write_transfer(Transfer(0, 1, b"\0\0\0\1", 0, False)) if transfer else b""
    data = head + octets(body)
    given = properties()

    def decode() -> None:
        for _ in range(BATCH):
            at = read_performative(data, 0, len(data))[1] if transfer else 0
            SECTIONS.read(part(data, at)[0])

    def encode() -> None:
        for number in range(BATCH):
            parts = pieces(SECTIONS.write(given), body)
            if transfer:
                parts.insert(0, write_transfer(Transfer(0, number, b"\0\0\0\1", 0, False)))
            b"".join(parts)  # type: ignore[arg-type]

    def forward() -> None:
        for _ in range(BATCH):
            at = read_performative(data, 0, len(data))[1] if transfer else 0
            header, payload = part(data, at)
            b"".join(pieces(header, payload))  # type: ignore[arg-type]

    return {"decode": decode, "encode": encode, "forward": forward}[kind]


def proton_work(kind: str, body: bytes) -> Work:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import proton

    data = octets(body)
    message = proton.Message()
    message.decode(data)

    def decode() -> None:
        for _ in range(BATCH):
            found = proton.Message()
            found.decode(data)

    def encode() -> None:
        for _ in range(BATCH):
            message.encode()

    def forward() -> None:
        for _ in range(BATCH):
            found = proton.Message()
            found.decode(data)
            found.encode()

    return {"decode": decode, "encode": encode, "forward": forward}[kind]


def pyamqp_work(kind: str, body: bytes) -> Work:
    from azure.eventhub._pyamqp import _decode, _encode
    from azure.eventhub._pyamqp.performatives import TransferFrame

    from gateway.adapters.performatives.wire.layouts import Transfer, write_transfer

    head = write_transfer(
        Transfer(0, 1, b"\0\0\0\1", 0, False, False, None, None, False, False, False)
    )
    data = memoryview(head + octets(body))
    message = _decode.decode_payload(data[len(head) :])

    def decode() -> None:
        for _ in range(BATCH):
            _decode.decode_payload(_decode.decode_frame(data)[1][-1])

    def encode() -> None:
        for number in range(BATCH):
            payload = _encode.encode_payload(bytearray(), message)
            _encode.encode_frame(
                TransferFrame(0, number, b"\0\0\0\1", 0, False, False, payload=payload)
            )

    def forward() -> None:
        for _ in range(BATCH):
            found = _decode.decode_payload(_decode.decode_frame(data)[1][-1])
            _encode.encode_payload(bytearray(), found)

    return {"decode": decode, "encode": encode, "forward": forward}[kind]


OTHERS: dict[str, tuple[Callable[[str, bytes], Work], bool]] = {
    "proton": (proton_work, False),
    "pyamqp": (pyamqp_work, True),
}
"""Who is compared, and whether the transfer performative is part of it."""


def row(kind: str, label: str, other: str, seconds: float, repeat: int) -> Row:
    found = Row(GROUP, f"{kind}, {label}", "msg/s", against=other)
    found.aim = AIM
    body = bytes(BODIES[label])
    maker, transfer = OTHERS[other]
    try:
        works = our_work(kind, body, transfer), maker(kind, body)
    except ImportError:
        found.note = f"{other} is not installed"
        return found
    return in_turns(found, *works, seconds, repeat)


def rows(wanted: Callable[[str], bool], quick: bool, repeat: int) -> Iterator[Row]:
    with collector():
        for label in BODIES:
            for kind in ("decode", "encode", "forward"):
                for other in OTHERS:
                    if wanted(f"{GROUP} {kind} {label} {other}"):
                        yield row(kind, label, other, 0.1 if quick else 0.5, repeat)
