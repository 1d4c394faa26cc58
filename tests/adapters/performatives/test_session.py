"""Sessions by section: §2.5 begin, end, states and windows; errors that cost a session."""

from typing import Any

import pytest

from gateway.adapters.options import Limits
from gateway.adapters.performatives.deliveries import runs, within
from gateway.adapters.performatives.links import ahead
from gateway.adapters.performatives.wire import layouts as w
from gateway.errors import Condition, Lost
from gateway.operations import (
    BeginSession,
    Closed,
    DetachLink,
    Done,
    EndSession,
    Publish,
    Refused,
    SelectConfirms,
    SessionLost,
)
from tests.adapters.performatives.peer import PLAIN, Peer
from tests.adapters.performatives.wire import packed

# --- §2.5.1 to §2.5.5: begin and end -----------------------------------------------------------


def test_begin_is_answered_with_the_channel_it_came_on() -> None:
    peer = Peer(begin=False)
    begin, confirms = peer.says(w.Begin(None, 7, 5, 5, properties={}), channel=3)
    assert isinstance(begin, BeginSession) and isinstance(confirms, SelectConfirms)
    (heard,) = peer.heard()
    assert heard.channel == 0 and heard.record.remote_channel == 3
    assert heard.record.incoming_window == 2048 and heard.record.handle_max == 1023
    assert peer.session.next_incoming_id == 7 and peer.session.window == 5


def test_end_is_answered() -> None:
    peer = Peer()
    (said,) = peer.says(w.End())
    assert isinstance(said, EndSession)
    assert peer.hears() == [w.End()]
    assert not peer.engine.connection.sessions and not peer.engine.connection.channels.by_remote
    peer.says(w.Begin(None, 0, 1, 1))
    assert peer.engine.connection.sessions.keys() == {0}


def test_end_comes_behind_the_end_of_each_link() -> None:
    peer = Peer()
    peer.sends()
    peer.receives()
    one, other, end = peer.says(w.End())
    assert isinstance(one, DetachLink) and isinstance(other, DetachLink)
    assert {one.link, other.link} == {"1", "2"}
    assert (one.token, one.closed, one.lost) == (None, False, False)
    assert isinstance(end, EndSession)


def test_everything_may_be_pipelined() -> None:
    peer = Peer(begin=False)
    peer.feed(
        packed(w.Begin(None, 0, 100, 100))
        + packed(w.Attach("in", 0, False, target=w.Target("q"), initial_delivery_count=0))
        + packed(w.Attach("out", 1, True, source=w.Source("q")))
        + packed(w.Flow(None, 100, 0, 100, 1, 0, 5))
        + packed(w.Detach(1, True))
        + packed(w.End())
        + packed(w.Begin(None, 0, 100, 100))
    )
    heard = peer.heard()
    assert [frame.channel for frame in heard] == [0] * 5 + [1]
    kinds = [type(frame.record).__name__ for frame in heard]
    assert kinds == ["Begin", "Attach", "Attach", "Detach", "End", "Begin"]


def test_a_refused_session_is_begun_and_ended() -> None:
    peer = Peer(begin=False)
    peer.broker.hold.add(BeginSession)
    peer.says(w.Begin(None, 0, 100, 100))
    (asked,) = peer.broker.held
    refused = Refused(0, asked.token, Condition.RESOURCE_ERROR, "no more")  # type: ignore[attr-defined]
    peer.engine.send(refused)
    begin, end = peer.hears()
    assert isinstance(begin, w.Begin)
    assert end.error == w.Error("amqp:resource-limit-exceeded", "no more")


def test_a_session_that_dies_before_it_is_begun() -> None:
    """Nothing of it is written before its begin."""
    peer = Peer(begin=False)
    peer.feed(packed(w.Begin(None, 0, 100, 100)) + packed(w.Detach(5)) + packed(w.End()))
    begin, end = peer.hears()
    assert isinstance(begin, w.Begin)
    assert end.error.condition == "amqp:session:unattached-handle"
    peer.says(None)  # its number means it until what was found is acted upon
    assert not peer.engine.connection.sessions


def test_after_an_error_all_is_discarded_until_the_end() -> None:
    peer = Peer()
    peer.sends()
    found = peer.says(w.Detach(9))
    detach, lost = found
    assert isinstance(detach, DetachLink) and isinstance(lost, SessionLost)
    peer.ended("amqp:session:unattached-handle")
    for record in (
        w.Transfer(0, 0, b"t", 0),
        w.Flow(0, 1, 0, 1, 77, 0, 1),
        w.Attach("x", 0, True, source=w.Source("q")),
        w.Disposition(True, 5, 1),
        w.Detach(88),
    ):
        assert peer.says(record, PLAIN if isinstance(record, w.Transfer) else b"") == []
    assert peer.hears() == []
    assert peer.says(w.End()) == []
    assert peer.hears() == [] and not peer.engine.connection.sessions


