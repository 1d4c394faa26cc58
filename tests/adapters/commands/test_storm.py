"""Octets and commands in disorder: nothing is raised, nothing is kept that should not be."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.adapters import Role, adapter_for
from gateway.adapters.commands import types as fields
from gateway.adapters.commands.content import COMMAND
from gateway.adapters.commands.frames import frame
from gateway.adapters.commands.wire import layouts as w
from gateway.adapters.commands.wire.tables import COMMANDS
from gateway.message import Properties
from gateway.operations import BeginSession, Closed, Open, OpenDestination, Service
from gateway.values import Int, Scaled, Seconds
from tests.adapters.commands.connected_pair import ConnectedPair
from tests.adapters.commands.harness import VHOST, Harness
from tests.adapters.commands.recorded import CONVERSATIONS, read
from tests.drawing import examples

STREAMS = {
    side: [
        b"".join(line.octets for line in read(name) if line.from_client is side)
        for name in CONVERSATIONS
    ]
    for side in (True, False)
}


def damaged(octets: bytes, random: Random) -> bytes:
    """Some octets changed, left out or doubled."""
    data = bytearray(octets)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(2, max(3, len(data)))
        kind = random.randrange(4)
        if kind == 0:
            data[at : at + 1] = bytes([random.randrange(256)])
        elif kind == 1:
            del data[at : at + random.randint(1, 8)]
        elif kind == 2:
            data[at:at] = data[max(0, at - 8) : at]
        else:
            data[at:at] = random.randbytes(random.randint(1, 8))
    return bytes(data)


@pytest.mark.parametrize("seed", range(8))
def test_damaged_conversations_do_no_harm_to_a_server(seed: int) -> None:
    random = Random(seed)
    harness = Harness()
    harness.queue("test")
    for octets in random.sample(STREAMS[True], 20):
        peer = harness.peer(mechanisms=("PLAIN", "ANONYMOUS"))
        data = damaged(octets, random)
        while data:
            size = random.choice((1, 3, 50, 5000))
            peer.feed(data[:size])
            data = data[size:]
        peer.adapter.output()
        peer.disconnect()
        assert peer.adapter.connection.incoming_octets == 0 or peer.adapter.closing
    assert not harness.registry._clients and not harness.registry.topics
    assert list(harness.registry) == []


@pytest.mark.parametrize("seed", range(8))
def test_damaged_conversations_do_no_harm_to_a_client(seed: int) -> None:
    random = Random(seed)
    for octets in random.sample(STREAMS[False], 20):
        client: Any = adapter_for("0.8a2", Role.CLIENT)
        client.send(Open("t", VHOST, "guest"))
        found = client.receive(octets[:100])
        try:
            client.send(BeginSession(1, "t"))
            client.send(OpenDestination(1, "t", "1", Service.QUEUE, "test"))
        except Exception as error:
            assert type(error).__name__ == "LocalError"
        found += client.receive(damaged(octets[100:], random) or b"\0")
        found += client.lost()
        assert [type(op) for op in found].count(Closed) == 1


def any_record(random: Random, command: Any) -> Any:
    """A command with small numbers and names, so that it often means something."""
    record = command.record()
    for name in record.__slots__:
        value = getattr(record, name)
        if isinstance(value, bool):
            setattr(record, name, random.random() < 0.3)
        elif isinstance(value, int):
            setattr(record, name, random.choice((0, 1, 1, 1, 2, 3, 15, 20)))
        elif isinstance(value, str):
            setattr(record, name, random.choice(("", "", "test", "x", "tmp/1")))
        else:
            setattr(record, name, random.choice((b"", b"", b"\x01", b"\x01KI\0\0\0\1", b"a = 1")))
    return record


HEADER = b"\0\0\0\3" + COMMAND.write(Properties())


@pytest.mark.parametrize("seed", range(12))
def test_any_commands_in_any_order(seed: int) -> None:
    """Commands of all kinds: the server answers or hangs up, and the broker stays in order."""
    random = Random(seed)
    harness = Harness()
    queue = harness.queue("test")
    commands = [command for command in COMMANDS if command.from_client and command.number > 14]
    for number in range(15):
        peer = harness.peer(mechanisms=("ANONYMOUS",))
        hello = w.ConnectionOpen(0, VHOST, f"guest {number % 3}")
        peer.says(b"\x80\x01", w.ConnectionResponse("NONE"), hello)
        peer.says(w.ChannelOpen(1, 0, random.random() < 0.5, random.random() < 0.5))
        for service in (1, 2):
            peer.says(w.HandleOpen(1, service, service, 0, True, True, True, dest_name="test"))
        for _ in range(60):
            command = random.choice(commands)
            record = any_record(random, command)
            fragment = b""
            if command.fragment:
                fragment = random.choice((HEADER + b"abc", HEADER, b"abc", b""))
                record.fragment_size = len(fragment)
                if getattr(record, "out_of_band", False):
                    fragment = b""
            peer.feed(frame(record) + fragment)
            peer.gets()
        peer.disconnect()
    assert queue.unsettled == 0
    assert queue.consumers == []
    assert [name for name, q in harness.broker.vhosts[VHOST].queues.items() if q.owner] == []
    assert harness.broker.state.octets >= 0


def test_client_words_against_a_server_in_a_mood() -> None:
    """Closes at every level, at any time, are taken as such (note 6.1)."""
    harness = Harness()
    harness.queue("test")
    for record in (w.HandleClose(1, 404), w.ChannelClose(1, 404), w.ConnectionClose(541)):
        pair = ConnectedPair(harness, record.NAME)
        pair.open("1", "test")
        pair.heard += pair.client.receive(frame(record))
        assert record.NAME in [r.NAME for r, _ in _records(pair)]


def _records(pair: ConnectedPair) -> list[Any]:
    from tests.adapters.commands.harness import parsed

    return parsed(b"".join(pair.client.output()))


# --- values -------------------------------------------------------------------------------------

NAMES = st.text("ABCZ$#_9", min_size=1, max_size=20)
VALUES = st.one_of(
    st.text(max_size=50),
    st.integers(-(1 << 31), (1 << 31) - 1).map(Int),
    st.integers(0, (1 << 32) - 1).map(Seconds),
    st.builds(Scaled, st.integers(0, 255), st.integers(-(1 << 31), (1 << 31) - 1)),
)


@given(st.dictionaries(NAMES, VALUES, max_size=8))
def test_tables_come_back(table: Any) -> None:
    octets = fields.write_table(table)
    back = fields.read_table(octets)
    assert back == table and {k: type(v) for k, v in back.items()} == {
        k: type(v) for k, v in table.items()
    }
    assert fields.write_table(back) == octets


@given(st.binary(max_size=60))
@settings(max_examples=examples(300))
def test_any_octets_are_a_header_or_a_value_error(octets: bytes) -> None:
    try:
        properties = COMMAND.read(octets)
        COMMAND.essentials(octets)
    except ValueError:
        return
    assert COMMAND.read(COMMAND.write(properties)) == properties
