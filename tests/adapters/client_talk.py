"""A client of ours and a server, back to back."""

from collections.abc import Callable
from typing import Any

from gateway.adapters.methods.content import BASIC
from gateway.message import Message, Properties
from gateway.operations import BeginSession, Done, Open, Operation


def message(body: bytes, key: str = "q", exchange: str = "", **given: Any) -> Message:
    header = BASIC.write(Properties(**given))
    return Message(BASIC, header, body, exchange, key, BASIC.essentials(header))


class ClientTalk:
    """``client`` is an engine; ``answer`` returns what the server says to some octets, or on its
    own to none. Channel 1 is open."""

    def __init__(self, client: Any, answer: Callable[[bytes], bytes]) -> None:
        self.client = client
        self.answer = answer
        self.heard: list[Operation] = []
        assert isinstance(self.says(Open("open", "/", "guest")), Done)
        assert self.done(BeginSession(1, "begin")) is None

    def carry(self) -> None:
        """Until both have nothing more to say."""
        while True:
            asked = b""
            while octets := b"".join(self.client.output()):
                asked += octets
                self.client.refill()
            answered = self.answer(asked)
            if not asked and not answered:
                return
            self.heard += self.client.receive(answered) if answered else []
            self.heard += self.client.found()

    def tells(self, *operations: Operation) -> list[Operation]:
        """Everything that comes of these."""
        for operation in operations:
            self.client.send(operation)
        self.heard += self.client.found()
        self.carry()
        heard, self.heard = self.heard, []
        return heard

    def says(self, operation: Operation) -> Any:
        (answer,) = self.tells(operation)
        return answer

    def done(self, operation: Any) -> Any:
        """The result of a request."""
        answer = self.says(operation)
        assert isinstance(answer, Done) and answer.token == operation.token, answer
        return answer.result
