"""A client engine, a server engine, and behind the server a very small broker that says yes.

``said`` are the operations the server was asked for, ``heard`` what the client was told. Nodes
named "missing" are not there. Queues are lists of messages, handed out as credit allows.
"""

from collections import defaultdict, deque
from typing import Any

from gateway.adapters.performatives.client_messages import management_request
from gateway.adapters.performatives.content import SECTIONS
from gateway.errors import Condition, Lost
from gateway.message import Message, Properties
from gateway.operations import (
    Attached,
    AttachSource,
    AttachTarget,
    BeginSession,
    Confirm,
    Credit,
    DeclareTransaction,
    Deliver,
    DetachLink,
    Discharge,
    Done,
    EndSession,
    Manage,
    Open,
    Operation,
    Post,
    Publish,
    Refused,
    Resumed,
    Returned,
)
from gateway.sessions.publishes import one_by_one
from tests import in_memory
from tests.pair import Cut, Pair, whole

CHANNEL = 0
"""Of the client, and of the server: the lowest that is free (§2.5.1)."""


def message(body: bytes, exchange: str = "", key: str = "q", **properties: Any) -> Message:
    header = SECTIONS.write(Properties(**properties)) if properties else b""
    return Message(SECTIONS, header, body, exchange, key, SECTIONS.essentials(header))


class House:
    """``refuse``: conditions with which publishes come back, by body. ``responses``: status and
    value for each management management_request, in order."""

    def __init__(self, cut: Cut = whole, **options: Any) -> None:
        self.pair = Pair("1.0", cut, **options)
        self.said: list[Operation] = []
        self.heard: list[Operation] = []
        self.queues: dict[str, deque[Message]] = defaultdict(deque)
        self.refuse: dict[bytes, Condition] = {}
        self.responses: deque[tuple[int, Any]] = deque()
        self.confirming = True
        self.resumed: list[Resumed] = []
        self._sources: dict[str, str] = {}
        self._credit: dict[str, int] = {}
        self._published = 0
        self._delivered = 0
        self._transactions = 0
        self.client.send(Open("opening", "/", "guest"))
        self.run()
        self.client.send(BeginSession(CHANNEL, "beginning"))
        self.run()
        opened = Done(0, "opening", self.client.connection.peer)
        assert self.heard == [opened, Done(CHANNEL, "beginning")]
        self.said.clear()
        self.heard.clear()

    @property
    def client(self) -> Any:
        return self.pair.client

    @property
    def server(self) -> Any:
        return self.pair.server

    def ask(self, operation: Operation) -> Operation:
        """Say it with the token 7; the answer."""
        self.client.send(operation)
        self.run()
        (answer,) = [op for op in self.heard if getattr(op, "token", None) == 7]
        self.heard.remove(answer)
        return answer

    def told(self, *kinds: type[Operation]) -> list[Any]:
        """What the client was told of these kinds, taken away."""
        found = [op for op in self.heard if isinstance(op, kinds)]
        self.heard = [op for op in self.heard if not isinstance(op, kinds)]
        return found

    def asked(self, *kinds: type[Operation]) -> list[Any]:
        found = [op for op in self.said if isinstance(op, kinds)]
        self.said = [op for op in self.said if not isinstance(op, kinds)]
        return found

    def run(self) -> None:
        """Let them talk until both are silent."""
        while True:
            asked = self.pair.to_server() + self.server.found()
            for operation in one_by_one(asked):
                self.said.append(operation)
                self._perform(operation)
            told = self.pair.to_client() + self.client.found()
            self.heard += told
            if not asked and not told and not self.client.pending and not self.server.pending:
                return

    # --- the broker -----------------------------------------------------------------------------

    def put(self, queue: str, *messages: Message) -> None:
        self.queues[queue] += messages
        for link in list(self._sources):
            self._deliver(link)

    def _perform(self, operation: Any) -> None:
        match operation:
            case Open():
                self.server.send(Done(0, operation.token))
            case AttachSource() | AttachTarget():
                self._attach(operation)
            case Credit():
                assert operation.count is not None
                self._credit[operation.tag] = operation.count
                self._deliver(operation.tag)
                if operation.token is not None:
                    left = self._credit[operation.tag] if operation.drain else 0
                    self._credit[operation.tag] -= left
                    self._answer(operation, left)
            case Publish():
                self._publish(operation)
            case DeclareTransaction():
                self._transactions += 1
                self._answer(operation, b"work %d" % self._transactions)
            case Post():
                self._answer(operation, operation.message.body not in self.refuse)
            case Manage():
                self._manage(operation)
            case DetachLink():
                self._sources.pop(operation.link, None)
                self._answer(operation)
            case BeginSession() | EndSession() | Discharge():
                self._answer(operation)

    def _answer(self, operation: Any, result: Any = None) -> None:
        if operation.token is not None:
            self.server.send(Done(operation.channel, operation.token, result))

    def _attach(self, operation: AttachSource | AttachTarget) -> None:
        address = operation.terminus.address or ""
        name = address.rpartition("/")[2]
        if name == "missing":
            refused = Refused(
                operation.channel, operation.token, Condition.NOT_FOUND, "no such node", Lost.LINK
            )
            self.server.send(refused)
            return
        result = Attached(operation.terminus, resumed=list(self.resumed))
        if address == "/management":
            result.node = "management"
        elif isinstance(operation, AttachSource):
            self._sources[operation.link] = name
            self._credit[operation.link] = 0
        elif address.startswith("/exchanges/"):
            result.exchange, result.key = address.split("/")[2:]
        else:
            result.exchange, result.key = "", name
        if address == "/management" and isinstance(operation, AttachSource):
            self._sources[operation.link] = address
        self._answer(operation, result)

    def _deliver(self, link: str) -> None:
        queue = self.queues[self._sources.get(link, "")]
        while queue and self._credit[link] > 0:
            self._credit[link] -= 1
            self._delivered += 1
            delivery = Deliver(CHANNEL, link, self._delivered, False, queue.popleft())
            self.server.send(delivery)

    def _publish(self, operation: Publish) -> None:
        self._published += 1
        if not self.confirming:
            return
        number, body = self._published, in_memory.octets(operation.message)
        condition = self.refuse.get(body)
        if condition is not None:
            self.server.send(
                Returned(operation.channel, operation.message, condition, "because", number)
            )
        self.server.send(Confirm(operation.channel, number, False, True))

    def _manage(self, operation: Manage) -> None:
        self._answer(operation)
        asked = operation.message.properties
        status, value = self.responses.popleft()
        response = management_request(
            Properties(correlation_id=asked.message_id, subject=str(status)), value
        )
        (link,) = [link for link, node in self._sources.items() if node == "/management"]
        self.server.send(Deliver(operation.channel, link, 0, False, response))
