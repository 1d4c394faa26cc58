"""AMQP 1.0: noise and nearly right conversations from many sockets, over TCP and WebSocket."""

import contextlib
import random
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from gateway.adapters.performatives.composites import write
from gateway.adapters.performatives.encoding import write_value
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import HEADER, SASL_HEADER, TLS_HEADER
from gateway.values import Described, Symbol
from tests.adapters.performatives.wire import PLAIN, SASL, packed
from tests.net.running import Running, until
from tests.net.test_fuzz import hear_out, mutated
from tests.net.wire_1_0 import LARGE, WINDOW, data, durable

CONNECTIONS = 200
QUEUES = [f"fuzz{number}" for number in range(5)]
MIB = 1 << 20


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("fuzz"), amqp__max_message_octets=1 << 20) as running:
        wire = running.wire(1)
        for name in QUEUES:
            wire.declare(name, durable=True)
        wire.ended()
        yield running


# --- frames of a peer -----------------------------------------------------------------------------


def value(record: Any) -> bytes:
    return b"\x00\x53\x77" + write(record)


def attach(chance: random.Random, handle: int) -> bytes:
    """A link in one of its many ways: over even handles they send, nearly always."""
    receiver = (chance.random() < 0.05) ^ bool(handle % 2)
    queue = chance.choice(QUEUES)
    address = chance.choice(
        [queue, f"/queues/{queue}", f"/exchanges/amq.topic/{queue}", "amq.topic", "/management"]
        + [queue, f"/queues/{queue}", "/management"]
        + [chance.choice(["/exchanges/amq.direct", "/queues/%zz", "nowhere", "", None])]
    )
    dynamic = chance.random() < 0.1
    more: dict[str, Any] = {
        "durable": chance.choice([None, 0, 1, 2]),
        "expiry_policy": chance.choice([None, "never", "link-detach", "session-end"]),
        "timeout": chance.choice([None, 0, 1, 100]),
        "dynamic": dynamic or None,
        "capabilities": chance.choice([None, ("queue",), ("topic",), ("shared", "global")]),
    }
    if dynamic:
        address = None
        policies = [w.DeleteOnClose(), w.DeleteOnNoLinks(), w.DeleteOnNoLinksOrMessages()]
        more["dynamic_node_properties"] = {Symbol("lifetime-policy"): chance.choice(policies)}
    if chance.random() < 0.1:
        target: Any = w.Coordinator(("amqp:local-transactions",))
    else:
        target = w.Target(address, **more) if not receiver else w.Target()
    filters = chance.choice([None, {}, {Symbol("x"): described("a > 1"), Symbol("y"): None}])
    source = w.Source(address, **more, filter=filters) if receiver else w.Source()
    if receiver and chance.random() < 0.2:
        source.distribution_mode = "copy"
    record = w.Attach(
        chance.choice(["one", *[f"link{handle}"] * 5]),
        handle,
        receiver,
        chance.choice([None, 0, 1, 2]),
        chance.choice([None, 0, 1]),
        source,
        target,
        chance.choice([None, None, {}, {b"\0": None, b"\1": w.ACCEPTED, b"2": w.Received(1, 5)}]),
    )
    if not receiver:
        record.initial_delivery_count = chance.choice([0, 0, 0xFFFF_FFFE])
    return packed(record)


def described(text: str) -> Described:
    return Described(Symbol("apache.org:selector-filter:string"), text)


def request(chance: random.Random) -> bytes:
    """A request to the management node."""
    method, path, body = chance.choice(
        [
            ("PUT", "/queues/fuzz5", {"durable": True, "arguments": {}}),
            ("GET", "/queues/fuzz5", None),
            ("DELETE", "/queues/fuzz5", None),
            ("DELETE", "/queues/fuzz1/messages", None),
            ("POST", "/bindings", {"source": "amq.topic", "destination_queue": "fuzz1"}),
            ("GET", "/bindings?src=amq.topic&dstq=fuzz1&key=", None),
            ("PUT", "/exchanges/fuzz", {"type": "fanout"}),
            ("BREW", "/coffee", 7),
        ]
    )
    reply = chance.choice(["$me", None])
    properties = w.Properties(chance.choice([1, "id", None]), None, path, method, reply)
    return write(properties) + b"\x00\x53\x77" + write_value(body)


