"""Fast paths and templates have the same results as the general path."""

import struct
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from gateway.adapters.core.output import JOINED
from gateway.adapters.methods.content import BASIC, read_header
from gateway.adapters.methods.transitional import content as messages
from gateway.adapters.methods.transitional.channel import ALWAYS_ROOM, Consumer
from gateway.adapters.methods.transitional.contents import BASIC_NUMBER
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.adapters.methods.wire.layouts import BasicProperties, write_basic_properties
from gateway.message import Message, Properties
from gateway.operations import Operation, Publish
from gateway.values import Int, Scaled, Seconds, UInt
from tests.adapters.methods.transitional.serving import LIMITS, Client
from tests.drawing import examples

VERSIONS = ("0-10-07-24", "0-10-07-27")

TEXTS = some.text(max_size=3).map(lambda text: text.encode()[:3].ljust(3, b"-").decode("latin-1"))
"""Of few sizes, so that headers are like others."""
VALUES = (
    TEXTS | some.integers(-(1 << 31), (1 << 31) - 1).map(Int) | some.binary(min_size=2, max_size=2)
    | some.integers(0, 1 << 40) | some.integers(0, 9).map(UInt) | some.booleans() | some.none()
    | some.integers(0, 1 << 40).map(Seconds) | some.integers(0, 9).map(lambda n: Scaled(2, n))
    | some.fixed_dictionaries({"n": some.integers(0, 9).map(Int)})
)  # fmt: skip
PROPERTIES = some.builds(
    Properties,
    message_id=TEXTS,
    correlation_id=some.none() | TEXTS,
    creation_time=some.none() | some.integers(1, 1 << 30).map(lambda n: n * 1000),
    user_id=some.none() | some.just(b"u"),
    ttl=some.none() | some.integers(10, 99),
    priority=some.none() | some.integers(0, 9),
    durable=some.none() | some.booleans(),
    cluster_id=some.none() | some.just("c"),
    application=some.none() | some.dictionaries(some.sampled_from("ab"), VALUES, max_size=2),
)
HEADERS = PROPERTIES.map(BASIC.write)
NUMERIC = some.binary(min_size=4, max_size=4).map(
    lambda number: write_basic_properties(BasicProperties(headers=b"\1a\x21" + number))
)
"""With a code of the definition in place of a letter."""


def plain(operations: list[Operation]) -> list[Any]:
    """Operations, as something to be compared: messages and requests without identity."""
    found: list[Any] = []
    for op in operations:
        if isinstance(op, Publish):
            m = op.message
            exact = m.header, m.body, m.exchange, m.key, m.essentials
            found.append((op.channel, exact, op.mandatory, op.immediate))
        else:
            found.append((type(op), getattr(op, "condition", None), getattr(op, "text", None)))
    return found


def published(client: Client, header: bytes, body: bytes, m: w.BasicPublish) -> bytes:
    return client.octets(1, m) + client.content(1, header, body)


ROUTES = some.builds(
    w.BasicPublish,
    ticket=some.integers(0, 1),
    exchange=some.sampled_from(["", "amq.direct"]),
    routing_key=some.sampled_from(["q", "k" * 255]),
    immediate=some.booleans(),
)
BODIES = some.sampled_from([b"", b"x", b"y" * 700, b"z" * 70_000])


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=examples(150))
@given(
    sent=some.lists(some.tuples(HEADERS | NUMERIC, BODIES, ROUTES), min_size=1, max_size=6),
    wrong=some.none() | some.tuples(some.integers(0, 2000), some.integers(0, 255)),
    most=some.sampled_from([600, 200_000]),
)
def test_publishes_are_heard_as_frame_by_frame(
    version: str, sent: list[Any], wrong: tuple[int, int] | None, most: int
) -> None:
    limits = LIMITS._replace(max_message_octets=most)
    clients = [Client(version, limits=limits).open() for _ in range(2)]
    octets = bytearray(b"".join(published(clients[0], *each) for each in sent))
    if wrong is not None:
        octets[wrong[0] % len(octets)] = wrong[1]
    whole, single = (client.served.adapter for client in clients)
    heard = whole.receive(bytes(octets))
    slowly: list[Operation] = []
    for at in range(0, len(octets), 7):
        slowly += single.receive(bytes(octets[at : at + 7]))
    assert plain(heard) == plain(slowly)
    assert b"".join(whole.output()) == b"".join(single.output())
    if 1 in whole.channels:
        assert whole.channels[1].numbering.received == single.channels[1].numbering.received


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=examples(100))
@given(
    headers=some.lists(HEADERS, min_size=1, max_size=6),
    body=some.sampled_from([0, 1, JOINED, JOINED + 1, 4096 - ALWAYS_ROOM, 4096, 5000]),
    exchange=some.sampled_from(["", "e"]),
    redelivered=some.booleans(),
)
def test_deliveries_are_written_as_method_header_and_body(
    version: str, headers: list[bytes], body: int, exchange: str, redelivered: bool
) -> None:
    fast, slow = (Client(version).open().served.adapter for _ in range(2))
    fast.channels[1].consumers["c"] = Consumer(True, False)
    for header in headers:
        message = Message(BASIC, header, bytes(body), exchange, "k", BASIC.essentials(header))
        fast.channels[1].deliver("c", 1, redelivered, message)
        channel = slow.channels[1]
        name = channel._next_name()
        record = w.BasicDeliver("c", name, redelivered, exchange, "k")
        channel._write_content(record, *messages.form_of(message))
        assert fast.channels[1].deliveries.newest() == name
    assert b"".join(fast.output()) == b"".join(slow.output())


@settings(max_examples=examples(300))
@given(some.lists(HEADERS, min_size=1, max_size=8))
@example([BASIC.write(Properties(application={"number": UInt(n)})) for n in range(3)])
def test_properties_go_out_in_letters_whatever_came_before(headers: list[bytes]) -> None:
    for header in headers:
        message = Message(BASIC, header, b"x", "", "q", BASIC.essentials(header))
        properties = read_header(header)
        properties.cluster_id = None
        if properties.headers is not None:
            properties.headers = messages.lettered(properties.headers)
        assert messages.form_of(message)[0] == write_basic_properties(properties)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_delivery_with_a_name_that_is_too_long_is_not_sent(version: str) -> None:
    adapter = Client(version).open().served.adapter
    channel = adapter.channels[1]
    channel.consumers["c"] = Consumer(True, True)
    message = Message(BASIC, b"\0\0", b"x", "e" * 256, "k", BASIC.essentials(b"\0\0"))
    channel.deliver("c", 1, False, message)
    assert not adapter.output()
    assert channel.numbering.sent == 1  # channel.open-ok


def test_frames_of_a_body_that_is_not_small_are_not_copied() -> None:
    client = Client(VERSIONS[0]).open()
    frames, body = client.served.adapter.frames, bytes(JOINED + 1)
    head, piece, end = frames.message(1, None, b"method", BASIC_NUMBER, b"\0\0", body)
    assert piece is body
    content = struct.pack(">HHQ", BASIC_NUMBER, 0, len(body)) + b"\0\0"
    slowly = frames.method_frame(1, None, b"method"), frames.frame(2, 1, content)
    assert head + piece + end == b"".join((*slowly, frames.frame(3, 1, body)))
