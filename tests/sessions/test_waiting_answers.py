"""An answer that waits for the disk, and what comes behind it on the same connection."""

from typing import Any

import pytest

from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.wire import layouts as methods
from gateway.adapters.performatives.wire import layouts as w
from gateway.broker.confirms import SAFE
from gateway.errors import Condition
from gateway.message import Essentials, Message
from gateway.operations import DeclareQueue
from tests.adapters.performatives.wire import packed
from tests.sessions.test_session import House
from tests.sessions.test_share import ONE_AT_A_TIME, depth, publish
from tests.sessions.test_wire_1_0 import DURABLE, MESSAGE, Linked
from tests.sessions.wired import Wired, kinds


def test_a_returned_message_is_not_confirmed_first() -> None:
    """Its confirm waits for no answer, so its return may not either: 1.0 says released."""
    house = House()
    owner = Linked(house, "owner")
    declare = DeclareQueue(0, None, "q", durable=True)
    owner.session.channels[0].topology.declare_queue(declare)
    house.commit()
    owner.sender(0, "in", w.Target("/queues/q"))
    owner.says(w.Transfer(0, 0, b"t", 0), DURABLE)
    peer: Any = Linked(house)
    peer.receiver(0, 2, rcv_settle_mode=1)
    peer.sender(1, "pub", w.Target("/exchanges/amq.direct/nowhere"))
    peer.hears()
    octets = packed(w.Disposition(True, 0, None, None, w.ACCEPTED))
    octets += b"".join(packed(w.Transfer(1, n, b"%d" % n, 0), 0, MESSAGE) for n in range(3))
    peer.session.perform(peer.engine.receive(octets))
    peer.turn()
    house.commit()
    peer.turn()
    heard = [one for one in peer.hears() if isinstance(one, w.Disposition) and one.role]
    assert heard and all(isinstance(one.state, w.Released) for one in heard)
    assert not peer.engine.connection.sessions[0].handler.publishes.returned


@pytest.mark.parametrize("first", [0, 1000])
@pytest.mark.parametrize("settled", [None, True])
def test_nothing_is_published_behind_our_close(first: int, settled: bool | None) -> None:
    """§2.4.6; also where transfers are like one before."""
    house = House()
    peer = Linked(house)
    peer.session.channels[0].topology.declare_queue(DeclareQueue(0, None, "q"))
    house.commit()
    peer.sender(0, "in", w.Target("/queues/q"))

    def transfers(begin: int, count: int) -> bytes:
        numbers = range(begin, begin + count)
        records = [w.Transfer(0, n, b"%04d" % n, 0, settled) for n in numbers]
        return b"".join(packed(record, 0, MESSAGE) for record in records)

    peer.feed(transfers(first, 10))
    queue = house.broker.vhosts["/"].queues["q"]
    assert queue.depth == 10
    peer.session.close(Condition.CONNECTION_FORCED, "bye")
    peer.feed(transfers(first + 10, 50))
    assert queue.depth == 10


def test_the_time_slice_holds_while_another_channel_waits() -> None:
    wired = Wired(share=ONE_AT_A_TIME)
    wired.says(1, methods.QueueDeclare(queue="q"))
    wired.says(2, methods.ChannelOpen())
    wired.settle()
    wired.says(2, methods.QueueDeclare(queue="durable", durable=True))
    wired.go_on = lambda: None  # type: ignore[method-assign]
    wired.read(wired.octets(1, *[publish(number) for number in range(50)]))
    for _ in range(3):
        wired.session.perform_pending()
    assert depth(wired) < 10 and wired.session.has_pending


def test_a_return_of_an_upstream_comes_before_its_ack() -> None:
    wired = Wired()
    wired.says(1, methods.ConfirmSelect())
    wired.settle()
    wired.hears()
    path = wired.session.channels[1].publish_path
    assert path.confirms is not None
    number = path.confirms.wait()  # a mandatory publish is under way to the upstream
    wired.says(1, methods.QueueDeclare(queue="durable", durable=True))
    path.returning = number
    message = Message(BASIC, b"\0\0", b"x", "", "nowhere", Essentials())
    path.give_back(message, Condition.NO_ROUTE, "NO_ROUTE")
    path.returning = 0
    path.decide(number, number, SAFE, True)
    wired.broker.end_turn()
    wired.settle()
    heard = kinds(wired.hears())
    assert heard.index(methods.BasicReturn) < heard.index(methods.BasicAck)
