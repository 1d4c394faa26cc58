"""The HTTP/1.1 protocol that has plain publishes answered at once (``direct.py``).

A request is *held* from the end of its head to the end of the read: if its body is here by then,
it is published within ``data_received``, and answered there too unless its message waits for the
disk. Otherwise, and whenever ``DirectPublish`` cannot, uvicorn's scope, cycle and task are made for
it as for any request.
"""

from asyncio import TimerHandle, Transport
from collections.abc import Mapping
from time import perf_counter
from typing import Any

from gateway.http.access.protocol import BoundedProtocol
from gateway.http.application import Application
from gateway.http.direct import LONGEST_HEAD, DirectPublish, Head
from gateway.http.publish.messages import Published
from gateway.http.publish.results import Answer

AT_ONCE = 64
"""Most requests that are answered within one read: others are served in between."""


class Waiting:
    """Stands in the place of uvicorn's cycle while a message waits for its outcome: requests behind
    it are put in line, and a server that stops waits for the answer."""

    __slots__ = (
        "head", "published", "timer", "response_complete", "response_started", "keep_alive",
        "disconnected", "more_body", "message_event",
    )  # fmt: skip

    scope: Mapping[str, Any] = {}

    def __init__(self, head: Head, published: Published, timer: TimerHandle) -> None:
        self.head = head
        self.published = published
        self.timer = timer
        self.response_complete = self.response_started = False
        self.keep_alive = True
        self.disconnected = self.more_body = False
        self.message_event = self

    def set(self) -> None:
        """As of the event that uvicorn sets when the connection is lost: nobody awaits it."""


class DirectProtocol(BoundedProtocol):
    """Subclasses made by ``answering`` carry ``direct`` and the limits."""

    direct: DirectPublish

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        self.between = True
        """Whether the parser is between two requests."""
        self.held: Head | None = None
        self.held_body = b""
        self.waiting: Waiting | None = None
        self.octets: bytes | None = None
        """Those of the first head of this read, if the parser finds it plain."""
        self.began = self.idle_since = 0.0
        self.left = 0
        """How many requests of this read can be answered at once."""
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self.left = AT_ONCE
        self.octets = None
        if self.between and data.startswith(b"POST ") and self.free():
            end = data.find(b"\r\n\r\n", 0, LONGEST_HEAD) + 4
            if end >= 4:
                octets = data[:end]
                head = self.direct.known(octets)
                if head is None:
                    self.octets = octets
                elif len(data) - end == head.length:
                    self.began = perf_counter()
                    if self.answer(head, data[end:]):
                        self.heads += 1
                        self.reads += 1
                        return
        super().data_received(data)
        if self.held is not None:
            self.release()

    def free(self) -> bool:
        """Whether the next answer may be written at once."""
        cycle = self.cycle
        return (
            (cycle is None or cycle.response_complete)
            and not self.flow.write_paused
            and not self.access_log
            and not self.transport.is_closing()
        )

    # --- from the parser ------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self.between = False
        super().on_message_begin()

    def begin_request(self) -> None:
        octets, self.octets = self.octets, None
        if self.left and self.free():
            parser: Any = self.parser
            head = None
            if parser.should_keep_alive() and parser.get_http_version() == "1.1":
                head = self.direct.read(parser.get_method(), self.url, self.headers)
            if head is not None:
                self.left -= 1
                self.began = perf_counter()
                self.held, self.held_body = head, b""
                if octets is not None and lines_of(octets) == len(self.headers) + 2:
                    self.direct.remember(octets, head)
                return
        super().begin_request()

    def on_body(self, body: bytes) -> None:
        if self.held is None:
            super().on_body(body)
        else:
            self.held_body += body

    def on_message_complete(self) -> None:
        head = self.held
        if head is not None:
            if not self.transport.is_closing() and self.answer(head, self.held_body):
                self.held, self.held_body = None, b""
                self.in_head = self.between = True
                return
            self.release()
        super().on_message_complete()
        self.between = True

    def release(self) -> None:
        """The request that is held goes the ordinary way."""
        body = self.held_body
        self.held, self.held_body = None, b""
        super().begin_request()
        if body:
            super().on_body(body)

    # --- to the client --------------------------------------------------------------------------

    def answer(self, head: Head, body: bytes) -> bool:
        """Publish, and write the answer if it is known. If not, the request has to go the ordinary
        way. Hot."""
        answer = self.direct.publish(head, body, self.client)
        if answer is None:
            return False
        if isinstance(answer, Published):
            timer = self.loop.call_later(self.direct.publisher.seconds, self.conclude)
            cycle: Any = Waiting(head, answer, timer)
            self.cycle = self.waiting = cycle
            answer.pending.waiter = self.conclude
        else:
            self.write(head, answer)
        return True

    def conclude(self) -> None:
        """Write the answer to the message that waits: its outcome is known, or its time is up."""
        waiting, self.waiting = self.waiting, None
        assert waiting is not None
        waiting.timer.cancel()
        waiting.published.pending.waiter = None
        waiting.response_complete = True
        answer = self.direct.answer(waiting.head, waiting.published)
        if self.transport.is_closing():
            return
        self.write(waiting.head, answer)
        if not waiting.keep_alive:
            self.transport.close()
        elif self.pipeline:
            self.server_state.total_requests -= 1  # it is counted once more
            self.on_response_complete()

    def write(self, head: Head, answer: Answer) -> None:
        """Hot."""
        state = self.server_state
        self.transport.write(self.direct.octets(head, answer, state.default_headers, self.began))
        state.total_requests += 1
        if answer.status >= 400 and (b"connection", b"close") in answer.headers:
            self.transport.close()
        self.idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self.wait_idle(self.timeout_keep_alive)

    def wait_idle(self, seconds: float) -> None:
        task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)
        self.timeout_keep_alive_task = task

    def timeout_keep_alive_handler(self) -> None:
        """Answers at once do not set the timer anew: it looks when the last one was."""
        left = self.idle_since + self.timeout_keep_alive - self.loop.time()
        if self.waiting is not None:
            self.wait_idle(self.timeout_keep_alive)
        elif left > 0.001 and not self.transport.is_closing():
            self.wait_idle(left)
        else:
            super().timeout_keep_alive_handler()


def lines_of(head: bytes) -> int:
    """The number of lines of a head, with the empty one at its end; 0 if they end in other ways."""
    lines = head.count(b"\r\n")
    return lines if head.count(b"\n") == lines == head.count(b"\r") else 0


def answering(bounds: type[BoundedProtocol], app: Application) -> type[BoundedProtocol]:
    """The protocol class with these limits that answers plain publishes at once, as long as the
    settings of the application let it."""

    class Direct(DirectProtocol):
        limits = bounds.limits
        direct = DirectPublish(app)

    return Direct
