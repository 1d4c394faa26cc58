"""Links by section: §2.6.1 to §2.6.6 names, handles, attach, detach, errors; §3.5 termini."""

from typing import Any

import pytest

from gateway.adapters.performatives import termini
from gateway.adapters.performatives.wire import layouts as w
from gateway.errors import Condition
from gateway.operations import (
    AttachSource,
    AttachTarget,
    Cancelled,
    DetachLink,
    Refused,
    SessionLost,
    Stolen,
    Terminus,
)
from gateway.values import Array, Described, Symbol, ULong
from tests.adapters.performatives.peer import PLAIN, Peer
from tests.adapters.performatives.wire import packed

# --- §2.6.3: establishing ----------------------------------------------------------------------


def test_a_source_is_asked_for() -> None:
    peer = Peer(opens={"container_id": "me"})
    (asked,) = peer.says(
        w.Attach("out", 1, True, 1, 1, w.Source("q", capabilities=("queue",)), w.Target("t"))
    )
    assert isinstance(asked, AttachSource)
    assert (asked.channel, asked.link, asked.name, asked.container) == (0, "1", "out", "me")
    assert asked.terminus == Terminus("q", capabilities=("queue",))
    assert asked.settled and asked.unsettled is None
    (attach,) = peer.hears()
    assert (attach.name, attach.handle, attach.role) == ("out", 0, False)
    assert (attach.snd_settle_mode, attach.rcv_settle_mode) == (1, 1)
    assert attach.initial_delivery_count == 0 and attach.target == w.Target("t")
    assert attach.unsettled is None


def test_a_target_is_asked_for() -> None:
    peer = Peer()
    (asked,) = peer.says(
        w.Attach("in", 1, False, None, None, w.Source("s"), w.Target("q"), initial_delivery_count=9)
    )
    assert isinstance(asked, AttachTarget) and asked.terminus == Terminus("q")
    attach, flow = peer.hears()
    assert (attach.role, attach.snd_settle_mode, attach.rcv_settle_mode) == (True, 2, 0)
    assert attach.source == w.Source("s") and attach.target.address == "q"
    assert attach.max_message_size == 128 << 20 and attach.initial_delivery_count is None
    assert (flow.handle, flow.delivery_count, flow.link_credit) == (0, 9, 1000)


def test_the_count_that_azures_clients_leave_out() -> None:
    peer = Peer()
    peer.says(w.Attach("in", 1, False, target=w.Target("q")))
    assert peer.hears()[1].delivery_count == 0


@pytest.mark.parametrize("role", [True, False])
def test_a_refused_link_has_no_terminus_and_is_closed(role: bool) -> None:
    peer = Peer()
    peer.says(
        w.Attach(
            "x", 0, role, source=w.Source("missing"), target=w.Target("missing"),
            initial_delivery_count=0,
        )
    )  # fmt: skip
    attach, detach = peer.hears()
    assert (attach.source if role else attach.target) is None
    assert (attach.target if role else attach.source) is not None
    assert attach.initial_delivery_count == (0 if role else None)
    assert detach.closed and detach.error == w.Error("amqp:not-found", "no queue missing")
    assert not peer.session.links and peer.says(w.Detach(0, True)) == []
    assert not peer.session.handles and peer.hears() == []


@pytest.mark.parametrize(
    ("condition", "symbol"),
    [
        (Condition.NOT_FOUND, "amqp:not-found"),
        (Condition.ACCESS_REFUSED, "amqp:unauthorized-access"),
        (Condition.RESOURCE_LOCKED, "amqp:resource-locked"),
        (Condition.PRECONDITION_FAILED, "amqp:precondition-failed"),
        (Condition.CONNECTION_FORCED, "amqp:link:detach-forced"),
        (Condition.NOT_IMPLEMENTED, "amqp:not-implemented"),
        (Condition.COMMAND_INVALID, "amqp:invalid-field"),
        (Condition.RESOURCE_ERROR, "amqp:resource-limit-exceeded"),
        (Condition.NOT_ALLOWED, "amqp:not-allowed"),
        (Condition.INTERNAL_ERROR, "amqp:internal-error"),
    ],
)
def test_refusals_of_the_broker(condition: Condition, symbol: str) -> None:
    peer = Peer()
    peer.broker.hold.add(AttachSource)
    peer.says(w.Attach("x", 0, True, source=w.Source("q")))
    (asked,) = peer.broker.held
    peer.broker.refuse(asked, condition, "no")
    peer.detached(symbol)


