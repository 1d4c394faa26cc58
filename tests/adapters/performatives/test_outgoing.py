"""Links over which we send, by section: §2.6.7 credit and drain, §2.6.12 settling, §2.6.14 frames,
§2.6.13 and §3.4.6 resuming, §3.4 outcomes."""

import random
from typing import Any

import pytest

from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.link_recovery import read_map
from gateway.adapters.performatives.links import MASK
from gateway.adapters.performatives.sections import part, pieces
from gateway.adapters.performatives.sending_link import offset_of
from gateway.adapters.performatives.splicing import redelivery
from gateway.adapters.performatives.wire import layouts as w
from gateway.message import Essentials, Message, Properties
from gateway.operations import (
    Assure,
    Attached,
    AttachSource,
    Credit,
    Deliver,
    DetachLink,
    Modify,
    Outcome,
    Resumed,
    Settle,
    Terminus,
    Unsent,
)
from gateway.values import Symbol
from tests import in_memory
from tests.adapters.performatives.peer import PLAIN, Peer
from tests.adapters.performatives.wire import packed
from tests.drawing import examples


def tag(number: int) -> bytes:
    return number.to_bytes(8, "big")


def message(octets: bytes = PLAIN, **fields: Any) -> Message:
    header, body = part(octets)
    return Message(SECTIONS, header, body, "", "q", Essentials(), **fields)


def filled(count: int, credit: int = 100, **fields: Any) -> Peer:
    """A peer that receives from a queue with so many messages, and has read its deliveries."""
    peer = Peer(**fields.pop("options", {}))
    peer.receives(credit=0, **fields)
    for _ in range(count):
        peer.broker.queue("q").append((message(), False))
    if credit:
        peer.grants(credit)
    return peer


def transfers(peer: Peer) -> list[Any]:
    return [record for record in peer.hears() if isinstance(record, w.Transfer)]


# --- §2.6.7: credit ----------------------------------------------------------------------------


def test_credit_counts_from_the_receivers_delivery_count() -> None:
    peer = filled(3, 5)
    assert len(transfers(peer)) == 3
    for seen, given, left in ((0, 5, 2), (2, 5, 4), (3, 5, 5), (None, 4, 1), (0, 2, 0)):
        (said,) = peer.grants(given, delivery_count=seen)
        assert said == Credit(0, None, "1", left, False), (seen, given)


def test_credit_may_be_as_large_as_a_number_can_be() -> None:
    peer = filled(0, 0)
    (said,) = peer.grants(MASK)
    assert isinstance(said, Credit) and said.count == MASK
    (said,) = peer.grants(MASK, delivery_count=5, echo=True)  # it has seen what was never sent
    assert isinstance(said, Credit) and said.count == MASK
    assert peer.hears()[0].link_credit == MASK


def test_counts_wrap_around() -> None:
    peer = filled(3, 0)
    (link,) = peer.session.links.values()
    link.count = MASK
    peer.grants(2, delivery_count=MASK)
    assert len(transfers(peer)) == 2 and link.count == 1
    peer.grants(2, delivery_count=0)
    assert len(transfers(peer)) == 1 and link.credit == 0


def test_nothing_is_sent_beyond_the_credit() -> None:
    """The receiver took credit back; the broker did not know yet."""
    peer = filled(0, 5)
    peer.grants(0)
    deliver = peer.session.deliver
    deliver("1", 1, False, message())
    deliver("1", 2, False, message())
    assert peer.hears() == []
    (said,) = peer.grants(3)
    assert isinstance(said, Credit) and said.count == 1
    assert [record.delivery_id for record in transfers(peer)] == [0, 1]


def test_what_is_delivered_before_the_credit_is_known_uses_it() -> None:
    peer = filled(0, 5)
    peer.hears()
    (said,) = peer.engine.receive(packed(w.Flow(0, 100, 0, 100, 1, 0, 8)))
    peer.session.deliver("1", 1, False, message())
    assert isinstance(said, Credit) and said.count == 7


def test_drain_uses_the_credit_up() -> None:
    peer = filled(2, 0)
    (said,) = peer.grants(10, drain=True)
    assert isinstance(said, Credit) and said.drain
    one, two, flow = peer.hears()
    assert isinstance(one, w.Transfer) and isinstance(two, w.Transfer)
    assert (flow.delivery_count, flow.link_credit, flow.drain) == (10, 0, True)
    assert (flow.handle, flow.available) == (0, 0)


