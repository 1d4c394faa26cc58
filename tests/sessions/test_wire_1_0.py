"""From the octets of 1.0 to the queues and back: our engine on a real session and broker."""

from typing import Any

import pytest

from gateway.adapters import Role
from gateway.adapters.performatives.composites import write
from gateway.adapters.performatives.engine import Engine
from gateway.adapters.performatives.link_recovery import read_map
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import HEADER, SASL_HEADER
from gateway.operations import DeclareQueue, DeleteQueue
from gateway.sessions.session import Session
from tests.adapters.performatives.wire import PLAIN, SASL, packed, unpacked
from tests.pair import Users
from tests.sessions.test_session import House

MESSAGE = b"\x00\x53\x75\xa0\x05hello"
DURABLE = b"\x00\x53\x70\xc0\x02\x01\x41" + MESSAGE


def tag(number: int) -> bytes:
    return number.to_bytes(8, "big")


class Linked:
    """A connection with one session on channel 0; ``disconnect`` loses it."""

    def __init__(self, house: House, container: str = "me", window: int = 1000) -> None:
        self.house = house
        self.engine = Engine("1.0", Role.SERVER, authority=Users())
        self.session = Session(
            house.broker, self.engine, house.registry, address="x:1", loopback=True, since=0
        )
        self.feed(SASL_HEADER + packed(w.SaslInit("PLAIN", PLAIN), kind=SASL))
        self.feed(HEADER)
        self.says(w.Open(container))
        self.says(w.Begin(None, 0, window, 1000))
        self.hears()

    def feed(self, octets: bytes) -> None:
        self.session.perform(self.engine.receive(octets))
        self.turn()

    def turn(self) -> None:
        for _ in range(3):
            self.session.perform(self.engine.found())
            self.house.commit()

    def says(self, record: Any, payload: bytes = b"") -> list[Any]:
        self.feed(packed(record, 0, payload))
        return self.hears()

    def hears(self) -> list[Any]:
        return [frame.record for frame in unpacked(b"".join(self.engine.output()))]

    def disconnect(self) -> None:
        self.feed(b"")

    def sender(self, handle: int, name: str, target: Any, **fields: Any) -> list[Any]:
        attach = w.Attach(name, handle, False, source=w.Source(), target=target, **fields)
        attach.initial_delivery_count = 0
        return self.says(attach)

    def receiver(self, handle: int, credit: int, **fields: Any) -> list[Any]:
        source = w.Source("/queues/q", durable=2, expiry_policy="never")
        heard = self.says(w.Attach("out", handle, True, source=source, **fields))
        return heard + self.says(w.Flow(0, 1000, 0, 1000, handle, 0, credit))


@pytest.fixture
def house() -> House:
    found = House()
    owner = Linked(found, "owner")
    owner.session.channels[0].topology.declare_queue(DeclareQueue(0, None, "q", durable=True))
    found.commit()
    owner.sender(0, "in", w.Target("/queues/q"))
    for number in range(3):
        (told,) = owner.says(w.Transfer(0, number, b"t%d" % number, 0), MESSAGE)
        assert told == w.Disposition(True, number, None, True, w.ACCEPTED)
    return found


def depth(house: House) -> int:
    return house.broker.vhosts["/"].queues["q"].depth


def sent(heard: list[Any]) -> list[tuple[bytes | None, bool]]:
    return [(r.delivery_tag, bool(r.resume)) for r in heard if isinstance(r, w.Transfer)]


def test_messages_and_their_outcomes(house: House) -> None:
    peer = Linked(house)
    assert sent(peer.receiver(0, 2)) == [(tag(1), False), (tag(2), False)]
    assert peer.says(w.Disposition(True, 0, None, True, w.ACCEPTED)) == []
    (again,) = peer.says(w.Flow(0, 1000, 0, 1000, 0, 2, 1))
    assert again.delivery_tag == tag(3)
    peer.says(w.Detach(0, True))
    assert depth(house) == 2


