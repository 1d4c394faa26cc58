"""Numbers of one channel: requests, responses, and commands in either direction.

24 July numbers requests and responses, each from 1 in each direction. Both revisions count the
methods of each direction but those of class ``execution``, whose methods name these numbers.
"""

from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.transitional.types import SERIALS
from gateway.adapters.methods.transitional.versions import Carried

EXECUTION = 140
"""The class whose methods are not counted."""
BY_NAME = frozenset(
    f"connection.{name}" for name in ("start", "secure", "tune", "open", "close")
) | {"channel.close"}
"""Requests of which one at most is open, so that the name of a reply tells which it answers."""


class Numbering:
    """The counters of a channel. One that is opened again begins anew."""

    __slots__ = ("requests", "responses", "mark", "received", "sent", "_unanswered")

    def __init__(self) -> None:
        self.requests = 0
        """Identifier of our last request."""
        self.responses = 0
        """Identifier of our last response."""
        self.mark = 0
        """The highest response of the peer."""
        self.received = 0
        """Commands of the peer. On the wire they are serial numbers of 32 bits."""
        self.sent = 0
        """Commands of ours."""
        self._unanswered: dict[str, int] = {}
        """Identifiers of the peer's requests in ``BY_NAME``, by the name of the reply."""

    def receive(self, method: Method, carried: Carried | None) -> None:
        """Count a method of the peer."""
        if method.number >> 16 != EXECUTION:
            self.received += 1
        if carried is None:
            return
        if carried.is_response:
            self.mark = max(self.mark, carried.identifier)
        elif method.name in BY_NAME:
            self._unanswered[f"{method.name}-ok"] = carried.identifier

    def send(self, method: Method) -> None:
        """Count a method of ours."""
        if method.number >> 16 != EXECUTION:
            self.sent += 1

    def named(self, serial: int) -> int:
        """The command of ours that a serial number names: the last one that has it; one that is not
        sent yet has no number, -1."""
        behind = (self.sent - serial) % SERIALS
        return self.sent - behind if behind < SERIALS >> 1 else -1

    def reserve(self, commands: int, as_requests: bool) -> "Numbering":
        """The numbers of so many commands that are sent later, in front of all others."""
        reserved = Numbering()
        reserved.requests, reserved.sent, reserved.mark = self.requests, self.sent, self.mark
        self.sent += commands
        self.requests += commands if as_requests else 0
        return reserved

    def unanswered(self, reply: str) -> int:
        """Identifier of the request that has this reply; 0 if there is none."""
        return self._unanswered.pop(reply, 0)

    def request(self) -> Carried:
        """The head of our next request."""
        self.requests += 1
        return Carried(False, self.requests, self.mark, 0)

    def response(self, request: int, batch: int = 0) -> Carried:
        """The head of our response to a request, and to so many behind it."""
        self.responses += 1
        return Carried(True, self.responses, request, batch)
