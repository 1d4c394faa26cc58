"""Transactions by section: §4.2 declare, §4.3 discharge, §4.4 work, §4.5 coordination."""

from typing import Any

import pytest

from gateway.adapters.performatives.composites import write
from gateway.adapters.performatives.wire import layouts as w
from gateway.errors import Condition, Lost
from gateway.operations import (
    Assure,
    DeclareTransaction,
    DetachLink,
    Discharge,
    Modify,
    Outcome,
    Post,
    Refused,
    Retire,
    Settle,
)
from tests.adapters.performatives.peer import PLAIN, Peer

CONTROL = 9


def value(record: Any) -> bytes:
    return b"\x00\x53\x77" + write(record)


class Controller(Peer):
    """A peer with a control link; its deliveries there count from 1000."""

    def __init__(self, source: Any = w.Source(), **options: Any) -> None:  # noqa: B008
        super().__init__(**options)
        self.control = self.sends("control", CONTROL, target=w.Coordinator(), source=source)
        self._next = 1000

    def asks(self, record: Any, **fields: Any) -> list[Any]:
        """Send it to the coordinator; returns our answer."""
        number = self._next = self._next + 1
        self.transfers(number, value(record), CONTROL, **fields)
        return [record for record in self.hears() if not isinstance(record, w.Flow)]

    def declares(self) -> bytes:
        (told,) = self.asks(w.Declare())
        assert told.settled and isinstance(told.state, w.Declared)
        assert isinstance(told.state.txn_id, bytes)
        return told.state.txn_id

    def rejected(self, record: Any, symbol: str) -> None:
        (told,) = self.asks(record)
        assert told.settled and told.state.error.condition == symbol

    def posts(self, number: int, work: bytes, **fields: Any) -> list[Any]:
        self.transfers(number, state=w.TransactionalState(work), **fields)
        return self.hears()


# --- §4.1, §4.5.1: control links ---------------------------------------------------------------


def test_a_control_link() -> None:
    peer = Controller()
    assert peer.control.target == w.Coordinator(
        ("amqp:local-transactions", "amqp:multi-txns-per-ssn")
    )
    (flow,) = peer.credit
    assert flow.link_credit == 100
    peer.says(w.Detach(CONTROL, True))
    assert peer.hears() == [w.Detach(0, True)]


def test_detaching_it_rolls_back() -> None:
    peer = Controller()
    work = peer.declares()
    (said,) = peer.says(w.Detach(CONTROL))
    assert isinstance(said, DetachLink) and said.closed  # it cannot be resumed
    peer.hears()
    peer.sends()
    (told,) = peer.posts(0, work)
    assert told.state.error.condition == "amqp:transaction:unknown-id"


def test_settle_modes_that_are_not_known() -> None:
    peer = Peer()
    peer.says(w.Attach("c", 0, False, 7, target=w.Coordinator(), initial_delivery_count=0))
    peer.detached("amqp:invalid-field")


def test_only_a_sender_can_have_one() -> None:
    peer = Peer()
    peer.says(w.Attach("c", 0, True, source=w.Source("q"), target=w.Coordinator()))
    (attach,) = peer.hears()
    assert attach.target == w.Coordinator()


# --- §4.2, §4.3: declare and discharge ---------------------------------------------------------


@pytest.mark.parametrize("fail", [False, True, None])
def test_declare_and_discharge(fail: bool | None) -> None:
    peer = Controller()
    work = peer.declares()
    assert isinstance(peer.broker.heard[-1], DeclareTransaction)
    (told,) = peer.asks(w.Discharge(work, fail))
    assert told.settled and told.state == w.ACCEPTED
    said = peer.broker.heard[-1]
    assert isinstance(said, Discharge) and (said.transaction, said.fail) == (work, bool(fail))
    peer.rejected(w.Discharge(work), "amqp:transaction:unknown-id")


