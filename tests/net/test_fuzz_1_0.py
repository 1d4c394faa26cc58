"""Peers of 1.0 that talk nonsense to a whole gateway: it lives, logs no traceback, and serves."""

import contextlib
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.adapters.performatives.composites import write
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import HEADER, SASL_HEADER
from gateway.values import Described, Symbol, ULong
from tests.adapters.performatives.wire import PLAIN, SASL, packed
from tests.net.running import Running
from tests.net.test_fuzz import hear_out, mutated, served

CONNECTIONS = 120

LOGIN = SASL_HEADER + packed(w.SaslInit("PLAIN", PLAIN), kind=SASL) + HEADER
ADDRESSES = (
    None, "", "q", "/queues/fuzz1", "/queues/fuzz2", "/queues/nowhere", "/exchanges/amq.topic/a",
    "/exchanges/amq.direct", "/management", "amq.fanout", "/queues/%ff", "/x/y/z", "topic://t",
)  # fmt: skip
CAPABILITIES = (None, ("queue",), ("topic",), ("shared", "global"), ("temporary-queue",))
FILTERS: tuple[Any, ...] = (
    None,
    {Symbol("s"): Described(Symbol("apache.org:selector-filter:string"), "a = 1")},
    {Symbol("s"): Described(ULong(0x468C00000004), "a = ")},
    {Symbol("n"): Described(Symbol("apache.org:no-local-filter:list"), [])},
)
STATES: tuple[Any, ...] = (
    None, w.Accepted(), w.Released(), w.Rejected(), w.Modified(True, False, {Symbol("x-a"): 1}),
    w.Modified(True, True), w.Received(0, 3), w.TransactionalState(b"1", w.Accepted()),
    w.TransactionalState(b"\0\0\0\0\0\0\0\1"),
)  # fmt: skip
POLICIES: tuple[Any, ...] = (w.DeleteOnClose(), w.DeleteOnNoLinks(), w.DeleteOnNoMessages(), 5)
PAYLOADS = (
    b"\x00\x53\x75\xa0\x03abc",
    b"\x00\x53\x73" + write(w.Properties(to="/queues/fuzz1", subject="s"))[3:]
    + b"\x00\x53\x75\xa0\x03abc",
    b"\x00\x53\x77" + write(w.Declare()),
    b"\x00\x53\x77" + write(w.Discharge(b"\0\0\0\0\0\0\0\1", True)),
    b"\x00\x53\x73" + write(w.Properties("1", None, "/queues/fuzz1", "PUT", "$me"))[3:]
    + b"\x00\x53\x77\x40",
    b"\x00\x53\x73" + write(w.Properties("1", None, "/queues/fuzz2", "DELETE", "$me"))[3:]
    + b"\x00\x53\x77\x40",
    b"\x00\x53\x77\xa1\x02xy",
    b"",
    b"\xff\xff",
)  # fmt: skip


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("fuzz")
    with Running(folder, amqp__max_message_octets=1 << 20) as running:
        wire = running.wire(1)
        for name in ("fuzz1", "fuzz2"):
            wire.declare(name, durable=True)
        wire.ended()
        yield running


def terminus(chance: random.Random, source: bool) -> Any:
    if chance.random() < 0.1:
        return chance.choice([None, w.Coordinator()]) if not source else None
    fields: dict[str, Any] = {
        "address": chance.choice(ADDRESSES),
        "durable": chance.choice([None, None, 0, 1, 2, 7]),
        "expiry_policy": chance.choice([None, None, "never", "link-detach", "soon"]),
        "timeout": chance.choice([None, 0, 1]),
        "capabilities": chance.choice(CAPABILITIES),
    }
    if chance.random() < 0.2:
        fields["address"], fields["dynamic"] = None, True
        policy = chance.choice(POLICIES)
        fields["dynamic_node_properties"] = {Symbol("lifetime-policy"): policy}
    if not source:
        return w.Target(**fields)
    return w.Source(
        distribution_mode=chance.choice([None, None, "copy", "move"]),
        filter=chance.choice(FILTERS),
        default_outcome=chance.choice([None, w.Modified(True)]),
        **fields,
    )


def frame(chance: random.Random, serial: int) -> bytes:
    """One frame, mostly as it should be."""
    channel = chance.choice([0, 0, 0, 1])
    handle = chance.randrange(6)
    number = chance.choice([0, 1, serial % 64, 0xFFFF_FFFF])
    match chance.randrange(10):
        case 0 | 1:
            role = chance.random() < 0.5
            record: Any = w.Attach(
                chance.choice(["a", "b", f"link {serial}"]), handle, role,
                chance.choice([None, 0, 1, 2]), chance.choice([None, 0, 1]),
                terminus(chance, True), terminus(chance, False),
                chance.choice([None, None, {}, {b"tag": None}, {b"tag": w.Accepted()}]),
                None, 0,
            )  # fmt: skip
        case 2 | 3:
            record = w.Flow(
                0, 100, serial, 100, chance.choice([None, handle]), None, None, None, None, True
            )
            if record.handle is not None:
                record.delivery_count = chance.choice([None, 0, 5])
                record.link_credit = chance.choice([0, 1, 10, 0xFFFF_FFFF])
                record.drain = chance.random() < 0.3
        case 4 | 5 | 6:
            record = w.Transfer(
                handle, serial, b"%d" % serial, 0, chance.choice([None, True, False]),
                chance.random() < 0.1, None, chance.choice([None, None, *STATES]),
                chance.random() < 0.05, chance.random() < 0.05,
            )  # fmt: skip
            return packed(record, channel, chance.choice(PAYLOADS))
        case 7 | 8:
            record = w.Disposition(
                chance.random() < 0.8, number, chance.choice([None, 5, 0xFFFF_FFFF]),
                chance.random() < 0.6, chance.choice(STATES),
            )  # fmt: skip
        case _:
            record = chance.choice(
                [
                    w.Detach(handle, chance.random() < 0.5), w.End(), w.Begin(None, 0, 9, 9), None,
                ]
            )  # fmt: skip
    return packed(record, channel)


def conversation(chance: random.Random) -> bytes:
    begin = packed(w.Begin(None, 0, 100, 100), 0) + packed(w.Begin(None, 0, 100, 100), 1)
    start = packed(w.Open(chance.choice(["one", "two", "three"]))) + begin
    return start + b"".join(frame(chance, serial) for serial in range(chance.randrange(5, 60)))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("mistakes", [False, True])
def test_conversations(target: Running, seed: int, mistakes: bool) -> None:
    chance = random.Random(f"{seed} {mistakes}")
    connections = []
    for _ in range(CONNECTIONS):
        one = socket.create_connection(("127.0.0.1", target.port), 10)
        connections.append(one)
        octets = conversation(chance)
        if mistakes:
            octets = mutated(octets, chance)
        cut = chance.randrange(len(octets) + 1)
        with contextlib.suppress(OSError):
            one.sendall(LOGIN + octets[:cut])
            one.sendall(octets[cut:])
    hear_out(connections, chance)
    served(target)
    assert target.process.poll() is None
