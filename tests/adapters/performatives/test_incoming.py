"""Links over which we receive, by section: §2.6.7 credit, §2.6.12 settling, §2.6.14 large messages,
§2.7.5 transfers, §3.4 what becomes of a message."""

from typing import Any

import pytest

from gateway.adapters.options import Limits
from gateway.adapters.performatives.link_recovery import read_map
from gateway.adapters.performatives.wire import layouts as w
from gateway.errors import Condition, Lost
from gateway.operations import (
    AttachTarget,
    DetachLink,
    Manage,
    Outcome,
    Publish,
    Refused,
    Returned,
)
from tests.adapters.performatives.peer import PLAIN, Peer

ACCEPTED = w.ACCEPTED


def disposition(first: int, last: int | None = None, state: Any = ACCEPTED) -> w.Disposition:
    return w.Disposition(True, first, last, True, state)


# --- §2.6.7: credit ----------------------------------------------------------------------------


def test_credit_is_topped_up_at_half() -> None:
    peer = Peer()
    peer.sends()
    given = []
    for number in range(1600):
        peer.transfers(number, settled=True)
        given += [r for r in peer.hears() if isinstance(r, w.Flow) and r.handle == 0]
    assert [(flow.delivery_count, flow.link_credit) for flow in given] == [
        (500, 1000), (1000, 1000), (1500, 1000),
    ]  # fmt: skip


def test_unconfirmed_messages_count_against_credit() -> None:
    peer = Peer()
    peer.broker.confirming = False
    peer.sends()
    for number in range(1000):
        peer.transfers(number)
    (link,) = peer.session.links.values()
    assert link.credit == 0 and len(link.unsettled) == 1000
    peer.session.confirm(400, True, True)
    flows = [r for r in peer.hears() if isinstance(r, w.Flow) and r.handle is not None]
    assert [flow.link_credit for flow in flows] == [400]


def test_a_delivery_without_credit() -> None:
    peer = Peer()
    peer.sends()
    (link,) = peer.session.links.values()
    link.credit = link.window = 0
    (said,) = peer.transfers()
    assert isinstance(said, DetachLink) and said.closed
    peer.detached("amqp:link:transfer-limit-exceeded")


def test_the_sender_drops_credit() -> None:
    peer = Peer()
    peer.sends()
    peer.says(w.Flow(0, 10, 0, 10, 0, 600, 1000))
    (link,) = peer.session.links.values()
    (flow,) = peer.hears()  # 400 were left
    assert (flow.delivery_count, flow.link_credit) == (600, 1000) and link.credit == 1000


# --- §2.6.12, §2.7.6: settling -----------------------------------------------------------------


def test_neighbours_are_told_in_one_frame() -> None:
    peer = Peer()
    peer.broker.confirming = False
    peer.sends()
    for number in (4, 5, 6, 8, 9):
        peer.transfers(number)
    peer.transfers(7, settled=True)
    peer.session.confirm(6, True, True)
    assert peer.hears() == [disposition(4, 6), disposition(8, 9)]
    assert not peer.session.unsettled.received


def test_confirms_out_of_order() -> None:
    peer = Peer()
    peer.broker.confirming = False
    peer.sends()
    for number in range(6):
        peer.transfers(number)
    for sequence, multiple in ((3, False), (1, False), (2, False), (6, True), (6, True)):
        peer.session.confirm(sequence, multiple, True)
    assert peer.hears() == [
        disposition(2), disposition(0), disposition(1), disposition(3, 5),
    ]  # fmt: skip


def test_mode_second_waits_for_the_sender() -> None:
    peer = Peer()
    attach = peer.sends(rcv_settle_mode=1)
    assert attach.rcv_settle_mode == 1
    peer.transfers(0)
    peer.transfers(1, rcv_settle_mode=0)
    peer.transfers(2, rcv_settle_mode=1)
    assert peer.hears() == [
        w.Disposition(True, 0, None, None, ACCEPTED),
        disposition(1),
        w.Disposition(True, 2, None, None, ACCEPTED),
    ]
    assert list(peer.session.unsettled.received) == [0, 2]
    assert peer.says(w.Disposition(False, 0, 9, True, ACCEPTED)) == []
    assert peer.hears() == [] and not peer.session.unsettled.received