def test_a_global_transaction() -> None:
    Controller().rejected(w.Declare(b"global"), "amqp:not-implemented")


def test_too_many() -> None:
    peer = Controller()
    for _ in range(255):
        peer.declares()
    peer.rejected(w.Declare(), "amqp:resource-limit-exceeded")


@pytest.mark.parametrize("payload", [PLAIN, b"", value(w.Declare()) * 2, b"\x00\x53\x77"])
def test_messages_for_the_coordinator_that_are_none(payload: bytes) -> None:
    peer = Controller()
    peer.transfers(0, payload, CONTROL)
    (told,) = peer.hears()
    assert told.state.error.condition == "amqp:decode-error"


@pytest.mark.parametrize("payload", [b"\x00\x53\x77\x40", value(w.ACCEPTED)])
def test_values_that_it_does_not_know(payload: bytes) -> None:
    peer = Controller()
    peer.transfers(0, payload, CONTROL)
    (told,) = peer.hears()
    assert told.state.error.condition == "amqp:not-implemented"


def test_a_settled_request() -> None:
    peer = Controller()
    peer.transfers(0, value(w.Declare()), CONTROL, settled=True)
    peer.detached("amqp:illegal-state")


def test_transactional_work_on_a_control_link() -> None:
    peer = Controller()
    work = peer.declares()
    peer.transfers(0, value(w.Declare()), CONTROL, state=w.TransactionalState(work))
    peer.detached("amqp:not-allowed")


def test_a_source_without_rejected_is_told_by_the_end() -> None:
    peer = Controller(w.Source(outcomes=("amqp:accepted:list",)))
    peer.asks(w.Discharge(b"x"))
    found = peer.engine.found()
    assert [type(op) for op in found] == [DetachLink]
    assert not peer.session.links


def test_a_source_with_rejected() -> None:
    peer = Controller(w.Source(outcomes=("amqp:rejected:list", "amqp:declared:list")))
    peer.rejected(w.Discharge(b"x"), "amqp:transaction:unknown-id")


@pytest.mark.parametrize("request_", [DeclareTransaction, Discharge])
def test_the_broker_says_no(request_: type[Any]) -> None:
    peer = Controller()
    work = peer.declares()
    peer.broker.hold.add(request_)
    peer.asks(w.Declare() if request_ is DeclareTransaction else w.Discharge(work))
    (asked,) = peer.broker.held
    assert isinstance(asked, (DeclareTransaction, Discharge))
    peer.engine.send(Refused(0, asked.token, Condition.RESOURCE_ERROR, "no", Lost.LINK))
    (told,) = peer.hears()
    symbol = "amqp:resource-limit-exceeded"
    if request_ is Discharge:
        symbol = "amqp:transaction:rollback"
    assert told.state.error == w.Error(symbol, "no")


def test_another_control_links_transaction() -> None:
    peer = Controller()
    work = peer.declares()
    peer.sends("second", 8, target=w.Coordinator())
    peer.transfers(0, value(w.Discharge(work)), 8)
    (told,) = peer.hears()
    assert told.state.error.condition == "amqp:transaction:unknown-id"


# --- §4.4.1, §4.4.4.1: posting -----------------------------------------------------------------


def test_posting() -> None:
    peer = Controller()
    peer.sends()
    work = peer.declares()
    (told,) = peer.posts(0, work)
    assert told.settled and told.state == w.TransactionalState(work, w.ACCEPTED)
    said = peer.broker.heard[-1]
    assert isinstance(said, Post) and said.transaction == work and said.message.key == "q"
    assert not peer.broker.queue("q")
    peer.asks(w.Discharge(work))
    assert len(peer.broker.queue("q")) == 1


def test_posting_in_mode_second() -> None:
    peer = Controller()
    peer.sends(rcv_settle_mode=1)
    work = peer.declares()
    (told,) = peer.posts(0, work)
    assert not told.settled and 0 in peer.session.unsettled.received
    peer.says(w.Disposition(False, 0, None, True))
    assert 0 not in peer.session.unsettled.received


