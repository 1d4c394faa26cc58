"""What the specification of 1.0 says of messages and termini, from octets to queues: durability,
default outcomes, delivery-counts, addresses of dynamic nodes."""

from typing import Any

import pytest

from gateway.adapters import Role
from gateway.adapters.performatives.composites import write
from gateway.adapters.performatives.engine import Engine
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import HEADER, SASL_HEADER
from gateway.broker.queues import Queue
from gateway.operations import DeclareQueue
from gateway.sessions.session import Session
from gateway.values import Timestamp
from tests.adapters.performatives.wire import PLAIN, SASL, packed, unpacked
from tests.pair import Users
from tests.sessions.test_session import House
from tests.sessions.test_wire_1_0 import DURABLE, MESSAGE, Linked

LETTERS = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def peer(house: House) -> Linked:
    return Linked(house)


def declare(peer: Linked, name: str, durable: bool = True, **given: Any) -> Queue:
    channel = peer.session.channels[0]
    channel.topology.declare_queue(DeclareQueue(0, None, name, durable=durable, **given))
    peer.turn()
    return peer.house.broker.vhosts["/"].queues[name]


def told(heard: list[Any]) -> Any:
    (state,) = [one.state for one in heard if isinstance(one, w.Disposition)]
    return state


# --- durable messages (§3.2.1) --------------------------------------------------------------------


def sent_to(address: str) -> bytes:
    return write(w.Header(durable=True)) + write(w.Properties(to=address)) + MESSAGE


@pytest.mark.parametrize("anonymous", [False, True])
def test_a_transient_queue_takes_no_durable_messages(peer: Linked, anonymous: bool) -> None:
    queue = declare(peer, "q", durable=False)
    peer.sender(0, "in", w.Target(None if anonymous else "/queues/q"))
    octets = sent_to("/queues/q")
    state = told(peer.says(w.Transfer(0, 0, b"0", 0), octets))
    assert state.error.condition == "amqp:precondition-failed"
    assert queue.depth == 0
    transient = write(w.Properties(to="/queues/q")) + MESSAGE
    assert told(peer.says(w.Transfer(0, 1, b"1", 0), transient)) == w.ACCEPTED
    assert queue.depth == 1


@pytest.mark.parametrize("how", ["settled", "no outcome"])
def test_a_link_without_the_outcome_is_detached(peer: Linked, how: str) -> None:
    declare(peer, "q", durable=False)
    source = w.Source(outcomes=("amqp:accepted:list",)) if how == "no outcome" else w.Source()
    attach = w.Attach("in", 0, False, source=source, target=w.Target("/queues/q"))
    attach.initial_delivery_count = 0
    peer.says(attach)
    (detach,) = peer.says(w.Transfer(0, 0, b"0", 0, how == "settled"), DURABLE)
    assert detach.error.condition == "amqp:precondition-failed"


@pytest.mark.parametrize("given", [{"exclusive": True}, {"auto_delete": True}], ids=str)
def test_nodes_end_with_their_owner(peer: Linked, given: dict[str, Any]) -> None:
    """Nobody misses its messages afterwards: JMS sends durable replies to temporary queues."""
    declare(peer, "q", durable=False, **given)
    peer.sender(0, "in", w.Target("/queues/q"))
    assert told(peer.says(w.Transfer(0, 0, b"0", 0), DURABLE)) == w.ACCEPTED


def test_dynamic_nodes_take_them(peer: Linked) -> None:
    (attach, *_) = peer.sender(0, "in", w.Target(dynamic=True))
    assert told(peer.says(w.Transfer(0, 0, b"0", 0), DURABLE)) == w.ACCEPTED
    peer.sender(1, "other", w.Target(attach.target.address))
    assert told(peer.says(w.Transfer(1, 1, b"1", 0), DURABLE)) == w.ACCEPTED


# --- default outcomes (§3.3, §3.5.3) --------------------------------------------------------------

DEFAULTS: dict[str, tuple[Any, tuple[int, int]]] = {
    "none": (None, (1, 0)),
    "released": (w.Released(), (1, 0)),
    "accepted": (w.ACCEPTED, (0, 0)),
    "rejected": (w.Rejected(), (0, 1)),
    "modified": (w.Modified(True), (1, 0)),
    "undeliverable": (w.Modified(True, True), (0, 1)),
}


