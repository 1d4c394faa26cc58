"""Each request as it is observed: its id, trace, span, metrics and log line."""

import logging
import re
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from contextvars import Token
from dataclasses import dataclass, field
from itertools import count
from time import perf_counter
from typing import Any

from starlette.types import Scope

from gateway.http.observe.meter import Histogram
from gateway.http.observe.spans import Span, Spans
from gateway.http.observe.trace import CURRENT, Trace, read_trace

log = logging.getLogger("gateway.http.access")

GOOD_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")

Headers = list[tuple[bytes, bytes]]


@dataclass(slots=True)
class Observe:
    """Observes all requests. ``labels`` has the route templates by endpoint; ``requests`` counts
    answers by method, route template and status; ``durations`` is by route template. With
    ``log_requests`` each answered request is logged; an event stream is logged when it ends."""

    labels: dict[Any, str]
    requests: Counter[tuple[str, str, int]]
    durations: dict[str, Histogram]
    spans: Spans | None
    log_requests: bool = False
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    prefix: bytes = field(default_factory=lambda: secrets.token_hex(6).encode())

    def new_id(self) -> bytes:
        """The id of a request whose caller gave none."""
        return b"%b-%x" % (self.prefix, next(self.numbers))

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request, and the time until its answer began. Hot."""
        self.requests[method, route, status] += 1
        durations = self.durations.get(route)
        if durations is None:
            durations = self.durations[route] = Histogram()
        durations.add(seconds)


class Observation:
    """One request, from its first step to its last. ``fields`` has its fields by name, without
    repetitions; ``headers`` are those of the response once it has begun. Hot."""

    __slots__ = (
        "observe", "scope", "began", "ready", "fields", "request_id", "trace", "span", "status",
        "headers", "_token",
    )  # fmt: skip

    def __init__(self, observe: Observe, scope: Scope) -> None:
        self.observe = observe
        self.scope = scope
        self.began = self.ready = perf_counter()
        pairs: Headers = scope["headers"]
        self.fields = fields = dict(pairs)
        request_id = fields.get(b"x-request-id")
        if request_id is None or not GOOD_ID.fullmatch(request_id):
            request_id = observe.new_id()
        self.request_id: bytes = request_id
        """The caller's, if it is printable; otherwise a new one."""
        trace = read_trace(pairs) if b"traceparent" in fields else None
        self.span: Span | None = None
        if observe.spans is not None:
            method = scope["method"]
            self.span = observe.spans.start(method, trace, {"http.request.method": method})
            trace = observe.spans.trace_of(self.span, trace)
        self.trace = trace
        self.status = 500
        self.headers: Headers | None = None
        self._token: Token[Trace | None] | None = None if trace is None else CURRENT.set(trace)

    def inside(self) -> AbstractContextManager[Any]:
        """Within it the span, if there is one, is the parent of others."""
        if self.span is None or self.observe.spans is None:
            return nullcontext()
        return self.observe.spans.inside(self.span)

    def answered(self, status: int, headers: Headers) -> None:
        """The response begins; id and trace of the request are added to its fields."""
        self.status, self.headers, self.ready = status, headers, perf_counter()
        headers.append((b"x-request-id", self.request_id))
        trace = self.trace
        if trace is not None and not any(name == b"traceparent" for name, _ in headers):
            headers.append((b"traceparent", trace.parent.encode("latin-1")))
            if trace.state:
                headers.append((b"tracestate", trace.state.encode("latin-1")))

    def end(self) -> None:
        """Count, measure and log the request. Its duration is the time until the response began:
        that of a stream is not a latency."""
        if self._token is not None:
            CURRENT.reset(self._token)
        observe, scope, status = self.observe, self.scope, self.status
        route = observe.labels.get(scope.get("endpoint"), "other")
        method = scope["method"] if route != "other" else ""
        observe.count(method, route, status, self.ready - self.began)
        if self.span is not None and observe.spans is not None:
            observe.spans.finish(self.span, route, status)
        if observe.log_requests:
            self.log(route)

    def log(self, route: str) -> None:
        """Log the template of the route rather than the path, which may contain tokens."""
        scope = self.scope
        more: dict[str, Any] = {
            "request_id": self.request_id.decode(),
            "method": scope["method"],
            "route": route,
            "status": self.status,
            "ms": round((perf_counter() - self.began) * 1000, 2),
        }
        client = scope.get("client")
        if client is not None:
            more["peer"] = client[0]
        message_id = dict(self.headers or ()).get(b"amqp-message-id")
        if message_id:
            more["message_id"] = message_id.decode("latin-1")
        if self.trace is not None:
            more["trace_id"] = self.trace.id
        log.info("%s %s %d", scope["method"], route, self.status, extra=more)
