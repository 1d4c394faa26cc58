"""A peer that asks faster than it takes is served at its own pace."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from gateway.adapters import Role, adapter_for
from gateway.broker import channel as channels
from gateway.broker import settlements
from gateway.broker.broker import Broker
from gateway.broker.memory_store import MemoryStore
from gateway.operations import (
    BeginSession,
    Closed,
    DeclareQueue,
    Done,
    EndSession,
    Fetch,
    Fetched,
    Open,
    Operation,
    Outcome,
    Prefetch,
    Publish,
    PublishMany,
    Refused,
    Settle,
    Subscribe,
)
from gateway.sessions.registry import SessionRegistry
from gateway.sessions.session import Session
from tests.broker.fakes import message
from tests.sessions.overheard import Overheard

MIB = 1 << 20


def opened() -> tuple[Session, list[Operation]]:
    """A session over a real server adapter whose answers are recorded instead of written."""
    said: list[Operation] = []
    adapter: Any = Overheard(adapter_for("0-9-1", Role.SERVER), said.append)
    session = Session(
        Broker(MemoryStore()), adapter, SessionRegistry(), address="test", loopback=True, since=0.0
    )
    adapter.outlet = lambda channel: Silent()
    session.perform([Open("o", "/", "guest"), BeginSession(1, "b")])
    session.perform([DeclareQueue(1, "d", "big")])
    said.clear()
    return session, said


class Silent:
    allow_deliveries: Callable[[bool], None] = staticmethod(lambda open_: None)

    def deliver(self, *_: object) -> None:
        raise AssertionError("nothing is consumed here")

    def confirm(self, *_: object) -> None:
        raise AssertionError("nothing is confirmed here")


def fetched(said: list[Operation]) -> list[int]:
    return [
        operation.result.delivery
        for operation in said
        if isinstance(operation, Done) and isinstance(operation.result, Fetched)
    ]


def test_operations_behind_a_fetch_wait_for_room() -> None:
    session, said = opened()
    for _ in range(4):
        session.perform([Publish(1, message("x" * MIB, key="big"), False, False)])
    session.pause()  # the owner of the socket: it is full
    session.perform([Fetch(1, "one", "big"), Fetch(1, "two", "big"), Fetch(1, "three", "big")])
    session.perform([Fetch(1, "four", "big")])
    assert fetched(said) == [1], "one answer, and no more while the peer takes nothing"
    session.resume()
    assert fetched(said) == [1, 2, 3, 4], "in order, when it takes again"


def bodies(session: Session, said: list[Operation]) -> list[bytes]:
    """The messages in the queue."""
    said.clear()
    session.perform([BeginSession(2, "b"), *(Fetch(2, n, "big", True) for n in range(9))])
    results = [operation.result for operation in said if isinstance(operation, Done)]
    return [bytes(each.message.body[:]) for each in results if isinstance(each, Fetched)]


def test_many_publishes_take_many_slices() -> None:
    session, said = opened()
    woken: list[None] = []
    session.on_pending = lambda: woken.append(None)
    session.time_slice = 0.0
    many = PublishMany(1, [message(str(n), key="big") for n in range(5)])
    session.perform([many, Publish(1, message("last", key="big"), False, False)])
    assert len(many.messages) == 4 and woken == [None], "the others wait for their slice"
    for _ in range(6):
        session.perform_pending()
    assert not session.has_pending
    session.time_slice = math.inf
    assert bodies(session, said) == [b"0", b"1", b"2", b"3", b"4", b"last"], "in order"


def test_many_publishes_up_to_one_that_is_refused() -> None:
    session, said = opened()
    many = [message(str(n), key="big", exchange="none" if n == 2 else "") for n in range(5)]
    bad = many[2]
    session.perform([PublishMany(1, many), Publish(1, message("late", key="big"), False, False)])
    refused = [operation for operation in said if isinstance(operation, Refused)]
    assert [each.message for each in refused] == [bad]
    assert bodies(session, said) == [b"0", b"1"], "the channel is over"


def test_many_publishes_of_a_peer_that_is_gone() -> None:
    session, said = opened()
    session.time_slice = 0.0
    session.on_pending = lambda: None
    session.perform([PublishMany(1, [message(str(n), key="big") for n in range(5)])])
    session.peer_gone([])
    while session.finish():
        pass
    assert session.broker.vhosts["/"].queues["big"].depth == 5, "all that was received"


def test_the_end_overtakes_nothing() -> None:
    session, said = opened()
    session.perform([Publish(1, message("x", key="big"), False, False)])
    session.pause()
    session.perform([Fetch(1, "one", "big"), Publish(1, message("y", key="big"), False, False)])
    queue = session.broker.vhosts["/"].queues["big"]
    assert queue.depth == 0, "the second publish waits"
    session.adapter.closing = True
    session.perform([])
    assert queue.depth == 1, "what came before the end is done"
    session.end()
    assert queue.depth == 2, "and what was held goes back"
    assert fetched(said) == [1]


def test_settlements_after_a_pause_are_in_order() -> None:
    session, said = opened()
    for body in ("1", "2"):
        session.perform([Publish(1, message(body, key="big"), False, False)])
    session.pause()
    session.perform(
        [Fetch(1, "one", "big"), Settle(1, 1, False, Outcome.ACCEPT), Fetch(1, "two", "big")]
    )
    session.resume()
    queue = session.broker.vhosts["/"].queues["big"]
    assert (queue.depth, queue.unsettled) == (0, 1)
    assert fetched(said) == [1, 2]


class Held:
    """Takes what is delivered, and keeps nothing of it."""

    def __init__(self) -> None:
        self.count = 0

    def deliver(self, *_: object) -> None:
        self.count += 1


SOME = 10


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> tuple[Session, list[Operation], Held]:
    """A session that holds 5 portions and has no room for more."""
    for module in (settlements, channels):
        monkeypatch.setattr(module, "PORTION", SOME)
    outlet = Held()
    monkeypatch.setattr(Silent, "deliver", outlet.deliver)
    session, said = opened()
    session.perform([Prefetch(1, None, 5 * SOME, 0, False), Subscribe(1, "s", "big", "tag")])
    for _ in range(5 * SOME):
        session.perform([Publish(1, message("x", key="big"), False, False)])
    assert outlet.count == 5 * SOME
    said.clear()
    return session, said, outlet


def look(number: int = 1) -> DeclareQueue:
    return DeclareQueue(number, "look", "big", passive=True)


def depths(said: list[Operation]) -> list[int]:
    return [o.result.messages for o in said if isinstance(o, Done) and o.token == "look"]


def work(session: Session) -> int:
    turns = 0
    while session.broker.state.long_operations.waiting:
        session.broker.state.long_operations.work()
        session.broker.end_turn()
        turns += 1
    return turns


def test_operations_behind_many_settlements_wait_for_them(
    held: tuple[Session, list[Operation], Held],
) -> None:
    session, said, outlet = held
    session.perform([BeginSession(2, "b2"), DeclareQueue(2, "d", "other")])
    said.clear()
    session.perform([Settle(1, 3 * SOME, True, Outcome.RELEASE), look(), look(2)])
    assert depths(said) == [0], "the other channel does not wait"
    assert work(session) >= 3
    assert depths(said) == [0, 0], "given back, and delivered again to the only consumer"
    assert outlet.count == 8 * SOME


def test_the_end_of_a_channel_is_answered_when_all_is_back(
    held: tuple[Session, list[Operation], Held],
) -> None:
    session, said, _ = held
    session.perform([EndSession(1, "end"), BeginSession(1, "again"), look()])
    assert not said
    assert work(session) >= 5
    assert [o.token for o in said if isinstance(o, Done)] == ["end", "again", "look"]
    assert depths(said) == [5 * SOME]


def test_the_end_of_the_connection_is_answered_when_all_is_back(
    held: tuple[Session, list[Operation], Held],
) -> None:
    session, said, _ = held
    queue = session.broker.vhosts["/"].queues["big"]
    session.perform([Closed(token="bye")])
    assert not said
    assert work(session) >= 5
    assert [o.token for o in said if isinstance(o, Done)] == ["bye"]
    assert (queue.depth, queue.unsettled) == (5 * SOME, 0)


def test_a_connection_that_is_lost_gives_all_back(
    held: tuple[Session, list[Operation], Held],
) -> None:
    session, _, _ = held
    queue = session.broker.vhosts["/"].queues["big"]
    session.perform([Settle(1, 2 * SOME, True, Outcome.ACCEPT)])
    session.end()
    assert work(session) >= 5
    assert (queue.depth, queue.unsettled) == (3 * SOME, 0)
    session.release()