@pytest.mark.parametrize("default", DEFAULTS)
@pytest.mark.parametrize("end", ["close", "end", "lose"])
def test_a_source_that_is_destroyed_leaves_its_default_outcome(
    house: House, peer: Linked, default: str, end: str
) -> None:
    dead, queue = declare(peer, "dead"), declare(peer, "q", arguments=LETTERS)
    peer.sender(9, "in", w.Target("/queues/q"))
    peer.says(w.Transfer(9, 0, b"0", 0), MESSAGE)
    outcome, depths = DEFAULTS[default]
    reader = Linked(house, "reader")
    source = w.Source("/queues/q", default_outcome=outcome)
    reader.says(w.Attach("out", 0, True, source=source))
    reader.says(w.Flow(0, 1000, 0, 1000, 0, 0, 10))
    assert queue.unsettled == 1
    if end == "close":
        reader.says(w.Detach(0, True))
    elif end == "end":
        reader.says(w.End())
    else:
        reader.disconnect()
    assert (queue.depth, dead.depth, queue.unsettled) == (*depths, 0)
    if default == "modified":
        reader = Linked(house, "reader")
        reader.says(w.Attach("out", 0, True, source=w.Source("/queues/q")))
        reader.feed(packed(w.Flow(0, 1000, 0, 1000, 0, 0, 10)))
        (frame,) = unpacked(b"".join(reader.engine.output()))
        assert w.read_header(frame.payload, 3)[0].delivery_count == 1


# --- delivery-count (§3.4.3) ----------------------------------------------------------------------


@pytest.mark.parametrize("transacted", [False, True])
def test_a_rejected_delivery_counts(house: House, peer: Linked, transacted: bool) -> None:
    declare(peer, "dead")
    declare(peer, "q", arguments=LETTERS)
    peer.sender(9, "in", w.Target("/queues/q"))
    peer.says(w.Transfer(9, 0, b"0", 0), MESSAGE)
    peer.says(w.Attach("out", 0, True, source=w.Source("/queues/q")))
    peer.says(w.Flow(0, 1000, 0, 1000, 0, 0, 1))
    if transacted:
        peer.sender(5, "txn", w.Coordinator())
        declare_ = b"\x00\x53\x77" + write(w.Declare())
        work = told(peer.says(w.Transfer(5, 1, b"d", 0), declare_)).txn_id
        state: Any = w.TransactionalState(work, w.Rejected())
        peer.says(w.Disposition(True, 0, None, True, state))
        peer.says(w.Transfer(5, 2, b"e", 0), b"\x00\x53\x77" + write(w.Discharge(work, False)))
    else:
        peer.says(w.Disposition(True, 0, None, True, w.Rejected()))
    peer.says(w.Attach("dead", 1, True, source=w.Source("/queues/dead")))
    peer.feed(packed(w.Flow(0, 1000, 0, 1000, 1, 0, 1)))
    (frame,) = unpacked(b"".join(peer.engine.output()))
    assert frame.payload[:3] == b"\x00\x53\x70"
    assert w.read_header(frame.payload, 3)[0].delivery_count == 1


# --- time to live (§3.2.1, §3.2.4) ----------------------------------------------------------------


def received(peer: Linked, handle: int, address: str) -> list[bytes]:
    """The payloads of what stands there."""
    peer.says(w.Attach(address, handle, True, source=w.Source(address)))
    peer.feed(packed(w.Flow(0, 1000, 0, 1000, handle, 0, 10)))
    frames = unpacked(b"".join(peer.engine.output()))
    return [frame.payload for frame in frames if isinstance(frame.record, w.Transfer)]


def lifetime(payload: bytes) -> Any:
    return w.read_header(payload, 3)[0].ttl


def test_the_time_that_a_message_has_waited_is_taken_off_its_ttl(
    house: House, peer: Linked
) -> None:
    declare(peer, "q")
    peer.sender(0, "in", w.Target("/queues/q"))
    octets = write(w.Header(durable=True, ttl=10_000)) + MESSAGE
    peer.says(w.Transfer(0, 0, b"0", 0), octets)
    house.broker.state.tick(house.broker.state.now + 4_000)
    (payload,) = received(peer, 1, "/queues/q")
    assert lifetime(payload) == 6_000
    assert payload.endswith(MESSAGE), "the bare message is as it came"
    peer.says(w.Detach(1, True))
    house.broker.state.tick(house.broker.state.now + 1_000)
    (payload,) = received(Linked(house, "other"), 1, "/queues/q")
    assert lifetime(payload) == 5_000