def test_unsettled_outcomes_are_told_when_the_link_ends() -> None:
    peer = Peer()
    peer.sends(rcv_settle_mode=1)
    peer.transfers(0)
    peer.broker.confirming = False
    peer.transfers(1)
    (said,) = peer.says(w.Detach(0))
    assert isinstance(said, DetachLink)
    assert said.outcomes == {b"t0": Outcome.ACCEPT} and said.unsettled == {}


def test_the_sender_may_settle_before_we_know() -> None:
    peer = Peer()
    peer.broker.confirming = False
    peer.sends()
    peer.transfers(0)
    peer.says(w.Disposition(False, 0, None, True))
    peer.session.confirm(1, True, True)
    assert peer.hears() == []


def test_outcomes_of_a_closed_link_are_held_back() -> None:
    peer = Peer()
    peer.broker.confirming = False
    peer.sends()
    peer.transfers(0)
    peer.says(w.Detach(0, True))
    peer.hears()
    peer.session.confirm(1, True, True)
    assert peer.hears() == []


def test_but_not_of_a_detached_one() -> None:
    peer = Peer()
    peer.broker.confirming = False
    peer.sends()
    peer.transfers(0)
    peer.says(w.Detach(0))
    peer.hears()
    peer.session.confirm(1, True, True)
    assert peer.hears() == [disposition(0)]


@pytest.mark.parametrize(
    ("condition", "state"),
    [
        (Condition.NO_ROUTE, w.Released()),
        (
            Condition.PRECONDITION_FAILED,
            w.Rejected(w.Error("amqp:precondition-failed", "no")),
        ),
        (
            Condition.CONTENT_TOO_LARGE,
            w.Rejected(w.Error("amqp:link:message-size-exceeded", "no")),
        ),
        (Condition.ACCESS_REFUSED, w.Rejected(w.Error("amqp:unauthorized-access", "no"))),
    ],
)
def test_returned_outcomes(condition: Condition, state: Any) -> None:
    peer = Peer()
    peer.broker.confirming = False
    peer.sends()
    found = [peer.transfers(number)[0] for number in range(4)]
    assert isinstance(found[1], Publish)
    peer.engine.send(Returned(0, found[1].message, condition, "no", 2))
    peer.session.confirm(4, True, True)
    assert peer.hears() == [disposition(0), disposition(1, state=state), disposition(2, 3)]


def test_unaccepted_messages() -> None:
    peer = Peer()
    peer.broker.confirming = False
    peer.sends()
    peer.transfers(0)
    peer.transfers(1)
    peer.session.confirm(2, True, False)
    (told,) = peer.hears()
    assert (told.first, told.last) == (0, 1)
    assert told.state.error.condition == "amqp:resource-limit-exceeded"


def test_settled_messages_have_numbers_too() -> None:
    peer = Peer()
    peer.broker.confirming = False
    peer.sends()
    peer.transfers(0, settled=True)
    peer.transfers(1)
    peer.session.confirm(1, False, True)
    assert peer.hears() == []
    peer.session.confirm(2, False, True)
    assert peer.hears() == [disposition(1)]


# --- §2.6.14, §2.7.5: transfers ----------------------------------------------------------------


