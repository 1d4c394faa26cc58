"""A server reads only so many frames at once; what is left is read on, and nothing is different."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchmarks.codec_2005 import QUEUE, House
from benchmarks.pairs import VERSIONS, body_of, dialect_of, message_of
from gateway.adapters.core.frame_reader import ALL
from gateway.crossing.crossing import Crossing
from gateway.message import Message, Properties, cross_with
from gateway.operations import Deliver, Publish, Subscribe
from gateway.values import Int

COUNT = 40


def served(house: House, octets: bytes, most: int, cut: int) -> Iterator[int]:
    """Give the server these octets, in two pieces if there is a ``cut``; yields for each portion
    how many operations it had."""
    server: Any = house.server
    server.frames.most_at_once = most
    for piece in filter(None, (octets[:cut], octets[cut:]) if cut else (octets,)):
        waits = server.frames.unread
        found = server.receive(piece)
        assert not (waits and found)
        house.session.perform(found)
        yield len(found)
    while server.frames.unread:
        found = server.read_on()
        house.session.perform(found)
        yield len(found)
    house.session.perform(server.found())
    house.broker.end_turn()


def alike(version: str, number: int) -> Message:
    found: Message = message_of(version, number)
    return found


def unlike(version: str, number: int) -> Message:
    """Of another shape than the one before it, so that it is not read in a run with it."""
    dialect = dialect_of(version)
    application = {name: Int(number) for name in "abcd"[: number % 4 + 1]}
    header = dialect.write(Properties(durable=False, priority=4, application=application))
    return Message(dialect, header, body_of(number), "", QUEUE, dialect.essentials(header))


def passed(
    version: str, make: Callable[[str, int], Message], most: int, cut: int
) -> tuple[list[bytes], list[int]]:
    """The bodies that arrive, in their order, and the number of operations of each portion."""
    cross_with(Crossing(b"k" * 32))
    publisher = House(version)
    consumer = House("0-9-1", publisher)
    consumer.ask(Subscribe(1, "consume", QUEUE, "mine", no_ack=True))
    client: Any = publisher.client
    for number in range(COUNT):
        client.send(Publish(1, make(version, number), False, False))
    portions: list[int] = []
    while octets := b"".join(client.output()):
        portions += served(publisher, octets, most, cut)
        client.receive(b"".join(publisher.server.output()))
    arrived = [one.message.body for one in consumer.turn() if isinstance(one, Deliver)]
    return [body for body in arrived if isinstance(body, bytes)], portions


BODIES = [body_of(number) for number in range(COUNT)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("make", [alike, unlike])
@pytest.mark.parametrize("most", [2, 7])
@pytest.mark.parametrize("cut", [0, 1, 300, -1, -5])
def test_all_is_read_in_portions(
    version: str, make: Callable[[str, int], Message], most: int, cut: int
) -> None:
    found, _ = passed(version, make, most, cut)
    assert found == BODIES


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("most", [2, 7])
def test_a_portion_has_so_many_frames(version: str, most: int) -> None:
    _, portions = passed(version, unlike, most, 0)
    assert max(portions) <= most and len(portions) >= COUNT / most


@pytest.mark.parametrize("version", VERSIONS)
def test_all_is_read_at_once_without_a_limit(version: str) -> None:
    found, portions = passed(version, unlike, ALL, 0)
    assert found == BODIES and len(portions) < COUNT / 7
