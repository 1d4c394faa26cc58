"""What one connection asks for in one read is performed a share of time after the other."""

from typing import Any

import pytest

from gateway.adapters.methods.wire import layouts as w
from tests.sessions.wired import Wired, kinds
from tests.talk import body, header, method

ONE_AT_A_TIME = -1.0
QUEUE = w.QueueDeclare(queue="q")


def publish(number: int) -> bytes:
    octets = b"%d" % number
    start = method("0-9-1", 1, w.BasicPublish(routing_key="q"))
    return start + header(1, len(octets)) + body(1, octets)


def depth(wired: Wired) -> int:
    return wired.broker.vhosts["/"].queues["q"].depth


def test_the_rest_waits_for_its_turn_and_keeps_its_order() -> None:
    wired = Wired(share=ONE_AT_A_TIME)
    wired.says(1, QUEUE)
    wired.settle()
    wired.hears()
    before = wired.turns
    go_on, wired.go_on = wired.go_on, lambda: None  # type: ignore[method-assign]
    wired.says(1, *[publish(number) for number in range(20)])
    assert depth(wired) == 1 and wired.session.has_pending and wired.due
    wired.says(1, *[publish(number) for number in range(20, 30)], w.BasicGet(queue="q"))
    assert depth(wired) == 1
    go_on()
    assert wired.turns - before == 30 and not wired.session.has_pending
    found = wired.hears()
    assert kinds(found) == [w.BasicGetOk] and depth(wired) == 29
    queue = wired.broker.vhosts["/"].queues["q"]
    bodies = [entry.message.body for lane in queue.backlog.lanes for entry in lane.ready]
    assert bodies == [b"%d" % number for number in range(1, 30)]


@pytest.mark.parametrize("word", ["close", "gone"])
def test_requests_before_the_end_are_performed(word: str) -> None:
    wired = Wired(share=ONE_AT_A_TIME)
    wired.says(1, w.QueueDeclare(queue="q", durable=True))
    wired.settle()
    wired.hears()
    octets = wired.octets(1, *[publish(number) for number in range(10)])
    if word == "close":
        wired.read(octets + wired.octets(0, w.ConnectionClose(200, "bye")))
        wired.settle()
        assert kinds(wired.hears()) == [w.ConnectionCloseOk]
    else:
        wired.go_on = lambda: None  # type: ignore[method-assign]
        wired.read(octets)
        assert depth(wired) == 1
        wired.session.peer_gone(wired.adapter.lost())
        turns = 0
        while wired.session.finish():
            turns += 1
        assert turns >= 9
    assert depth(wired) == 10 and wired.session.closed


def test_a_refusal_in_the_middle_costs_the_same_as_in_one_turn() -> None:
    asked: list[Any] = [
        publish(1),
        w.QueueDeclare(queue="none", passive=True),
        publish(2),
        w.BasicGet(queue="q"),
    ]
    heard = []
    for share in (ONE_AT_A_TIME, 1000.0):
        wired = Wired(share=share)
        wired.says(1, QUEUE)
        wired.says(1, *asked)
        wired.settle()
        heard.append((kinds(wired.hears()), depth(wired)))
    assert heard[0] == heard[1] == ([w.QueueDeclareOk, w.ChannelClose], 1)