def parts(peer: Peer, *fields: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    for at, each in enumerate(fields):
        record = w.Transfer(0, **each)
        payload = PLAIN[at * 2 : at * 2 + 2] if at < len(fields) - 1 else PLAIN[at * 2 :]
        found += peer.says(record, payload)
    return found


FIRST: dict[str, Any] = {
    "delivery_id": 0, "delivery_tag": b"t", "message_format": 0, "more": True,
}  # fmt: skip


def test_a_message_of_several_transfers() -> None:
    peer = Peer()
    peer.sends()
    (said,) = parts(peer, FIRST, {"more": True}, {})
    assert isinstance(said, Publish) and said.message.body == b"hello"
    assert peer.hears() == [disposition(0)] and peer.engine.connection.under_way == 0


def test_many_small_pieces_take_no_room_of_their_own() -> None:
    peer = Peer()
    peer.sends()
    size = 5000
    head = b"\x00\x53\x75\xb0" + size.to_bytes(4, "big")
    peer.says(w.Transfer(0, **FIRST), head)
    for number in range(size):
        peer.says(w.Transfer(0, more=True), bytes((number % 256,)))
        peer.says(w.Transfer(0, more=True))
    (link,) = peer.session.links.values()
    assert len(link.partial.pieces._pieces) == 1 and peer.engine.connection.under_way == size + 8
    (said,) = peer.says(w.Transfer(0))
    assert isinstance(said, Publish)
    assert said.message.body == bytes(number % 256 for number in range(size))
    assert isinstance(said.message.body, bytes)


def test_repeated_transfers() -> None:
    peer = Peer()
    peer.sends()
    assert len(parts(peer, FIRST, FIRST, {**FIRST, "more": False})) == 1


@pytest.mark.parametrize(
    "wrong", [{"delivery_id": 1}, {"delivery_tag": b"x"}, {"message_format": 1}]
)
def test_and_must_be_the_same(wrong: dict[str, Any]) -> None:
    peer = Peer()
    peer.sends()
    parts(peer, FIRST, wrong)
    peer.detached("amqp:invalid-field")
    assert peer.engine.connection.under_way == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"delivery_id": None},
        {"delivery_tag": None},
        {"delivery_tag": b"x" * 33},
        {"rcv_settle_mode": 1},
    ],
)
def test_first_transfers_that_cannot_be(wrong: dict[str, Any]) -> None:
    peer = Peer()
    peer.sends()
    parts(peer, {**FIRST, "more": None, **wrong})
    peer.detached("amqp:invalid-field")


def test_messages_of_different_links_may_mix() -> None:
    peer = Peer()
    peer.sends("a", 0)
    peer.sends("b", 1)
    peer.says(w.Transfer(0, 0, b"t", 0, more=True), PLAIN[:3])
    peer.says(w.Transfer(1, 1, b"t", 0, more=True), PLAIN[:6])
    assert len(peer.says(w.Transfer(0), PLAIN[3:])) == 1
    assert len(peer.says(w.Transfer(1), PLAIN[6:])) == 1


def test_an_aborted_message_is_discarded_and_settled() -> None:
    peer = Peer()
    peer.sends()
    assert parts(peer, FIRST, {"more": True}, {"aborted": True, "more": True}) == []
    assert (
        peer.hears() == []
        and not peer.session.unsettled.received
        and peer.engine.connection.under_way == 0
    )
    (link,) = peer.session.links.values()
    assert not link.unsettled and link.credit == 999
    assert len(peer.transfers(1, delivery_tag=b"t")) == 1


def test_settled_on_any_transfer_is_settled() -> None:
    peer = Peer()
    peer.sends()
    (said,) = parts(peer, FIRST, {"more": True, "settled": True}, {"settled": False})
    assert isinstance(said, Publish) and not peer.session.unsettled.received
    assert peer.hears() == []


@pytest.mark.parametrize(("mode", "settled"), [(0, True), (1, False), (1, None)])
@pytest.mark.parametrize("several", [True, False])
def test_settling_against_the_links_mode(mode: int, settled: Any, several: bool) -> None:
    peer = Peer()
    peer.sends(snd_settle_mode=mode)
    if several:
        parts(peer, {**FIRST, "settled": settled}, {})
    else:
        parts(peer, {**FIRST, "settled": settled, "more": None})
    peer.detached("amqp:invalid-field")


def test_a_tag_that_is_unsettled_here_may_come_again() -> None:
    """ProtonJ2 keeps a few tags and uses one again as soon as it has settled its delivery. Each
    delivery has its outcome, by its id (§2.6.12)."""
    peer = Peer()
    peer.broker.confirming = False
    peer.sends()
    for number in range(1000):
        assert len(peer.transfers(number, delivery_tag=b"%d" % (number % 3))) == 1
    (link,) = peer.session.links.values()
    assert link.credit == 0 and len(link.unsettled) == 1000
    peer.session.confirm(1000, True, True)
    said = [r for r in peer.hears() if isinstance(r, w.Disposition)]
    assert [(r.first, r.last, r.settled) for r in said] == [(0, 999, True)]
    assert not link.unsettled and not peer.session.unsettled.received


def test_the_settlement_of_one_leaves_the_other_of_its_tag() -> None:
    peer = Peer()
    peer.broker.confirming = False
    peer.sends(rcv_settle_mode=1)
    for number in range(2):
        peer.transfers(number, delivery_tag=b"t")
    peer.session.confirm(1, False, True)
    peer.says(w.Disposition(False, 0, None, True))
    (link,) = peer.session.links.values()
    assert list(link.unsettled) == [1]
    peer.hears()
    peer.session.confirm(2, False, True)
    (said,) = [r for r in peer.hears() if isinstance(r, w.Disposition)]
    assert (said.first, said.settled, said.state) == (1, None, ACCEPTED)


