"""Transactional acquisition (1.0 §4.4.3, §4.4.4.3): acquired within a transaction, and
given back with it."""

from typing import Any

import pytest

from gateway.adapters.performatives.composites import write
from gateway.adapters.performatives.wire import layouts as w
from gateway.broker.queues import Queue
from gateway.operations import DeclareQueue
from gateway.values import Symbol
from tests.sessions.test_session import House
from tests.sessions.test_wire_1_0 import MESSAGE, Linked

LARGE = b"\x00\x53\x75\xb0" + (300_000).to_bytes(4, "big") + bytes(300_000)


class Controller(Linked):
    """A queue with messages, a transaction, and a link that acquires within it."""

    def __init__(self, *messages: bytes, credit: int = 10, window: int = 1000) -> None:
        super().__init__(House(), window=window)
        self.engine.connection.frame_out = 65536
        self.session.channels[0].topology.declare_queue(DeclareQueue(0, None, "q", durable=True))
        self.house.commit()
        self.sender(7, "in", w.Target("/queues/q"))
        for number, octets in enumerate(messages):
            for at in range(0, len(octets), 60_000):
                more = at + 60_000 < len(octets)
                part = octets[at : at + 60_000]
                self.says(w.Transfer(7, number, b"%d" % number, 0, more=more), part)
        self.ids = len(messages)
        self.sender(5, "txn", w.Coordinator())
        self.work = self.told(w.Declare()).txn_id
        self.says(w.Attach("out", 0, True, source=w.Source("/queues/q")))
        self.heard = self.acquires(credit, window=window)

    def told(self, record: Any) -> Any:
        """What the coordinator says to this; all else that is said meanwhile is in ``heard``."""
        octets = b"\x00\x53\x77" + write(record)
        self.ids += 1
        self.heard = self.says(w.Transfer(5, self.ids - 1, b"c%d" % self.ids, 0), octets)
        return next(one.state for one in self.heard if isinstance(one, w.Disposition) and one.role)

    def acquires(self, credit: int, work: Any = None, seen: int = 0, window: int = 1000) -> Any:
        properties = {Symbol("txn-id"): work or self.work}
        return self.says(w.Flow(0, window, 0, 1000, 0, seen, credit, properties=properties))

    def discharged(self, fail: bool = False) -> Any:
        return self.told(w.Discharge(self.work, fail))

    def retires(self, number: int, settled: bool = False, outcome: Any = w.ACCEPTED) -> list[Any]:
        state = w.TransactionalState(self.work, outcome)
        return self.says(w.Disposition(True, number, None, settled, state))

    @property
    def queue(self) -> Queue:
        return self.house.broker.vhosts["/"].queues["q"]

    @property
    def counts(self) -> tuple[int, int]:
        return self.queue.depth, self.queue.unsettled


def transfers(heard: list[Any]) -> list[w.Transfer]:
    return [one for one in heard if isinstance(one, w.Transfer)]


def test_acquired_messages_are_reported() -> None:
    peer = Controller(MESSAGE, MESSAGE)
    found = transfers(peer.heard)
    assert [one.state for one in found] == [w.TransactionalState(peer.work)] * 2
    assert [one.settled for one in found] == [None, None]


def test_our_flows_tell_the_transaction() -> None:
    peer = Controller()
    (flow,) = peer.says(w.Flow(0, 1000, 0, 1000, 0, 0, 10, echo=True))
    assert flow.properties == {"txn-id": peer.work}
    peer.discharged()
    (flow,) = peer.says(w.Flow(0, 1000, 0, 1000, 0, 0, 10, echo=True))
    assert flow.properties is None, "cleared by the discharge"