@pytest.mark.parametrize("settled", [False, True])
def test_a_message_that_is_too_large_for_a_receiver_stays(house: House, settled: bool) -> None:
    """It is not sent to that one, and in nobody's way."""
    peer = Linked(house)
    mode = 1 if settled else 0
    assert sent(peer.receiver(0, 10, max_message_size=7, snd_settle_mode=mode)) == []
    assert depth(house) == 3
    owner = Linked(house, "writer")
    owner.sender(0, "in", w.Target("/queues/q"))
    owner.says(w.Transfer(0, 0, b"s", 0, True), b"\x00\x53\x75\xa0\x01x")
    peer.turn()
    assert len(sent(peer.hears())) == 1, "what it takes it gets"
    assert depth(house) == 3
    other = Linked(house, "other")
    assert len(sent(other.receiver(0, 10))) == 3


def test_drain(house: House) -> None:
    peer = Linked(house)
    peer.receiver(0, 0)
    *transfers, flow = peer.says(w.Flow(0, 1000, 0, 1000, 0, 0, 10, drain=True))
    assert len(transfers) == 3
    assert (flow.delivery_count, flow.link_credit, flow.drain) == (10, 0, True)


@pytest.mark.parametrize("window", [1, 2, 7])
def test_a_small_window_stops_deliveries(house: House, window: int) -> None:
    """What does not fit the session's window stays in the queue, for others to take."""
    owner = Linked(house)
    owner.sender(0, "more", w.Target("/queues/q"))
    for number in range(30):
        owner.says(w.Transfer(0, number, b"%d" % number, 0), MESSAGE)
    peer = Linked(house, "small", window)
    source = w.Source("/queues/q")
    peer.says(w.Attach("out", 0, True, source=source))
    got = sent(peer.says(w.Flow(0, window, 0, 1000, 0, 0, 100)))
    assert len(got) == window and depth(house) >= 33 - window - 1
    while more := sent(peer.says(w.Flow(len(got), window, 0, 1000))):
        got += more
    assert [name for name, _ in got] == [tag(number) for number in range(1, 34)]
    assert peer.says(w.Disposition(True, 0, 32, True, w.ACCEPTED)) == []
    assert depth(house) == 0


def test_a_lost_link_is_resumed(house: House) -> None:
    peer = Linked(house)
    peer.receiver(0, 2)
    peer.says(w.Disposition(True, 0, None, True, w.ACCEPTED))
    peer.disconnect()
    assert depth(house) == 1  # one is accepted, one waits for the link
    peer = Linked(house)
    heard = peer.receiver(3, 10, unsettled={tag(2): None})
    assert sent(heard) == [(tag(2), True), (tag(3), False)]
    assert list(heard[0].unsettled) == [tag(2)]


@pytest.mark.parametrize(
    ("state", "left"), [(w.ACCEPTED, 1), (w.Released(), 2), (w.Modified(True), 2), (None, 2)]
)
def test_outcomes_that_come_after_the_detach(house: House, state: Any, left: int) -> None:
    """§2.7.6: the deliveries of a link that was not closed are live."""
    peer = Linked(house)
    peer.receiver(0, 2)
    peer.says(w.Detach(0))
    assert peer.says(w.Disposition(True, 0, None, True, state)) == []
    assert depth(house) == left
    assert peer.says(w.Disposition(True, 0, None, True, w.ACCEPTED)) == []
    heard = peer.receiver(3, 10, unsettled={tag(2): None})
    assert sent(heard)[0] == (tag(2), True) and len(sent(heard)) == 1 + left
    assert peer.says(w.Disposition(True, 1, None, True, w.ACCEPTED)) == []


STATES = [w.ACCEPTED, w.Rejected(), w.Modified(True, True)]


