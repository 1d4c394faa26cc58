"""Sessions of the process by number, for the console, for limits and for alarms."""

from collections.abc import Iterator

from gateway.errors import Condition, Lost, Refusal
from gateway.partial_bodies import PartialBodyStore
from gateway.sessions.links import Links
from gateway.sessions.named import NamedSessions
from gateway.sessions.realms import Realms
from gateway.sessions.session import Session
from gateway.sessions.staging import Staging


class SessionRegistry:
    """All open sessions of this process by number. Numbers are never used again.

    ``links`` may outlive their connections; ``create_queues`` lets a link make the queue that its
    plain address names; ``partials`` stores incomplete messages; ``named`` are the sessions of
    0-10.
    """

    def __init__(
        self,
        create_queues: bool = True,
        partials: PartialBodyStore | None = None,
        named: NamedSessions | None = None,
    ) -> None:
        self.links = Links()
        self.named = named or NamedSessions()
        self.create_queues = create_queues
        self.partials = partials or PartialBodyStore()
        self.staging = Staging(self.partials)
        self.realms = Realms()
        self.topics: dict[tuple[str, str], int] = {}
        """Temporary topics (virtual host, name), and the numbers of the sessions that own them."""
        self._clients: dict[tuple[str, str, str], Session] = {}
        self._sessions: dict[int, Session] = {}
        self._next = 1
        self.opened = 0
        """Sessions ever opened, by this process."""

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    def enter(self, session: Session) -> int:
        """Number a session and keep it until ``leave``."""
        number = self._next
        self._next += 1
        self.opened += 1
        self._sessions[number] = session
        return number

    def user_removed(self, user: str) -> None:
        """Close the connections of a user that was deleted."""
        for session in self:
            if session.user == user:
                session.close(Condition.CONNECTION_FORCED, f"user '{user}' was deleted")
        self.named.user_removed(user)

    def claim(self, vhost: str, user: str, client: str, session: Session) -> None:
        """Reserve a client name for this session until ``leave``. Refuses (405) if another session
        has it. Names are apart by user: no user can keep another out."""
        holder = self._clients.setdefault((vhost, user, client), session)
        if holder is not session:
            text = f"client '{client}' has a connection already"
            raise Refusal(Condition.RESOURCE_LOCKED, text, Lost.CONNECTION)

    def leave(self, number: int) -> None:
        """Forget a session that has ended, and its client name."""
        session = self._sessions.pop(number, None)
        for key in [key for key, holder in self._clients.items() if holder is session]:
            del self._clients[key]

    def find(self, number: int) -> Session | None:
        """The open session of that number, if there is one."""
        return self._sessions.get(number)