@pytest.mark.parametrize("settled", [False, True])
def test_a_discharge_keeps_acquired_messages(settled: bool) -> None:
    peer = Controller(MESSAGE, MESSAGE)
    peer.retires(0, settled)
    assert peer.counts == (0, 2)
    assert peer.discharged() == w.ACCEPTED
    assert peer.counts == (0, 1), "what had an outcome has it, the rest is still acquired"
    peer.says(w.Disposition(True, 1, None, True, w.ACCEPTED))
    assert peer.counts == (0, 0)


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("how", ["fail", "close"])
def test_a_rollback_gives_all_of_it_back(settled: bool, how: str) -> None:
    """Outcome and acquisition (§4.4.4.3); credit is left as it was."""
    peer = Controller(MESSAGE, MESSAGE, credit=2)
    peer.retires(0, settled)
    if how == "fail":
        assert peer.discharged(fail=True) == w.ACCEPTED
        heard = peer.heard
    else:
        heard = peer.says(w.Detach(5, True))
    assert peer.counts == (2, 0)
    released = [
        (number, one.settled)
        for one in heard
        if isinstance(one, w.Disposition) and not one.role and isinstance(one.state, w.Released)
        for number in range(one.first, (one.last or one.first) + 1)
    ]
    assert released == [(number, True) for number in ((1,) if settled else (0, 1))]
    again = transfers(peer.says(w.Flow(0, 1000, 0, 1000, 0, 2, 10)))
    assert [one.state for one in again] == [None, None]


@pytest.mark.parametrize("other", ["plain", "transaction"])
@pytest.mark.parametrize("settled", [False, True])
def test_an_outcome_outside_of_the_transaction_ends_it(other: str, settled: bool) -> None:
    peer = Controller(MESSAGE, credit=1)
    state: Any = w.ACCEPTED
    if other == "transaction":
        state = w.TransactionalState(peer.told(w.Declare()).txn_id, w.ACCEPTED)
    heard = peer.says(w.Disposition(True, 0, None, settled, state))
    (detach,) = [one for one in heard if isinstance(one, w.Detach)]
    assert detach.error is not None and detach.error.condition == "amqp:transaction:rollback"
    assert peer.counts == (1, 0), "not lost, nor held by anybody"


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("within", [False, True])
def test_an_outcome_is_contradicted(last: int, settled: bool, within: bool) -> None:
    """The rollback gives back each delivery of the range, with an outcome or without, once: the
    session lives."""
    peer = Controller(MESSAGE, MESSAGE, MESSAGE, credit=3)
    for number in range(last + 1):
        peer.retires(number)
    state: Any = w.TransactionalState(peer.work, w.Released()) if within else w.Released()
    heard = peer.says(w.Disposition(True, 0, 2, settled, state))
    assert [type(one) for one in heard if isinstance(one, (w.Detach, w.End))] == [w.Detach]
    assert peer.counts == (3, 0)


@pytest.mark.parametrize("state", [None, "again"])
def test_settling_again_before_a_rollback(state: Any) -> None:
    peer = Controller(MESSAGE, credit=1)
    peer.retires(0)
    if state:
        peer.retires(0, True)
    else:
        peer.says(w.Disposition(True, 0, None, True))
    assert peer.discharged(fail=True) == w.ACCEPTED
    assert not [one for one in peer.heard if isinstance(one, w.End)]
    assert peer.counts == (1, 0)


def test_a_transaction_that_is_over_acquires_nothing() -> None:
    peer = Controller(MESSAGE, credit=0)
    assert peer.discharged() == w.ACCEPTED
    (detach,) = peer.acquires(1)
    assert detach.error is not None and detach.error.condition == "amqp:transaction:unknown-id"
    assert peer.counts == (1, 0)


@pytest.mark.parametrize("fail", [False, True])
def test_a_message_that_is_half_sent_at_the_discharge(fail: bool) -> None:
    """It is aborted with the transaction, or goes on as acquired."""
    peer = Controller(LARGE, MESSAGE, window=1)
    (first,) = transfers(peer.heard)
    assert first.more and first.state == w.TransactionalState(peer.work)
    assert peer.counts == (1, 1)
    assert peer.discharged(fail) == w.ACCEPTED
    assert peer.counts == ((2, 0) if fail else (1, 1))
    credit = 1 if fail else 10
    rest = transfers(peer.says(w.Flow(1, 1000, 0, 1000, 0, 0, credit)))
    if fail:
        (last,) = rest
        assert last.aborted and not last.more and last.delivery_id == 0
    else:
        assert not any(one.aborted for one in rest)
        assert [one.delivery_id for one in rest if not one.more] == [0, 1]
        assert rest[-1].state is None, "acquired in no transaction any more"
        peer.says(w.Disposition(True, 0, 1, True, w.ACCEPTED))
        assert peer.counts == (0, 0)
