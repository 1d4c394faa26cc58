"""What the frame loop of 0-10 hands out, kept as a list of tuples."""

from typing import Any

from gateway.adapters.segments.frames import Frames
from gateway.adapters.segments.violation import Violation
from gateway.bodies import Body, Spool
from gateway.operations import Operation


class Channel:
    """A session that writes down what it gets."""

    def __init__(self, number: int, heard: list[Any]) -> None:
        self.number = number
        self.heard = heard

    def on_transfer(
        self, sync: bool, arguments: bytes, header: bytes | None, body: Body | None,
        found: list[Operation],
    ) -> None:  # fmt: skip
        said = None if body is None else bytes(body[:])
        self.heard.append((self.number, 0x0401, sync, arguments, header, said))

    def on_run(
        self, arguments: bytes, content: list[tuple[bytes, bytes]], found: list[Operation]
    ) -> None:
        for header, body in content:
            self.on_transfer(False, arguments, header, body, found)

    def on_command(
        self, code: int, sync: bool, buf: bytes, at: int, end: int, header: bytes | None,
        body: Body | None, found: list[Operation],
    ) -> None:  # fmt: skip
        said = None if body is None else bytes(body[:])
        self.heard.append((self.number, code, sync, buf[at:end], header, said))

    def on_violation(self, violation: Violation, found: list[Operation]) -> None:
        self.heard.append((self.number, violation.condition.value))


class Heard:
    """One connection with sessions on some channels. ``heard``: what came, in order."""

    def __init__(
        self, channels: int = 4, max_body: int = 0, spool: Spool | None = None, limit: int = 65535
    ) -> None:
        self.heard: list[Any] = []
        self.sessions = {number: Channel(number, self.heard) for number in range(channels)}
        self.frames = Frames(self, self.sessions, max_body=max_body, spool=spool, limit=limit)
        self.violation: Violation | None = None

    def on_control(
        self, channel: int, code: int, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None:
        self.heard.append((channel, code, buf[at:end]))

    def on_unattached(self, channel: int, found: list[Operation]) -> None:
        self.heard.append((channel, "unattached"))

    def feed(self, *pieces: bytes) -> list[Any]:
        """What these octets say, and everything before."""
        for piece in pieces:
            violation = self.frames.feed(piece, [])
            if violation is not None:
                assert self.violation is None, "after a violation nothing is looked at"
                self.violation = violation
        return self.heard