def test_pipelined_use_of_a_refused_link_is_excused() -> None:
    """Credit and deliveries may be under way while the refusal is."""
    peer = Peer()
    peer.feed(
        packed(w.Attach("x", 0, True, source=w.Source("missing")))
        + packed(w.Flow(0, 10, 0, 10, 0, 0, 5))
        + packed(w.Detach(0, True))
        + packed(w.Attach("x", 0, True, source=w.Source("q")))
    )
    assert [type(r).__name__ for r in peer.hears()] == ["Attach", "Detach", "Attach"]


def test_deliveries_wait_for_our_attach() -> None:
    peer = Peer()
    peer.sends()
    peer.transfers(settled=True)
    peer.broker.hold.add(AttachSource)
    peer.says(w.Attach("x", 1, True, source=w.Source("q")))
    peer.grants(5)
    assert peer.hears() == []
    (link,) = [each for each in peer.session.links.values() if not each.receiver]
    peer.broker.hold.clear()
    gates: list[bool] = []
    peer.session.allow_deliveries = gates.append
    peer.session.deliver(link.number, 1, False, peer.broker.queue("q")[0][0])
    assert peer.hears() == [] and len(link.held) == 1 and gates == [False]
    peer.says(w.Flow(0, 100, 2, 10))
    assert peer.hears() == [] and gates == [False]
    peer.broker.release()
    assert gates == [False, True]
    attach, transfer = peer.hears()[:2]
    assert isinstance(attach, w.Attach) and isinstance(transfer, w.Transfer)


def test_detached_before_it_was_attached() -> None:
    """Our detach comes behind our attach, in any order of answers."""
    peer = Peer()
    peer.broker.hold.add(AttachSource)
    peer.says(w.Attach("x", 1, True, source=w.Source("q")))
    peer.says(w.Detach(1, True))
    assert peer.hears() == []
    peer.broker.release()
    attach, detach = peer.hears()
    assert isinstance(attach, w.Attach) and detach == w.Detach(0, True)
    assert not peer.session._taken


def test_a_mistake_before_it_was_attached() -> None:
    peer = Peer()
    peer.broker.hold.add(AttachTarget)
    peer.says(w.Attach("x", 1, False, target=w.Target("q"), initial_delivery_count=0))
    found = peer.transfers(handle=1)
    assert [type(op) for op in found] == [DetachLink]
    peer.broker.release()
    attach, detach = peer.hears()
    assert isinstance(attach, w.Attach)
    assert detach.error.condition == "amqp:link:transfer-limit-exceeded"


def test_link_properties_of_a_pair() -> None:
    peer = Peer()
    attach = peer.receives(properties={Symbol("paired"): True, Symbol("other"): 1})
    assert attach.properties == {"paired": True}


def test_unknown_settle_modes_are_refused() -> None:
    peer = Peer()
    peer.feed(packed(w.Attach("x", 0, True, 3, None, w.Source("q"))))
    records = peer.hears()
    assert records[-1].error.condition == "amqp:invalid-field"


# --- §2.6.1: names -----------------------------------------------------------------------------


def test_a_link_is_stolen_on_its_connection() -> None:
    peer = Peer()
    peer.receives("out", 1)
    detach, attach = peer.says(w.Attach("out", 2, True, source=w.Source("q"), unsettled={}))
    assert isinstance(detach, DetachLink) and not detach.closed and detach.token is None
    assert isinstance(attach, AttachSource) and attach.unsettled == {}
    gone, new = peer.hears()
    assert gone.handle == 0 and gone.closed and gone.error.condition == "amqp:link:stolen"
    assert isinstance(new, w.Attach) and new.handle == 1


def test_from_another_session_too() -> None:
    peer = Peer()
    peer.sends("in", 0)
    peer.says(w.Begin(None, 0, 10, 10), channel=9)
    attach = w.Attach("in", 0, False, target=w.Target("q"), initial_delivery_count=0)
    peer.hears()
    peer.says(attach, channel=9)
    heard = peer.heard()
    assert [frame.channel for frame in heard] == [0, 1, 1]
    assert heard[0].record.error.condition == "amqp:link:stolen"


def test_a_name_may_be_used_once_for_each_direction() -> None:
    peer = Peer()
    peer.sends("both", 0)
    peer.receives("both", 1)
    assert len(peer.session.links) == 2


def test_the_broker_says_that_it_was_stolen() -> None:
    peer = Peer()
    peer.sends()
    peer.transfers(settled=True)
    peer.receives()
    peer.hears()
    peer.engine.send(Stolen(0, "2"))
    peer.detached("amqp:link:stolen")
    (said,) = peer.engine.found()
    assert said == DetachLink(0, None, "2", False, False, {1: bytes(7) + b"\1"})


