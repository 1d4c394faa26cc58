"""The client role and a server that talks nonsense: nothing escapes from ``receive``, every request
is answered at the latest when the connection ends, and what we write is whole frames."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.adapters import Credentials, Role, adapter_for
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import HEADER, SASL_HEADER
from gateway.errors import LocalError
from gateway.operations import (
    AttachSource,
    AttachTarget,
    BeginSession,
    Closed,
    Commit,
    Credit,
    DeclareQueue,
    DetachLink,
    Done,
    EndSession,
    Fetch,
    Open,
    Operation,
    Outcome,
    Prefetch,
    Publish,
    Refused,
    Select,
    SelectConfirms,
    Settle,
    Subscribe,
    Terminus,
    Unsubscribe,
)
from tests.adapters.performatives.house import CHANNEL, House, message
from tests.adapters.performatives.wire import SASL, packed, unpacked

REQUESTS: list[Any] = [
    SelectConfirms(CHANNEL, 1),
    Prefetch(CHANNEL, 2, 5),
    Subscribe(CHANNEL, 3, "q", "tag"),
    Publish(CHANNEL, message(b"one"), True, False),
    Publish(CHANNEL, message(b"two" * 50_000, "x", "k"), True, False),
    Fetch(CHANNEL, 4, "r"),
    AttachSource(CHANNEL, 5, "s", "s", "", Terminus("/queues/q")),
    AttachTarget(CHANNEL, 6, "t", "t", "", Terminus("/queues/q")),
    Credit(CHANNEL, 7, "s", 10, True),
    DeclareQueue(CHANNEL, 8, "q"),
    Settle(CHANNEL, 0, True, Outcome.ACCEPT),
    DetachLink(CHANNEL, 9, "s", True),
    Unsubscribe(CHANNEL, 10, "tag"),
    Select(CHANNEL, 11),
    Publish(CHANNEL, message(b"three"), True, False),
    Commit(CHANNEL, 12),
    EndSession(CHANNEL, 13),
]


class Storm(House):
    """The server's octets are changed on their way to the client, from a certain one on."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.calm = True
        super().__init__(lambda: iter(lambda: chance.choice([1, 20, 400, 100_000]), 0))
        carry = self.pair._carry

        def carried(one: Any, other: Any) -> list[Operation]:
            if other is self.client and not self.calm and one.pending:
                octets = b"".join(one.output())
                one.pending.append(mutated(octets, self.chance))
            return carry(one, other)

        self.pair._carry = carried  # type: ignore[method-assign]


def mutated(octets: bytes, chance: random.Random) -> bytes:
    """The same with up to three mistakes."""
    found = bytearray(octets)
    for _ in range(chance.choice([0, 0, 1, 1, 2, 3])):
        at = chance.randrange(len(found)) if found else 0
        kind = chance.random()
        if kind < 0.6 and found:
            found[at] = chance.choice([0, 1, 0x40, 0x43, 0xFF, chance.randrange(256)])
        elif kind < 0.8:
            del found[at : at + chance.randint(1, 12)]
        else:
            found[at:at] = chance.randbytes(chance.randint(1, 12))
    return bytes(found)


@pytest.mark.parametrize("seed", range(100))
def test_a_server_that_makes_mistakes(seed: int) -> None:
    chance = random.Random(f"client {seed}")
    house = Storm(chance)
    house.responses += [(201, {"name": "q"})] * 3
    house.put("q", *[message(b"%d" % number) for number in range(8)])
    asked: set[Any] = set()
    start = chance.randrange(len(REQUESTS))
    for at, request in enumerate(REQUESTS):
        house.calm = at < start
        if house.client.closing:
            break
        try:
            house.client.send(request)
        except LocalError:
            continue  # what it is about is lost already
        asked.add(getattr(request, "token", None))
        house.run()
    house.heard += house.client.receive(b"") + house.client.found()
    answers = [op.token for op in house.heard if isinstance(op, Done | Refused)]
    answers = [token for token in answers if token is not None]
    assert len(answers) == len(set(answers))
    assert asked - {None} <= set(answers)
    assert isinstance(house.heard[-1], Closed)
    assert house.client.receive(b"more") == []


