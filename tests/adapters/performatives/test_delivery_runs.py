"""Deliveries that come in runs are settled as if each had been looked at by itself."""

import random
from typing import Any

import pytest

from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.deliveries import UnsettledDeliveries
from gateway.adapters.performatives.delivery_runs import DeliveryRun
from gateway.adapters.performatives.incoming_publishes import IncomingPublishes
from gateway.adapters.performatives.links import LinkHandler
from gateway.adapters.performatives.sending_link import SendingLink
from gateway.adapters.performatives.wire import layouts as w
from gateway.errors import Condition
from gateway.message import Essentials, Message
from gateway.operations import DetachLink, Modify, Operation, Outcome, Returned, Settle, SettleMany
from tests.adapters.performatives.peer import PLAIN, Peer
from tests.adapters.performatives.wire import packed
from tests.drawing import examples

ACCEPTED = w.ACCEPTED
STATES = [
    *[ACCEPTED] * 6, w.Released(), w.Rejected(), w.Modified(True), w.Received(0, 0), None,
]  # fmt: skip


def told(operations: list[Operation]) -> list[Any]:
    """The operations; those with a token by what they say."""
    return [
        (one.link, one.closed, one.unsettled, one.outcomes) if isinstance(one, DetachLink)
        else one if isinstance(one, Settle | SettleMany | Modify)
        else type(one)
        for one in operations
    ]  # fmt: skip


def octets(peer: Peer) -> bytes:
    return b"".join(peer.engine.output())


# --- from us ------------------------------------------------------------------------------------


def receiving() -> Peer:
    peer = Peer()
    for handle, name in enumerate(("one", "two"), 1):
        peer.receives(name, handle, credit=0)
        peer.engine.receive(packed(w.Flow(0, 5000, 0, 9, handle, 0, 5000)))
    octets(peer)
    return peer


def outcomes(seed: int) -> tuple[list[Any], int]:
    """All that can be seen; and how many deliveries stood in runs at the ends of the steps."""
    chance = random.Random(seed)
    peer = receiving()
    session = peer.session
    session.next_delivery_id = first = chance.choice([0, 1000, 0xFFFFFF80])
    seen: list[Any] = []
    number, runs = 1, 0
    for _ in range(12):
        one = Message(SECTIONS, b"", b"x", "", "q", Essentials())
        many = [one] * chance.choice([1, 70, 150])
        link = chance.choice([*session.links.values()])
        session.deliver_run(link.number, number, many)
        number += len(many)
        if chance.random() < 0.4:  # single ones, which may be acquired in a transaction
            link.acquire(chance.choice([None, None, b"work"]))
            session.deliver(link.number, chance.choice([number, number, 0]), False, one)
            link.acquire(None)
            number += 1
        seen.append(octets(peer))
        runs += sum(isinstance(one, DeliveryRun) for one in session.unsettled.sent.values())
        for _ in range(chance.choice([0, 1, 3])):
            live = list(session.unsettled.sent)
            start = live[0] if live and chance.random() < 0.7 else first + chance.randrange(number)
            last = start + chance.choice([0, 5, 63, 64, 69, 100, 149, 219, 300, 5000])
            said = w.Disposition(
                True, start & 0xFFFFFFFF, None if last == start else last & 0xFFFFFFFF,
                chance.choice([True, True, None]), chance.choice(STATES),
            )  # fmt: skip
            seen.append(told(peer.engine.receive(packed(said))))
            seen.append(octets(peer))
            seen.append([list(link.unsettled) for link in session.links.values()])
            seen.append(list(session.unsettled.sent))
        if chance.random() < 0.1 and 2 in session.handles:
            seen.append(told(peer.feed(packed(w.Detach(2, chance.random() < 0.5)))))
            octets(peer)
    unsettled = session.unsettled
    for link in {one.link for one in unsettled.sent.values()}:
        unsettled.expand_all(link)
    seen.append([(one.id, one.number, one.tag, one.state) for one in unsettled.sent.values()])
    return seen, runs