def test_names_are_free_after_detach() -> None:
    peer = Peer()
    for _ in range(3):
        peer.receives("out", 5)
        peer.says(w.Detach(5, True))
        assert peer.hears() == [w.Detach(0, True)]


# --- §2.6.2: handles ---------------------------------------------------------------------------


def test_our_handles_are_the_lowest_that_are_free() -> None:
    peer = Peer()
    for name in "abc":
        peer.receives(name, ord(name))
    peer.says(w.Detach(ord("b"), True))
    peer.hears()
    assert peer.receives("d", 7).handle == 1
    assert peer.receives("e", 8).handle == 3


def test_as_many_links_as_there_are_handles() -> None:
    peer = Peer()
    for number in range(1024):
        assert peer.receives(str(number), number, credit=0).handle == number


# --- §2.6.4 to §2.6.6: detaching, errors, closing ----------------------------------------------


@pytest.mark.parametrize("closed", [True, False])
def test_detach_is_answered_alike(closed: bool) -> None:
    peer = Peer()
    peer.receives()
    (said,) = peer.says(w.Detach(1, closed))
    assert isinstance(said, DetachLink) and said.closed is closed and not said.lost
    assert peer.hears() == [w.Detach(0, closed or None)]


def test_a_detach_with_an_error_is_for_good() -> None:
    peer = Peer()
    peer.receives()
    (said,) = peer.says(w.Detach(1, None, w.Error("amqp:internal-error")))
    assert isinstance(said, DetachLink) and said.closed


def test_live_deliveries_of_a_detached_link_can_be_settled() -> None:
    """§2.7.6: as long as it was not closed."""
    peer = Peer()
    peer.sends()
    peer.transfers(settled=True)
    peer.receives()
    (said,) = peer.says(w.Detach(1))
    assert isinstance(said, DetachLink) and said.unsettled == {1: bytes(7) + b"\1"}
    assert len(peer.says(w.Disposition(True, 0, None, True, w.ACCEPTED))) == 1
    peer.transfers(1, settled=True)
    peer.hears()
    peer.receives()
    peer.says(w.Detach(1, True))
    assert peer.says(w.Disposition(True, 1, None, True, w.ACCEPTED)) == []


def test_attaching_again_ends_the_live_deliveries() -> None:
    peer = Peer()
    peer.sends()
    peer.transfers(settled=True)
    peer.receives()
    peer.says(w.Detach(1))
    assert peer.session.unsettled.sent and peer.session.suspended
    peer.hears()
    peer.receives(credit=0)
    assert not peer.session.unsettled.sent and not peer.session.suspended


def test_attaching_again_drops_pending_output() -> None:
    peer = Peer()
    peer.broker.confirming = False
    peer.sends()
    peer.transfers()
    peer.says(w.Detach(0))
    assert peer.session.unsettled.received and peer.session.suspended
    peer.hears()
    peer.sends()
    assert not peer.session.unsettled.received and not peer.session.suspended
    peer.session.confirm(1, True, True)
    assert peer.hears() == []


def test_only_so_many_detached_links_are_remembered() -> None:
    peer = Peer()
    peer.broker.confirming = False
    for number in range(1100):
        peer.sends(str(number))
        peer.transfers(number)
        peer.says(w.Detach(0))
        peer.hears()
    assert len(peer.session.suspended) == len(peer.session.unsettled.received) == 1024


def test_a_deleted_source() -> None:
    peer = Peer()
    peer.receives()
    peer.engine.send(Cancelled(0, "1"))
    peer.detached("amqp:resource-deleted")
    (said,) = peer.engine.found()
    assert isinstance(said, DetachLink) and said.closed
    assert peer.says(w.Flow(0, 10, 0, 10, 1, 0, 5)) == []  # was under way
    assert peer.says(w.Detach(1, True)) == [] and peer.hears() == []
    assert not peer.session.handles and not peer.session._taken
    peer.engine.send(Cancelled(0, "1"))
    assert peer.hears() == []


def test_transfers_under_way_when_a_link_failed_are_discarded() -> None:
    """§2.6.5, for what the peer cannot have known; and all of it for what it must have."""
    peer = Peer()
    peer.sends()
    (link,) = peer.session.links.values()
    link.credit = 2
    link.fail("amqp:resource-deleted", "gone", [])
    peer.hears()
    assert peer.transfers(0) == [] and peer.transfers(1) == [] and peer.hears() == []
    (lost,) = peer.transfers(2)
    assert isinstance(lost, SessionLost)
    peer.ended("amqp:session:errant-link")


