"""A peer that asks faster than it takes is served at its own pace."""

from gateway.adapters import Role, adapter_for
from gateway.broker.broker import Broker
from gateway.broker.memory_store import MemoryStore
from gateway.operations import (
    BeginSession,
    DeclareQueue,
    Done,
    Fetch,
    Fetched,
    Open,
    Operation,
    Outcome,
    Publish,
    Settle,
)
from gateway.sessions.registry import Registry
from gateway.sessions.session import Session
from tests.broker.fakes import message

MIB = 1 << 20


def opened() -> tuple[Session, list[Operation]]:
    """A session over a real server adapter whose answers are recorded instead of written."""
    adapter = adapter_for("0-9-1", Role.SERVER)
    session = Session(
        Broker(MemoryStore()), adapter, Registry(), address="test", loopback=True, since=0.0
    )
    said: list[Operation] = []
    adapter.send = said.append  # type: ignore[method-assign]
    adapter.outlet = lambda number: Silent()  # type: ignore[assignment, method-assign]
    session.perform([Open("o", "/", "guest"), BeginSession(1, "b")])
    session.perform([DeclareQueue(1, "d", "big")])
    said.clear()
    return session, said


class Silent:
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


def test_what_follows_a_fetch_waits_for_room() -> None:
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