def test_the_receiver_thinks_better_of_it() -> None:
    """It takes drain back before the broker has answered: the credit stands."""
    peer = filled(0, 0)
    peer.broker.hold.add(Credit)
    peer.grants(10, drain=True)
    peer.broker.hold.clear()
    peer.grants(20)
    peer.broker.release()
    (link,) = peer.session.links.values()
    assert peer.hears() == [] and (link.credit, link.count) == (20, 0)


def test_a_drain_that_is_asked_for_again_is_answered_by_its_own_answer() -> None:
    """The broker ends the first one when the second comes; its rest is not that of the second."""
    peer = filled(0, 0)
    peer.broker.hold.add(Credit)
    peer.grants(3, drain=True)
    peer.grants(5, drain=True)
    peer.broker.hold.clear()
    first, second = peer.broker.held
    peer.broker.answer(first, 3)
    (link,) = peer.session.links.values()
    assert peer.hears() == [] and (link.credit, link.count) == (5, 0)
    peer.broker.answer(second, 5)
    (flow,) = peer.hears()
    assert (flow.delivery_count, flow.link_credit, flow.drain) == (5, 0, True)


def test_drain_of_no_credit_is_answered() -> None:
    peer = filled(0, 0)
    peer.grants(0, drain=True)
    (flow,) = peer.hears()
    assert (flow.delivery_count, flow.link_credit, flow.drain) == (0, 0, True)


def test_drain_is_answered_behind_deliveries_that_wait_for_the_window() -> None:
    peer = filled(3, 0)
    peer.says(w.Flow(0, 2, 0, 10, 1, 0, 10, drain=True))
    assert [type(r) for r in peer.hears()] == [w.Transfer, w.Transfer]
    peer.says(w.Flow(2, 2, 0, 10))
    transfer, flow = peer.hears()
    assert isinstance(transfer, w.Transfer)
    assert (flow.delivery_count, flow.link_credit, flow.drain) == (10, 0, True)


def test_a_flow_without_credit_changes_nothing() -> None:
    peer = filled(0, 5)
    assert peer.says(w.Flow(0, 10, 0, 10, 1)) == []
    assert peer.session.links["1"].credit == 5


@pytest.mark.parametrize("work", [b"x", "x", 5])
def test_acquisition_in_a_transaction_that_is_none(work: Any) -> None:
    peer = filled(0, 0)
    peer.grants(5, properties={Symbol("txn-id"): work})
    peer.detached("amqp:transaction:unknown-id")


def test_a_link_that_settles_does_not_acquire_in_transactions() -> None:
    """§4.4.3: such a link must be terminated."""
    peer = filled(0, 0, snd_settle_mode=1)
    peer.grants(5, properties={Symbol("txn-id"): b"x"})
    peer.detached("amqp:not-implemented")


# --- §2.6.12, §2.7.6, §3.4: settling -----------------------------------------------------------


def test_outcomes_of_a_range() -> None:
    peer = filled(6)
    transfers(peer)
    assert peer.says(w.Disposition(True, 1, 3, True, w.ACCEPTED)) == [
        Settle(0, number, False, Outcome.ACCEPT) for number in (2, 3, 4)
    ]
    assert peer.says(w.Disposition(True, 0, 0x7FFF_FFFF, True, w.Rejected())) == [
        Settle(0, number, False, Outcome.REJECT) for number in (1, 5, 6)
    ]
    assert peer.hears() == [] and not peer.session.unsettled.sent
    assert peer.says(w.Disposition(True, 0, 9, True, w.ACCEPTED)) == []


def test_who_waits_for_us_is_told_that_we_settled() -> None:
    peer = filled(4)
    transfers(peer)
    peer.says(w.Disposition(True, 1, None, True, w.ACCEPTED))
    state = w.Modified(True, True)
    peer.says(w.Disposition(True, 0, 9, None, state))
    assert peer.hears() == [
        w.Disposition(False, 0, None, True, state),
        w.Disposition(False, 2, 3, True, state),
    ]
    *_, one, two, three, assure = peer.broker.heard
    assert [one, two, three] == [Modify(0, n, True, True, None) for n in (1, 3, 4)]
    assert isinstance(assure, Assure)


