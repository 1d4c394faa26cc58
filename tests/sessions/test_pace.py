"""A peer that asks faster than it takes is served at its own pace."""

from collections.abc import Callable

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
    Settle,
    Subscribe,
)
from gateway.sessions.registry import SessionRegistry
from gateway.sessions.session import Session
from tests.broker.fakes import message

MIB = 1 << 20


def opened() -> tuple[Session, list[Operation]]:
    """A session over a real server adapter whose answers are recorded instead of written."""
    adapter = adapter_for("0-9-1", Role.SERVER)
    session = Session(
        Broker(MemoryStore()), adapter, SessionRegistry(), address="test", loopback=True, since=0.0
    )
    said: list[Operation] = []
    adapter.send = said.append  # type: ignore[method-assign, assignment]
    adapter.outlet = lambda channel: Silent()  # type: ignore[method-assign]
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
