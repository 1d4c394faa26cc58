"""Noise from many sockets at once, and abrupt ends: the process lives, serves, and logs no bug."""

import contextlib
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.adapters.methods.wire import layouts as w
from gateway.adapters.methods.wire.tables import VERSIONS
from gateway.adapters.segments.wire import tables as segments
from tests.net.running import PATIENCE, Running, until
from tests.net.wire import PERSISTENT, Wire
from tests.talk import frame, method

CONNECTIONS = 200
HEADERS = [*(VERSIONS[version].header for version in ("0-9-1", "0-9", "0-8")), segments.HEADER]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("fuzz"), amqp__max_message_octets=1 << 20) as running:
        yield running


def conversation(chance: random.Random) -> bytes:
    """What a client says after its login, in a few of its ways."""
    queue = f"fuzz{chance.randrange(5)}"
    steps = [
        method("0-9-1", 1, w.QueueDeclare(queue=queue, auto_delete=chance.random() < 0.5)),
        method("0-9-1", 1, w.ExchangeDeclare(exchange=queue, type="topic")),
        method("0-9-1", 1, w.QueueBind(queue=queue, exchange=queue, routing_key="#.a.*")),
        method("0-9-1", 1, w.BasicConsume(queue=queue, no_ack=chance.random() < 0.5)),
        method("0-9-1", 1, w.BasicQos(prefetch_count=chance.randrange(3))),
        message(chance, queue),
        message(chance, queue),
        method("0-9-1", 1, w.BasicGet(queue=queue)),
        method("0-9-1", 1, w.BasicAck(chance.randrange(4), chance.random() < 0.5)),
        method("0-9-1", 1, w.BasicNack(chance.randrange(4), chance.random() < 0.5, True)),
        method("0-9-1", 1, w.BasicRecover(True)),
        method("0-9-1", 1, w.TxSelect()),
        method("0-9-1", 1, w.TxCommit()),
        method("0-9-1", 1, w.ConfirmSelect()),
        method("0-9-1", 1, w.ChannelFlow(chance.random() < 0.5)),
        method("0-9-1", 1, w.QueueDelete(queue=queue)),
        method("0-9-1", 1, w.QueuePurge(queue=queue)),
        method("0-9-1", 1, w.ChannelClose(200, "", 0, 0)) + method("0-9-1", 1, w.ChannelOpen()),
        method("0-9-1", 2, w.ChannelOpen()),
        frame(8, 0, b""),
    ]
    return b"".join(chance.choice(steps) for _ in range(chance.randrange(1, 30)))


def message(chance: random.Random, queue: str) -> bytes:
    octets = chance.randbytes(chance.choice([0, 1, 500]))
    record = w.BasicPublish(
        routing_key=queue, exchange=chance.choice(["", queue]), mandatory=chance.random() < 0.5
    )
    properties = chance.choice([b"\0\0", PERSISTENT, b"\x20\0\0\0\0\x06\x03abct\x01"])
    head = frame(2, 1, b"\0\x3c\0\0" + len(octets).to_bytes(8) + properties)
    return method("0-9-1", 1, record) + head + (frame(3, 1, octets) if octets else b"")


def mutated(octets: bytes, chance: random.Random) -> bytes:
    """A few octets changed, taken out, put in, or repeated."""
    data = bytearray(octets)
    for _ in range(chance.choice([0, 1, 1, 2, 8])):
        at = chance.randrange(len(data) or 1)
        match chance.randrange(4):
            case 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del data[at : at + chance.randrange(1, 9)]
            case 2:
                data[at:at] = chance.randbytes(chance.randrange(1, 9))
            case _:
                data[at:at] = data[at : at + chance.randrange(64)]
    return bytes(data)


def served(gateway: Running) -> None:
    """A normal client does its work."""
    wire = gateway.wire(1)
    wire.declare("sound", durable=True)
    wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
    wire.publish("sound", b"safe", PERSISTENT)
    assert wire.heard(w.BasicAck).delivery_tag == 1
    assert wire.got("sound") == b"safe"
    wire.ended()


def hear_out(connections: list[socket.socket], chance: random.Random) -> None:
    """Read a little, then end in one way or another."""
    for one in connections:
        with contextlib.suppress(OSError):
            one.settimeout(0.01)
            one.recv(1 << 16)
            if chance.random() < 0.3:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        one.close()


