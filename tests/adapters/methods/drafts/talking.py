"""Our client and our server of one draft, and the least broker behind the server."""

from collections.abc import Iterator
from typing import Any

from gateway.adapters import Limits, Role, adapter_for
from gateway.adapters.methods.drafts.engine import DraftEngine
from gateway.adapters.methods.drafts.versions import DRAFTS
from gateway.message import WithAlternate
from gateway.operations import (
    BeginSession,
    Closed,
    DeclareQueue,
    Done,
    Fetch,
    FindQueue,
    Flow,
    FoundQueue,
    Open,
    Operation,
    Publish,
    PublishMany,
    QueueState,
    SessionLost,
    Subscribe,
    Unsubscribe,
)
from tests.pair import Cut, Users, pieces, told, whole

VERSIONS = tuple(DRAFTS)
SIZES = [1, 2, 3, 5, 11, 64, 1 << 30]


def singly(operations: list[Operation]) -> list[Operation]:
    """A publish for each message that is published with others. One with an alternate exchange is
    as it is for a broker that knows no bindings."""
    found: list[Operation] = []
    for one in operations:
        if not isinstance(one, PublishMany):
            found.append(one)
        elif one.alternate is None:
            found += [Publish(one.channel, each, one.mandatory, False) for each in one.messages]
        else:
            for each in one.messages:
                tried = WithAlternate(each, one.alternate, one.mandatory)
                found.append(Publish(one.channel, tried, True, False))
    return found


class Both:
    """``asked`` is what the server role asked of its broker, ``heard`` what the client learnt.
    ``queues`` are there; ``results`` are what requests are answered with, by their type;
    ``serving`` are further options of the server."""

    def __init__(
        self,
        version: str,
        cut: Cut = whole,
        limits: Limits = Limits(),  # noqa: B008
        results: dict[type[Operation], Any] | None = None,
        **serving: Any,
    ) -> None:
        self.cut = cut
        self.server: DraftEngine = adapter_for(  # type: ignore[assignment]
            version, Role.SERVER, authority=Users(), limits=limits, **serving
        )
        self.client: DraftEngine = adapter_for(  # type: ignore[assignment]
            version, Role.CLIENT, limits=limits
        )
        self.asked: list[Operation] = []
        self.heard: list[Operation] = []
        self.queues: set[str] = set()
        self.results = results or {}

    def opened(self) -> "Both":
        """With channel 1 open, and nothing heard yet."""
        self.client.send(Open("open", "/", "guest"))
        self.run()
        self.client.send(BeginSession(1, "begin"))
        self.run()
        assert self.heard[-1] == Done(1, "begin"), self.heard
        self.forget()
        return self

    def forget(self) -> None:
        self.asked.clear()
        self.heard.clear()

    def run(self) -> None:
        """Exchange octets until both are idle."""
        while True:
            to_server, to_client = self.client.output(), self.server.output()
            self.heard += self.client.found()
            if not to_server and not to_client:
                return
            for piece in self._cut(to_server):
                self.perform(self.server.receive(piece))
            for piece in self._cut(to_client):
                self.heard += self.client.receive(piece)

    def _cut(self, octets: list[bytes]) -> Iterator[bytes]:
        return pieces(b"".join(octets), self.cut())

    def perform(self, operations: list[Operation]) -> None:
        """As a broker that grants everything, until the connection has ended."""
        for operation in singly(operations):
            if any(isinstance(asked, Closed) for asked in self.asked[-1:]):
                return
            self.asked.append(operation)
            token = getattr(operation, "token", None)
            if isinstance(operation, SessionLost | Closed):
                told(self.server, [operation])
            elif token is not None:
                channel = getattr(operation, "channel", 0)
                self.server.send(Done(channel, token, self.result(operation)))
            self.perform(self.server.found())

    def result(self, operation: Operation) -> Any:
        if type(operation) in self.results:
            return self.results[type(operation)]
        if isinstance(operation, FindQueue):
            there = operation.name in self.queues
            return FoundQueue(operation.name, 2, 1) if there else None
        if isinstance(operation, DeclareQueue):
            return QueueState(operation.name or "made", 2, 1)
        if isinstance(operation, Subscribe | Unsubscribe):
            return operation.tag
        if isinstance(operation, Flow):
            return operation.active
        return None if isinstance(operation, Fetch) else None

    def say(self, record: Any, channel: int = 1) -> None:
        """A method of the client, regardless of its state."""
        self.client.put(self.client.encoded(channel, record))
        self.run()


def said(engine: Any, octets: bytes) -> list[tuple[str, Any]]:
    """Frames as names and records; contents as ("header", payload) and ("body", payload)."""
    found: list[tuple[str, Any]] = []

    class Listening:
        def on_method(self, channel: int, buf: bytes, at: int, end: int, _: Any) -> None:
            layout = engine.table.geometry.method
            numbers = layout.unpack_from(buf, at)
            method = engine.table.methods[numbers[0] << 16 | numbers[1]]
            record, stop = method.read(buf, at + layout.size)
            assert stop == end
            found.append((method.name, record))

        def on_header(self, channel: int, buf: bytes, at: int, end: int, _: Any) -> None:
            found.append(("header", buf[at:end]))

        def on_body(self, channel: int, buf: bytes, at: int, end: int, _: Any) -> None:
            found.append(("body", buf[at:end]))

    from gateway.adapters.methods.drafts.frames import DraftFrames

    listening: Any = Listening()  # knows no more of a link than frames need
    frames = DraftFrames(engine.table, listening)
    frames.limit = 1 << 30
    frames.feed(octets, [])
    assert not frames.held
    return found
