"""Our client and our server with a real broker; the octets between them are cut at will."""

from typing import Any

from gateway.adapters import Credentials, Limits, Product, Role, adapter_for
from gateway.adapters.commands.content import COMMAND
from gateway.message import Message, Properties
from gateway.operations import (
    BeginSession,
    Deliver,
    Done,
    Open,
    OpenDestination,
    Operation,
    Refused,
    Service,
)
from tests import in_memory
from tests.adapters.commands.harness import VHOST, Harness, Peer
from tests.pair import Cut, pieces, whole


def message(body: bytes = b"", **properties: Any) -> Message:
    header = COMMAND.write(Properties(**properties))
    return Message(COMMAND, header, body, "", "", COMMAND.essentials(header))


class ConnectedPair:
    """One client of the harness with channel 1 open."""

    def __init__(
        self,
        harness: Harness,
        name: str = "client",
        cut: Cut = whole,
        transacted: bool = False,
        restartable: bool = False,
        limits: Limits = Limits(),  # noqa: B008
        **options: Any,
    ) -> None:
        self.harness = harness
        self.cut = cut
        self.peer = Peer(harness, mechanisms=harness.mechanisms, **options)
        self.client: Any = adapter_for(
            "0.8a2",
            Role.CLIENT,
            credentials=Credentials("guest", "guest", "ANONYMOUS"),
            limits=limits,
            product=Product(name=name),
        )
        self.heard: list[Operation] = []
        self.ask(Open("t", VHOST, "guest"))
        self.ask(BeginSession(1, "t", transacted, restartable))

    def run(self) -> None:
        """Until both are silent."""
        while True:
            up = b"".join(self.client.output())
            for piece in pieces(up, self.cut()):
                self.peer.feed(piece)
            self.peer.turn()
            down = b"".join(self.peer.adapter.output())
            for piece in pieces(down, self.cut()):
                self.heard += self.client.receive(piece)
            self.heard += self.client.found()
            if not up and not down:
                return

    def say(self, *operations: Operation) -> None:
        for operation in operations:
            self.client.send(operation)
        self.run()

    def ask(self, operation: Operation) -> Any:
        """Said with token "t": the result, or the refusal."""
        self.client.send(operation)
        self.run()
        (answer,) = [op for op in self.heard if getattr(op, "token", None) == "t"]
        self.heard.remove(answer)
        if isinstance(answer, Done):
            return answer.result
        assert isinstance(answer, Refused)
        return answer

    def open(self, link: str, name: str = "", service: Service = Service.QUEUE, **o: Any) -> Any:
        return self.ask(OpenDestination(1, "t", link, service, name, **o))

    def delivered(self) -> list[Deliver]:
        found = [op for op in self.heard if isinstance(op, Deliver)]
        self.heard = [op for op in self.heard if not isinstance(op, Deliver)]
        return found

    def bodies(self) -> list[bytes]:
        return [in_memory.octets(op.message) for op in self.delivered()]

    def told(self, kind: type[Any]) -> list[Any]:
        found = [op for op in self.heard if isinstance(op, kind)]
        self.heard = [op for op in self.heard if not isinstance(op, kind)]
        return found

    def leave(self) -> None:
        self.peer.disconnect()
        self.client.lost()
