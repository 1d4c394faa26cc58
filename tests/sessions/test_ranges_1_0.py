"""Dispositions about very many deliveries (1.0 §2.7.6): what they cost a turn, and that they mean
the same as one for each."""

from typing import Any

import pytest

from gateway.adapters.performatives import deliveries as unsettled
from gateway.adapters.performatives.composites import write
from gateway.adapters.performatives.deliveries import FEW, within
from gateway.adapters.performatives.links import HALF, MASK
from gateway.adapters.performatives.sending_link import SendingLink
from gateway.adapters.performatives.wire import layouts as w
from gateway.broker.long_operations import PORTION
from gateway.operations import Assure, DeclareQueue, RetireMany, Settle, SettleMany
from tests.adapters.performatives.wire import packed
from tests.broker.fakes import message
from tests.sessions.test_session import House
from tests.sessions.test_wire_1_0 import Linked

VALUE = b"\x00\x53\x77"
STATES: list[Any] = [
    None,
    w.ACCEPTED,
    w.Released(),
    w.Rejected(),
    w.Modified(True, None, None),
    w.Modified(True, True, None),
    w.Modified(),
]


class Receiver(Linked):
    """A session with so many deliveries, over links of which every one has an equal part."""

    def __init__(self, count: int, links: int = 1, default: Any = None) -> None:
        super().__init__(House(), window=HALF - 1)
        channel = self.session.channels[0]
        for queue in ("q", "dead"):
            channel.topology.declare_queue(DeclareQueue(0, None, queue))
        self.queue = self.house.broker.vhosts["/"].queues["q"]
        self.dead = self.house.broker.vhosts["/"].queues["dead"]
        self.queue.limits = self.queue.limits._replace(
            dead_letter_exchange="", dead_letter_key="dead"
        )
        for number in range(count):
            channel.publish(message(str(number), "q"))
        source = w.Source("/queues/q", default_outcome=default)
        for handle in range(links):
            self.says(w.Attach(f"out{handle}", handle, True, source=source))
            self.feed(packed(w.Flow(0, HALF - 1, 0, 1000, handle, 0, count // links)))
        sent = self.engine.connection.sessions[0].unsettled.sent
        for _ in range(count):
            if len(sent) == count:
                break
            self.house.broker.state.tick(self.house.broker.state.now + 1)
            self.engine.output()
        assert len(sent) == count
        self.engine.output()

    def work(self) -> list[int]:
        """All turns that it takes; how many deliveries were settled in each."""
        settled: list[int] = []
        while self.house.broker.state.long_operations.waiting:
            before = self.queue.unsettled
            self.house.broker.state.long_operations.work()
            settled.append(before - self.queue.unsettled)
            self.turn()
        for _ in range(10):
            self.house.broker.state.tick(self.house.broker.state.now + 1)
            self.turn()
        return settled

    def declares(self) -> bytes:
        control = w.Attach("control", 9, False, source=w.Source(), target=w.Coordinator())
        control.initial_delivery_count = 0
        self.says(control)
        heard = self.says(w.Transfer(9, 0, b"d", 0), VALUE + write(w.Declare()))
        (work,) = [r.state.txn_id for r in heard if isinstance(r, w.Disposition)]
        return work  # type: ignore[no-any-return]

    def discharges(self, work: bytes, fail: bool) -> list[Any]:
        octets = VALUE + write(w.Discharge(work, fail))
        self.feed(packed(w.Transfer(9, 1, b"e", 0), 0, octets))
        heard = self.hears()
        self.work()
        return heard + self.hears()


@pytest.mark.parametrize("settled", [False, True])
def test_one_operation_and_a_portion_in_each_turn(settled: bool) -> None:
    count = 5 * PORTION
    peer = Receiver(count)
    asked = peer.engine.receive(packed(w.Disposition(True, 0, count - 1, settled, w.ACCEPTED)))
    assert [type(op) for op in asked] == [SettleMany] + [Assure] * (not settled)
    peer.session.perform(asked)
    peer.turn()
    assert peer.queue.unsettled == count - PORTION and peer.hears() == []
    assert max(peer.work()) == PORTION and peer.queue.unsettled == 0
    answer = w.Disposition(False, 0, count - 1, True, w.ACCEPTED)
    assert peer.hears() == ([] if settled else [answer])


def test_few_are_settled_one_by_one() -> None:
    peer = Receiver(FEW + 1)
    asked = peer.engine.receive(packed(w.Disposition(True, 0, FEW - 1, True, w.ACCEPTED)))
    assert [type(op) for op in asked] == [Settle] * FEW


def described(peer: Receiver) -> tuple[Any, ...]:
    entries = [entry for lane in peer.queue.backlog.lanes for entry in lane.ready]
    dead = [entry for lane in peer.dead.backlog.lanes for entry in lane.ready]
    links = peer.engine.connection.sessions[0].links.values()
    outgoing = [link for link in links if isinstance(link, SendingLink)]
    assert outgoing
    return (
        peer.queue.unsettled,
        [(e.message.body, e.deliveries, e.message.added_headers) for e in entries],
        sorted((e.message.body, str(e.message.added_headers)) for e in dead),
        len(peer.engine.connection.sessions[0].unsettled.sent),
        {link.name: sorted(link.unsettled) for link in outgoing},
        sorted(peer.session.channels[0].window.unsettled),
    )


def told(heard: list[Any]) -> dict[int, Any]:
    """What we have said of each delivery of ours."""
    return {
        number: (record.settled, record.state)
        for record in heard
        if isinstance(record, w.Disposition) and not record.role
        for number in range(record.first, (record.last or record.first) + 1)
    }


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("links", [1, 2])
@pytest.mark.parametrize("default", [None, w.Rejected()])
def test_they_mean_the_same(
    monkeypatch: pytest.MonkeyPatch, state: Any, settled: bool, links: int, default: Any
) -> None:
    found = []
    for few in (1000, 0):
        monkeypatch.setattr(unsettled, "FEW", few)
        peer = Receiver(40, links, default)
        peer.feed(packed(w.Disposition(True, 5, 9, True, w.ACCEPTED)))
        peer.feed(packed(w.Disposition(True, 0, 29, settled, state)))
        peer.work()
        heard = told(peer.hears())
        found.append((described(peer), heard))
    assert found[0] == found[1]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("default", [None, w.Rejected()])
def test_they_mean_the_same_in_a_transaction(
    monkeypatch: pytest.MonkeyPatch, state: Any, settled: bool, fail: bool, default: Any
) -> None:
    found = []
    for few in (1000, 0):
        monkeypatch.setattr(unsettled, "FEW", few)
        peer = Receiver(40, 2, default)
        work = peer.declares()
        peer.feed(packed(w.Disposition(True, 5, 9, None, w.TransactionalState(work, w.ACCEPTED))))
        said = w.TransactionalState(work, state)
        peer.feed(packed(w.Disposition(True, 12, 29, settled, said)))
        heard = told(peer.discharges(work, fail))
        found.append((described(peer), heard))
    assert found[0] == found[1]


@pytest.mark.parametrize("few", [0, 1000])
@pytest.mark.parametrize("settled", [False, True])
def test_a_range_that_contradicts_a_transaction(
    monkeypatch: pytest.MonkeyPatch, few: int, settled: bool
) -> None:
    monkeypatch.setattr(unsettled, "FEW", few)
    peer = Receiver(40)
    work = peer.declares()
    peer.feed(packed(w.Disposition(True, 5, 9, None, w.TransactionalState(work, w.ACCEPTED))))
    peer.feed(packed(w.Disposition(True, 0, 29, settled, w.Released())))
    peer.work()
    (detach,) = [one for one in peer.hears() if isinstance(one, w.Detach)]
    assert detach.error is not None and detach.error.condition == "amqp:transaction:rollback"
    assert (peer.queue.depth, peer.queue.unsettled) == (30, 10)
    assert sorted(peer.engine.connection.sessions[0].unsettled.sent) == list(range(30, 40))


def test_a_transaction_over_a_range_is_one_operation_and_one_answer() -> None:
    count = 3 * PORTION
    peer = Receiver(count)
    work = peer.declares()
    said = w.TransactionalState(work, w.ACCEPTED)
    asked = peer.engine.receive(packed(w.Disposition(True, 0, count - 1, None, said)))
    assert [type(op) for op in asked] == [RetireMany]
    peer.session.perform(asked)
    answers = [r for r in peer.discharges(work, False) if isinstance(r, w.Disposition)]
    ours = w.Disposition(False, 0, count - 1, True, w.ACCEPTED)
    assert answers.count(ours) == 1 and len(answers) == 2
    assert peer.queue.unsettled == peer.queue.depth == 0


@pytest.mark.parametrize("fail", [False, True])
def test_a_range_is_retired_in_portions_and_the_discharge_waits(fail: bool) -> None:
    count = 5 * PORTION
    peer = Receiver(count)
    work = peer.declares()
    transactions = peer.session.channels[0].transactions
    said = w.TransactionalState(work, w.ACCEPTED)
    asked = peer.engine.receive(packed(w.Disposition(True, 0, count - 1, None, said)))
    peer.session.perform(asked)
    assert transactions.held == PORTION, "one portion in this turn"
    peer.feed(packed(w.Transfer(9, 1, b"e", 0), 0, VALUE + write(w.Discharge(work, fail))))
    assert work in transactions.declared
    while transactions.held < count:
        before = transactions.held
        peer.house.broker.state.long_operations.work()
        assert transactions.held == before + PORTION
    peer.work()
    assert not transactions.declared
    unsettled = list(peer.session.channels[0].window.unsettled)
    assert peer.queue.unsettled == len(unsettled) == (count if fail else 0)
    assert unsettled == sorted(unsettled)


class Book(dict[int, str]):
    """How often something is looked up."""

    looks = 0

    def __contains__(self, key: object) -> bool:
        self.looks += 1
        return super().__contains__(key)

    def __getitem__(self, key: int) -> str:
        self.looks += 1
        return super().__getitem__(key)


@pytest.mark.parametrize("first", [0, 5, HALF, MASK - 3, MASK])
@pytest.mark.parametrize("reach", [0, 1, 3, 7, 100, 70_000, HALF - 1])
def test_a_range_costs_its_unsettled_deliveries(first: int, reach: int) -> None:
    """However far it goes, over the end of the numbers too (§2.8.10)."""
    numbers = [MASK - 1, MASK, 0, 1, 6, 7, HALF, HALF + 70_001]
    book = Book({number: str(number) for number in numbers})
    found = within(book, first, reach)
    assert sorted(found) == sorted(str(n) for n in numbers if (n - first) % (1 << 32) <= reach)
    assert book.looks <= 4 * len(book)
