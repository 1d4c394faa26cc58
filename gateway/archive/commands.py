"""0.8a2 in recordings: commands, and the fragments of messages behind them."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NamedTuple

from gateway.adapters.commands.command import Command
from gateway.adapters.commands.content import COMMAND
from gateway.adapters.commands.fragments import Headers, IncomingMessage
from gateway.adapters.commands.frames import TAIL, head_of, read_command
from gateway.adapters.commands.streams import Stream
from gateway.adapters.commands.violation import Violation
from gateway.adapters.commands.wire.tables import HEADER, SERVICES
from gateway.archive.side import MOST_BODY, MOST_UNFINISHED, ODD, Broken, Side, text_of
from gateway.bodies import Body

LARGEST = 1 << 20
"""Octets of a command without its fragment."""
MOST_HANDLES = 65_536
TOPIC = SERVICES["topic"]
TOPICS = "amq.topic"
"""The exchange of the topic service."""


class Handle(NamedTuple):
    """A handle as its client has opened it. ``name`` begins the names of its destinations
    (§3.5.2.3); that of a temporary one may be the server's."""

    service: int
    name: str
    mime_type: str
    encoding: str


UNKNOWN = Handle(0, "", "", "")


class Held:
    """A message of which more fragments come."""

    def __init__(self, offset: int, message: IncomingMessage, name: str) -> None:
        self.offset = offset
        self.message = message
        self.name = name