@pytest.mark.parametrize("state", STATES)
def test_a_waiting_receiver_is_answered_when_the_store_has_it(house: House, state: Any) -> None:
    """§2.6.12. Nobody else waits, nor does the answer for what the store never had."""
    peer = Linked(house)
    peer.sender(1, "more", w.Target("/queues/q"))
    peer.says(w.Transfer(1, 0, b"d", 0), DURABLE)
    assert len(sent(peer.receiver(0, 10))) == 4

    def decide(first: int, last: int, settled: bool) -> list[Any]:
        record = w.Disposition(True, first, last, settled, state)
        peer.session.perform(peer.engine.receive(packed(record, 0)))
        peer.house.broker.end_turn()
        return peer.hears()

    if state == w.ACCEPTED:  # it leaves no trace; others do, such as their deaths
        assert decide(0, 1, False) == [w.Disposition(False, 0, 1, True, state)]
    before = peer.house.store.mark
    assert decide(2, 3, False) == []
    peer.house.commit()
    assert peer.house.store.mark == before + 1
    assert peer.hears() == [w.Disposition(False, 2, 3, True, state)]


def test_the_answer_to_a_detach_comes_behind(house: House) -> None:
    peer = Linked(house)
    peer.sender(1, "more", w.Target("/queues/q"))
    peer.says(w.Transfer(1, 0, b"d", 0), DURABLE)
    peer.receiver(0, 10)
    octets = packed(w.Disposition(True, 0, 3, False, w.ACCEPTED)) + packed(w.Detach(0, True))
    peer.session.perform(peer.engine.receive(octets))
    assert peer.hears() == []
    peer.turn()
    told, detach = peer.hears()
    assert told == w.Disposition(False, 0, 3, True, w.ACCEPTED)
    assert detach == w.Detach(1, True)


def test_outcomes_that_come_too_late(house: House) -> None:
    peer, other = Linked(house), Linked(house)
    peer.receiver(0, 2)
    peer.says(w.Detach(0))
    heard = other.receiver(0, 2, unsettled={tag(1): None, tag(2): None})
    assert len(sent(heard)) == 2
    assert peer.says(w.Disposition(True, 0, 1, True, w.ACCEPTED)) == []
    assert len(other.engine.connection.sessions[0].unsettled.sent) == 2


def test_a_lost_link_is_attached_anew(house: House) -> None:
    peer = Linked(house)
    peer.receiver(0, 2)
    peer.disconnect()
    peer = Linked(house)
    assert len(sent(peer.receiver(3, 10))) == 3


def test_outcomes_decided_before_are_applied(house: House) -> None:
    peer = Linked(house)
    peer.receiver(0, 2)
    peer.disconnect()
    peer = Linked(house)
    heard = peer.receiver(3, 0, unsettled={tag(1): w.ACCEPTED, tag(2): w.Released()})
    heard += peer.says(w.Flow(0, 1000, 0, 1000, 3, 0, 2))
    assert sent(heard) == [(tag(1), True), (tag(2), True)]
    states = [w.ACCEPTED, w.Released()]
    known = read_map(heard[0].unsettled)
    assert known is not None and list(known.values()) == states  # safe before we attach
    assert [(r.state, r.settled) for r in heard if isinstance(r, w.Transfer)] == [
        (state, True) for state in states
    ]
    assert depth(house) == 2


def test_a_link_is_stolen_by_another_connection(house: House) -> None:
    one = Linked(house)
    one.receiver(0, 2)
    other = Linked(house)
    heard = other.receiver(0, 2, unsettled={tag(1): None, tag(2): None})
    assert sent(heard) == [(tag(1), True), (tag(2), True)]
    (detach,) = one.hears()
    assert detach.closed and detach.error.condition == "amqp:link:stolen"