@pytest.mark.parametrize("seed", range(3))
def test_noise(target: Running, seed: int) -> None:
    """Random octets, alone and after a header."""
    chance = random.Random(seed)
    connections = []
    for _ in range(CONNECTIONS):
        one = socket.create_connection(("127.0.0.1", target.port), PATIENCE)
        connections.append(one)
        start = chance.choice([b"", b"AMQP", *HEADERS, b"\x16\x03\x01", b"GET / HTTP/1.1\r\n"])
        with contextlib.suppress(ConnectionError):
            one.sendall(start + chance.randbytes(chance.choice([0, 1, 7, 100, 5000])))
    hear_out(connections, chance)
    served(target)


@pytest.mark.parametrize("seed", range(4))
def test_mutated_conversations(target: Running, seed: int) -> None:
    """Logged in, then nearly the methods of a client."""
    chance = random.Random(seed)
    wires = [target.wire(1) for _ in range(CONNECTIONS)]
    for wire in wires:
        octets = mutated(conversation(chance), chance)
        cut = chance.randrange(len(octets) + 1)
        with contextlib.suppress(OSError):
            wire.send(octets[:cut])
            wire.send(octets[cut:])
    hear_out([wire.socket for wire in wires], chance)
    served(target)
    assert target.process.poll() is None


def test_mutated_logins(target: Running) -> None:
    chance = random.Random(9)
    ok = method("0-9-1", 0, w.ConnectionStartOk(b"", "PLAIN", b"\0guest\0guest", "en_US"))
    ok += method("0-9-1", 0, w.ConnectionTuneOk(0, 0, 0))
    ok += method("0-9-1", 0, w.ConnectionOpen("/")) + method("0-9-1", 1, w.ChannelOpen())
    connections = []
    for _ in range(CONNECTIONS):
        one = socket.create_connection(("127.0.0.1", target.port), PATIENCE)
        connections.append(one)
        with contextlib.suppress(ConnectionError):
            one.sendall(chance.choice(HEADERS) + mutated(ok, chance))
    hear_out(connections, chance)
    served(target)


def test_abrupt_ends_leave_nothing(target: Running) -> None:
    """Two hundred clients vanish with messages in their hands."""
    watcher = target.wire(1)
    watcher.declare("held")
    wires = [target.wire(1) for _ in range(CONNECTIONS)]
    for number, wire in enumerate(wires):
        wire.declare(f"mine{number}", exclusive=True)
        wire.consume("held", prefetch=1)
        watcher.publish("held", b"%d" % number)
    for wire in wires:
        wire.delivered()
    assert watcher.depth("held") == 0
    for wire in wires:
        wire.reset()
    until(lambda: watcher.depth("held") == CONNECTIONS, "all given back")
    found = sorted(int(octets) for octets in watcher.everything("held"))
    assert found == list(range(CONNECTIONS))
    gone = target.wire(1)
    close = gone.call(1, w.QueueDeclare(queue="mine0", passive=True), w.ChannelClose)
    assert close.reply_code == 404


# --- the end of the process -----------------------------------------------------------------------


def test_a_polite_stop(tmp_path: Path) -> None:
    """Clients are told 320 and the data is there afterwards."""
    with Running(tmp_path) as gateway:
        wires = [gateway.wire(1) for _ in range(3)]
        wires[0].declare("kept", durable=True)
        for number in range(500):
            wires[0].publish("kept", b"%d" % number, PERSISTENT)
        assert wires[0].depth("kept") == 500
        wires[1].consume("kept", prefetch=10)
        for _ in range(10):
            wires[1].delivered()
        silent = Wire(gateway.port)
        gateway.process.terminate()
        for wire in wires:
            close = wire.heard(w.ConnectionClose)
            assert close.reply_code == 320
            assert "shutting down" in close.reply_text
            wire.say(0, w.ConnectionCloseOk())
            assert wire.rest() == b""
        assert silent.rest() == b""
        silent.close()
        assert gateway.process.wait(PATIENCE) == 0
        gateway.start()
        wire = gateway.wire(1)
        assert [int(octets) for octets in wire.everything("kept")] == list(range(500))


def test_a_stop_does_not_wait_for_ever(tmp_path: Path) -> None:
    """A client that does not answer the goodbye is dropped."""
    with Running(tmp_path) as gateway:
        gateway.wire(1)
        gateway.process.terminate()
        assert gateway.process.wait(20) == 0