def test_posting_without_a_route() -> None:
    peer = Controller()
    peer.sends(address="nowhere")
    work = peer.declares()
    (told,) = peer.posts(0, work)
    assert told.state == w.TransactionalState(work, w.Released())
    assert peer.asks(w.Discharge(work))[0].state == w.ACCEPTED


def test_posting_to_a_topic_without_subscribers() -> None:
    peer = Controller()
    peer.sends(target=w.Target("nowhere", capabilities=("topic",)))
    work = peer.declares()
    (told,) = peer.posts(0, work)
    assert told.state == w.TransactionalState(work, w.ACCEPTED)


def test_settled_transfers_have_no_outcome() -> None:
    """So the discharge must fail (§4.4.4.1), but not a rollback."""
    peer = Controller()
    peer.sends(address="nowhere")
    work = peer.declares()
    assert peer.posts(0, work, settled=True) == []
    peer.rejected(w.Discharge(work), "amqp:transaction:rollback")
    said = peer.broker.heard[-1]
    assert isinstance(said, Discharge) and said.fail
    work = peer.declares()
    assert peer.posts(1, work, settled=True) == []
    assert peer.asks(w.Discharge(work, True))[0].state == w.ACCEPTED


def test_a_message_that_is_none() -> None:
    peer = Controller()
    peer.sends()
    work = peer.declares()
    (told,) = peer.posts(0, work, payload=b"\x40")
    assert told.state.txn_id == work
    assert told.state.outcome.error.condition == "amqp:decode-error"


def test_the_broker_does_not_take_a_post() -> None:
    peer = Controller()
    peer.sends()
    work = peer.declares()
    peer.broker.hold.add(Post)
    peer.posts(0, work)
    (asked,) = peer.broker.held
    assert isinstance(asked, Post)
    peer.engine.send(Refused(0, asked.token, Condition.ACCESS_REFUSED, "no", Lost.LINK))
    (told,) = peer.hears()
    assert told.state.outcome.error == w.Error("amqp:unauthorized-access", "no")


def test_posting_to_no_transaction() -> None:
    peer = Controller()
    peer.sends()
    (told,) = peer.posts(0, b"nothing")
    assert told.state.error.condition == "amqp:transaction:unknown-id"
    peer.posts(1, b"nothing", settled=True)
    assert not peer.broker.published[0]
    assert [link.name for link in peer.session.links.values()] == ["control"]


def test_posting_to_an_anonymous_place() -> None:
    peer = Controller()
    peer.sends(address=None)
    work = peer.declares()
    (told,) = peer.posts(0, work)
    assert told.state.outcome.error.condition == "amqp:not-found"


def test_discharging_while_a_message_is_posted_in_part() -> None:
    peer = Controller()
    peer.sends()
    work = peer.declares()
    peer.posts(0, work, more=True)
    peer.transfers(2000, value(w.Discharge(work)), CONTROL)
    peer.detached("amqp:transaction:rollback")


def test_parts_of_different_transactions() -> None:
    peer = Controller()
    peer.sends()
    one, two = peer.declares(), peer.declares()
    peer.posts(0, one, payload=PLAIN[:2], more=True)
    peer.transfers(0, PLAIN[2:], state=w.TransactionalState(two))
    peer.detached("amqp:not-allowed")


def test_the_transaction_may_be_said_later() -> None:
    peer = Controller()
    peer.sends()
    work = peer.declares()
    peer.transfers(0, PLAIN[:2], more=True)
    (told,) = peer.posts(0, work, payload=PLAIN[2:])
    assert told.state.txn_id == work


# --- §4.4.2, §4.4.4.2: retiring ----------------------------------------------------------------