def transfer(chance: random.Random, handle: int, number: int) -> bytes:
    octets = chance.choice(
        [
            data(chance.randbytes(chance.choice([0, 1, 500]))),
            durable(b"kept"),
            value(w.Declare()),
            value(w.Discharge(chance.choice([b"\0", b"\1", b"?"]), chance.random() < 0.5)),
            request(chance),
            write(w.Properties(to=chance.choice(QUEUES))) + data(b"to"),
            b"",
            chance.randbytes(20),
        ]
    )
    record = w.Transfer(
        handle,
        chance.choice([*[number] * 9, None, chance.randrange(1 << 32)]),
        chance.choice([*[number.to_bytes(4)] * 9, b"same", None, bytes(33)]),
        chance.choice([*[0, None] * 5, 7]),
        chance.choice([None, True, False]),
        chance.choice([*[None] * 9, True]),
        chance.choice([*[None] * 9, 0, 1]),
        chance.choice([None, None, w.TransactionalState(b"\0"), w.Received(0, 2), w.ACCEPTED]),
        chance.choice([*[None] * 9, True]),
        chance.choice([*[None] * 9, True]),
    )
    return packed(record, 0, octets)


def plain_transfer(handle: int, number: int) -> bytes:
    return packed(w.Transfer(handle, number, number.to_bytes(4), 0), 0, durable(b"plain"))


def flow(chance: random.Random, handle: int) -> bytes:
    window = chance.choice([WINDOW, 0, 1, 3])
    seen = chance.choice([0, None, 5, 0xFFFF_FFFF])
    count = chance.choice([0, 0, 1, None, 1 << 31])
    credit = chance.choice([0, 1, 10, 0xFFFF_FFFF, None])
    drain, echo = chance.choice([None, True]), chance.choice([None, True])
    named = chance.choice([handle, handle, None])
    if named is None and chance.random() < 0.95:
        return packed(w.Flow(seen, window, 0, WINDOW, echo=echo))
    return packed(w.Flow(seen, window, 0, WINDOW, named, count, credit, 1, drain, echo))


def disposition(chance: random.Random) -> bytes:
    first = chance.choice([0, 1, 2, 0xFFFF_FFFF])
    last = chance.choice([None, first, first + 1 & 0xFFFF_FFFF, 3, LARGE])
    state = chance.choice(
        [w.ACCEPTED, w.Released(), w.Rejected(w.Error("amqp:x", "y")), w.Modified(True, True)]
        + [None, w.Received(1, 1), w.TransactionalState(b"\0", w.ACCEPTED), w.Declared(b"\0")]
        + [w.Modified(message_annotations={Symbol("x-opt-a"): 1})]
    )
    return packed(w.Disposition(chance.random() < 0.8, first, last, chance.random() < 0.5, state))


def again(chance: random.Random, handle: int) -> bytes:
    """Detached and attached, though seldom only one of them."""
    detach = packed(w.Detach(handle, chance.choice([None, True])))
    kept = chance.random()
    return (detach if kept > 0.02 else b"") + (attach(chance, handle) if kept < 0.98 else b"")


def begin(chance: random.Random, links: int) -> bytes:
    """A session with links."""
    found = packed(w.Begin(None, 0, chance.choice([WINDOW, WINDOW, 2]), WINDOW))
    return found + b"".join(attach(chance, handle) for handle in range(links))


def step(chance: random.Random, links: int, number: int) -> bytes:
    """One of the things that are said on a session."""
    handle = chance.randrange(links) + (chance.random() < 0.01)
    match chance.randrange(11):
        case 0:
            return transfer(chance, handle & ~1, number)
        case 1 | 2:
            return plain_transfer(handle & ~1, number)
        case 3 | 4:
            return flow(chance, handle)
        case 5 | 6:
            return disposition(chance)
        case 7:
            return again(chance, handle)
        case 8:
            return packed(w.End()) + begin(chance, links)
        case 9:
            return packed(None)
    return packed(w.Begin(None, 0, 1, 1), 1) + packed(w.End(), 1)


def conversation(chance: random.Random) -> tuple[bytes, bytes]:
    """What a client says after its open, in a few of its ways: up to where it waits for credit,
    and behind that."""
    links = chance.randrange(2, 7)
    found = [step(chance, links, number) for number in range(chance.randrange(1, 30))]
    if chance.random() < 0.2:
        found.append(packed(w.Close()))
    return begin(chance, links), b"".join(found)