def test_nothing_is_removed_without_a_request(house: House, peer: Linked) -> None:
    declare(peer, "q", arguments={"x-message-ttl": 10_000})
    peer.sender(0, "in", w.Target("/queues/q"))
    peer.says(w.Transfer(0, 0, b"0", 0), DURABLE)
    house.broker.state.tick(house.broker.state.now + 1_000)
    (payload,) = received(peer, 1, "/queues/q")
    assert payload == DURABLE


@pytest.mark.parametrize("ttl", [None, 60_000])
def test_a_message_is_over_at_its_absolute_expiry_time(
    house: House, peer: Linked, ttl: int | None
) -> None:
    dead, queue = declare(peer, "dead"), declare(peer, "q", arguments=LETTERS)
    peer.sender(0, "in", w.Target("/queues/q"))
    until = Timestamp(house.broker.state.now + 5_000)
    octets = write(w.Header(ttl=ttl)) + write(w.Properties(absolute_expiry_time=until)) + MESSAGE
    peer.says(w.Transfer(0, 0, b"0", 0), octets)
    house.broker.state.tick(house.broker.state.now + 4_000)
    assert queue.depth == 1
    house.broker.state.tick(house.broker.state.now + 2_000)
    assert (queue.depth, dead.depth) == (0, 1)
    house.broker.state.tick(house.broker.state.now + 100_000)
    (payload,) = received(peer, 1, "/queues/dead")
    assert payload.endswith(octets[octets.index(b"\x00\x53\x73") :]), "and is over only once"


@pytest.mark.parametrize("settled", [False, True])
def test_a_message_that_arrives_expired_is_not_delivered(
    house: House, peer: Linked, settled: bool
) -> None:
    declare(peer, "q")
    peer.sender(0, "in", w.Target("/queues/q"))
    source = w.Source("/queues/q")
    peer.says(w.Attach("out", 1, True, source=source, snd_settle_mode=1 if settled else 0))
    peer.says(w.Flow(0, 1000, 0, 1000, 1, 0, 10))
    past = Timestamp(house.broker.state.now - 1)
    octets = write(w.Properties(absolute_expiry_time=past)) + MESSAGE
    assert told(peer.says(w.Transfer(0, 0, b"0", 0), octets)) == w.ACCEPTED
    none = write(w.Properties(absolute_expiry_time=Timestamp(0))) + MESSAGE
    heard = peer.says(w.Transfer(0, 1, b"1", 0), none)
    assert len([one for one in heard if isinstance(one, w.Transfer)]) == 1


# --- addresses of dynamic nodes (§3.5.3, §3.5.4) --------------------------------------------------


@pytest.mark.parametrize("capabilities", [None, ("temporary-topic",)])
def test_a_dynamic_address_tells_link_and_container(
    house: House, capabilities: tuple[str, ...] | None
) -> None:
    peer = Linked(house, "billing service/1")
    target = w.Target(dynamic=True, capabilities=capabilities)
    (attach, *_) = peer.sender(0, "replies." + "x" * 500, target)
    address = attach.target.address
    assert "billing_service_1" in address and "replies_xxx" in address
    assert len(address) < 300
    (again, *_) = peer.sender(1, "back", w.Target(address))
    assert again.target is not None


def test_a_dynamic_name_means_nothing_in_topics() -> None:
    from gateway.sessions.termini import recognizable

    assert recognizable("a.#*/%\n\u00e9", "", "b:1@h-_") == "_a________b:1@h-_"


# --- the end (§2.4.3) -----------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [False, True])
def test_open_begin_attach_and_close_in_one_write_are_all_answered(
    house: House, durable: bool
) -> None:
    engine = Engine("1.0", Role.SERVER, authority=Users())
    session = Session(house.broker, engine, house.registry, address="x", loopback=True, since=0)
    target = w.Target("new" if durable else "/queues/none")
    attach = w.Attach("s", 0, False, source=w.Source(), target=target, initial_delivery_count=0)
    words = [w.Open("me"), w.Begin(None, 0, 10, 10), attach, w.Close()]
    octets = SASL_HEADER + packed(w.SaslInit("PLAIN", PLAIN), kind=SASL) + HEADER
    session.perform(engine.receive(octets + b"".join(packed(word) for word in words)))
    for _ in range(3):
        session.perform(engine.found())
        house.commit()
    said = [type(frame.record) for frame in unpacked(b"".join(engine.output()))]
    assert said[said.index(w.Open) :] == [
        w.Open, w.Begin, w.Attach, *([] if durable else [w.Detach]), *([w.Flow] * durable), w.Close,
    ]  # fmt: skip
