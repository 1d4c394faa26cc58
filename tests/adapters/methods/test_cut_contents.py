"""Messages that a read cuts: the same operations, wherever their octets are cut."""

from collections.abc import Iterable
from typing import Any

import pytest

from gateway.adapters import Limits
from gateway.adapters.methods.content import BASIC
from gateway.errors import Condition
from gateway.message import Message, Properties
from gateway.operations import Deliver, Operation, Publish, SessionLost
from tests.pair import VERSIONS, Pair, after, opened, pieces, sized, told

LARGEST = 4096 - 8
"""Octets of a body in one frame."""


def message(number: int, size: int) -> Message:
    header = BASIC.write(Properties(message_id=f"m-{number}", application={"n": str(number)}))
    return Message(BASIC, header, bytes([number]) * size, "x", "k", BASIC.essentials(header))


MESSAGES = [message(n, size) for n, size in enumerate((0, 5, 1, 300, 0, 64))]
LARGE = [
    message(n, size) for n, size in enumerate((LARGEST, 1, LARGEST + 1, LARGEST - 1, 3 * LARGEST))
]


def connected(version: str) -> Pair:
    """A pair with two channels and frames of 4096 octets."""
    pair = opened(version, limits=Limits(frame_max=4096))
    pair.begin(2)
    return pair


def shown(operations: list[Operation]) -> list[Any]:
    return [
        (type(one).__name__, one.channel, one.message.header, one.message.body, one.message.key)
        if isinstance(one, Publish | Deliver)
        else one
        for one in operations
    ]


def received(adapter: Any, octets: bytes, sizes: Iterable[int]) -> list[Any]:
    return shown([one for piece in pieces(octets, sizes) for one in adapter.receive(piece)])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_publish_may_be_cut_at_every_octet(version: str) -> None:
    pair = connected(version)
    for number, each in enumerate(MESSAGES):
        pair.client.send(Publish(1 + number % 2, each, number == 1, False))
    octets = b"".join(pair.client.output())
    whole = received(pair.server, octets, [len(octets)])
    assert [one[3] for one in whole] == [each.body for each in MESSAGES]
    for at in range(1, len(octets)):
        assert received(pair.server, octets, after(at)()) == whole, at


@pytest.mark.parametrize("version", VERSIONS)
def test_publishes_of_whole_and_of_several_frames_may_be_cut_into_pieces(version: str) -> None:
    pair = connected(version)
    for each in LARGE:
        pair.client.send(Publish(1, each, False, False))
    octets = b"".join(pair.client.output())
    whole = received(pair.server, octets, [len(octets)])
    assert [one[3] for one in whole] == [each.body for each in LARGE]
    for size in (1, 2, 7, 8, 100, 1000, LARGEST, 4096, 4200, 5000, 8191):
        assert received(pair.server, octets, sized(size)()) == whole, size


@pytest.mark.parametrize("version", VERSIONS)
def test_a_delivery_may_be_cut_at_every_octet(version: str) -> None:
    pair = connected(version)
    for number, each in enumerate(MESSAGES):
        pair.server.outlet(1 + number % 2).deliver("tag", number + 1, False, each)
    octets = b"".join(pair.server.output())
    whole = received(pair.client, octets, [len(octets)])
    assert [one[3] for one in whole] == [each.body for each in MESSAGES]
    for at in range(1, len(octets)):
        assert received(pair.client, octets, after(at)()) == whole, at


@pytest.mark.parametrize("missing", [1, 100])
def test_a_mistake_behind_the_cut_is_found(missing: int) -> None:
    pair = connected("0-9-1")
    pair.client.send(Publish(1, MESSAGES[3], False, False))
    octets = b"".join(pair.client.output())
    assert pair.server.receive(octets[:-missing]) == []
    found = told(pair.server, pair.server.receive(octets[len(octets) - missing : -1] + b"\xcd"))
    assert not any(isinstance(one, Publish) for one in found)
    pair.talk()
    assert pair.server.closing or pair.client.closing


def test_a_channel_that_fails_behind_the_cut_takes_no_publish() -> None:
    pair = connected("0-9-1")
    pair.client.send(Publish(1, MESSAGES[3], False, False))
    octets = b"".join(pair.client.output())
    assert pair.server.receive(octets[:-100]) == []
    pair.server.send(SessionLost(1, Condition.NOT_FOUND, "gone"))
    assert pair.server.receive(octets[-100:]) == []