def test_who_waits_for_us_is_told_when_it_is_safe() -> None:
    """One answer for equal outcomes of one read."""
    peer = filled(9)
    transfers(peer)
    peer.broker.hold.add(Assure)
    said: list[tuple[int, int | None, Any]] = [
        (0, 1, w.ACCEPTED),
        (2, None, w.ACCEPTED),
        (3, None, w.ACCEPTED),
        (5, 6, w.ACCEPTED),
    ]
    said += [(7, None, w.Rejected()), (4, None, w.ACCEPTED)]
    peer.feed(b"".join(packed(w.Disposition(True, *one[:2], None, one[2])) for one in said))
    assert [type(op) for op in peer.broker.heard[-9:]] == [Settle] * 8 + [Assure]
    peer.says(w.Disposition(True, 8, None, None, w.ACCEPTED))
    assert not peer.hears() and not peer.session.unsettled.sent
    peer.broker.release()
    assert peer.hears() == [
        w.Disposition(False, 0, 3, True, w.ACCEPTED),
        w.Disposition(False, 5, 6, True, w.ACCEPTED),
        w.Disposition(False, 7, None, True, w.Rejected()),
        w.Disposition(False, 4, None, True, w.ACCEPTED),
        w.Disposition(False, 8, None, True, w.ACCEPTED),
    ]


def test_nobody_is_told_after_the_end_of_the_session() -> None:
    peer = filled(2)
    transfers(peer)
    peer.broker.hold.add(Assure)
    peer.says(w.Disposition(True, 0, 1, None, w.ACCEPTED))
    peer.says(w.End())
    peer.hears()
    peer.broker.release()
    assert not peer.hears()


HUGE = {Symbol("x-opt-a"): "x" * 600}


@pytest.mark.parametrize(
    ("state", "bare"),
    [
        (w.Modified(True, True, HUGE), w.Modified(True, True)),
        (w.Rejected(w.Error("amqp:internal-error", "x" * 600)), w.Rejected()),
    ],
)
def test_a_state_that_does_not_fit_the_peers_frames(state: Any, bare: Any) -> None:
    peer = filled(1, options={"opens": {"max_frame_size": 512}})
    transfers(peer)
    peer.says(w.Disposition(True, 0, None, None, state))
    assert peer.hears() == [w.Disposition(False, 0, None, True, bare)]
    peer = Peer(opens={"max_frame_size": 512})
    _, (frame,) = resume(peer, {1: None}, {tag(1): state})
    assert frame.record.settled and frame.record.state == bare


def test_received_is_no_outcome() -> None:
    peer = filled(1)
    transfers(peer)
    state = w.Received(0, 5)
    assert peer.says(w.Disposition(True, 0, None, None, state)) == []
    assert peer.session.unsettled.sent[0].state == state
    assert peer.says(w.Disposition(True, 0)) == []
    assert peer.hears() == []


@pytest.mark.parametrize("state", [None, w.Received(0, 0), w.Declared(b"x")])
@pytest.mark.parametrize(
    ("default", "outcome"),
    [
        (None, Settle(0, 1, False, Outcome.RELEASE)),
        (w.ACCEPTED, Settle(0, 1, False, Outcome.ACCEPT)),
        (w.Modified(True, True), Modify(0, 1, True, True, None)),
    ],
)
def test_settled_without_an_outcome_is_the_default(state: Any, default: Any, outcome: Any) -> None:
    peer = filled(1, source=w.Source("q", default_outcome=default))
    assert peer.says(w.Disposition(True, 0, None, True, state)) == [outcome]


def test_modified_with_annotations() -> None:
    peer = filled(1)
    state = w.Modified(False, False, {Symbol("x-opt-a"): 1})
    (said,) = peer.says(w.Disposition(True, 0, None, True, state))
    assert said == Modify(0, 1, False, False, {"x-opt-a": 1})


def test_a_settled_link_has_nothing_unsettled() -> None:
    peer = filled(2, snd_settle_mode=1)
    assert [record.settled for record in transfers(peer)] == [True, True]
    assert not peer.session.unsettled.sent


def test_answers_of_the_management_node_are_no_deliveries() -> None:
    peer = filled(0)
    peer.engine.send(Deliver(0, "1", 0, False, message()))
    (record,) = transfers(peer)
    assert record.delivery_tag == tag(1)
    assert peer.says(w.Disposition(True, 0, None, True, w.ACCEPTED)) == []
    assert not peer.session.unsettled.sent


