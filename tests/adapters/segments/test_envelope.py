"""Deliveries in an envelope have the octets that they have without one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.adapters.segments import operations as ops
from gateway.adapters.segments import subscriptions
from gateway.adapters.segments.content import SEGMENTS, sent
from gateway.adapters.segments.envelope import Envelope
from gateway.adapters.segments.frames import command, opening
from gateway.adapters.segments.splicing import NO_BODY
from gateway.adapters.segments.wire import layouts as w
from gateway.message import ExpiringMessage, Message
from tests.adapters.segments.serving import Client

SEGMENT = ops.write_command(w.MessageTransfer("d", 1, 0))
LIMIT = 9000


def message(
    number: int, body: bytes = b"body", key: str = "q", exchange: str = "", id_: bool = True,
    time: int | None = None, user: bytes | None = None, swapped: bool = False, **more: Any,
) -> Message:  # fmt: skip
    delivery = w.DeliveryProperties(routing_key=key, timestamp=time)
    properties = w.MessageProperties(
        message_id=number.to_bytes(16, "big") if id_ else None, user_id=user
    )
    structs = [
        ops.coded(0x0401, w.write_delivery_properties(delivery)),
        ops.coded(0x0403, w.write_message_properties(properties)),
    ]
    header = b"".join(reversed(structs) if swapped else structs)
    return Message(SEGMENTS, header, body, exchange, key, SEGMENTS.essentials(header), **more)


def plainly(one: Message) -> bytes:
    """The frames without an envelope."""
    header, body = sent(one)
    assert isinstance(body, bytes)
    return command(1, SEGMENT, header, body, LIMIT)


def envelope(one: Message) -> Envelope:
    return Envelope(one, sent(one)[0], opening(1, SEGMENT), 1, LIMIT)


def around(found: Envelope, one: Message) -> bytes:
    frames = found.around(one, one.body)
    return frames + one.body[:] if len(one.body) > 4096 and frames else frames


MESSAGES = some.builds(
    message,
    some.integers(0, 3),
    some.sampled_from([b"", b"one", b"two", b"x" * 5000, b"y" * 9000]),
    key=some.sampled_from(["q", "other", "another one"]),
    exchange=some.sampled_from(["", "amq.topic"]),
    id_=some.booleans(),
    time=some.none() | some.integers(0, 2),
    user=some.none() | some.sampled_from([b"me", b"it"]),
    swapped=some.booleans(),
)


@given(MESSAGES, some.lists(MESSAGES, max_size=5))
def test_the_same_octets_or_none(first: Message, others: list[Message]) -> None:
    found = envelope(first)
    for one in [first, *others]:
        frames = around(found, one)
        assert frames in (b"", plainly(one))
        if frames:
            assert len(frames) == len(opening(1, SEGMENT)) + 12 + found.cost + 12 + len(one.body)


@pytest.mark.parametrize(
    "more", [{}, {"id_": False}, {"time": 3}, {"user": b"me"}, {"exchange": "amq.topic"}]
)
def test_messages_that_differ_in_id_and_body_fit(more: Any) -> None:
    found = envelope(message(1, **more))
    for number, body in ((1, b"body"), (2, b"another"), (3, b""), (4, b"x" * 5000)):
        one = message(number, body, **more)
        assert around(found, one) == plainly(one) != b""


def test_what_does_not_fit() -> None:
    found = envelope(message(1))
    for one in (
        message(1, key="r"),
        message(1, exchange="amq.topic"),
        message(1, time=1),
        message(1, added_headers={"x-death": 1}),
        message(1, b"x" * LIMIT),
        ExpiringMessage(message(1), 5),
    ):
        assert not found.around(one, one.body)
    absent = message(1, b"")
    absent.header = NO_BODY + absent.header
    assert not found.around(absent, absent.body)
    noted = message(1, added_headers={"x-death": 1})
    assert not envelope(noted).around(noted, noted.body)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """The messages for which envelopes were made."""
    found: list[Message] = []

    class Noted(Envelope):
        def __init__(self, one: Message, *more: Any) -> None:
            super().__init__(one, *more)
            found.append(one)

    monkeypatch.setattr(subscriptions, "Envelope", Noted)
    return found


def delivered(client: Client, sent: list[Message]) -> list[Any]:
    """Publish these; the deliveries of a subscription."""
    client.say(w.QueueDeclare("q"))
    client.say(w.MessageSubscribe("q", "d", 1, 0), w.MessageFlow("d", 1, 0xFFFFFFFF))
    client.say(w.MessageFlow("d", 0, 10_000))
    said = []
    for one in sent:
        octets = command(1, ops.write_command(w.MessageTransfer("", 1)), one.header, one.body[:])
        said += client.served.receive(octets)
    return [(each.header, each.body) for each in said if each.name == "message.transfer"]


def test_one_serves_all_deliveries_that_are_alike(made: list[Message]) -> None:
    messages = [message(number, b"x" * (number % 5)) for number in range(100)]
    assert delivered(Client().open(), messages) == [sent(one) for one in messages]
    assert len(made) == 1


def test_few_are_made_where_no_deliveries_are_alike(made: list[Message]) -> None:
    messages = [message(number, time=number) for number in range(640)]
    assert delivered(Client().open(), messages) == [sent(one) for one in messages]
    assert len(made) <= 15
    made.clear()
    alike = [message(number) for number in range(200)]
    assert delivered(Client().open(), messages[:64] + alike)[64:] == [sent(one) for one in alike]
    assert len(made) <= 6