@pytest.mark.parametrize("seed", range(examples(500)))
def test_outcomes_are_as_of_single_deliveries(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    together, _ = outcomes(seed)
    monkeypatch.setattr(SendingLink, "_send_run", lambda *_: 0)
    monkeypatch.setattr(UnsettledDeliveries, "_on_runs", lambda *_: False)
    alone, runs = outcomes(seed)
    assert together == alone and not runs


def test_runs_are_settled_in_one_step() -> None:
    """Two runs and a part of a third: what is left is a run."""
    peer = receiving()
    one = Message(SECTIONS, b"", b"x", "", "q", Essentials())
    for number in (1, 101, 201):
        peer.session.deliver_run("1", number, [one] * 100)
    (settled,) = peer.engine.receive(packed(w.Disposition(True, 0, 249, True, ACCEPTED)))
    assert settled == SettleMany(0, list(range(1, 251)), Outcome.ACCEPT)
    (left,) = {*peer.session.unsettled.sent.values()}
    assert isinstance(left, DeliveryRun) and (left.id, left.number) == (250, 251)
    few = peer.engine.receive(packed(w.Disposition(True, 250, 251, True, w.Released())))
    assert few == [Settle(0, number, False, Outcome.RELEASE) for number in (251, 252)]
    assert isinstance(peer.session.unsettled.sent[252], DeliveryRun)


@pytest.mark.parametrize("number, work", [(71, None), (0, None), (71, b"work")])
def test_a_single_delivery_between_runs(number: int, work: bytes | None) -> None:
    """An ordinary one is settled with them; an answer of the management node and one that was
    acquired in a transaction are not."""
    peer = receiving()
    one = Message(SECTIONS, b"", b"x", "", "q", Essentials())
    link = peer.session.links["1"]
    peer.session.deliver_run("1", 1, [one] * 70)
    link.acquire(work)
    peer.session.deliver("1", number, False, one)
    link.acquire(None)
    peer.session.deliver_run("1", 72, [one] * 70)
    settled, *_ = peer.engine.receive(packed(w.Disposition(True, 0, 140, True, ACCEPTED)))
    numbers = [n for n in range(1, 142) if n != 71 or (number and work is None)]
    assert settled == SettleMany(0, numbers, Outcome.ACCEPT)
    assert not peer.session.unsettled.sent and not link.unsettled


def test_outcomes_after_the_detach_of_a_link() -> None:
    """They still apply (§2.7.6), each by itself: the broker may have given some back."""
    peer = receiving()
    peer.session.deliver_run("1", 1, [Message(SECTIONS, b"", b"x", "", "q", Essentials())] * 100)
    peer.feed(packed(w.Detach(1, False)))
    settled = peer.engine.receive(packed(w.Disposition(True, 0, 99, True, ACCEPTED)))
    assert settled == [Settle(0, number, False, Outcome.ACCEPT) for number in range(1, 101)]


# --- to us --------------------------------------------------------------------------------------


def confirmed(seed: int) -> tuple[list[Any], int]:
    """All that can be seen; and how many deliveries stood in runs at the ends of the steps."""
    chance = random.Random(seed)
    peer = Peer()
    session = peer.session
    peer.broker.confirming = False
    for handle, name in enumerate(("one", "two")):
        peer.sends(name, handle)
    octets(peer)
    seen: list[Any] = []
    id_ = chance.choice([1000, 0xFFFFFFF0])
    published = told_up_to = runs = 0
    for _ in range(12):
        handle = chance.choice([*session.handles] or [0])
        settled = chance.choice([False] * 5 + [True])
        data = b""
        for _ in range(chance.choice([1, 3, 20, 60])):
            tag = id_.to_bytes(4)
            data += packed(w.Transfer(handle, id_, tag, 0, settled), 0, PLAIN)
            id_ = id_ + 1 & 0xFFFFFFFF
            published += 1
        cut = chance.randrange(len(data))
        peer.engine.receive(data[:cut])
        peer.engine.receive(data[cut:])
        runs += sum(isinstance(one, DeliveryRun) for one in session.unsettled.received.values())
        for _ in range(chance.choice([0, 1, 2])):
            if session.output_closed:
                break
            if chance.random() < 0.2:
                number = chance.randrange(told_up_to, published + 1)
                peer.engine.send(
                    Returned(0, Message(SECTIONS, b"", b"", "", "", Essentials()),
                             Condition.NO_ROUTE, "", number)
                )  # fmt: skip
            if chance.random() < 0.2 and told_up_to < published:
                session.confirm(chance.randrange(told_up_to, published) + 1, False, True)
            elif chance.random() < 0.7:
                told_up_to = chance.randrange(told_up_to, published + 1)
                session.confirm(told_up_to, True, chance.random() < 0.8)
            else:
                start = id_ - chance.choice([1, 5, 30]) & 0xFFFFFFFF
                last = start + chance.choice([0, 3, 100]) & 0xFFFFFFFF
                peer.engine.receive(packed(w.Disposition(False, start, last, True, ACCEPTED)))
        if chance.random() < 0.2 and 1 in session.handles:
            seen.append(told(peer.feed(packed(w.Detach(1, chance.random() < 0.5)))))
        seen.append(octets(peer))
        seen.append([(link.credit, list(link.unsettled)) for link in session.links.values()])
        seen.append(list(session.unsettled.received))
        seen.append(sorted(session.handler.publishes._awaiting))
    for link in {one.link for one in session.unsettled.received.values()}:
        session.unsettled.expand_all(link)
    seen.append([(one.id, one.tag, one.settled) for one in session.unsettled.received.values()])
    return seen, runs


@pytest.mark.parametrize("seed", range(examples(500)))
def test_confirms_are_as_of_single_deliveries(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    together, _ = confirmed(seed)
    monkeypatch.setattr(IncomingPublishes, "on_run", LinkHandler.on_run)
    alone, runs = confirmed(seed)
    assert together == alone and not runs


def test_some_of_those_stand_in_runs() -> None:
    assert sum(outcomes(seed)[1] for seed in range(10)) > 1000
    assert sum(confirmed(seed)[1] for seed in range(10)) > 1000