# --- §2.6.14: frames ---------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 255, 256, 400, 455, 456, 457, 458, 500, 512, 3000])
def test_large_messages_are_cut_into_frames(size: int) -> None:
    peer = filled(0, options={"opens": {"max_frame_size": 512}})
    octets = b"\x00\x53\x75\xb0" + size.to_bytes(4, "big") + b"x" * size
    peer.session.deliver("1", 1, False, message(octets))
    heard = peer.heard()
    assert b"".join(frame.payload for frame in heard) == octets or size < 256
    first, *rest = [frame.record for frame in heard]
    assert first.delivery_tag == tag(1) and first.message_format == 0
    assert all(record.more for record in [first, *rest][:-1]) and not [first, *rest][-1].more
    assert all(record.delivery_id == 0 for record in rest)
    assert peer.session.next_outgoing_id == len(heard)
    assert len(heard) == 1 or size > 400


def test_a_message_may_wait_in_the_middle() -> None:
    peer = filled(0, options={"opens": {"max_frame_size": 512}})
    peer.says(w.Flow(0, 2, 0, 10, 1, 0, 10))
    octets = b"\x00\x53\x75\xb0" + (1500).to_bytes(4, "big") + b"x" * 1500
    peer.session.deliver("1", 1, False, message(octets))
    peer.session.deliver("1", 2, False, message())
    heard = peer.heard()
    assert len(heard) == 2
    (link,) = peer.session.links.values()
    assert link.waiting == 1
    peer.says(w.Flow(2, 10, 0, 10))
    heard += peer.heard()
    assert [frame.record.delivery_id for frame in heard][-2:] == [0, 1]
    assert b"".join(frame.payload for frame in heard[:-1]) == octets


def test_what_is_unusual_is_sent_as_it_came() -> None:
    octets = PLAIN + PLAIN + b"\x00\x53\x78\xc1\x01\x00"
    peer = filled(0)
    peer.session.deliver("1", 1, False, message(octets))
    assert peer.heard()[-1].payload == octets


def test_a_message_larger_than_the_peer_takes() -> None:
    peer = filled(0, max_message_size=5)
    one = message()
    peer.session.deliver("1", 1, False, one)
    assert transfers(peer) == []
    assert peer.engine.found() == [Unsent(0, "1", 1, one), Credit(0, None, "1", 100, False)]
    assert not peer.session.unsettled.sent


def test_and_on_a_settled_link() -> None:
    peer = filled(0, max_message_size=5, snd_settle_mode=1)
    one = message()
    peer.session.deliver("1", 1, False, one)
    assert transfers(peer) == []
    assert peer.engine.found() == [Unsent(0, "1", 1, one), Credit(0, None, "1", 100, False)]


def test_crowds_are_announced() -> None:
    peer = filled(0, 0)
    peer.grants(100_000)
    peer.says(w.Flow(0, 100_000, 0, 10))
    crowds = []
    peer.engine.output_congested = lambda: crowds.append(1)
    one = message()
    for number in range(17_000):
        peer.session.deliver("1", number + 1, False, one)
    assert crowds


# --- redelivery --------------------------------------------------------------------------------

FOOTER = b"\x00\x53\x78\xc1\x01\x00"
DURABLE = b"\x00\x53\x70\xc0\x05\x04\x41\x40\x40\x41"


def test_what_comes_again_says_so() -> None:
    properties = b"\x00\x53\x73\xc0\x03\x01\x52\x07"
    octets = DURABLE + properties + PLAIN
    peer = filled(0)
    peer.session.deliver("1", 1, True, message(octets))
    (frame,) = peer.heard()
    assert frame.payload.endswith(properties + PLAIN)
    record, _ = w.read_header(frame.payload, 3)
    assert record == w.Header(True, first_acquirer=False)


@pytest.mark.parametrize(
    ("octets", "count"),
    [
        (PLAIN, None),
        (DURABLE + PLAIN, 3),
        (PLAIN + PLAIN, 1),
        (PLAIN + b"\x00\x53\x78\xc1\x01\x00", 2),
    ],
)
def test_only_the_header_section_is_written_anew(octets: bytes, count: int | None) -> None:
    header, body = part(octets)
    whole = in_memory.joined(pieces(redelivery(header, count), body))
    record, stop = w.read_header(whole, 3)
    assert record.first_acquirer is False and record.delivery_count == count
    rest = octets[len(DURABLE) :] if octets.startswith(DURABLE) else octets
    assert whole[stop:] == rest