def test_a_delivery_id_that_is_unsettled_already() -> None:
    peer = Peer()
    peer.broker.confirming = False
    peer.sends()
    peer.transfers(0, delivery_tag=b"t")
    peer.transfers(0, delivery_tag=b"u")
    peer.ended("amqp:not-allowed")


def test_tags_may_be_empty_and_come_again() -> None:
    peer = Peer()
    peer.sends()
    for number in range(3):
        assert len(peer.transfers(number, delivery_tag=b"")) == 1


def test_a_message_that_is_too_large() -> None:
    peer = Peer(limits=Limits(max_message_octets=100))
    attach = peer.sends()
    assert attach.max_message_size == 100
    peer.transfers(0, b"x" * 101)
    peer.detached("amqp:link:message-size-exceeded")
    peer.says(w.Detach(0, True))
    peer.hears()
    peer.sends()
    for _ in range(3):
        peer.says(w.Transfer(0, 1, b"t", 0, more=True), b"x" * 40)
    peer.detached("amqp:link:message-size-exceeded")
    assert peer.engine.connection.under_way == 0


def test_half_sent_messages_are_limited_over_the_connection() -> None:
    peer = Peer(limits=Limits(max_message_octets=1000))
    for number in range(6):
        peer.sends(str(number), number)
    for number in range(4):
        peer.says(w.Transfer(number, number, b"t", 0, more=True), b"x" * 1000)
    assert peer.hears() == [] and peer.engine.connection.under_way == 4000
    peer.says(w.Transfer(4, 4, b"t", 0, more=True), b"x")
    peer.detached("amqp:resource-limit-exceeded")
    assert peer.engine.connection.under_way == 4000
    peer.says(w.Detach(0, True))
    assert peer.engine.connection.under_way == 3000
    peer.says(w.End())
    assert peer.engine.connection.under_way == 0


def test_a_message_of_another_format() -> None:
    peer = Peer()
    peer.sends()
    assert peer.transfers(0, message_format=0x80013700) == []
    (told,) = peer.hears()
    assert told.state.error.condition == "amqp:not-implemented" and told.settled
    peer.transfers(1, message_format=0x80013700, settled=True)
    peer.detached("amqp:not-implemented")


@pytest.mark.parametrize(
    "octets",
    [b"\x00\x53\x75\xa0\x09short", b"\x00\x53\x10\x45", b"\x40", PLAIN + PLAIN[:4], b"\x00"],
)
def test_a_message_that_is_none(octets: bytes) -> None:
    peer = Peer()
    peer.sends()
    assert peer.transfers(0, octets) == []
    (told,) = peer.hears()
    assert told.state.error.condition == "amqp:decode-error" and told.settled
    peer.transfers(1, octets, settled=True)
    peer.detached("amqp:decode-error")


def test_a_message_without_a_body() -> None:
    peer = Peer()
    peer.sends()
    (said,) = peer.transfers(0, b"")
    assert isinstance(said, Publish) and said.message.body == b""


# --- places ------------------------------------------------------------------------------------


def to(address: str) -> bytes:
    return (
        b"\x00\x53\x73\xc0"
        + bytes((len(address) + 5, 3))
        + b"\x40\x40\xa1"
        + bytes((len(address),))
        + address.encode()
        + PLAIN
    )


def test_the_anonymous_terminus() -> None:
    peer = Peer()
    peer.sends(address=None)
    for number in range(2):
        (said,) = peer.transfers(number, to("place"))
        assert isinstance(said, Publish) and said.message.key == "place"
    assert peer.hears() == [disposition(0), disposition(1)]
    assert peer.transfers(2, to("missing")) == []
    (told,) = peer.hears()
    assert told.state.error == w.Error("amqp:not-found", "no place missing")
    assert peer.transfers(3, PLAIN) == []
    assert peer.hears()[0].state.error.condition == "amqp:not-found"
    assert peer.transfers(4, to("missing"), settled=True) == []
    assert peer.hears() == []


