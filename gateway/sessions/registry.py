"""Who is connected: numbered sessions, for the console, for limits and for alarms."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gateway.errors import Condition, Lost, Refusal
from gateway.partial_bodies import PartialBodyStore
from gateway.sessions.links import Links
from gateway.sessions.realms import Realms
from gateway.sessions.staging import Staging

if TYPE_CHECKING:
    from gateway.sessions.session import Session


class SessionRegistry:
    """All open sessions of this process by number. Numbers are never used again.

    ``links`` are those that may outlive their connections; ``create_queues`` lets a link make the
    queue that its plain address names; ``partials`` keeps messages of which not all has come.
    """

    def __init__(
        self, create_queues: bool = True, partials: PartialBodyStore | None = None
    ) -> None:
        self.links = Links()
        self.create_queues = create_queues
        self.partials = partials or PartialBodyStore()
        self.staging = Staging(self.partials)
        self.realms = Realms()
        self.topics: dict[tuple[str, str], Session] = {}
        """Temporary topics (virtual host, name), and whose they are."""
        self._clients: dict[tuple[str, str, str], Session] = {}
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

    def user_removed(self, user: str) -> None:
        """End the connections of a user that is no more."""
        for session in self:
            if session.user == user:
                session.close(Condition.CONNECTION_FORCED, f"user '{user}' was deleted")

    def claim(self, vhost: str, user: str, client: str, session: "Session") -> None:
        """This client name is taken until ``leave``. Refuses (405) if it is. Each user has names of
        its own: nobody keeps another user out by being first."""
        holder = self._clients.setdefault((vhost, user, client), session)
        if holder is not session:
            text = f"client '{client}' has a connection already"
            raise Refusal(Condition.RESOURCE_LOCKED, text, Lost.CONNECTION)

    def leave(self, number: int) -> None:
        session = self._sessions.pop(number, None)
        for key in [key for key, holder in self._clients.items() if holder is session]:
            del self._clients[key]

    def find(self, number: int) -> "Session | None":
        return self._sessions.get(number)