# --- frames that make no sense ------------------------------------------------------------------

small = some.integers(0, 3)
sequence = some.sampled_from([0, 1, 2, 5, 0x7FFF_FFFF, 0xFFFF_FFFF])
states = some.sampled_from(
    [
        None, w.Accepted(), w.Released(), w.Rejected(), w.Rejected(w.Error("amqp:not-found", "x")),
        w.Modified(True), w.Received(0, 0), w.TransactionalState(b"work", w.Accepted()),
        w.TransactionalState(b"work"), w.Declared(b"work"),
    ]
)  # fmt: skip
sources = some.sampled_from([None, w.Source("q"), w.Source(), w.Coordinator()])
targets = some.sampled_from([None, w.Target("q"), w.Target(), w.Coordinator()])
errors = some.sampled_from([None, w.Error("amqp:not-found"), w.Error("unheard-of", "x")])
names = some.sampled_from(
    ["to:0.1", "fetch:0.2", "tag:0.3", "s", "t", "management:0.5", "coordinator:0.6", "new"]
)
FRAMES = some.one_of(
    some.builds(w.Begin, some.sampled_from([None, 0, 1]), sequence, sequence, sequence, small),
    some.builds(
        w.Attach, names, small, some.booleans(), some.sampled_from([None, 0, 1, 2, 9]), small,
        sources, targets, some.sampled_from([None, {}, {b"t": None}]), some.booleans(), sequence,
        some.sampled_from([None, 0, 10]),
    ),
    some.builds(
        w.Flow, some.none() | sequence, sequence, sequence, sequence, some.none() | small,
        some.none() | sequence, some.none() | sequence, some.none() | sequence, some.booleans(),
        some.booleans(),
    ),
    some.builds(
        w.Transfer, small, some.none() | sequence, some.sampled_from([None, b"t", b"x" * 40]),
        some.sampled_from([None, 0, 1]), some.none() | some.booleans(), some.booleans(),
        some.none() | small, states, some.booleans(), some.booleans(),
    ),
    some.builds(
        w.Disposition, some.booleans(), sequence, some.none() | sequence, some.booleans(), states
    ),
    some.builds(w.Detach, small, some.booleans(), errors),
    some.builds(w.End, errors),
)  # fmt: skip
PAYLOADS = some.sampled_from([b"", b"\x00\x53\x75\xa0\x01x", b"\x00\x53\x77\x40", b"\xff"])


@given(some.lists(some.tuples(FRAMES, some.integers(0, 1), PAYLOADS), max_size=25))
def test_frames_in_any_order(frames: list[tuple[Any, int, bytes]]) -> None:
    engine = adapter_for("1.0", Role.CLIENT, credentials=Credentials(mechanism=""))
    engine.send(Open("open", "/", "guest"))
    engine.receive(HEADER + packed(w.Open("server", offered_capabilities=("LINK_PAIR_V1_0",))))
    engine.send(BeginSession(CHANNEL, "begin"))
    for request in REQUESTS[:-1]:
        engine.send(request)
    found: list[Operation] = []
    for record, channel, payload in frames:
        body = payload if isinstance(record, w.Transfer) else b""
        found += engine.receive(packed(record, channel, body))
        unpacked(b"".join(engine.output()))
    found += engine.lost()
    assert isinstance(found[-1], Closed)
    assert sum(isinstance(op, Closed) for op in found) == 1


@given(some.binary(max_size=300), some.sampled_from(["", "PLAIN"]), some.booleans())
def test_noise(noise: bytes, mechanism: str, opened: bool) -> None:
    engine = adapter_for("1.0", Role.CLIENT, credentials=Credentials(mechanism=mechanism))
    engine.send(Open("open", "/", "guest"))
    if opened:
        if mechanism:
            layer = packed(w.SaslMechanisms(("PLAIN",)), kind=SASL)
            engine.receive(SASL_HEADER + layer + packed(w.SaslOutcome(0), kind=SASL))
        engine.receive(HEADER + packed(w.Open("server")))
    found = engine.receive(noise) + engine.lost()
    assert isinstance(found[-1], Closed)