def test_both_end_at_the_same_time() -> None:
    peer = Peer()
    peer.engine.send(SessionLost(0, Condition.INTERNAL_ERROR, "oh"))
    peer.ended("amqp:internal-error")
    peer.says(w.End())
    assert peer.hears() == [] and not peer.engine.connection.sessions


def test_the_broker_ends_a_session() -> None:
    peer = Peer()
    peer.engine.send(Refused(0, None, Condition.ACCESS_REFUSED, "not you", Lost.SESSION))
    peer.ended("amqp:unauthorized-access")


def test_the_connection_is_lost() -> None:
    peer = Peer()
    peer.sends()
    peer.receives()
    one, other, closed = peer.feed(b"")
    assert isinstance(one, DetachLink) and isinstance(other, DetachLink)
    assert one.lost and other.lost and not one.closed
    assert isinstance(closed, Closed)
    peer.engine.connection.sessions.clear()


def test_late_answers_are_ignored() -> None:
    peer = Peer()
    from gateway.operations import AttachSource, AttachTarget

    peer.broker.hold |= {AttachSource, AttachTarget}
    peer.says(w.Attach("a", 0, True, source=w.Source("q")))
    peer.says(w.Attach("b", 1, False, target=w.Target("q"), initial_delivery_count=0))
    peer.says(w.End())
    peer.hears()
    peer.broker.release()
    assert peer.hears() == []


# --- §2.5.6: windows ---------------------------------------------------------------------------


def test_our_window_is_topped_up_at_half() -> None:
    peer = Peer()
    peer.sends()
    flows = []
    for number in range(3000):
        peer.transfers(number, settled=True)
        flows += [r for r in peer.hears() if isinstance(r, w.Flow) and r.handle is None]
    assert [flow.next_incoming_id for flow in flows] == [1024, 2048]
    assert flows[0].incoming_window == 2048


def test_more_transfers_than_the_window() -> None:
    peer = Peer(limits=Limits())
    peer.sends()
    peer.session.incoming_window = 0
    peer.transfers()
    peer.ended("amqp:session:window-violation")


def test_transfer_ids_wrap_around() -> None:
    peer = Peer(begin=False)
    peer.says(w.Begin(None, 0xFFFF_FFFE, 10, 10))
    peer.hears()
    peer.sends()
    for number in range(4):
        peer.transfers((0xFFFF_FFFE + number) & 0xFFFF_FFFF)
    assert peer.session.next_incoming_id == 2
    assert [r.first for r in peer.hears()] == [0xFFFF_FFFE, 0xFFFF_FFFF, 0, 1]


def test_deliveries_wait_for_the_peers_window() -> None:
    peer = Peer(begin=False)
    peer.says(w.Begin(None, 0, 3, 10))
    peer.hears()
    gates: list[bool] = []
    peer.session.allow_deliveries = gates.append
    peer.sends()
    for number in range(6):
        peer.transfers(number, settled=True)
    peer.receives(credit=0)
    peer.says(w.Flow(0, 3, 6, 10, 1, 0, 100))
    assert [r.delivery_id for r in peer.hears()] == [0, 1, 2]
    assert gates == [False]
    peer.says(w.Flow(1, 3, 6, 10))  # one was seen: one more
    assert [r.delivery_id for r in peer.hears()] == [3]
    assert gates == [False]
    peer.says(w.Flow(4, 3, 6, 10))
    assert [r.delivery_id for r in peer.hears()] == [4, 5]
    assert gates == [False, True]


def test_a_window_before_our_begin_was_seen() -> None:
    """next-incoming-id is not set: it counts from our first transfer."""
    peer = Peer()
    peer.session.next_outgoing_id = 4
    peer.says(w.Flow(None, 10, 0, 10))
    assert peer.session.window == 6
    peer.says(w.Flow(9, 10, 0, 10))  # it cannot have seen more than we sent, but who knows
    assert peer.session.window == 15
    peer.says(w.Flow(0, 2, 0, 10))
    assert peer.session.window == 0


def test_echo_asks_for_the_state() -> None:
    peer = Peer()
    peer.receives(credit=0)
    peer.says(w.Flow(0, 1000, 0, 1000, echo=True))
    (flow,) = peer.hears()
    assert flow.handle is None and flow.next_incoming_id == 0
    peer.says(w.Flow(0, 1000, 0, 1000, 1, 0, 7, echo=True))
    (flow,) = peer.hears()
    assert (flow.handle, flow.link_credit, flow.delivery_count) == (0, 7, 0)
    assert not flow.echo


