"""Transfers of the transitional 0-10, whose body is among their arguments, or comes in parts under
a reference."""

from collections.abc import Callable
from typing import Any

from gateway.adapters.methods.transitional import types
from gateway.archive.side import MOST_BODY, MOST_UNFINISHED, Side

PARTS = frozenset(
    f"message.{name}" for name in ("transfer", "open", "append", "close", "resume", "checkpoint")
)
MOST_TRANSFERS = 256
"""Of one reference."""

Compose = Callable[[int, Any, bytes], None]


class Reference:
    """A body that comes in parts. ``whole``: it began in this recording."""

    def __init__(self, whole: bool) -> None:
        self.whole = whole
        self.pieces: list[bytes] = []
        self.size = 0
        self.transfers: list[tuple[int, Any]] = []


class References:
    """Those of one direction."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._open: dict[tuple[int, bytes], Reference] = {}
        self._held = 0

    def take(self, channel: int, m: Any, offset: int, compose: Compose) -> None:
        """A method of class ``message``. Raises ``ValueError``."""
        if m.NAME == "message.transfer":
            self._transfer(channel, m, offset, compose)
            return
        key = channel, m.reference
        found = self._open.get(key)
        if m.NAME in ("message.open", "message.resume"):
            if found is not None:
                self._drop(key, offset, "its reference is opened again")
            self._open[key] = Reference(m.NAME == "message.open")
        elif found is None:
            return
        elif m.NAME == "message.append":
            found.size += len(m.bytes)
            self._held += len(m.bytes)
            if found.size > MOST_BODY or self._held > MOST_UNFINISHED:
                found.whole = False
                self._held -= found.size
                found.size = 0
                found.pieces.clear()
            else:
                found.pieces.append(m.bytes)
        elif m.NAME == "message.close":
            if not found.whole:
                self._drop(key, offset, "only a part of its body is here")
                return
            del self._open[key]
            self._held -= found.size
            body = b"".join(found.pieces)
            for begin, transfer in found.transfers:
                compose(begin, transfer, body)

    def _transfer(self, channel: int, m: Any, offset: int, compose: Compose) -> None:
        self._side.messages += 1
        try:
            body = types.read_body(m.body)
        except (ValueError, IndexError) as error:
            self._side.failed(offset, offset, "content-broken", str(error))
            return
        if not body.is_reference:
            compose(offset, m, body.octets)
            return
        found = self._open.get((channel, body.octets))
        if found is None:
            text = "the reference of its body is not open"
            self._side.failed(offset, offset, "message-beginning-missing", text)
        elif len(found.transfers) >= MOST_TRANSFERS:
            text = f"more than {MOST_TRANSFERS} transfers by one reference"
            self._side.failed(offset, offset, "message-too-large", text)
        else:
            found.transfers.append((offset, m))

    def _drop(self, key: tuple[int, bytes], position: int, text: str) -> None:
        found = self._open.pop(key)
        self._held -= found.size
        for begin, _ in found.transfers:
            self._side.failed(begin, position, "message-incomplete", text)

    def abandon(self, position: int, text: str) -> None:
        for key in list(self._open):
            self._drop(key, position, text)