def test_how_often_it_failed() -> None:
    """The bare message must not be changed (§3.2)."""
    peer = filled(0)
    peer.session.deliver("1", 1, True, message(added_headers={"x-delivery-count": 3}))
    (frame,) = peer.heard()
    assert frame.payload.endswith(PLAIN)
    record, _ = w.read_header(frame.payload, 3)
    assert record == w.Header(first_acquirer=False, delivery_count=3)


@pytest.mark.parametrize("again_", [False, True])
def test_messages_of_older_versions(again_: bool) -> None:
    header = BASIC.write(Properties(subject="s", content_type="text/plain"))
    old = Message(BASIC, header, b"body", "x", "k", Essentials())
    peer = filled(0)
    peer.session.deliver("1", 1, again_, old)
    (frame,) = peer.heard()
    header, body = part(frame.payload)
    assert body == b"body" and SECTIONS.read(header).content_type == "text/plain"


class Unwritable(Message):
    """A message that has no form in this version."""

    def form_for(self, dialect: Any) -> tuple[bytes, bytes]:
        raise ValueError("no")


@pytest.mark.parametrize("again_", [False, True])
def test_a_message_that_has_no_form(again_: bool) -> None:
    peer = filled(0)
    one = Unwritable(BASIC, b"", b"", "", "q", Essentials())
    peer.session.deliver("1", 1, again_, one)
    assert transfers(peer) == []
    assert peer.engine.found()[0] == Unsent(0, "1", 1, one)


@pytest.mark.parametrize("seed", range(examples(300)))
def test_a_run_of_deliveries_is_as_each_of_them(seed: int) -> None:
    seen: list[Any] = []
    for together in (True, False):
        chance = random.Random(seed)
        limits = {"max_frame_size": chance.choice([512, 65536])}
        settled = chance.choice([0, 1])
        peer = filled(0, 0, options={"opens": limits}, snd_settle_mode=settled)
        number = 1
        for _ in range(3):
            credit, window = chance.choice([0, 10, 100]), chance.choice([5, 100])
            granted = peer.engine.receive(packed(w.Flow(0, window, 0, 9, 1, 0, credit)))
            many = [unlike(chance) for _ in range(chance.choice([1, 3, 30]))]
            if together:
                peer.session.deliver_run("1", number, many)
            else:
                for at, one in enumerate(many, number):
                    peer.session.deliver("1", at, False, one)
            number += len(many)
            seen.append([(each.record, each.payload) for each in peer.heard()])
            seen.append([told(each) for each in granted + peer.engine.found()])
            link = peer.session.links["1"]
            seen.append([peer.session.next_outgoing_id, peer.session.window])
            seen.append([link.credit, link.count, len(link.held)])
        peer.session.unsettled.expand_all(link)
        seen.append([(one.id, one.number, one.tag) for one in peer.session.unsettled.sent.values()])
    half = len(seen) // 2
    assert seen[:half] == seen[half:]


def unlike(chance: random.Random) -> Message:
    """Mostly a message that goes out as it is."""
    if chance.random() < 0.95:
        header = chance.choice([b"", SECTIONS.write(Properties(subject="s"))])
        body = b"x" * chance.choice([0, 5, 5, 5, 255, 256, 300, 5000])
        return Message(SECTIONS, header, body, "", "q", Essentials())
    old = BASIC.write(Properties(subject="s"))
    return chance.choice(
        [
            Unwritable(BASIC, b"", b"", "", "q", Essentials()),
            Message(BASIC, old, b"body", "x", "k", Essentials()),
            message(LONG, added_headers={"x-acquired-count": 1}),
            message(b"\x00\x53\x77\xa1\x01x"),
            message(b"\x00\x80" + b"\0" * 7 + b"\x75\xa0\x01x"),
        ]
    )


def told(operation: Any) -> Any:
    """What an operation says; its message by its octets."""
    one = getattr(operation, "message", None)
    return type(operation), getattr(operation, "count", None), one and (one.header, one.body)


# --- §2.6.13, §3.4.6: resuming -----------------------------------------------------------------

LONG = b"\x00\x53\x70\x45" + b"\x00\x53\x75\xa0\x14" + b"x" * 20


