"""Our client role over a blocking socket, one that can be made to stop in the middle."""

import socket
from typing import Any

from gateway.adapters import Limits, Product, Role, adapter_for
from gateway.errors import Condition
from gateway.operations import BeginSession, Closed, Done, Open, Operation, Refused, SessionLost
from tests.net.running import PATIENCE

MOST = Limits(max_message_octets=2 << 30)


class Peer:
    """One connection with channel 1 open. ``found``: operations that answer no request."""

    def __init__(self, port: int, version: str, name: str = "", **options: Any) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.adapter: Any = adapter_for(
            version, Role.CLIENT, product=Product(name=name), limits=MOST, **options
        )
        self.found: list[Operation] = []
        self.sent = 0
        self.heard = 0
        """Octets, in all."""
        self._rest = b""
        self.ask(Open("t", "/", "guest"))
        self.ask(BeginSession(1, "t", restartable=version == "0.8a2"))

    def flush(self, most: int | None = None) -> int:
        """Write the output, or so many octets of it and then no more; returns their number."""
        before = self.sent
        while most is None or self.sent - before < most:
            if not self._rest:
                self._rest = b"".join(self.adapter.output())
                self.adapter.refill()
            if not self._rest:
                break
            end = len(self._rest) if most is None else most - (self.sent - before)
            octets, self._rest = self._rest[:end], self._rest[end:]
            self.socket.sendall(octets)
            self.sent += len(octets)
        return self.sent - before

    def hear(self) -> None:
        """The next operations; our answers to them are not written yet."""
        octets = self.socket.recv(1 << 18)
        self.heard += len(octets)
        self.found += self.adapter.receive(octets)

    def say(self, *operations: Operation) -> None:
        for operation in operations:
            self.adapter.send(operation)
        self.flush()

    def next(self, kind: type[Any]) -> Any:
        """The next of this kind; those before it stay."""
        while True:
            for at, operation in enumerate(self.found):
                if isinstance(operation, kind):
                    del self.found[at]
                    return operation
                assert not isinstance(operation, Closed), operation
            self.flush()
            self.hear()
            self.found += self.adapter.found()

    def ask(self, operation: Any) -> Any:
        """The result; a refusal is an error."""
        assert operation.token == "t"
        self.say(operation)
        self.found += self.adapter.found()
        answer = self.next(Done | Refused)  # type: ignore[arg-type]
        assert isinstance(answer, Done), answer
        return answer.result

    def lost(self) -> Condition:
        """Why the channel is gone."""
        condition: Condition = self.next(SessionLost).condition
        return condition

    def reset(self) -> None:
        """Hang up without a word."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def __del__(self) -> None:
        self.socket.close()
