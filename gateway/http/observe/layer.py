"""The outermost layer of every request: its id, trace, span and log line."""

import logging
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http.observe.meter import Histogram
from gateway.http.observe.spans import Span, Spans
from gateway.http.observe.trace import CURRENT, Trace, read_trace

log = logging.getLogger("gateway.http.access")

REQUEST_ID = "gateway.request_id"
"""Key in a scope: the id of the request, from the caller or generated."""
GOOD_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")


class Observe:
    """The layer. ``labels`` has the route templates by endpoint. With ``log_requests`` each
    answered request is logged; an event stream is logged when it ends."""

    app: ASGIApp

    def __init__(
        self,
        labels: Mapping[Any, str],
        durations: dict[str, Histogram],
        spans: Spans | None,
        log_requests: bool = False,
    ) -> None:
        self.labels = labels
        self.durations = durations
        self.spans = spans
        self.log_requests = log_requests
        self.numbers = count(1)
        self.prefix = secrets.token_hex(6).encode()

    def around(self, app: ASGIApp) -> ASGIApp:
        """The application wrapped in this layer."""
        self.app = app
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        given = [value for name, value in scope["headers"] if name == b"x-request-id"]
        request_id = self.identify(given[0] if given else None)
        scope[REQUEST_ID] = request_id.decode()
        trace = read_trace(scope["headers"])
        span: Span | None = None
        around: AbstractContextManager[Any] = nullcontext()
        if self.spans is not None:
            method = scope["method"]
            span = self.spans.start(method, trace, {"http.request.method": method})
            trace = self.spans.trace_of(span, trace)
            around = self.spans.inside(span)
        status, message_id, ready = 500, b"", began

        async def sending(message: Message) -> None:
            nonlocal status, message_id, ready
            if message["type"] == "http.response.start":
                status, ready = message["status"], time.perf_counter()
                headers = [*message.get("headers", ())]
                message_id = next((v for n, v in headers if n == b"amqp-message-id"), b"")
                headers.append((b"x-request-id", request_id))
                if trace is not None and not any(n == b"traceparent" for n, _ in headers):
                    headers += trace_headers(trace)
                message["headers"] = headers
            await send(message)

        token = CURRENT.set(trace)
        try:
            with around:
                await self.app(scope, receive, sending)
        finally:
            CURRENT.reset(token)
            route = self.labels.get(scope.get("endpoint"), "other")
            self.measure(route, ready - began)
            if span is not None and self.spans is not None:
                self.spans.finish(span, route, status)
            if self.log_requests:
                self.tell(scope, route, status, time.perf_counter() - began, message_id, trace)

    def identify(self, given: bytes | None) -> bytes:
        """The caller's request id if it is printable, otherwise a new one."""
        if given is not None and GOOD_ID.fullmatch(given):
            return given
        return b"%b-%x" % (self.prefix, next(self.numbers))

    def measure(self, route: str, seconds: float) -> None:
        """Record the time until the answer begins; the duration of a stream is not a latency."""
        found = self.durations.get(route)
        if found is None:
            found = self.durations[route] = Histogram()
        found.add(seconds)

    def tell(
        self,
        scope: Scope,
        route: str,
        status: int,
        seconds: float,
        message_id: bytes,
        trace: Trace | None,
    ) -> None:
        """Log the template of the route rather than the path, which may contain tokens."""
        more: dict[str, Any] = {
            "request_id": scope[REQUEST_ID],
            "method": scope["method"],
            "route": route,
            "status": status,
            "ms": round(seconds * 1000, 2),
        }
        client = scope.get("client")
        if client is not None:
            more["peer"] = client[0]
        if message_id:
            more["message_id"] = message_id.decode("latin-1")
        if trace is not None:
            more["trace_id"] = trace.id
        log.info("%s %s %d", scope["method"], route, status, extra=more)


def trace_headers(trace: Trace) -> list[tuple[bytes, bytes]]:
    found = [(b"traceparent", trace.parent.encode("latin-1"))]
    if trace.state:
        found.append((b"tracestate", trace.state.encode("latin-1")))
    return found
