"""Commands that we have sent and the peer may not have: they are sent again when the session is
attached to another connection."""

from collections import deque
from collections.abc import Iterator
from itertools import islice

from gateway.adapters.segments.completion import SERIALS
from gateway.adapters.segments.types import Ranges
from gateway.bodies import Body
from gateway.operations import ReplayRoom

COMMAND_OCTETS = 256
"""Octets that a command counts besides its content."""


class ReplayLog:
    """The last commands of one session, until the peer has completed them. Beyond the limits of
    ``room`` the oldest are dropped: a peer that lacks them cannot go on with the session.
    ``first`` is the number of the oldest."""

    __slots__ = ("first", "octets", "room", "_commands")

    def __init__(self, first: int, room: ReplayRoom) -> None:
        self.first = first
        self.octets = 0
        self.room = room
        self._commands: deque[tuple[bytes, bytes | None, Body | None]] = deque()

    def __len__(self) -> int:
        return len(self._commands)

    def add(self, segment: bytes, header: bytes | None = None, body: Body | None = None) -> None:
        """A command was sent, behind all others: its segments."""
        self._commands.append((segment, header, body))
        room = self.room
        limits = room.limits
        octets = weight(segment, header, body)
        self.octets += octets
        room.used += octets
        while self._commands and (
            self.octets > limits.octets
            or room.used > limits.all_octets
            or len(self._commands) > limits.commands
        ):
            self.drop(1)

    def drop(self, count: int) -> None:
        """Forget the oldest."""
        commands = self._commands
        for _ in range(min(count, len(commands))):
            octets = weight(*commands.popleft())
            self.octets -= octets
            self.room.used -= octets
            self.first += 1

    def completed(self, ranges: list[tuple[int, int]]) -> None:
        """The peer has completed these."""
        for low, high in ranges:
            if low <= self.first <= high:
                self.drop(high + 1 - self.first)

    def start(self, expected: Ranges | None, partial: bool, following: int) -> int | None:
        """The number from which the commands are sent again, or ``None`` if that cannot be: the
        peer lacks commands that are gone, or knows nothing of the session (it expects none).
        ``partial``: it has a part of the command before, which is sent again as a whole.
        ``following`` is our next number."""
        wanted = [following - ((following - first) & SERIALS) for first, _ in expected or ()]
        start = min(wanted, default=-1) - partial
        return start if self.first <= start <= following else None

    def since(self, number: int) -> Iterator[tuple[bytes, bytes | None, Body | None]]:
        """The commands from this number on."""
        return islice(self._commands, number - self.first, None)

    def end(self) -> None:
        """The session has ended."""
        self.drop(len(self._commands))


def weight(segment: bytes, header: bytes | None, body: Body | None) -> int:
    """Octets that a command counts. Transfers of a subscription share their first segment."""
    content = len(segment) if header is None else len(header) + len(body or b"")
    return COMMAND_OCTETS + content
