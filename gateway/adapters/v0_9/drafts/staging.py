"""Files of 0-9a6: offered by open, staged, then published or delivered by their identifier.

A transfer that was cut off goes on where it stopped: what had come of it is kept for its sender
(virtual host, user and identifier), on any connection, in memory and within limits.
"""

import hashlib
from collections import OrderedDict, deque
from typing import Any, NamedTuple

from gateway.adapters.v0_9.drafts.words import Content, Spoken
from gateway.errors import Condition, Lost, PeerError

MOST_STAGED = 64
"""Files staged on one channel and not yet published."""
MOST_KEPT = 256
MOST_KEPT_OCTETS = 64 << 20
"""Files cut off in the middle that are kept, over all connections: the oldest go first."""

Key = tuple[str, str, str]


class Shelf:
    """What was cut off in the middle."""

    def __init__(self) -> None:
        self.kept: OrderedDict[Key, bytes] = OrderedDict()
        self.octets = 0

    def put(self, key: Key, octets: bytes) -> None:
        self.take(key)
        if not octets or len(octets) > MOST_KEPT_OCTETS:
            return
        self.kept[key] = octets
        self.octets += len(octets)
        while len(self.kept) > MOST_KEPT or self.octets > MOST_KEPT_OCTETS:
            _, dropped = self.kept.popitem(last=False)
            self.octets -= len(dropped)

    def take(self, key: Key) -> bytes:
        octets = self.kept.pop(key, b"")
        self.octets -= len(octets)
        return octets


SHELF = Shelf()


class Staged(NamedTuple):
    header: bytes
    body: bytes


class Outgoing(NamedTuple):
    """A file that was offered: its content, and what is said when it is staged."""

    content: Content
    finish: Any


class Staging:
    """The files of one channel, both ways."""

    def __init__(self, layouts: Any, limit: int) -> None:
        self._w = layouts
        self._limit = limit
        self._opened: deque[tuple[Key, bytes]] = deque()
        self._staged: dict[str, Staged] = {}
        self._offered: deque[Outgoing] = deque()

    # --- theirs ----------------------------------------------------------------------------------

    def opened(self, user: str, vhost: str, m: Any) -> Spoken:
        """They offer a file: how much of it is here already."""
        if m.content_size > self._limit:
            text = f"a file of {m.content_size} octets, {self._limit} are allowed"
            raise PeerError(Condition.CONTENT_TOO_LARGE, text, Lost.SESSION)
        if len(self._opened) + len(self._staged) >= MOST_STAGED:
            raise PeerError(Condition.RESOURCE_ERROR, "too many files are staged", Lost.SESSION)
        key = (vhost, user, m.identifier)
        have = SHELF.take(key)
        if len(have) > m.content_size:
            have = b""
        self._opened.append((key, have))
        return Spoken(self._w.FileOpenOk(len(have)))

    def staged(self, header: bytes, body: bytes) -> None:
        """The rest of the file that was opened first."""
        if not self._opened:
            raise PeerError(Condition.COMMAND_INVALID, "file.stage without open", Lost.SESSION)
        key, have = self._opened.popleft()
        if len(have) + len(body) > self._limit:
            raise PeerError(Condition.CONTENT_TOO_LARGE, "the file is too large", Lost.SESSION)
        self._staged[key[2]] = Staged(header, have + body)

    def cut(self, body: bytes) -> None:
        """The channel is over in the middle of a stage, of which this has come."""
        if self._opened:
            key, have = self._opened.popleft()
            SHELF.put(key, have + body)
        for key, have in self._opened:
            SHELF.put(key, have)
        self._opened.clear()
        self._staged.clear()

    def taken(self, identifier: str) -> Staged:
        """A staged file, to be published or delivered."""
        found = self._staged.pop(identifier, None)
        if found is None:
            text = f"no file '{identifier[:80]}' is staged"
            raise PeerError(Condition.NOT_FOUND, text, Lost.SESSION)
        return found

    # --- ours ------------------------------------------------------------------------------------

    def offer(self, content: Content, finish: Any) -> Spoken:
        """Begin to send a file; ``finish`` is what publishes or delivers it. The same file has the
        same identifier, so that its transfer may go on after a lost connection, anywhere in the
        file: it is read into memory."""
        content = content._replace(body=content.body[:])
        identifier = hashlib.sha256(content.header + b"\0" + content.body[:]).hexdigest()[:32]
        finish.identifier = identifier
        self._offered.append(Outgoing(content, finish))
        return Spoken(self._w.FileOpen(identifier, len(content.body)))

    def accepted(self, m: Any) -> list[Spoken]:
        """They say how much of the file offered first they have."""
        if not self._offered:
            raise PeerError(Condition.COMMAND_INVALID, "file.open-ok without open", Lost.SESSION)
        content, finish = self._offered.popleft()
        if m.staged_size > len(content.body):
            raise PeerError(Condition.COMMAND_INVALID, "more is staged than there is", Lost.SESSION)
        rest = content._replace(body=content.body[m.staged_size :])
        return [Spoken(self._w.FileStage(), rest), Spoken(finish)]
