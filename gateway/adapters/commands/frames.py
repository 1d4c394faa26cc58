"""Octets <-> commands: size, type, fields, end octet, and the fragment after it (document §3.1).

The size covers everything after itself except the fragment. Its long form is accepted for any size
and written only where the short one is too small. Octets between the end octet and the end of the
frame are ignored, as the original programs do.
"""

import struct
from collections.abc import Callable
from typing import Any

from gateway.adapters.commands.command import Command
from gateway.adapters.commands.violation import Violation
from gateway.adapters.commands.wire.tables import COMMANDS, END, ESCAPE, HANDSHAKE_MAX
from gateway.adapters.core.frame_reader import ALL

BY_NUMBER: dict[int, Command] = {command.number: command for command in COMMANDS}
BY_RECORD: dict[type[Any], Command] = {command.record: command for command in COMMANDS}
BY_NAME: dict[str, Command] = {command.name: command for command in COMMANDS}

HANDSHAKE = frozenset(["connection.challenge", "connection.response", "connection.tune"])
"""Commands whose frames may not be larger than 4096 octets (§3.2.3 to §3.2.5)."""

LONG_HEAD = 6
TAIL = bytes((END,))

OnCommand = Callable[[Command, Any, bytes], None]
FastPath = Callable[[bytes, int, int, int], int]
"""Called with octets, offset of the type, end of the frame and end of the octets; returns the end
of the message after the frame, or 0 if it needs the general path."""


class Frames:
    """Cuts a stream into commands. ``limit`` is the largest frame and fragment accepted."""

    __slots__ = (
        "limit", "held", "most_at_once", "stopped", "paused", "unread", "_take", "_hot",
        "_fast_path",
    )  # fmt: skip

    def __init__(self, take: OnCommand, limit: int, hot: str, fast_path: FastPath) -> None:
        """``hot``: the command of messages; its frames are offered to ``fast_path`` first."""
        self._hot = BY_NAME[hot].number
        self._fast_path = fast_path
        self.limit = limit
        self.held = b""
        self.stopped = False
        """Nothing is read, either for good or, if ``paused``, until ``resume``."""
        self.paused = False
        """Octets are kept until ``resume``."""
        self.most_at_once, self.unread = ALL, False
        self._take = take

    def stop(self) -> None:
        """Read nothing more."""
        self.stopped, self.paused = True, False
        self.held = b""

    def pause(self) -> None:
        """Read nothing until ``resume``."""
        self.stopped = self.paused = True

    def resume(self) -> None:
        """Read the octets that came while paused. Raises ``Violation``."""
        self.stopped = self.paused = self.unread = False
        self.feed(b"")

    def feed(self, data: bytes) -> None:
        """Read complete frames and keep the rest. Raises ``Violation``."""
        buf = self.held + data if self.held else data
        at, end, ahead = 0, len(buf), self.most_at_once
        while not self.stopped:
            if not ahead:
                self.unread = True
                self.pause()
                break
            ahead -= 1
            start = at + 2
            size = int.from_bytes(buf[at:start], "big")
            if size == ESCAPE or start > end:
                behind = head_of(buf, at)
                if behind is None:
                    break
                start, size = behind, int.from_bytes(buf[start:behind], "big")
            if size > self.limit:
                raise Violation("frame-error", f"a frame of {size} octets, {self.limit} at most")
            stop = start + size
            if stop > end:
                break
            if size and buf[start] == self._hot:
                behind = self._fast_path(buf, start, stop, end)
                if behind:
                    at = behind
                    continue
            command, record = read_command(buf, start, stop)
            fragment = b""
            if command.fragment:
                wanted = record.fragment_size
                if wanted > self.limit:
                    text = f"a fragment of {wanted} octets, {self.limit} at most"
                    raise Violation("frame-error", text)
                if not getattr(record, "out_of_band", False):
                    if stop + wanted > end:
                        break
                    fragment = buf[stop : stop + wanted]
                    stop += wanted
            at = stop
            self._take(command, record, fragment)
        self.held = b"" if self.stopped and not self.paused else buf[at:]


def head_of(buf: bytes, at: int) -> int | None:
    """Offset of the type, ``None`` if the size is incomplete."""
    if len(buf) < at + 2:
        return None
    if buf[at] != ESCAPE >> 8 or buf[at + 1] != ESCAPE & 0xFF:
        return at + 2
    return at + LONG_HEAD if len(buf) >= at + LONG_HEAD else None


def read_command(buf: bytes, start: int, stop: int) -> tuple[Command, Any]:
    """The command whose type stands at ``start``. Raises ``Violation``."""
    command = BY_NUMBER.get(buf[start]) if stop > start else None
    if command is None:
        name = f"type {buf[start]}" if stop > start else "no type"
        raise Violation("frame-error", f"a frame with {name}")
    if command.name in HANDSHAKE and stop - start > HANDSHAKE_MAX:
        raise Violation("frame-error", f"{command.name} of more than {HANDSHAKE_MAX} octets")
    try:
        record, at = command.read(buf, start + 1)
    except (struct.error, IndexError, ValueError):
        raise Violation("frame-error", f"{command.name} cannot be read") from None
    if at >= stop or buf[at] != END:
        raise Violation("frame-error", f"{command.name} does not end with octet {END}")
    return command, record


def frame(record: Any) -> bytes:
    """One command as octets. Raises ``ValueError`` for a short string that is too long."""
    command = BY_RECORD[type(record)]
    return sized(bytes((command.number,)) + command.write(record) + TAIL)


def sized(payload: bytes) -> bytes:
    size = len(payload)
    if size < ESCAPE:
        return size.to_bytes(2, "big") + payload
    return ESCAPE.to_bytes(2, "big") + size.to_bytes(4, "big") + payload