def test_sent_twice_and_published_once(house: House) -> None:
    """The sender lost its connection before it knew the outcome (§2.6.13)."""
    peer = Linked(house)
    target = w.Target("/queues/q", durable=2, expiry_policy="never")
    peer.sender(0, "once", target, rcv_settle_mode=1)
    (told,) = peer.says(w.Transfer(0, 0, b"t", 0), MESSAGE)
    assert told.state == w.ACCEPTED and not told.settled
    peer.disconnect()
    assert depth(house) == 4
    peer = Linked(house)
    peer.sender(0, "once", target, rcv_settle_mode=1, unsettled={b"t": None})
    (told,) = peer.says(w.Transfer(0, 0, b"t", 0, resume=True), MESSAGE)
    assert told.state == w.ACCEPTED
    assert depth(house) == 4


@pytest.mark.parametrize("fail", [False, True])
def test_a_transaction(house: House, fail: bool) -> None:
    def value(record: Any) -> bytes:
        return b"\x00\x53\x77" + write(record)

    peer = Linked(house)
    peer.receiver(0, 2)
    peer.sender(1, "control", w.Coordinator())
    peer.sender(2, "in", w.Target("/queues/q"))
    (told,) = peer.says(w.Transfer(1, 0, b"d", 0), value(w.Declare()))
    work = told.state.txn_id
    (told,) = peer.says(w.Transfer(2, 1, b"p", 0, state=w.TransactionalState(work)), MESSAGE)
    assert told.state == w.TransactionalState(work, w.ACCEPTED)
    state = w.TransactionalState(work, w.ACCEPTED)
    assert peer.says(w.Disposition(True, 0, 1, True, state)) == []
    assert depth(house) == 1
    heard = peer.says(w.Transfer(1, 2, b"e", 0), value(w.Discharge(work, fail)))
    assert heard[0] == w.Disposition(True, 2, None, True, w.ACCEPTED)
    assert depth(house) == (3 if fail else 2)


def test_the_queue_is_deleted(house: House) -> None:
    peer = Linked(house)
    peer.receiver(0, 2)
    peer.session.channels[0].topology.delete_queue(DeleteQueue(0, None, "q"))
    peer.turn()
    (detach,) = peer.hears()
    assert detach.error.condition == "amqp:resource-deleted"
    assert peer.says(w.Disposition(True, 0, None, True, w.ACCEPTED)) == []
    assert peer.says(w.Detach(0, True)) == []


def test_a_channel_is_another_session_after_pending_operations(house: House) -> None:
    """Begun, lost by a mistake, ended and begun again within one read: nothing of the first
    session is done on the second."""
    peer = Linked(house)
    source = w.Source("/queues/q")
    octets = packed(w.End()) + packed(w.Begin(None, 0, 1000, 1000))
    octets += packed(w.Attach("first", 0, True, source=source, target=w.Target()))
    octets += packed(w.Flow(0, 1000, 0, 1000, 0, 0, 10)) + packed(w.Detach(7)) + packed(w.End())
    octets += packed(w.Begin(None, 0, 1000, 1000))
    octets += packed(w.Attach("second", 0, True, source=source, target=w.Target()))
    peer.feed(octets)
    heard = peer.hears()
    assert sent(heard) == []
    assert [type(record) for record in heard if type(record) is not w.Flow][-2:] == [
        w.Begin,
        w.Attach,
    ]
    assert heard[-1].name == "second"
    assert sent(peer.says(w.Flow(0, 1000, 0, 1000, 0, 0, 10))) == [
        (tag(number), False) for number in (1, 2, 3)
    ]


def test_a_request_whose_session_died_is_refused_in_silence(house: House) -> None:
    """There is nowhere to answer, nobody to be told, and the connection lives."""
    peer = Linked(house)
    peer.sender(0, "ask", w.Target("/management"))
    octets = packed(w.Transfer(0, 0, b"t", 0), 0, MESSAGE) + packed(w.Detach(7))
    peer.feed(octets)
    (end,) = peer.hears()
    assert end.error.condition == "amqp:session:unattached-handle"
    assert peer.says(w.End()) == []
    assert type(peer.says(w.Begin(None, 0, 1, 1))[0]) is w.Begin
