"""Files in stages (0-9a6, 0-8, 0-9): offered by open, staged, then published or delivered by their
identifier.

A transfer that was cut off goes on where it stopped: the ``PartialBodyStore`` keeps the part that
has come, for its sender (virtual host, user and identifier) and on any connection. It also keeps a
file that was staged and never published.
"""

import hashlib
import secrets
from collections import deque
from typing import Any, NamedTuple

from gateway.adapters.methods.contents.methods import Content, OutgoingMethod
from gateway.bodies import Body, cut, fingerprint
from gateway.errors import Condition, Lost, PeerError
from gateway.partial_bodies import Key, PartialBody, PartialBodyStore

MOST_STAGED = 64
"""Files staged on one channel and not yet published."""


class Complete(NamedTuple):
    """A file that was staged."""

    header: bytes
    item: PartialBody


class File(NamedTuple):
    """The same, as its receiver gets it."""

    header: bytes
    body: Body


class Outgoing(NamedTuple):
    """A file that was offered: its content, and the method that follows when it is staged."""

    content: Content
    finish: Any


class Rest:
    """Sink of the rest of a file, behind the octets that have come before."""

    __slots__ = ("_item", "_bodies")
    held = 0
    """The store counts for itself."""

    def __init__(self, partials: PartialBodyStore, item: PartialBody) -> None:
        self._bodies = partials
        self._item = item

    def add(self, octets: bytes) -> None:
        try:
            self._item.add(octets)
        except OSError:
            self._bodies.drop(self._item)
            raise

    def finish(self) -> bytes:
        """The file itself has it all."""
        return b""

    def abandon(self) -> None:
        """The octets that have come are kept."""


class Staging:
    """The files of one channel, both ways."""

    def __init__(self, layouts: Any, limit: int, partials: PartialBodyStore) -> None:
        """``layouts``: the records of the version. ``limit``: octets of the largest file."""
        self._w = layouts
        self._limit = limit
        self._bodies = partials
        self._opened: deque[PartialBody] = deque()
        self._staged: dict[str, Complete] = {}
        self._offered: deque[Outgoing] = deque()

    # --- theirs ----------------------------------------------------------------------------------

    def opened(self, owner: Key, m: Any) -> Any:
        """They offer a file: how much of it is here already."""
        if m.content_size > self._limit:
            text = f"a file of {m.content_size} octets, {self._limit} are allowed"
            raise PeerError(Condition.CONTENT_TOO_LARGE, text, Lost.SESSION)
        if len(self._opened) + len(self._staged) >= MOST_STAGED:
            raise PeerError(Condition.RESOURCE_ERROR, "too many files are staged", Lost.SESSION)
        try:
            item = self._bodies.begin((*owner, m.identifier), m.content_size)
        except OSError as error:
            raise not_kept(m.content_size, error) from error
        self._opened.append(item)
        return self._w.FileOpenOk(item.have)

    def rest(self, size: int) -> Rest:
        """The sink of the rest of the file that was opened first. Less than was announced is taken
        for the whole, more is not."""
        if not self._opened:
            raise PeerError(Condition.COMMAND_INVALID, "file.stage without open", Lost.SESSION)
        item = self._opened[0]
        if size > item.left:
            text = f"a file of {item.size} octets was announced, {item.have + size} would come"
            raise PeerError(Condition.CONTENT_TOO_LARGE, text, Lost.SESSION)
        return Rest(self._bodies, item)

    def expects(self, identifier: str) -> bool:
        """Whether a file was opened that is not staged yet."""
        return any(item.key[-1] == identifier for item in self._opened)

    def staged(self, header: bytes) -> str:
        """The rest of that file has come. Returns its identifier."""
        item = self._opened.popleft()
        older = self._staged.pop(item.key[-1], None)
        if older is not None:
            self._bodies.drop(older.item)
        self._staged[item.key[-1]] = Complete(header, item)
        return item.key[-1]

    def cut(self) -> None:
        """The channel is over: the parts of these files wait for their sender."""
        for item in [*self._opened, *(file.item for file in self._staged.values())]:
            self._bodies.leave(item)
        self._opened.clear()
        self._staged.clear()
        self._offered.clear()

    def taken(self, identifier: str) -> File:
        """A staged file, to be published or delivered."""
        found = self._staged.pop(identifier, None)
        if found is None:
            text = f"no file '{identifier[:80]}' is staged"
            raise PeerError(Condition.NOT_FOUND, text, Lost.SESSION)
        size = found.item.have
        try:
            return File(found.header, self._bodies.finish(found.item))
        except OSError as error:
            raise not_kept(size, error) from error

    # --- ours ------------------------------------------------------------------------------------

    def offer(self, content: Content, finish: Any) -> OutgoingMethod:
        """Begin to send a file; ``finish`` is the method that publishes or delivers it. The same
        file has the same identifier, so that its transfer may go on after a lost connection,
        anywhere in the file."""
        identifier = finish.identifier = identified(content)
        self._offered.append(Outgoing(content, finish))
        return OutgoingMethod(self._w.FileOpen(identifier, len(content.body)))

    def accepted(self, m: Any) -> list[OutgoingMethod]:
        """The peer tells how much of the file offered first it has."""
        if not self._offered:
            raise PeerError(Condition.COMMAND_INVALID, "file.open-ok without open", Lost.SESSION)
        content, finish = self._offered.popleft()
        size = len(content.body)
        if m.staged_size > size:
            raise PeerError(Condition.COMMAND_INVALID, "more is staged than there is", Lost.SESSION)
        rest = content._replace(body=cut(content.body, m.staged_size, size))
        return [OutgoingMethod(self._w.FileStage(), rest), OutgoingMethod(finish)]


def identified(content: Content) -> str:
    """The name of a file that we send; none that is known, if it cannot be looked at."""
    try:
        mark = fingerprint(content.body)
    except OSError:
        mark = secrets.token_bytes(32)
    return hashlib.sha256(content.header + b"\0" + mark).hexdigest()[:32]


def not_kept(size: int, error: OSError) -> PeerError:
    """The disk is short, or a limit reached."""
    text = f"there is no room for a file of {size} octets: {error.strerror}"
    return PeerError(Condition.CONTENT_TOO_LARGE, text, Lost.SESSION)
