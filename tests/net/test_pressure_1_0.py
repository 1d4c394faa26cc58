"""AMQP 1.0: peers that do not read, that take more than they were given, and that stay silent."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.adapters.methods.wire import layouts as methods
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import HEADER, SASL_HEADER
from gateway.values import Symbol
from tests.adapters.performatives.wire import PLAIN, SASL, packed
from tests.net.running import Running, until
from tests.net.test_pressure import Lock, Pump, sockets
from tests.net.wire import Gone
from tests.net.wire_1_0 import LARGE, WINDOW, Wire10, data, durable

MIB = 1 << 20
EVERYTHING = 0xFFFF_FFFF
"""All the credit there is."""


def number(octets: bytes) -> int:
    """What stands at the beginning of a message with a large data section."""
    at = octets.index(b"\x53\x75\xb0") + 7
    return int(octets[at : at + 6])


# --- peers that do not read -----------------------------------------------------------------------


@pytest.mark.parametrize("settled", [False, True])
def test_all_the_credit_and_no_reading(gateway: Running, settled: bool) -> None:
    """It holds up neither the memory nor anybody else, and gets everything once it reads."""
    watcher = gateway.wire(1)
    watcher.declare("deaf1")
    before = gateway.memory
    deaf = gateway.wire_1_0(receive_buffer=65536)
    deaf.receiver(0, "/queues/deaf1", EVERYTHING, snd_settle_mode=int(settled))
    publisher = gateway.wire_1_0()
    publisher.sender(0, "/queues/deaf1")
    for count in range(300):
        publisher.post(0, data(b"%06d" % count + bytes(100_000)))
    assert watcher.depth("deaf1") > 200, "more than its socket holds was sent to it"
    assert gateway.memory - before < 80 * MIB
    for count in range(300):
        first, octets = deaf.next_message()
        assert number(octets) == count and bool(first.settled) is settled
        if not settled:
            deaf.accept(first.delivery_id)
    until(lambda: watcher.depth("deaf1") == 0, "all settled")
    deaf.ended()
    publisher.ended()
    watcher.ended()


def test_a_backlog_goes_at_the_pace_of_its_reader(gateway: Running) -> None:
    watcher = gateway.wire(1)
    watcher.declare("backlog1")
    for count in range(400):
        watcher.publish("backlog1", b"%06d" % count + bytes(100_000))
    assert watcher.depth("backlog1") == 400
    before = gateway.memory
    deaf = gateway.wire_1_0(receive_buffer=65536)
    deaf.receiver(0, "/queues/backlog1", EVERYTHING)
    assert watcher.depth("backlog1") > 300
    assert gateway.memory - before < 30 * MIB
    # It is lost: its deliveries come again, in order.
    deaf.reset()
    until(lambda: watcher.depth("backlog1") == 400, "given back")
    reader = gateway.wire_1_0()
    reader.receiver(0, "/queues/backlog1", EVERYTHING, snd_settle_mode=1)
    assert [number(reader.next_message()[1]) for _ in range(400)] == list(range(400))
    reader.ended()
    watcher.ended()


def test_a_narrow_window_is_kept(gateway: Running) -> None:
    """Three frames, whatever the credit says; the next one waits, and others on the connection
    go on."""
    watcher = gateway.wire(1)
    watcher.declare("narrow")
    for count in range(20):
        watcher.publish("narrow", b"%06d" % count + bytes(2000))
    wire = gateway.wire_1_0(1)
    wire.receiver(0, "/queues/narrow", 100, window=3, wait=False)
    wire.receiver(0, "/queues/narrow", 100, channel=1, name="wide", wait=False)
    heard: list[tuple[int, int]] = []
    while len(heard) < 19:
        channel, record = wire.hear()
        if type(record) is w.Transfer:
            heard.append((channel, number(wire.payload)))
    assert [n for channel, n in heard if channel == 0] == [0, 1, 2]
    assert [n for channel, n in heard if channel == 1] == list(range(4, 20))
    wire.ended()
    until(lambda: watcher.depth("narrow") == 20, "given back")
    watcher.ended()


ASKED: dict[str, Callable[[Wire10, int], bytes]] = {
    "session": lambda wire, count: packed(w.Begin(None, 0, WINDOW, WINDOW), 7) + packed(w.End(), 7),
    "drain": lambda wire, count: packed(wire.credit(5, 1 + count, count, drain=True)),
    "echo": lambda wire, count: packed(w.Flow(0, LARGE, 0, WINDOW, echo=True)),
}


@pytest.mark.parametrize("ask", list(ASKED))
def test_answers_do_not_pile_up(gateway: Running, ask: str) -> None:
    """A peer that asks and asks and never reads is not read from any more. Drains that are asked
    for again before they are answered have one answer, so that there is less to pile up."""
    watcher = gateway.wire(1)
    watcher.declare("empty1")
    wire = gateway.wire_1_0(receive_buffer=65536)
    wire.receiver(5, "/queues/empty1", 0)
    request = b"".join(ASKED[ask](wire, count) for count in range(1000))
    before = gateway.memory
    pump = Pump(wire, request)
    pump.start()
    most = 200 if ask == "drain" else None
    until(
        lambda: pump.sent > 5 and (pump.stands_still() or most is not None and pump.sent > most),
        "not read from any more",
        120,
    )
    assert gateway.memory - before < 100 * MIB
    pump.stopping = True
    wire.reset()
    pump.end()
    assert watcher.depth("empty1") == 0
    watcher.ended()


def test_frames_behind_our_end_are_discarded(gateway: Running) -> None:
    """The name of a link that was refused, used again before our answer was read, ends the session;
    whatever else comes on it costs nothing, and nobody else notices."""
    watcher = gateway.wire(1)
    watcher.declare("beside")
    wire = gateway.wire_1_0(receive_buffer=65536)
    attach = w.Attach("a", 0, True, source=w.Source("/queues/nowhere"), target=w.Target())
    before = gateway.memory
    pump = Pump(wire, (packed(attach) + packed(w.Detach(0, True))) * 1000)
    pump.start()
    until(lambda: pump.sent > 20 or pump.stands_still(), "a great many")
    assert gateway.memory - before < 60 * MIB
    watcher.publish("beside", b"a message")
    assert watcher.got("beside") == b"a message"
    pump.stopping = True
    wire.reset()
    pump.end()
    watcher.ended()


# --- peers that take more than they were given ----------------------------------------------------


def test_more_than_the_credit(gateway: Running) -> None:
    """Five thousand at once, where a thousand may be under way: the link is detached, and what was
    within the credit is accepted all the same."""
    watcher = gateway.wire(1)
    watcher.declare("greedy")
    wire = gateway.wire_1_0()
    wire.sender(0, "/queues/greedy")
    wire.send(b"".join(wire.transfer(0, data(b"greedy")) for _ in range(5000)))
    kinds = (w.Detach, w.End)
    while type(record := wire.hear()[1]) not in kinds:
        assert type(record) in (w.Flow, w.Disposition)
    assert record.error.condition.startswith("amqp:")
    wire.tell(w.Close())
    wire.heard_among(w.Close)
    assert 1000 <= watcher.depth("greedy") <= 5000
    watcher.ended()


def test_many_messages_half_sent(tmp_path: Path) -> None:
    """Over many links: together no more than a few of the largest messages. What is above costs
    its link."""
    with Running(tmp_path, amqp__max_message_octets=1 << 20) as gateway:
        gateway.wire(1).declare("half")
        before = gateway.memory
        connections = []
        for _ in range(5):
            wire = gateway.wire_1_0()
            connections.append(wire)
            for handle in range(100):
                wire.sender(handle, "/queues/half")
            piece = bytes(100_000)
            with contextlib.suppress(ConnectionError):
                for handle in range(100):
                    wire.tell(w.Transfer(handle, handle, b"t", 0, more=True), payload=piece)
            detach = wire.heard_among(w.Detach)
            assert detach.error.condition == "amqp:resource-limit-exceeded"
            assert detach.handle > 40
            wire.tell(w.End(), w.Begin(None, 0, WINDOW, WINDOW))
            wire.heard_among(w.Begin)
        assert gateway.memory - before < 60 * MIB
        for wire in connections:
            wire.ended()


def test_a_message_that_never_ends(tmp_path: Path) -> None:
    with Running(tmp_path, amqp__max_message_octets=1 << 20) as gateway:
        gateway.wire(1).declare("endless")
        wire = gateway.wire_1_0()
        assert wire.sender(0, "/queues/endless").max_message_size == 1 << 20
        piece = bytes(100_000)
        with contextlib.suppress(ConnectionError):
            for count in range(12):
                tag = b"t" if not count else None
                number = 0 if not count else None
                wire.tell(w.Transfer(0, number, tag, None, more=True), payload=piece)
        detach = wire.heard_among(w.Detach)
        assert detach.error.condition == "amqp:link:message-size-exceeded"
        wire.tell(w.Detach(0, True))
        wire.sender(0, "/queues/endless")
        wire.post(0, data(b"one that ends"))
        wire.ended()


# --- as many as there may be ----------------------------------------------------------------------


@pytest.mark.slow
def test_links_and_sessions_up_to_the_limits(tmp_path: Path) -> None:
    """A thousand links of each of three sessions; one more costs what it says, and all of it is
    gone with the connection."""
    with Running(tmp_path) as gateway:
        watcher = gateway.wire(1)
        watcher.declare("many")
        wire = gateway.wire_1_0(*range(3))
        before = gateway.memory
        for channel in range(3):
            for begin in range(0, 1024, 128):
                octets = b""
                for handle in range(begin, begin + 128):
                    name = f"{channel}-{handle}"
                    source = w.Source("/queues/many")
                    record = w.Attach(name, handle, True, source=source, target=w.Target())
                    octets += packed(record, channel)
                    octets += packed(wire.credit(handle, 10), channel)
                wire.send(octets)
                for _ in range(128):
                    assert wire.heard(w.Attach).source is not None
        assert gateway.memory - before < 100 * MIB
        record = w.Attach("over", 1024, True, source=w.Source("/queues/many"), target=w.Target())
        wire.tell(record)
        assert wire.heard(w.Close).error.condition == "amqp:connection:framing-error"
        until(lambda: len(gateway.connections()) == 1, "gone")
        for count in range(100):
            watcher.publish("many", b"%d" % count)
        assert watcher.depth("many") == 100, "nobody is left to take them"
        second = gateway.wire_1_0()
        with contextlib.suppress(Gone):
            for channel in range(1, 3000):
                second.tell(w.Begin(None, 0, WINDOW, WINDOW), channel=channel)
                record = second.hear()[1]
                if type(record) is w.Close:
                    break
                assert type(record) is w.Begin
        assert type(record) is w.Close and record.error is not None
        assert record.error.condition == "amqp:connection:framing-error"
        assert channel == 2048


@pytest.mark.slow
def test_storms_leave_nothing(tmp_path: Path) -> None:
    """Links come and go, of every kind, with and without a good-bye."""
    with Running(tmp_path) as gateway:
        watcher = gateway.wire(1)
        watcher.declare("kept", durable=True)

        def storm() -> None:
            wire = gateway.wire_1_0()
            policies = [w.DeleteOnClose(), w.DeleteOnNoLinks(), w.DeleteOnNoLinksOrMessages(), None]
            for count in range(200):
                policy = policies[count % 4]
                made = {} if policy is None else {Symbol("lifetime-policy"): policy}
                source = w.Source(dynamic=True, dynamic_node_properties=made)
                name = f"dynamic {count}"
                one = wire.receiver(0, None, 10, source=source, name=name, snd_settle_mode=1)
                wire.receiver(1, "/exchanges/amq.topic/a.b", 10, name=f"topic {count}")
                wire.sender(2, one.source.address, name=f"to it {count}")
                wire.sender(3, "/queues/kept", name="the same")
                wire.send(wire.transfer(2, data(b"x"), settled=True))
                wire.next_message()
                if count % 2:
                    wire.tell(*[w.Detach(handle, True) for handle in range(4)])
                    for _ in range(4):
                        wire.heard_among(w.Detach)
                else:
                    wire.tell(w.End(), w.Begin(None, 0, WINDOW, WINDOW))
                    wire.heard_among(w.End)
                    wire.heard(w.Begin)
            wire.reset() if len(storms) % 2 else wire.ended()

        storms: list[int] = []
        for _ in range(4):
            storm()
            until(lambda: len(gateway.connections()) == 1, "gone")
            storms.append(gateway.memory)
        until(lambda: gateway.queues() == {"kept"}, "nodes made on demand are gone")
        assert storms[-1] - storms[0] < 8 * MIB, [found // MIB for found in storms]


def test_a_large_map_of_unsettled_deliveries(gateway: Running) -> None:
    """As many entries as a frame holds, of which we know none: none comes back."""
    gateway.wire(1).declare("unsettled")
    wire = gateway.wire_1_0()
    known = {b"%07d" % count: w.Received(0, 0) for count in range(4000)}
    started = time.monotonic()
    attach = wire.receiver(0, "/queues/unsettled", 1, name="large map", unsettled=known)
    assert not attach.unsettled
    assert not wire.sender(1, "/queues/unsettled", unsettled=known).unsettled
    assert time.monotonic() - started < 60
    wire.ended()


@pytest.mark.slow
def test_thousands_of_deliveries_unsettled(gateway: Running) -> None:
    """They are settled by one disposition for all, from the last to the first, or by the end of
    the connection; each in a time that nobody notices."""
    count = 20_000
    watcher = gateway.wire(1)
    watcher.declare("held1")
    wire = gateway.wire_1_0()
    wire.sender(0, "/queues/held1")
    for _ in range(count // 100):
        wire.post(0, *[data(b"x")] * 100)
    for step in range(3):
        taker = gateway.wire_1_0(container=f"taker{step}")
        taker.receiver(0, "/queues/held1", count)
        ids = [taker.next_message()[0].delivery_id for _ in range(count)]
        assert ids == list(range(count))
        if step == 0:
            taker.reset()
            until(lambda: watcher.depth("held1") == count, "given back")
        elif step == 1:
            for first in range(count - 1, -1, -1):
                taker.tell(w.Disposition(True, first, None, True, w.Released()))
            taker.ended()
            until(lambda: watcher.depth("held1") == count, "given back")
        else:
            taker.accept(0, EVERYTHING >> 1)
            taker.ended()
            assert watcher.depth("held1") == 0
    wire.ended()
    watcher.ended()


# --- publishers that are held back ----------------------------------------------------------------


def test_blocked_publishers_go_on(tmp_path: Path) -> None:
    """While the store fails there is no more credit and no outcome; then all of it comes."""
    with Running(tmp_path, limits__store_backlog_octets=2 * MIB) as gateway:
        watcher = gateway.wire(1)
        watcher.declare("held", durable=True)
        wire = gateway.wire_1_0()
        wire.sender(0, "/queues/held")
        wire.post(0, durable(b"before"))
        other = gateway.wire_1_0(container="other")
        other.receiver(0, "/queues/held", 0)
        hold = Lock(gateway)
        other.tell(other.credit(0, 1))
        count = 900
        octets = [durable(b"%06d" % n + bytes(20_000)) for n in range(count)]
        messages = b"".join(wire.transfer(0, message) for message in octets)
        before = gateway.memory
        pump = Pump(wire, messages)
        pump.start()
        time.sleep(1)
        pump.stopping = True
        assert pump.is_alive() and not pump.sent, "not all of it was read"
        assert gateway.memory - before < 60 * MIB
        # Others are served: messages of earlier batches need no store.
        assert other.next_message()[1].endswith(b"before")
        hold.end()
        wire.socket.settimeout(30)
        told = 0
        while told < count:
            said = wire.heard_among(w.Disposition)
            assert said.state == w.ACCEPTED
            told += (said.first if said.last is None else said.last) - said.first + 1
        pump.join(10)
        assert told == count and watcher.depth("held") == count
        other.reset()
        until(lambda: watcher.depth("held") == count + 1, "given back")


def test_an_alarm_stops_credit(tmp_path: Path) -> None:
    """No disk is that large: the alarm is up from the first second. Who receives is served."""
    with Running(tmp_path, limits__disk_free_octets=1 << 60) as gateway:
        watcher = gateway.wire(1)
        watcher.declare("alarm")
        watcher.heard_among(methods.ConnectionBlocked)
        receiver = gateway.wire_1_0(container="receiver")
        receiver.receiver(0, "/queues/alarm", 10)
        sender = gateway.wire_1_0(container="sender")
        sender.sender(0, "/queues/alarm", wait=False)
        attach = sender.heard_among(w.Attach)
        assert attach.target.address == "/queues/alarm"
        sender.socket.settimeout(1.5)
        with pytest.raises(TimeoutError):
            sender.heard_among(w.Flow)
        receiver.ended()


# --- silence --------------------------------------------------------------------------------------


def test_signs_of_life_come(gateway: Running) -> None:
    wire = gateway.bare()
    wire.open(idle_time_out=2000)
    wire.socket.settimeout(0.1)
    begun = time.monotonic()
    while wire.empty < 3:
        with contextlib.suppress(TimeoutError):
            wire.hear()
        assert time.monotonic() - begun < 3 * 2 * 2
    wire.socket.settimeout(60)
    wire.ended()


def test_a_silent_peer_is_given_up(tmp_path: Path) -> None:
    """It knows how long it may be silent from our open; its messages go back."""
    with Running(tmp_path, amqp__heartbeat_seconds=2) as gateway:
        watcher = gateway.wire(1)
        watcher.declare("silent")
        watcher.publish("silent", b"mine")
        wire = gateway.bare()
        opened = wire.open()
        assert opened.idle_time_out
        wire.tell(w.Begin(None, 0, WINDOW, WINDOW))
        wire.receiver(0, "/queues/silent", 1)
        wire.next_message()
        wire.socket.settimeout(60)
        close = wire.heard_among(w.Close)
        assert close.error.condition == "amqp:resource-limit-exceeded"
        assert watcher.got("silent") == b"mine"


def test_a_frozen_peer_is_given_up(tmp_path: Path) -> None:
    """Its socket takes nothing any more."""
    with Running(tmp_path, amqp__heartbeat_seconds=2) as gateway:
        watcher = gateway.wire(1, heartbeat=2)
        watcher.declare("frozen")
        for _ in range(100):
            watcher.publish("frozen", bytes(100_000))
        wire = gateway.bare()
        wire.send(SASL_HEADER + packed(w.SaslInit("PLAIN", PLAIN), kind=SASL) + HEADER)
        wire.tell(w.Open("frozen"), w.Begin(None, 0, WINDOW, WINDOW))
        wire.receiver(0, "/queues/frozen", EVERYTHING, wait=False)

        def depth() -> int:
            return watcher.depth("frozen")

        until(lambda: depth() < 100, "deliveries")
        until(lambda: depth() == 100, "given back")
        until(lambda: sockets(gateway) == 1, "its socket is closed")