def resume(
    peer: Peer, ours: dict[int, Any], theirs: dict[bytes, Any] | None, **fields: Any
) -> tuple[w.Attach, list[Any]]:
    """Ours: number of the tag to outcome. What our attach says, and the frames of the transfers."""
    peer.broker.hold.add(AttachSource)
    peer.says(w.Attach("out", 1, True, source=w.Source("q"), unsettled=theirs, **fields))
    (asked,) = peer.broker.held
    assert isinstance(asked, AttachSource)
    peer.broker.held.clear()
    listed = [
        Resumed(tag(number), 0 if outcome is not None else number + 100, outcome, message(LONG))
        for number, outcome in ours.items()
    ]
    peer.broker.answer(asked, Attached(Terminus("q"), resumed=listed))
    peer.grants(100)
    attach, *rest = peer.heard()
    return attach.record, rest


def test_a_new_link_has_no_map_and_a_resumed_one_has() -> None:
    peer = Peer()
    attach, _ = resume(peer, {}, None)
    assert attach.unsettled is None
    peer = Peer()
    attach, _ = resume(peer, {}, {})
    assert attach.unsettled == {}


def test_our_map_and_deliveries_unknown_to_the_peer() -> None:
    """Delivery-tags 1 and 10 of §3.4.6."""
    peer = Peer()
    attach, frames = resume(peer, {1: None, 10: Outcome.ACCEPT}, {})
    assert read_map(attach.unsettled) == {tag(1): None, tag(10): w.ACCEPTED}
    (frame,) = frames
    assert frame.record.delivery_tag == tag(1) and not frame.record.resume
    assert frame.payload.endswith(LONG[4:])
    assert peer.says(w.Disposition(True, 0, None, True, w.ACCEPTED)) == [
        Settle(0, 101, False, Outcome.ACCEPT)
    ]


@pytest.mark.parametrize(
    ("state", "begin"),
    [
        (None, 0),  # delivery-tag 4
        (w.Received(0, 0), 0),
        (w.Received(1, 10), 14),  # delivery-tag 2
        (w.Received(0, 4), 4),
        (w.Received(1, 25), 29),
        (w.Received(2, 0), 29),
        (w.Received(7, 7), 0),
        (w.Received(1, 99), 0),
        (w.TransactionalState(b"x"), 0),
    ],
)
def test_the_rest_of_a_message(state: Any, begin: int) -> None:
    peer = Peer()
    _, (frame,) = resume(peer, {1: None}, {tag(1): state})
    assert frame.record.resume and frame.record.delivery_tag == tag(1)
    assert frame.payload == LONG[begin:]
    assert frame.record.state == (state if begin else None)
    assert peer.says(w.Disposition(True, 0, None, True, w.ACCEPTED)) == [
        Settle(0, 101, False, Outcome.ACCEPT)
    ]


def test_an_outcome_that_the_peer_has_already() -> None:
    """Delivery-tags 3 and 8."""
    peer = Peer()
    _, (one, two) = resume(peer, {3: None, 8: None}, {tag(3): w.ACCEPTED, tag(8): w.Modified(True)})
    assert (
        one.record == w.Transfer(0, 0, tag(3), 0, True, state=w.ACCEPTED, resume=True)
        and not one.payload
    )
    assert two.record.state == w.Modified(True)
    settled = [op for op in peer.broker.heard if isinstance(op, (Settle, Modify))]
    settled += [op for op in peer.engine.found() if isinstance(op, (Settle, Modify))]
    assert settled == [Settle(0, 103, False, Outcome.ACCEPT), Modify(0, 108, True, False, None)]
    assert not peer.session.unsettled.sent


def test_what_is_over_here_and_not_there_is_aborted() -> None:
    """Delivery-tags 11 and 14."""
    peer = Peer()
    theirs = {tag(11): w.Received(1, 2000), tag(14): None}
    _, frames = resume(peer, {11: Outcome.ACCEPT, 14: Outcome.ACCEPT}, theirs)
    assert [(f.record.delivery_tag, f.record.resume, f.record.aborted) for f in frames] == [
        (tag(11), True, True), (tag(14), True, True),
    ]  # fmt: skip
    assert not any(frame.payload for frame in frames) and not peer.session.unsettled.sent