def test_a_topic_need_not_have_subscribers() -> None:
    peer = Peer()
    peer.sends(target=w.Target("q", capabilities=("topic",)))
    (said,) = peer.transfers()
    assert isinstance(said, Publish) and not said.mandatory


def test_the_management_node() -> None:
    peer = Peer()
    peer.sends(address="/management")
    (said,) = peer.transfers()
    assert isinstance(said, Manage) and said.message.body == b"hello"
    assert peer.hears() == [disposition(0)]
    peer.broker.hold.add(Manage)
    (said,) = peer.transfers(1)
    assert isinstance(said, Manage)
    peer.engine.send(Refused(0, said.token, Condition.COMMAND_INVALID, "bad", Lost.LINK))
    (told,) = peer.hears()
    assert told.state.error == w.Error("amqp:invalid-field", "bad")


# --- resuming as a target (§2.6.13) ------------------------------------------------------------


def resumed(peer: Peer, known: dict[bytes, Any], **fields: Any) -> w.Attach:
    from gateway.operations import Attached, Resumed, Terminus

    peer.broker.hold.add(AttachTarget)
    fields.setdefault("unsettled", {tag: None for tag in known})
    peer.says(w.Attach("in", 0, False, target=w.Target("q"), initial_delivery_count=0, **fields))
    (asked,) = peer.broker.held
    peer.broker.held.clear()
    peer.broker.hold.clear()
    peer.broker.answer(
        asked,
        Attached(
            Terminus("q"), "", "q",
            resumed=[Resumed(tag, 0, outcome, None) for tag, outcome in known.items()],
        ),
    )  # fmt: skip
    attach, _ = peer.hears()
    assert isinstance(attach, w.Attach)
    return attach


def test_resumed_deliveries_are_answered_and_not_published() -> None:
    peer = Peer()
    attach = resumed(peer, {b"a": Outcome.ACCEPT, b"b": Outcome.RELEASE}, rcv_settle_mode=1)
    assert read_map(attach.unsettled) == {b"a": ACCEPTED, b"b": w.Released()}
    assert not attach.incomplete_unsettled
    assert peer.transfers(0, delivery_tag=b"a", resume=True) == []
    assert peer.hears() == [w.Disposition(True, 0, None, None, ACCEPTED)]
    # The sender's outcome counts (§3.4.6, delivery-tag 13).
    assert peer.transfers(1, b"", delivery_tag=b"b", resume=True, state=w.Rejected()) == []
    assert peer.hears() == [w.Disposition(True, 1, None, None, w.Rejected())]
    assert peer.says(w.Disposition(False, 0, 1, True)) == []
    assert not peer.session.unsettled.received


def test_settled_and_aborted_resumptions_are_forgotten() -> None:
    peer = Peer()
    resumed(peer, {b"a": Outcome.ACCEPT, b"b": Outcome.ACCEPT})
    assert peer.transfers(0, b"", delivery_tag=b"a", resume=True, settled=True) == []
    assert peer.transfers(1, b"", delivery_tag=b"b", resume=True, aborted=True) == []
    assert peer.hears() == []
    (link,) = peer.session.links.values()
    assert not link.known and not link.unsettled


def test_resumed_deliveries_that_we_do_not_know_are_ignored() -> None:
    peer = Peer()
    resumed(peer, {})
    assert peer.transfers(0, delivery_tag=b"x", resume=True) == []
    assert peer.hears() == []
    assert len(peer.transfers(1, delivery_tag=b"x")) == 1


def test_unresumed_outcomes_are_sent_again_at_detach() -> None:
    peer = Peer()
    resumed(peer, {b"a": Outcome.ACCEPT})
    (said,) = peer.says(w.Detach(0))
    assert isinstance(said, DetachLink) and said.outcomes == {b"a": Outcome.ACCEPT}


def test_an_incomplete_map_allows_nothing_new() -> None:
    peer = Peer(opens={"max_frame_size": 512})
    known: dict[bytes, Any] = {b"%032d" % n: Outcome.ACCEPT for n in range(100)}
    attach = resumed(peer, known)
    assert attach.incomplete_unsettled and 0 < len(attach.unsettled or {}) < 100
    assert peer.transfers(0, delivery_tag=b"%032d" % 99, resume=True) == []
    peer.hears()
    peer.transfers(1, delivery_tag=b"new")
    peer.detached("amqp:not-allowed")