def test_a_reattach_that_was_under_way_when_a_link_failed() -> None:
    peer = Peer()
    peer.receives()
    peer.engine.send(Cancelled(0, "1"))
    peer.hears()
    peer.says(w.Attach("out", 2, True, source=w.Source("q")))
    peer.ended("amqp:session:errant-link")


def test_a_resumption_is_none() -> None:
    peer = Peer()
    peer.receives()
    peer.engine.send(Cancelled(0, "1"))
    peer.hears()
    peer.says(w.Attach("out", 2, True, source=w.Source("q"), unsettled={}))
    (attach,) = peer.hears()
    assert isinstance(attach, w.Attach) and attach.handle == 1


def test_refusals_without_a_link_cost_nothing() -> None:
    from gateway.errors import Lost

    peer = Peer()
    peer.engine.send(Refused(0, None, Condition.NOT_FOUND, "?", Lost.LINK))
    assert peer.hears() == []


# --- §3.5: sources and targets -----------------------------------------------------------------


def test_a_source_with_everything() -> None:
    peer = Peer()
    policy = Described(ULong(0x2C), [])
    selector = Described(Symbol("apache.org:selector-filter:string"), "a = 1")
    source = w.Source(
        None, 2, "never", 60, True,
        {Symbol("lifetime-policy"): policy,
         Symbol("supported-dist-modes"): Array([Symbol("move"), Symbol("copy")])},
        "copy", {Symbol("sel"): selector, Symbol("none"): None},
        w.Modified(True), ("amqp:accepted:list", "amqp:odd:list"), ("queue", "x"),
    )  # fmt: skip
    (asked,) = peer.says(w.Attach("x", 0, True, source=source))
    assert isinstance(asked, AttachSource)
    terminus = asked.terminus
    assert (terminus.durable, terminus.expiry, terminus.timeout) == (2, "never", 60)
    assert terminus.dynamic and terminus.copy and terminus.capabilities == ("queue", "x")
    assert terminus.properties == {
        "lifetime-policy": w.DeleteOnNoLinks(),
        "supported-dist-modes": ("move", "copy"),
    }
    assert terminus.filters == {"sel": ("apache.org:selector-filter:string", "a = 1")}
    (attach,) = peer.hears()
    given = attach.source
    assert given.address == "dynamic-0" and given.dynamic
    assert given.distribution_mode == "copy" and given.default_outcome == w.Modified(True)
    assert given.outcomes == ("amqp:accepted:list",) and given.expiry_policy == "never"
    assert given.filter == {"sel": selector}
    assert given.dynamic_node_properties == {
        "lifetime-policy": policy,
        "supported-dist-modes": Array([Symbol("move"), Symbol("copy")], 0xA3),
    }


@pytest.mark.parametrize(
    "source",
    [
        w.Source("q", durable=3),
        w.Source("q", expiry_policy="someday"),
        w.Source("q", dynamic=True),
        w.Source("q", dynamic_node_properties={Symbol("a"): 1}),
        w.Source(dynamic=True, dynamic_node_properties={"text": 1}),
        w.Source("q", distribution_mode="steal"),
        w.Source("q", filter={"text": Described(Symbol("x"), 1)}),
        w.Source("q", filter={Symbol("plain"): 5}),
        w.Source(Described(Symbol("address"), "q")),
    ],
)
def test_termini_that_cannot_be(source: w.Source) -> None:
    peer = Peer()
    assert peer.says(w.Attach("x", 0, True, source=source)) == []
    attach, detach = peer.hears()
    assert attach.source is None and detach.error.condition == "amqp:invalid-field"


def test_no_terminus_asks_for_the_one_there_is() -> None:
    """§2.6.3: recovering a link."""
    peer = Peer()
    (asked,) = peer.says(w.Attach("x", 0, True))
    assert isinstance(asked, AttachSource) and asked.terminus == Terminus()


def test_a_terminus_of_a_kind_that_is_not_known() -> None:
    with pytest.raises(termini.BadTerminus):
        termini.read(Described(ULong(0x99), []))  # type: ignore[arg-type]


@pytest.mark.parametrize("unsettled", [{"text": None}, {b"t": 5}, {b"x" * 33: None}])
def test_unsettled_maps_that_cannot_be(unsettled: Any) -> None:
    peer = Peer()
    assert peer.says(w.Attach("x", 0, True, source=w.Source("q"), unsettled=unsettled)) == []
    assert peer.hears()[-1].error.condition == "amqp:invalid-field"
    assert PLAIN
