"""Messages that a peer sends in a row over one handle (0.8a2)."""

import math
from collections.abc import Callable
from typing import Any

from gateway.adapters import Role, adapter_for
from gateway.broker.broker import Broker
from gateway.broker.memory_store import MemoryStore
from gateway.broker.queues import Queue
from gateway.errors import Condition, Lost
from gateway.message import Message
from gateway.operations import (
    BeginSession,
    DeclareQueue,
    Done,
    Open,
    OpenDestination,
    Operation,
    PublishMany,
    Refused,
    SendMany,
    SendTo,
    Service,
)
from gateway.sessions.registry import SessionRegistry
from gateway.sessions.session import Session
from tests.broker.fakes import message
from tests.sessions.overheard import Overheard


class Silent:
    allow_deliveries: Callable[[bool], None] = staticmethod(lambda open_: None)

    def deliver(self, *_: object) -> None:
        raise AssertionError("nothing is consumed here")

    def confirm(self, *_: object) -> None:
        raise AssertionError("nothing is confirmed here")


class Sender:
    """A session over a real server adapter whose answers are recorded instead of written, with the
    queues ``jobs`` and ``jobs/late`` and a handle."""

    def __init__(self, prefix: str = "", service: Service = Service.QUEUE) -> None:
        self.said: list[Operation] = []
        self.store = MemoryStore()
        broker = Broker(self.store)
        adapter: Any = Overheard(adapter_for("0.8a2", Role.SERVER), self.said.append)
        adapter.outlet = lambda channel: Silent()
        self.session = Session(
            broker, adapter, SessionRegistry(), address="test", loopback=True, since=0.0
        )
        self.session.perform([Open("o", "/", "guest"), BeginSession(1, "b")])
        maker = broker.attach("/", "guest", "maker")
        recipient: Any = Silent()
        topology = maker.channel(1, recipient).topology
        for name in ("jobs", "jobs/late"):
            topology.declare_queue(DeclareQueue(1, None, name))
        maker.close()
        self.session.perform([OpenDestination(1, "h", "1", service, prefix)])
        self.commit()
        self.said.clear()

    def commit(self) -> None:
        self.session.broker.end_turn()
        batch = self.store.take()
        if batch is not None:
            self.session.broker.committed(batch.mark)

    def messages(self, name: str = "jobs") -> list[Message]:
        """The messages in a queue."""
        queue = self.session.broker.vhosts["/"].queues[name]
        assert isinstance(queue, Queue)
        return [entry.message for entry in queue.backlog.lanes[0].ready]

    def bodies(self, name: str = "jobs") -> list[bytes]:
        return [bytes(message.body[:]) for message in self.messages(name)]


def sends(name: str, count: int) -> SendMany:
    messages = [message(str(number)) for number in range(count)]
    return SendMany(1, "t", "1", name, PublishMany(1, messages))


def test_the_name_is_appended_to_that_of_the_handle() -> None:
    sender = Sender("jobs")
    sender.session.perform([sends("", 3), sends("/late", 2)])
    assert sender.bodies() == [b"0", b"1", b"2"]
    assert sender.bodies("jobs/late") == [b"0", b"1"]
    first = sender.messages()[0]
    assert (first.exchange, first.key, first.user) == ("", "jobs", "guest")
    assert sender.said == [], "nothing is answered"


def test_without_a_name_each_goes_to_all() -> None:
    sender = Sender()
    sender.session.perform([sends("", 3)])
    assert sender.bodies() == sender.bodies("jobs/late") == [b"0", b"1", b"2"]


def test_a_refusal_is_told_once_and_costs_the_handle() -> None:
    sender = Sender()
    sender.session.perform([sends("none", 3), sends("jobs", 3)])
    (refused,) = sender.said
    assert isinstance(refused, Refused) and refused.token == "t"
    assert (refused.condition, refused.lost) == (Condition.NOT_FOUND, Lost.LINK)
    assert sender.bodies() == []


def test_one_that_is_refused_in_the_middle() -> None:
    sender = Sender()
    many = sends("jobs", 5)
    other = message("other", user_id=b"somebody else")
    many.many.messages[2] = other
    sender.session.perform([many])
    (refused,) = sender.said
    assert isinstance(refused, Refused) and refused.lost is Lost.LINK
    assert sender.bodies() == [b"0", b"1"]


def test_many_take_many_slices() -> None:
    for prefix, name in (("", "jobs"), ("jobs", ""), ("", "")):
        sender = Sender(prefix)
        woken: list[None] = []
        sender.session.on_pending = lambda woken=woken: woken.append(None)  # type: ignore[misc]
        sender.session.time_slice = 0.0
        many = sends(name, 5)
        last = SendTo(1, "t", "1", name, message("last"))
        sender.session.perform([many, last])
        assert len(many.many.messages) == 4 and woken == [None]
        for _ in range(6):
            sender.session.perform_pending()
        assert not sender.session.has_pending
        assert sender.bodies() == [b"0", b"1", b"2", b"3", b"4", b"last"], "in order"


def test_those_of_a_peer_that_is_gone_are_sent() -> None:
    sender = Sender()
    sender.session.time_slice = 0.0
    sender.session.on_pending = lambda: None
    sender.session.perform([sends("jobs", 5)])
    sender.session.peer_gone([])
    while sender.session.finish():
        pass
    assert len(sender.messages()) == 5


def test_requests_to_a_peer_carry_the_reply_queue() -> None:
    sender = Sender(service=Service.PEER)
    sender.session.time_slice = math.inf
    sender.session.perform([sends("jobs", 2)])
    replies = [each.properties.reply_to for each in sender.messages()]
    assert len(replies) == 2 and replies[0] == replies[1] and replies[0]


def test_one_that_is_to_be_answered_is() -> None:
    sender = Sender()
    sender.session.perform([sends("jobs", 2), SendTo(1, "a", "1", "jobs", message("x"), True)])
    sender.commit()
    assert sender.said == [Done(1, "a", "")]