def login(chance: random.Random) -> bytes:
    """Everything up to the open, sent at once."""
    sasl = chance.choice(
        [
            SASL_HEADER + packed(w.SaslInit("PLAIN", PLAIN), kind=SASL),
            SASL_HEADER + packed(w.SaslInit("ANONYMOUS"), kind=SASL),
            SASL_HEADER + packed(w.SaslInit("SCRAM-SHA-256", b"n,,n=guest,r=abc"), kind=SASL),
            SASL_HEADER + packed(w.SaslInit("EXTERNAL", b""), kind=SASL),
            TLS_HEADER,
            b"",
        ]
    )
    opened = w.Open(f"fuzz{chance.randrange(20)}", None, chance.choice([None, 512, 65536]))
    opened.idle_time_out = chance.choice([None, None, 1000])
    return sasl + HEADER + packed(opened)


def log_in(chance: random.Random) -> bytes:
    """One that is let in."""
    container = f"fuzz{chance.randrange(20)}"
    opened = w.Open(container, None, chance.choice([None, 512, 65536]))
    return SASL_HEADER + packed(w.SaslInit("PLAIN", PLAIN), kind=SASL) + HEADER + packed(opened)


def served(gateway: Running) -> None:
    """A normal client does its work, and the process has not grown out of bounds."""
    wire = gateway.wire(1)
    wire.declare("sound", durable=True)
    sound = gateway.wire_1_0(container="sound")
    sound.sender(0, "/queues/sound")
    sound.post(0, durable(b"safe"))
    sound.receiver(1, "/queues/sound", 1)
    first, octets = sound.next_message()
    assert octets.endswith(b"safe")
    sound.accept(first.delivery_id)
    sound.ended()
    assert wire.depth("sound") == 0
    wire.ended()
    assert gateway.process.poll() is None
    assert gateway.memory < 400 * MIB


@pytest.mark.parametrize("seed", range(2))
def test_mutated_logins(target: Running, seed: int) -> None:
    chance = random.Random(seed)
    connections = []
    for _ in range(CONNECTIONS):
        wire = target.bare()
        connections.append(wire.socket)
        with contextlib.suppress(OSError):
            wire.send(mutated(login(chance), chance) + chance.randbytes(chance.choice([0, 9])))
    hear_out(connections, chance)
    served(target)


@pytest.mark.parametrize("seed", range(8))
def test_mutated_conversations(target: Running, seed: int) -> None:
    """Logged in, then nearly what a client would say; half of them say it without a mistake in
    its octets."""
    chance = random.Random(seed)
    wires = [target.bare() for _ in range(CONNECTIONS)]
    rest = []
    for wire in wires:
        first, second = conversation(chance)
        if chance.random() < 0.5:
            first, second = mutated(first, chance), mutated(second, chance)
        octets = log_in(chance) + first
        cut = chance.randrange(len(octets) + 1)
        with contextlib.suppress(OSError):
            wire.send(octets[:cut])
            wire.send(octets[cut:])
        rest.append(second)
    for wire, octets in zip(wires, rest, strict=True):
        with contextlib.suppress(OSError):
            wire.send(octets)
    hear_out([wire.socket for wire in wires], chance)
    served(target)


@pytest.mark.parametrize("seed", range(2))
def test_mutated_conversations_over_websocket(target: Running, seed: int) -> None:
    chance = random.Random(seed)
    uri = f"ws://127.0.0.1:{target.http_port}/amqp"
    with contextlib.ExitStack() as stack:
        webs = []
        for _ in range(40):
            one = connect(uri, subprotocols=[Subprotocol("amqp")], compression=None)
            webs.append(web := stack.enter_context(one))
            first, second = conversation(chance)
            with contextlib.suppress(WebSocketException):
                web.send(log_in(chance) + first)
                web.send(mutated(second, chance))
        for web in webs:
            with contextlib.suppress(WebSocketException, TimeoutError):
                web.recv(0.01)
            if chance.random() < 0.5:
                with contextlib.suppress(OSError):
                    web.socket.shutdown(socket.SHUT_RDWR)
    served(target)


def test_nothing_is_left(target: Running) -> None:
    """All of them are gone: so are their exclusive queues; their unsettled messages are back."""
    wire = target.wire(1)
    until(lambda: len(target.connections()) == 1, "no connection but ours")
    for name in QUEUES:
        depth = wire.depth(name)
        assert len(wire.everything(name)) == depth
    wire.ended()