def holding(count: int) -> Controller:
    peer = Controller()
    peer.sends()
    for number in range(count):
        peer.transfers(number, settled=True)
    peer.receives(credit=count)
    assert len([r for r in peer.hears() if isinstance(r, w.Transfer)]) == count
    return peer


def retires(peer: Peer, first: int, work: bytes, settled: bool, state: Any = w.ACCEPTED) -> Any:
    return peer.says(w.Disposition(True, first, None, settled, w.TransactionalState(work, state)))


def test_retiring() -> None:
    peer = holding(3)
    work = peer.declares()
    assert retires(peer, 0, work, False) == [Retire(0, work, 1, Outcome.ACCEPT, False)]
    assert retires(peer, 1, work, True, w.Rejected()) == [Retire(0, work, 2, Outcome.REJECT, True)]
    assert retires(peer, 2, work, True, w.Modified(True)) == [
        Retire(0, work, 3, Modify(0, 3, True, False, None), True)
    ]
    assert peer.hears() == [] and list(peer.session.unsettled.sent) == [0]
    settled, told = peer.asks(w.Discharge(work))
    assert settled == w.Disposition(False, 0, None, True, w.ACCEPTED)
    assert told.state == w.ACCEPTED and not peer.session.unsettled.sent


def test_a_rollback_makes_deliveries_live_again() -> None:
    peer = holding(1)
    work = peer.declares()
    retires(peer, 0, work, False)
    (told,) = peer.asks(w.Discharge(work, True))
    assert told.state == w.ACCEPTED
    assert peer.says(w.Disposition(True, 0, None, True, w.ACCEPTED)) == [
        Settle(0, 1, False, Outcome.ACCEPT)
    ]


@pytest.mark.parametrize("state", [None, "again"])
@pytest.mark.parametrize("fail", [False, True])
def test_settling_retired_deliveries(state: Any, fail: bool) -> None:
    """§4.4.4.2: after a rollback it has the default outcome."""
    peer = holding(1)
    work = peer.declares()
    retires(peer, 0, work, False)
    if state:
        state = w.TransactionalState(work, w.ACCEPTED)
    assert peer.says(w.Disposition(True, 0, None, True, state)) == []
    assert not peer.session.unsettled.sent
    (told,) = peer.asks(w.Discharge(work, fail))
    assert told.state == w.ACCEPTED
    assert peer.engine.found() == ([Settle(0, 1, False, Outcome.RELEASE)] if fail else [])


@pytest.mark.parametrize("fail", [False, True])
def test_settled_retirements_have_the_default_outcome_after_a_rollback(fail: bool) -> None:
    """As JMS requires: a rolled back delivery has failed once more."""
    peer = Controller()
    peer.sends()
    peer.transfers(0, settled=True)
    peer.receives(credit=1, source=w.Source("q", default_outcome=w.Modified(True)))
    peer.hears()
    work = peer.declares()
    assert retires(peer, 0, work, True) == [Retire(0, work, 1, Outcome.ACCEPT, False)]
    peer.asks(w.Discharge(work, fail))
    failed: list[Any] = [Modify(0, 1, True, False, None)]
    assert peer.engine.found() == (failed if fail else [])


def test_settling_while_the_discharge_is_under_way() -> None:
    peer = holding(1)
    work = peer.declares()
    retires(peer, 0, work, False)
    peer.broker.hold.add(Discharge)
    assert peer.asks(w.Discharge(work)) == []
    assert peer.says(w.Disposition(True, 0, None, True, w.ACCEPTED)) == []
    peer.rejected(w.Discharge(work), "amqp:transaction:unknown-id")
    peer.broker.release()
    (told,) = peer.hears()
    assert told.state == w.ACCEPTED and not peer.session.unsettled.sent and not peer.engine.found()