def test_both_have_an_outcome() -> None:
    """Delivery-tags 12 and 13: the same, and different ones, of which ours counts."""
    peer = Peer()
    theirs = {tag(12): w.ACCEPTED, tag(13): w.Released()}
    _, (one, two) = resume(peer, {12: Outcome.ACCEPT, 13: Outcome.ACCEPT}, theirs)
    assert one.record.settled and one.record.resume
    assert not two.record.settled and two.record.state == w.ACCEPTED
    assert list(peer.session.unsettled.sent) == [1]
    assert peer.says(w.Disposition(True, 1, None, True, w.ACCEPTED)) == []
    assert not peer.session.unsettled.sent


def test_tags_go_on_above_those_of_before() -> None:
    peer = Peer()
    resume(peer, {5: None}, {tag(9): None, b"other": None})
    (link,) = peer.session.links.values()
    peer.session.deliver(link.number, 1, False, message())
    (record,) = transfers(peer)
    assert record.delivery_tag == tag(10)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("foreign", [(1 << 64) - 1, (1 << 64) - 2, 1 << 63])
def test_the_peer_invents_a_tag_that_ours_never_reach(foreign: int, count: int) -> None:
    peer = Peer()
    resume(peer, {5: None}, {tag(9): None, tag(foreign): None})
    (link,) = peer.session.links.values()
    peer.session.deliver_run(link.number, 1, [message()] * count)
    tags = [record.delivery_tag for record in transfers(peer)]
    assert tags == [tag(10 + number) for number in range(count)]


def test_resumed_deliveries_go_first() -> None:
    peer = Peer()
    peer.broker.hold.add(AttachSource)
    peer.says(w.Attach("out", 1, True, source=w.Source("q"), unsettled={}))
    (asked,) = peer.broker.held
    (link,) = peer.session.links.values()
    peer.grants(10)
    peer.session.deliver(link.number, 2, False, message())
    listed = [Resumed(tag(1), 1, None, message())]
    peer.broker.answer(asked, Attached(Terminus("q"), resumed=listed))
    assert [record.delivery_tag for record in transfers(peer)] == [tag(1), tag(2)]


def test_what_waits_for_credit_to_be_resumed_is_not_forgotten() -> None:
    peer = Peer()
    peer.broker.hold.add(AttachSource)
    peer.says(w.Attach("out", 1, True, source=w.Source("q"), unsettled={tag(1): None}))
    (asked,) = peer.broker.held
    listed = [Resumed(tag(n), n, None, message()) for n in (1, 2)]
    peer.broker.answer(asked, Attached(Terminus("q"), resumed=listed))
    (said,) = peer.says(w.Detach(1))
    assert isinstance(said, DetachLink) and said.unsettled == {1: tag(1), 2: tag(2)}


def test_their_map_is_incomplete() -> None:
    """Nothing new may be sent, and deliveries that are not in the map may be unsettled."""
    peer = Peer()
    _, frames = resume(peer, {1: None, 2: None}, {tag(2): None}, incomplete_unsettled=True)
    assert [frame.record.delivery_tag for frame in frames] == [tag(2)]
    assert not [op for op in peer.broker.heard if isinstance(op, Credit)]
    (said,) = peer.says(w.Detach(1))
    assert isinstance(said, DetachLink) and said.unsettled == {101: tag(1), 102: tag(2)}


def test_our_map_is_incomplete() -> None:
    peer = Peer(opens={"max_frame_size": 512})
    ours: dict[int, Any] = dict.fromkeys(range(1, 101))
    attach, frames = resume(peer, ours, {tag(100): None})
    assert attach.incomplete_unsettled and 0 < len(attach.unsettled or {}) < 100
    assert [frame.record.delivery_tag for frame in frames] == [tag(100)]
    (said,) = peer.says(w.Detach(1))
    assert isinstance(said, DetachLink) and len(said.unsettled) == 100


def test_places_in_a_message() -> None:
    assert offset_of(b"", w.Received(0, 0)) == 0
    assert offset_of(b"junk", w.Received(1, 1)) == 0


def test_a_count_ahead_of_ours_makes_no_more_credit_than_there_can_be() -> None:
    peer = Peer()
    peer.receives(handle=0)
    flow = w.Flow(0, 100, 0, 100, 0, 0x7000_0000, 0xFFFF_FFFF, echo=True)
    peer.says(flow)
    (said,) = peer.hears()
    assert said.link_credit == 0xFFFF_FFFF