class CommandSide(Side):
    """One direction of a connection."""

    def __init__(self, from_client: bool, handles: dict[int, Handle]) -> None:
        """``handles``: those of the connection, by number."""
        super().__init__(from_client)
        self._headers = Headers()
        self._handles = handles
        self._partial: dict[int, Held | None] = {}
        """By handle; ``None``: the fragments are passed over."""
        self._prepared: dict[int, Held] = {}
        self._streams: dict[int, Stream] = {}
        self._open_octets = 0

    def size(self, buf: bytes, at: int) -> int | None:
        if not self._base and not at and self.from_client and buf[:1] == HEADER[:1]:
            return len(HEADER)
        start = head_of(buf, at)
        if start is None:
            return None
        size = int.from_bytes(buf[at + 2 : start] or buf[at:start], "big")
        if not 0 < size <= LARGEST:
            raise Broken(f"a command of {size} octets")
        if start + size > len(buf):
            return start + size - at
        try:
            command, record = read_command(buf, start, start + size)
        except Violation as error:
            raise Broken(error.text) from None
        wanted = 0 if getattr(record, "out_of_band", False) else self._fragment(command, record)
        if wanted > MOST_BODY:
            raise Broken(f"a fragment of {wanted} octets", "frame-too-large")
        return start + size + wanted - at

    @staticmethod
    def _fragment(command: Command, record: Any) -> int:
        return int(record.fragment_size) if command.fragment else 0

    def likely(self, buf: bytes, at: int, end: int) -> bool:
        return True  # its size is known by reading it

    def candidates(self, buf: bytes, at: int) -> Iterator[int]:
        last = len(buf) - 4
        for place in range(at, last):
            size = buf[place] << 8 | buf[place + 1]
            stop = place + 2 + size
            if 2 <= size < 4096 and (stop > len(buf) or buf[stop - 1] == TAIL[0]):
                yield place

    def take(self, buf: bytes, at: int, end: int) -> None:
        offset = self.position(at)
        if not offset and self.from_client and buf[:1] == HEADER[:1]:
            return
        start = head_of(buf, at)
        assert start is not None
        size = int.from_bytes(buf[at + 2 : start] or buf[at:start], "big")
        command, record = read_command(buf, start, start + size)
        fragment = buf[start + size : end]
        name = command.name
        if name == "connection.tune" and record.dictionary:
            self._headers.add(record.dictionary)
        elif name == "handle.open":
            if len(self._handles) < MOST_HANDLES or record.handle_id in self._handles:
                self._handles[record.handle_id] = Handle(
                    record.service_type, record.dest_name, record.mime_type, record.encoding
                )
        elif name == "handle.created":
            opened = self._handles.get(record.handle_id)
            if opened is not None:
                self._handles[record.handle_id] = opened._replace(name=record.dest_name)
        elif name == "handle.close":
            self._end_stream(record.handle_id, offset)
        elif command.fragment:
            self._message(name, record, fragment, offset)

    # --- messages ---------------------------------------------------------------------------------

    def _message(self, name: str, record: Any, fragment: bytes, offset: int) -> None:
        handle = record.handle_id
        if name == "handle.prepare":
            self.messages += 1
            held = self._first(
                handle, record, fragment, offset, record.content_hash.strip().lower()
            )
            if held is not None:
                self._prepared[handle] = held
            return
        if record.out_of_band:
            self.messages += 1
            self.failed(offset, offset, "message-incomplete", "its body went another way")
        elif record.recovery:
            self._add(self._prepared, handle, record, fragment, offset)
        elif record.streaming:
            self._stream(handle, record, fragment, offset)
        elif handle in self._partial:
            self._add(self._partial, handle, record, fragment, offset)
        else:
            self.messages += 1
            held = self._first(handle, record, fragment, offset)
            if held is None:
                if record.partial:
                    self._partial[handle] = None
            elif record.partial:
                self._partial[handle] = held
            else:
                self._finish(held, offset, record)

    def _first(
        self, handle: int, record: Any, fragment: bytes, offset: int, digest: str = ""
    ) -> Held | None:
        """Begin a message with the fragment that holds its header."""
        known = self._handles.get(handle, UNKNOWN) if self.from_client else UNKNOWN
        try:
            size, parsed, start = self._headers.first(fragment, known.mime_type, known.encoding)
            if size > MOST_BODY:
                self.failed(offset, offset, "message-too-large", f"{size} octets", fragment)
                return None
            message = IncomingMessage(handle, parsed.header, size, None, digest)
            message.add(fragment[start:], False)
        except (*ODD, Violation) as error:
            self.failed(offset, offset, "content-broken", said(error), fragment)
            return None
        self._open_octets += message.have
        return Held(offset, message, getattr(record, "dest_name", ""))

    def _add(
        self, where: dict[int, Any], handle: int, record: Any, fragment: bytes, offset: int
    ) -> None:
        held = where.get(handle)
        if held is None:
            if handle not in where:
                self.messages += 1
                text = "the first fragment is not there"
                self.failed(offset, offset, "message-beginning-missing", text, fragment)
            if not record.partial:
                where.pop(handle, None)
            return
        try:
            held.message.add(fragment, False)
            self._open_octets += len(fragment)
            if self._open_octets > MOST_UNFINISHED:
                raise ValueError("too many octets of unfinished messages")
        except (*ODD, Violation) as error:
            self._give_up(held, offset, "content-broken", said(error))
            if record.partial:
                where[handle] = None
            else:
                del where[handle]
            return
        if not record.partial:
            del where[handle]
            self._finish(held, offset, record)

    def _finish(self, held: Held, offset: int, record: Any) -> None:
        message = held.message
        self._open_octets = max(0, self._open_octets - message.have)
        try:
            message.add(b"", True)
            body = message.body()
        except (*ODD, Violation) as error:
            self.failed(held.offset, offset, "message-incomplete", said(error))
            return
        name = getattr(record, "dest_name", "") or held.name
        self._out(held.offset, record.handle_id, name, message.header, body)

    def _out(self, offset: int, handle: int, name: str, header: bytes, body: Body) -> None:
        known = self._handles.get(handle, UNKNOWN)
        exchange = TOPICS if known.service == TOPIC else ""
        key = known.name + name if self.from_client else name
        self.found(offset, self.direction, COMMAND, exchange, key, header, body)

    def _give_up(self, held: Held, position: int, code: str, text: str) -> None:
        self._open_octets = max(0, self._open_octets - held.message.have)
        held.message.abandon()
        self.failed(held.offset, position, code, text)

    # --- streams ----------------------------------------------------------------------------------

    def _stream(self, handle: int, record: Any, fragment: bytes, offset: int) -> None:
        """Each fragment is a message of its own, with the header of the first."""
        stream = self._streams.get(handle)
        body = fragment
        if stream is None:
            self.messages += 1
            held = self._first(handle, record, fragment, offset)
            if held is None:
                return
            self._open_octets = max(0, self._open_octets - held.message.have)
            _, _, start = self._headers.first(fragment, "", "")
            number = sha256(b"%d " % offset + held.message.header).hexdigest()[:16]
            stream = self._streams[handle] = Stream(held.message.header, number)
            body = fragment[start:]
        elif not body:
            return
        else:
            self.messages += 1
        stream.name = record.dest_name
        self._part(handle, stream, body, offset)

    def _part(self, handle: int, stream: Stream, body: bytes, offset: int) -> None:
        try:
            header = stream.next(end=not body and stream.part > 0)
        except ODD as error:
            self.failed(offset, offset, "content-broken", text_of(error), body)
            return
        self._out(offset, handle, stream.name, header, body)

    def _end_stream(self, handle: int, offset: int) -> None:
        stream = self._streams.pop(handle, None)
        if stream is not None:
            self.messages += 1
            self._part(handle, stream, b"", offset)

    def abandon(self, position: int, text: str) -> None:
        for held in (*self._partial.values(), *self._prepared.values()):
            if held is not None:
                self._give_up(held, position, "message-incomplete", text)
        self._partial.clear()
        self._prepared.clear()


def said(error: BaseException) -> str:
    """The sentence of an error."""
    return error.text[:500] if isinstance(error, Violation) else text_of(error)


def sides(version: str) -> tuple[Side, Side]:
    """The directions from the client and from the server."""
    handles: dict[int, Handle] = {}
    return CommandSide(True, handles), CommandSide(False, handles)
