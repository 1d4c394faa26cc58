"""Who is connected: numbered sessions, for the console, for limits and for alarms."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gateway.sessions.links import Links

if TYPE_CHECKING:
    from gateway.sessions.session import Session


class Registry:
    """All open sessions of this process by number. Numbers are never used again.

    ``links`` are those that may outlive their connections; ``create_queues`` lets a link make the
    queue that its plain address names.
    """

    def __init__(self, create_queues: bool = True) -> None:
        self.links = Links()
        self.create_queues = create_queues
        self._sessions: dict[int, Session] = {}
        self._next = 1
        self.opened = 0
        """Sessions ever opened, by this process."""

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> "Iterator[Session]":
        return iter(list(self._sessions.values()))

    def enter(self, session: "Session") -> int:
        """Number a session and keep it until ``leave``."""
        number = self._next
        self._next += 1
        self.opened += 1
        self._sessions[number] = session
        return number

    def leave(self, number: int) -> None:
        self._sessions.pop(number, None)

    def find(self, number: int) -> "Session | None":
        return self._sessions.get(number)
