"""Messages of the class-and-method family from their methods, properties and bodies, as the roles
of the gateway make them."""

import struct
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.contents import published, tunnel
from gateway.adapters.methods.contents.classes import plain
from gateway.adapters.methods.contents.dialect import ClassDialect
from gateway.adapters.methods.drafts.content import CONTENTS as DRAFT_CONTENTS
from gateway.adapters.methods.drafts.v0_9a0.names import TOPIC, TOPICS
from gateway.adapters.methods.drafts.v0_9a6.names import OURS
from gateway.adapters.methods.drafts.versions import DRAFTS, is_0_9a0
from gateway.adapters.methods.essentials import arrived
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.trace import decoding_of
from gateway.adapters.methods.transitional import contents as transitional_contents
from gateway.adapters.methods.transitional.content import arrived_header, header_of
from gateway.adapters.methods.transitional.versions import REVISIONS
from gateway.archive.side import Side
from gateway.bodies import Body
from gateway.message import Dialect, Table

MOST_FILES = 64
"""Files of one direction that are staged and not yet published."""


class Composed(NamedTuple):
    """A message without its body."""

    dialect: Dialect
    exchange: str
    key: str
    header: bytes


class Composer:
    """Those of one version, 0-8 to 0-9-1; the others have their own."""

    def __init__(self, version: str, read_table: Callable[[bytes], Table]) -> None:
        self.version = version
        self._table = decoding_of(version)[0]
        self._read_table = read_table
        self._basic = self._table.by_name["basic.publish"].number >> 16 if self._has_basic else -1
        self._dialects: dict[int, ClassDialect] = published.CONTENTS.get(version, {})

    @property
    def _has_basic(self) -> bool:
        return "basic.publish" in self._table.by_name

    def check(self, method: Method) -> Callable[[bytes], Any] | None:
        """The function that reads the properties of a content."""
        group = method.number >> 16
        if group == self._basic:
            return self._known
        dialect = self._dialects.get(group)
        if dialect is not None:
            return dialect.arrived
        own = self._table.contents[group]
        return partial(tunnel.arrived if own.name == "tunnel" else plain, own, self._read_table)

    def _known(self, header: bytes) -> bytes:
        arrived(header)
        return header

    def compose(self, method: Method, m: Any, known: Any, header: bytes, body: Body) -> Composed:
        """Raises ``ValueError``, and ``PeerError``."""
        group = method.number >> 16
        if group == self._basic:
            return Composed(BASIC, m.exchange, m.routing_key, known)
        if method.name.startswith("tunnel."):
            meta = self._read_table(m.meta_data) if m.meta_data else {}
            message = tunnel.published(0, meta, known, body).message
            return Composed(BASIC, message.exchange, message.key, message.header)
        dialect = self._dialects[group]
        header = dialect.known(header).header
        return Composed(dialect, m.exchange, getattr(m, "routing_key", ""), header)

    def transfer(self, m: Any, from_client: bool) -> Composed:
        """Of a ``message.transfer``. Raises ``ValueError``."""
        try:
            header, _ = header_of(m)
        except (struct.error, IndexError) as error:
            raise ValueError("the properties are cut short") from error
        return Composed(BASIC, m.destination if from_client else m.exchange, m.routing_key, header)


class TransitionalComposer(Composer):
    """July 2007: the class ``basic`` has headers by letter."""

    def __init__(self, version: str, read_table: Callable[[bytes], Table]) -> None:
        super().__init__(version, read_table)
        self._dialects = transitional_contents.CONTENTS

    def _known(self, header: bytes) -> bytes:
        try:
            self._table.contents[self._basic].read(header, 0)
            return arrived_header(header)[0]
        except (struct.error, IndexError) as error:
            raise ValueError("the properties are cut short") from error


class DraftComposer(Composer):
    """2005 and 2006: contents nest, and every class has a dialect."""

    def check(self, method: Method) -> Callable[[bytes], Any] | None:
        return None

    def compose(self, method: Method, m: Any, known: Any, header: bytes, body: Body) -> Composed:
        dialect = DRAFT_CONTENTS[self.version, method.number >> 16]
        found = dialect.arrived(header)
        if is_0_9a0(self.version):
            exchange = TOPICS if getattr(m, "service_type", None) == TOPIC else ""
            return Composed(dialect, exchange, m.destination, found.header)
        exchange = OURS.get(m.exchange, m.exchange)
        return Composed(dialect, exchange, found.destination, found.header)


def composer_of(version: str, read_table: Callable[[bytes], Table]) -> Composer:
    if version in DRAFTS:
        return DraftComposer(version, read_table)
    if version in REVISIONS:
        return TransitionalComposer(version, read_table)
    return Composer(version, read_table)


class File(NamedTuple):
    """A file that was staged."""

    header: bytes
    body: Body


class Promise(NamedTuple):
    """A method that names a file which is not staged yet."""

    offset: int
    method: Method
    record: Any


Compose = Callable[[int, Method, Any, Any, bytes, Body], None]


class Staged:
    """Files of one direction: opened, staged, then published or delivered by their identifiers."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._opened: dict[int, list[Any]] = {}
        self._files: dict[tuple[int, str], File] = {}
        self._promised: dict[tuple[int, str], Promise] = {}

    def take(
        self, channel: int, method: Method, record: Any, offset: int, compose: Compose
    ) -> None:
        """A method of class ``file`` without content."""
        if method.name == "file.open":
            opened = self._opened.setdefault(channel, [])
            opened.append(record)
            del opened[:-MOST_FILES]
        elif method.name in ("file.publish", "file.deliver"):
            self._side.messages += 1
            key = channel, record.identifier
            promise = Promise(offset, method, record)
            file = self._files.pop(key, None)
            if file is not None:
                compose(offset, method, record, None, file.header, file.body)
            elif any(one.identifier == record.identifier for one in self._opened.get(channel, ())):
                older = self._promised.pop(key, None)
                if older is not None:
                    self._missing(older, offset, "its file was not staged")
                self._promised[key] = promise
            else:
                self._missing(promise, offset, "its file was not staged in this recording")

    def staged(self, channel: int, header: bytes, body: Body, compose: Compose) -> None:
        """The content of the file that was opened first."""
        opened = self._opened.get(channel)
        if not opened:
            return
        record = opened.pop(0)
        key = channel, record.identifier
        promise = self._promised.pop(key, None)
        if len(body) != record.content_size:
            if promise is not None:
                self._missing(promise, promise.offset, "only a part of its file is here")
        elif promise is not None:
            offset, method, m = promise
            compose(offset, method, m, None, header, body)
        else:
            while len(self._files) >= MOST_FILES:
                del self._files[next(iter(self._files))]
            self._files[key] = File(header, body)

    def spoiled(self, offset: int, position: int, text: str) -> None:
        """A content cannot be read; whoever names its file is told."""
        self._side.unreadable += 1
        self._side.failed(offset, position, "content-broken", f"a staged file: {text}")

    def abandon(self, position: int, text: str) -> None:
        for promise in self._promised.values():
            self._missing(promise, position, text)
        self._promised.clear()
        self._opened.clear()
        self._files.clear()

    def _missing(self, promise: Promise, position: int, text: str) -> None:
        self._side.failed(promise.offset, position, "message-incomplete", text)