# --- errors that cost the session --------------------------------------------------------------


@pytest.mark.parametrize(
    "record",
    [
        w.Transfer(4, 0, b"t", 0),
        w.Flow(0, 1, 0, 1, 4, 0, 1),
        w.Detach(4),
    ],
)
def test_unattached_handles(record: Any) -> None:
    peer = Peer()
    peer.says(record)
    error = peer.ended("amqp:session:unattached-handle").error
    assert error is not None and "handle 4" in (error.description or "")


def test_a_handle_that_is_used() -> None:
    peer = Peer()
    peer.sends(handle=4)
    peer.says(w.Attach("other", 4, True, source=w.Source("q")))
    peer.ended("amqp:session:handle-in-use")


def test_a_handle_above_the_highest_costs_the_connection() -> None:
    peer = Peer()
    found = peer.says(w.Attach("other", 1024, True, source=w.Source("q")))
    assert isinstance(found[-1], Closed)
    assert peer.hears()[-1].error.condition == "amqp:connection:framing-error"


@pytest.mark.parametrize(
    "record",
    [
        w.Flow(0, 1, 0, 1, None, 0),
        w.Flow(0, 1, 0, 1, None, None, 5),
        w.Flow(0, 1, 0, 1, drain=True),
        w.Flow(0, 1, 0, 1, properties={"x": 1}),
        w.Disposition(True, 5, 4),
        w.Disposition(False, 1, 0xFFFF_0000),
    ],
)
def test_invalid_fields(record: Any) -> None:
    peer = Peer()
    peer.says(record)
    peer.ended("amqp:invalid-field")


def test_a_transfer_on_a_link_over_which_its_sender_receives() -> None:
    peer = Peer()
    peer.receives()
    peer.transfers(handle=1)
    peer.ended("amqp:not-allowed")


def test_a_delivery_id_that_is_unsettled_already() -> None:
    peer = Peer()
    peer.broker.confirming = False
    peer.sends()
    peer.transfers(3, delivery_tag=b"a")
    peer.transfers(3, delivery_tag=b"b")
    peer.ended("amqp:not-allowed")


def test_an_attach_that_fits_no_frame() -> None:
    peer = Peer(opens={"max_frame_size": 512})
    source = w.Source("q", capabilities=("x" * 400,))
    peer.says(w.Attach("n" * 200, 0, True, source=source))
    peer.ended("amqp:frame-size-too-small")


def test_more_links_than_the_peer_has_handles_for() -> None:
    peer = Peer(begin=False)
    peer.says(w.Begin(None, 0, 10, 10, 1))
    peer.hears()
    peer.receives("a", 0, credit=0)
    peer.receives("b", 1, credit=0)
    peer.says(w.Attach("c", 2, True, source=w.Source("q")))
    peer.ended("amqp:resource-limit-exceeded")


# --- small parts -------------------------------------------------------------------------------


def test_serial_numbers() -> None:
    assert ahead(5, 3) == 2 and ahead(3, 5) == -2
    assert ahead(0, 0xFFFF_FFFF) == 1 and ahead(0xFFFF_FFFF, 0) == -1


def test_a_range_costs_as_much_as_its_deliveries() -> None:
    book = {number: str(number) for number in (0xFFFF_FFFE, 0xFFFF_FFFF, 0, 7)}
    assert within(book, 0xFFFF_FFFF, 0x7FFF_FFFF) == [str(0xFFFF_FFFF), "0", "7"]
    assert within(book, 0xFFFF_FFFE, 3) == [str(0xFFFF_FFFE), str(0xFFFF_FFFF), "0"]
    assert within(book, 7, 0) == ["7"] and within(book, 8, 0) == []


def test_runs() -> None:
    assert list(runs([1, 2, 3, 5, 7, 8])) == [(1, 3), (5, 5), (7, 8)]
    assert list(runs([])) == []


def test_blocked_publishers_get_no_credit() -> None:
    from gateway.operations import Blocked, Unblocked

    peer = Peer()
    peer.engine.send(Blocked("memory"))
    peer.sends()
    assert peer.credit == []
    peer.engine.send(Unblocked())
    (flow,) = peer.hears()
    assert flow.link_credit == 1000


def test_publish_has_the_essentials() -> None:
    peer = Peer()
    peer.sends(address="somewhere")
    (said,) = peer.transfers()
    assert isinstance(said, Publish)
    assert (said.channel, said.message.key, said.mandatory) == (0, "somewhere", True)
    assert said.message.body == b"hello" and not Done(0, None).result
