"""Publishes and settlements of a client, which complete together: those of one read, when all of
them are performed and stored."""

from collections import deque
from typing import Any, NamedTuple, Protocol

from gateway.adapters.segments.completion import ReceivedCommands, ranges_of
from gateway.adapters.segments.session_state import ATTACHED, State
from gateway.adapters.segments.violation import session_code
from gateway.adapters.segments.wire import layouts as w
from gateway.message import Message
from gateway.operations import Done, Operation, Refused, Synchronize

Numbers = dict[int, Message | None]
"""Commands by number, with the messages of publishes; ``None`` is a settlement."""


class BatchingSession(Protocol):
    """The session, as far as its batches need it."""

    number: int
    state: State
    received: ReceivedCommands
    batches: "Batches"

    def send(self, record: Any) -> None: ...

    def tell_soon(self) -> None: ...

    def tell_exception(self, code: int, text: str) -> None: ...


class Batches:
    """Those of one session. ``numbers`` and ``messages`` are of the read at hand: its commands, and
    the messages whose publisher hears of their fate."""

    __slots__ = ("numbers", "messages", "explicit", "performing")

    def __init__(self) -> None:
        self.numbers: Numbers = {}
        self.messages: list[Message] = []
        self.explicit: dict[int, int] = {}
        """Transfers whose publisher hears of their fate, by the identity of their messages."""
        self.performing: deque[Numbers] = deque()
        """Those that the broker was given and has not answered yet."""

    def flush(self, session: BatchingSession, found: list[Operation]) -> None:
        """Complete those of the read when they are performed and stored."""
        if self.numbers:
            token = Performed(session, self.numbers, self.messages)
            found.append(Synchronize(session.number, token))
            self.performing.append(self.numbers)
            self.numbers, self.messages = {}, []

    def number_of(self, given: Message | None) -> int | None:
        """The number of the transfer of a message that the broker was given."""
        for numbers in self.performing:
            for number, message in numbers.items():
                if message is given is not None:
                    return number
        return None

    def clear(self) -> None:
        """Their session ends."""
        self.numbers, self.messages = {}, []
        self.explicit.clear()
        self.performing.clear()


class Performed(NamedTuple):
    """The token of ``Synchronize`` behind a batch."""

    session: BatchingSession
    numbers: Numbers
    messages: list[Message]

    def done(self, op: Done) -> None:
        session = self.session
        batches = session.batches
        if batches.performing and batches.performing[0] is self.numbers:
            batches.performing.popleft()
        accepted = [batches.explicit.pop(id(message), None) for message in self.messages]
        routed = [number for number in accepted if number is not None]
        if routed and session.state in (ATTACHED, State.LEFT):
            session.send(w.MessageAccept(ranges_of(routed)))
        if session.received.complete_all(self.numbers):
            session.tell_soon()

    def refused(self, op: Refused) -> None:
        self.session.tell_exception(session_code(op.condition), op.text)
