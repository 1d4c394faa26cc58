"""The HTTP/1.1 parser with bounds: size of the head, time for it, progress of bodies, connections.

uvicorn has none of these. Its own error responses get the common error format here.
"""

import json
from asyncio import TimerHandle, Transport
from typing import Any
from weakref import ref

import httptools
from starlette.types import Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from gateway.config.web import HttpListenerSettings
from gateway.http import problems
from gateway.http.problems import CROWDED, HEAD_TOO_LARGE, TOO_SLOW, Problem, Row

Headers = list[tuple[bytes, bytes]]

LATEST = [b"", b"0\r\n\r\n"]
"""The last piece of a stream and its encoded form: many streams are given the same object."""
MOST_HEADERS = 256
CYCLE = "gateway.cycle"
"""Key in a scope: uvicorn's request and response, for ``Pipe`` and ``write_whole``. A weak
reference, because it refers to the scope and a cycle would live until garbage collection."""
PIPE = "gateway.pipe"
"""Key in a scope: its response is written through a ``Pipe``."""


class BoundedProtocol(HttpToolsProtocol):
    """Subclasses made by ``bounded`` carry the limits."""

    limits = HttpListenerSettings()

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.in_head = True
        self.head_octets = 0
        self.heads = 0
        self.reads = 0
        self.latest = 0
        self.seen = (0, 0, 0)
        self.refusal: tuple[Row, str] | None = None
        self.upgrade_ignored: bytes | None = None
        self.earlier: list[Any] = []
        """The requests before the last one that are not answered yet."""
        self.timer: TimerHandle | None = self.loop.call_later(self.limits.idle_seconds, self.look)
        if len(self.connections) > self.limits.max_connections:
            self.refuse(CROWDED, f"at most {self.limits.max_connections} connections")

    def connection_lost(self, exc: Exception | None) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        # uvicorn tells the last request only.
        self.pipeline.clear()
        for cycle in self.earlier:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self.reads += 1
        self.latest = len(data)
        if self.in_head:
            self.head_octets += len(data)
        self._unset_keepalive_if_required()
        self.feed(data)
        # An incomplete head is buffered inside the parser.
        if self.in_head and self.head_octets > self.limits.max_head_octets:
            self.refuse(HEAD_TOO_LARGE, f"a head has at most {self.limits.max_head_octets} octets")

    def feed(self, data: bytes | memoryview) -> None:
        """Like uvicorn's ``data_received``, but a request whose upgrade is ignored keeps its body.

        The parser stops after the head of a request with ``Upgrade``, as if another protocol began
        there. A server that does not switch ignores the field (RFC 9110 §7.8), so the head is
        parsed again without it.
        """
        while True:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserError as error:
                if bytes(data[:4]) == b"AMQP":
                    host, port = self.client or ("", 0)
                    self.logger.warning("%s:%d sent AMQP to the HTTP port", host, port)
                    self.refusal = (problems.INVALID, "this port speaks HTTP, not AMQP")
                else:
                    self.logger.warning("Invalid HTTP request received.")
                self.send_400_response(str(error))
                return
            except httptools.HttpParserUpgrade as stopped:
                if self.upgrade_ignored is None:
                    self.handle_websocket_upgrade()
                    return
                head, self.upgrade_ignored = self.upgrade_ignored, None
                data = memoryview(data)[stopped.args[0] :]
                # After the end of a last request (``close``, HTTP/1.0) the parser accepts no more
                # data.
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            try:
                self.parser.feed_data(head)
            except httptools.HttpParserError as error:
                self.send_400_response(str(error))
                return

    def handle_websocket_upgrade(self) -> None:
        # From here on the transport has another protocol with its own timeouts.
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        super().handle_websocket_upgrade()
        # The parser refers to this protocol by its methods, and gets no signal of the end.
        del self.parser

    def _should_upgrade(self) -> bool:
        """Only a GET of HTTP/1.1 upgrades (RFC 6455 §4.2.1). A request with a body is an ordinary
        one: the octets after its head are its body."""
        if self.parser.get_method() != b"GET" or self.parser.get_http_version() != "1.1":
            return False
        for name, value in self.headers:
            if name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0")):
                return False
        return super()._should_upgrade()

    def _get_upgrade(self) -> bytes | None:
        """As in uvicorn, but for any number of ``Connection`` and ``Upgrade`` fields."""
        fields = [value.lower() for name, value in self.headers if name == b"connection"]
        if b"upgrade" not in {token.strip() for token in b",".join(fields).split(b",")}:
            return None
        return b", ".join(value.lower() for name, value in self.headers if name == b"upgrade")

    def head_without_upgrade(self) -> bytes:
        parts = [self.parser.get_method(), b" ", self.url]
        parts += [b" HTTP/", self.parser.get_http_version().encode(), b"\r\n"]
        for name, value in self.headers:
            if name != b"upgrade":
                parts += (name, b": ", value, b"\r\n")
        parts.append(b"\r\n")
        return b"".join(parts)

    def on_headers_complete(self) -> None:
        self.in_head = False
        self.heads += 1
        # ``head_octets`` does not count a head that began in the middle of a read.
        most = self.head_octets + self.latest + MOST_HEADERS
        self.head_octets = 0
        limit = self.limits.max_head_octets
        if len(self.headers) > MOST_HEADERS or (most > limit and self.oversized()):
            text = f"a head has at most {limit} octets and {MOST_HEADERS} fields"
            self.refusal = (HEAD_TOO_LARGE, text)
            raise httptools.HttpParserError(text)
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                self.refusal = (problems.INVALID, "this server is not a proxy")
                raise httptools.HttpParserError("CONNECT")
            if not self._should_upgrade():
                self.heads -= 1  # it comes again
                self.upgrade_ignored = self.head_without_upgrade()
                return
        self.begin_request()

    def begin_request(self) -> None:
        """Hand the request, whose head has been read, to the application."""
        before = self.cycle
        if before is not None and not before.response_complete:
            self.earlier = [one for one in self.earlier if not one.response_complete]
            self.earlier.append(before)
        super().on_headers_complete()
        scope: Any = self.scope
        scope[CYCLE] = ref(self.cycle) if self.cycle is not None else None

    def oversized(self) -> bool:
        size = len(self.url) + sum([len(name) + len(value) + 4 for name, value in self.headers])
        return size > self.limits.max_head_octets

    def on_message_complete(self) -> None:
        self.in_head = True
        if self.upgrade_ignored is None:
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer a parse error."""
        row, text = self.refusal or (problems.INVALID, "this is not an HTTP/1.1 request")
        self.refuse(row, text)

    def refuse(self, row: Row, detail: str) -> None:
        """Answer with an error and close the connection, but neither within another response nor in
        place of a pending one."""
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self.transport.write(answer(row, detail))
        elif not (self.in_head or self.pipeline or cycle.response_started):
            # The error is in the body of the current request.
            self.transport.write(answer(row, detail))
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()

    def look(self) -> None:
        """Close the connection if it has made no progress since the last call."""
        transport = self.transport
        closing, waiting = transport.is_closing(), transport.get_write_buffer_size()
        if closing and not waiting:
            return
        before, self.seen = self.seen, (self.heads, self.reads, waiting)
        cycle: Any = self.cycle
        # Event streams have a time limit of their own.
        streams = [one for one in (*self.earlier, cycle) if one and PIPE in one.scope]
        unread = self.flow.write_paused and not streams
        if waiting and waiting == before[2] and (closing or unread):
            transport.abort()
            return
        if closing:
            stalled = False
        elif self.in_head:
            begun = self.head_octets > 0 or not self.heads
            stalled = begun and before[0] == self.heads
        else:
            stalled = (
                before[1] == self.reads
                and cycle is not None
                and cycle.more_body
                and not cycle.response_complete
                and not cycle.waiting_for_100_continue
                and not self.flow.read_paused
            )
        if stalled:
            self.refuse(TOO_SLOW, f"no progress for {self.limits.idle_seconds:g} s")
            if not transport.is_closing():
                transport.abort()
            return
        self.timer = self.loop.call_later(self.limits.idle_seconds, self.look)


class Pipe:
    """Writes pieces of a started response directly to the transport, so that output for thousands
    of event streams neither passes through every layer nor wakes a task per stream. Usable only
    while the transport is writable; otherwise callers use ``send``."""

    __slots__ = ("cycle",)

    def __init__(self, cycle: Any) -> None:
        self.cycle = cycle

    @property
    def ready(self) -> bool:
        cycle = self.cycle
        return bool(
            cycle.chunked_encoding
            and not cycle.flow.write_paused
            and not cycle.disconnected
            and not cycle.response_complete
            and not cycle.transport.is_closing()
        )

    def write(self, piece: bytes) -> None:
        """Write a non-empty piece; only when ``ready``. Hot."""
        known, written = LATEST
        if known is not piece:
            LATEST[:] = piece, written = piece, b"%x\r\n%b\r\n" % (len(piece), piece)
        self.cycle.transport.write(written)


def pipe_of(scope: Scope) -> Pipe | None:
    """The pipe of a response; ``None`` under another server."""
    found = scope.get(CYCLE)
    cycle = None if found is None else found()
    if cycle is None:
        return None
    cycle.scope[PIPE] = True
    return Pipe(cycle)


async def send_answer(send: Send, status: int, headers: Headers, body: bytes) -> None:
    """Send a whole response."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def write_whole(scope: Scope, status: int, headers: Headers, body: bytes) -> bool:
    """Write a response with one write to the socket. Returns whether it was written; if not,
    nothing was sent. Hot."""
    found = scope.get(CYCLE)
    cycle = None if found is None else found()
    if (
        cycle is None
        or cycle.response_started
        or cycle.disconnected
        or not cycle.keep_alive
        or cycle.flow.write_paused
        or cycle.access_log
        or cycle.waiting_for_100_continue
    ):
        return False
    lines = [*map(b": ".join, cycle.default_headers), *map(b": ".join, headers)]
    head = STATUS_LINE[status] + b"\r\n".join(lines) + b"\r\n\r\n"
    if head.count(b"\n") != len(lines) + 2 or head.count(b"\r") != len(lines) + 2:
        return False  # a field contains a line end: uvicorn rejects it
    cycle.response_started = True
    cycle.transport.write(head + body)
    cycle.response_complete = True
    cycle.message_event.set()
    cycle.on_response()
    return True


def bounded(settings: HttpListenerSettings) -> type[BoundedProtocol]:
    """The protocol class with the limits of these settings, also when they change."""

    class Bounded(BoundedProtocol):
        limits = settings

    return Bounded


def answer(row: Row, detail: str) -> bytes:
    body = json.dumps(Problem(row, detail).document()).encode()
    head = [
        STATUS_LINE[row.status],
        b"content-type: application/problem+json\r\n",
        b"content-length: %d\r\n" % len(body),
        b"cache-control: no-store\r\nx-content-type-options: nosniff\r\n",
        b"retry-after: 1\r\n" if row.retry_after else b"",
        b"connection: close\r\n\r\n",
    ]
    return b"".join([*head, body])