def test_another_outcome_in_the_same_transaction() -> None:
    peer = holding(1)
    work = peer.declares()
    retires(peer, 0, work, False)
    (said,) = retires(peer, 0, work, False, w.Rejected())
    assert isinstance(said, DetachLink)
    peer.detached("amqp:transaction:rollback")
    assert peer.says(w.Disposition(True, 0, None, True, w.ACCEPTED)) == [
        Settle(0, 1, False, Outcome.ACCEPT)
    ]


def test_retiring_without_an_outcome() -> None:
    peer = holding(1)
    work = peer.declares()
    assert retires(peer, 0, work, False, None) == []
    assert retires(peer, 0, work, True, None) == [Retire(0, work, 1, Outcome.RELEASE, True)]


def test_retiring_in_no_transaction() -> None:
    peer = holding(1)
    (said,) = retires(peer, 0, b"nothing", True)
    assert isinstance(said, DetachLink)
    peer.detached("amqp:transaction:unknown-id")


def test_retiring_after_the_link_was_detached() -> None:
    peer = holding(1)
    work = peer.declares()
    peer.says(w.Detach(1))
    assert retires(peer, 0, work, True) == []


@pytest.mark.parametrize("settled", [True, False])
def test_retiring_in_two_transactions(settled: bool) -> None:
    """§4.4.2: the control link must be terminated."""
    peer = holding(1)
    one, two = peer.declares(), peer.declares()
    retires(peer, 0, one, False)
    detach, *rest = retires(peer, 0, two, settled)
    assert isinstance(detach, DetachLink)
    assert rest == ([Settle(0, 1, False, Outcome.RELEASE)] if settled else [])
    peer.detached("amqp:transaction:rollback")


def test_an_outcome_beside_the_transaction() -> None:
    peer = holding(1)
    work = peer.declares()
    retires(peer, 0, work, False)
    detach, settle = peer.says(w.Disposition(True, 0, None, True, w.Rejected()))
    assert isinstance(detach, DetachLink) and settle == Settle(0, 1, False, Outcome.REJECT)
    peer.detached("amqp:transaction:rollback")


@pytest.mark.parametrize("second", [w.ACCEPTED, w.Released()])
@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("within", [True, False])
def test_a_range_that_contradicts_a_transaction(second: Any, settled: bool, within: bool) -> None:
    """Its first delivery has the transaction rolled back; the others are in none by then."""
    peer = holding(2)
    work = peer.declares()
    retires(peer, 0, work, False)
    retires(peer, 1, work, False, second)
    state: Any = w.TransactionalState(work, w.Rejected()) if within else w.Rejected()
    detach, *rest = peer.says(w.Disposition(True, 0, 1, settled, state))
    assert isinstance(detach, DetachLink)
    outcome = Outcome.RELEASE if within else Outcome.REJECT
    if within and not settled:
        assert [type(op) for op in rest] == [DetachLink], "live again, in no transaction"
    else:
        assert rest[:2] == [Settle(0, 1, False, outcome), Settle(0, 2, False, outcome)]
        assert [type(op) for op in rest[2:]] == [Assure] * (not settled)
    assert not peer.session.unsettled.sent


@pytest.mark.parametrize("settled", [True, False])
def test_a_range_settled_in_another_transaction(settled: bool) -> None:
    peer = holding(2)
    one, two = peer.declares(), peer.declares()
    for number in range(2):
        retires(peer, number, one, False)
    state = w.TransactionalState(two, w.ACCEPTED)
    detach, *rest = peer.says(w.Disposition(True, 0, 1, settled, state))
    assert isinstance(detach, DetachLink)
    if settled:
        assert rest == [Settle(0, n, False, Outcome.RELEASE) for n in (1, 2)]
    else:
        assert [type(op) for op in rest] == [DetachLink], "the second transaction is over too"


def test_the_session_ends_within_a_transaction() -> None:
    peer = holding(1)
    work = peer.declares()
    retires(peer, 0, work, False)
    found = peer.says(w.End())
    assert [type(op).__name__ for op in found] == ["DetachLink"] * 3 + ["EndSession"]
