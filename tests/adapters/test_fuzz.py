"""Mutated conversations and noise: operations or a last ``Closed``, and nothing else escapes."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.adapters import Limits, Role, adapter_for
from gateway.adapters.contract import Answer
from gateway.adapters.methods.wire.tables import VERSIONS as TABLES
from gateway.broker.broker import Broker
from gateway.broker.memory_store import MemoryStore
from gateway.operations import Closed, Operation
from gateway.sessions.registry import SessionRegistry
from gateway.sessions.session import Session
from tests.adapters.commands import recorded as commands
from tests.adapters.methods.drafts import recorded as v0_9a6
from tests.adapters.stub import Stub
from tests.adapters.test_vectors import FILES, fed
from tests.drawing import examples
from tests.pair import VERSIONS, Users, opened, pieces
from tests.talk import Talk, frame

LIMITS = Limits(frame_max=8192, max_message_octets=20_000)


def conversations(name: str) -> list[bytes]:
    """What each connection of a recording of 0.8a2 says, if it is more than its initiation."""
    said: dict[str, bytes] = {}
    for line in commands.read(name):
        if line.from_client:
            said[line.connection] = said.get(line.connection, b"") + line.octets
    return [octets for octets in said.values() if len(octets) > 9]


def held(adapter: Any) -> int:
    """Octets that a peer has made us keep."""
    kept = adapter.frames.held
    for channel in adapter.channels.values():
        if channel.content is not None:
            content = channel.content
            sinks = [content.sink, *(around.sink for around in content.outer)]
            kept += sum(getattr(sink, "have", 0) for sink in sinks)  # the store counts files
    return int(kept)


def check(adapter: Any, words: list[Operation]) -> None:
    closed = [word for word in words if isinstance(word, Closed)]
    assert closed == words[-1:] if adapter.closing else not closed
    assert held(adapter) <= LIMITS.frame_max + LIMITS.max_message_octets


def feed(stub: Stub, data: bytes, sizes: Any) -> None:
    for piece in pieces(data, sizes):
        before = len(stub.heard)
        was_closing = stub.adapter.closing
        stub.receive(piece)
        if not was_closing:
            check(stub.adapter, stub.heard[before:])
        stub.adapter.output()


def mutate(data: bytes, chance: random.Random) -> bytes:
    octets = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(8, len(octets))
        kind = chance.random()
        if kind < 0.5:
            octets[at] = chance.choice([0, 1, 2, 3, 0xCE, 0xFF, chance.randrange(256)])
        elif kind < 0.7:
            del octets[at : at + chance.randint(1, 20)]
        elif kind < 0.9:
            octets[at:at] = chance.randbytes(chance.randint(1, 20))
        else:
            start = chance.randrange(8, len(octets))
            octets[at:at] = octets[start : start + 60]
        if len(octets) < 9:
            return bytes(octets)
    return bytes(octets)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
@pytest.mark.parametrize("seed", range(4))
def test_mutated_conversations(path: Any, seed: int) -> None:
    chance = random.Random(f"{path.name}{seed}")
    whole = fed(path)
    for _ in range(40):
        adapter = adapter_for(path.parent.name, Role.SERVER, authority=Users(), limits=LIMITS)
        sizes = iter(lambda: chance.choice([3, 50, 400, 100_000]), 0)
        stub = Stub(adapter)
        feed(stub, mutate(whole, chance), sizes)


MECHANISMS = ("PLAIN", "AMQPLAIN", "ANONYMOUS")


class Anyone(Users):
    """Every password is right: the octets behind a recorded login are tested."""

    def password(self, user: str, password: str, answer: Answer) -> None:
        answer(True)

    def anonymous(self) -> str:
        return "guest"


class House:
    """An adapter, its session and a broker, fed as a socket would."""

    def __init__(self, version: str) -> None:
        self.store = MemoryStore(False)
        self.broker = Broker(self.store)
        self.broker.create_vhost("/test")  # where the recorded clients go
        self.broker.access.set_permissions("guest", "/test", ".*", ".*", ".*")
        self.adapter: Any = adapter_for(
            version, Role.SERVER, authority=Anyone(), limits=LIMITS, mechanisms=MECHANISMS
        )
        self.session = Session(
            self.broker,
            self.adapter,
            SessionRegistry(),
            address="127.0.0.1:1",
            loopback=True,
            since=0,
        )

    def receive(self, piece: bytes) -> None:
        self.session.perform(self.adapter.receive(piece))
        self.session.perform(self.adapter.found())
        self.broker.end_turn()
        batch = self.store.take()
        if batch is not None:
            self.broker.committed(batch.mark)
        self.adapter.output()

    def lose(self) -> None:
        """The socket is gone: nothing is left."""
        self.session.perform(self.adapter.lost())
        self.session.end()
        assert self.session.closed and not self.session.channels
        assert not any(vhost.clients for vhost in self.broker.vhosts.values())


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_mutated_conversations_with_a_broker(path: Any) -> None:
    """The same through a session: nothing is raised but by a bug, and nothing is left behind."""
    chance = random.Random(path.name)
    whole = fed(path)
    for _ in range(8):
        house = House(path.parent.name)
        for piece in pieces(mutate(whole, chance), iter(lambda: chance.choice([3, 50, 400]), 0)):
            house.receive(piece)
            assert held(house.adapter) <= LIMITS.frame_max + LIMITS.max_message_octets
        house.lose()


RECORDED = {
    **{f"0-9a6 {name}": ("0-9a6", [v0_9a6.octets(name, True)]) for name in v0_9a6.NAMES},
    **{f"0.8a2 {name}": ("0.8a2", conversations(name)) for name in commands.CONVERSATIONS},
}
"""What original clients said, by the name of the recording: its version, and each connection."""


@pytest.mark.parametrize("name", RECORDED)
def test_mutated_recordings_with_a_broker(name: str) -> None:
    """Original clients of the oldest versions, with mistakes: nothing is raised."""
    chance = random.Random(name)
    version, connections = RECORDED[name]
    for whole in connections:
        for _ in range(examples(80)):
            house = House(version)
            octets = mutate(whole, chance)
            for piece in pieces(octets, iter(lambda: chance.choice([3, 50, 400]), 0)):
                house.receive(piece)
            house.lose()


@given(some.sampled_from(VERSIONS), some.binary(max_size=400))
def test_noise_after_the_header(version: str, noise: bytes) -> None:
    adapter = adapter_for(version, Role.SERVER, authority=Users(), limits=LIMITS)
    check(adapter, adapter.receive(TABLES[version].header + noise))


@given(some.binary(max_size=40))
def test_noise_instead_of_the_header(noise: bytes) -> None:
    adapter = adapter_for("0-9-1", Role.SERVER, authority=Users(), limits=LIMITS)
    check(adapter, adapter.receive(noise) if noise else [])


@given(
    some.sampled_from(VERSIONS),
    some.lists(
        some.tuples(some.sampled_from([1, 1, 1, 2, 3, 8]), some.integers(0, 2), some.data()),
        max_size=6,
    ),
)
def test_methods_with_noisy_arguments(version: str, plan: list[tuple[int, int, Any]]) -> None:
    talk = Talk(version, limits=LIMITS).opened(1)
    numbers = sorted(TABLES[version].methods)
    for kind, channel, data in plan:
        payload = data.draw(some.binary(max_size=60))
        if kind == 1:
            payload = data.draw(some.sampled_from(numbers)).to_bytes(4) + payload
        words = talk.sends(frame(kind, channel, payload))
        check(talk.adapter, words)
        if talk.adapter.closing:
            return


@given(some.sampled_from(VERSIONS), some.lists(some.binary(max_size=60), max_size=4), some.data())
def test_clients_bear_it_too(version: str, payloads: list[bytes], data: Any) -> None:
    pair = opened(version)
    numbers = sorted(TABLES[version].methods)
    for payload in payloads:
        number = data.draw(some.sampled_from(numbers)).to_bytes(4)
        channel = data.draw(some.integers(0, 2))
        check(pair.client, pair.client.receive(frame(1, channel, number + payload)))
        if pair.client.closing:
            return


def test_a_slow_large_frame_is_joined_once() -> None:
    """Many small pieces of a large frame cost one join, and nothing is kept twice."""
    talk = Talk(limits=Limits(frame_max=0, max_message_octets=4_000_000)).opened(1)
    size = 1_000_000
    start = frame(1, 1, b"\0\x3c\0\x28\0\0\x01x\x01k\0")
    start += frame(2, 1, b"\0\x3c\0\0" + size.to_bytes(8) + b"\0\0")
    assert talk.sends(start) == []
    whole = frame(3, 1, bytes(size))
    for piece in pieces(whole[:-1], iter(lambda: 50, 0)):
        assert talk.sends(piece) == []
    assert held(talk.adapter) == len(whole) - 1
    (word,) = talk.sends(whole[-1:])
    assert len(word.message.body) == size  # type: ignore[attr-defined]
    assert held(talk.adapter) == 0
