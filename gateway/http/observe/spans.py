"""OpenTelemetry spans, if an SDK is set up. Otherwise nothing of it is imported.

The gateway only uses the API (``pip install amqp-gateway[otel]``); exporters and sampling are the
operator's, for example by ``opentelemetry-instrument amqp-gateway serve``.
"""

import sys
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from gateway.http.observe.trace import Trace

NAME = "amqp-gateway"


Span = Any
"""Of OpenTelemetry."""


class Spans(NamedTuple):
    """Makes one server span per request, a child of the caller's."""

    tracer: Any
    api: Any
    propagator: Any

    def start(self, name: str, trace: Trace | None, attributes: dict[str, Any]) -> Span:
        carrier = {} if trace is None else {"traceparent": trace.parent, "tracestate": trace.state}
        context, kind = self.propagator.extract(carrier), self.api.SpanKind.SERVER
        return self.tracer.start_span(name, context=context, kind=kind, attributes=attributes)

    def inside(self, span: Span) -> AbstractContextManager[Any]:
        """Make the span the parent of spans that are started within the request."""
        found: AbstractContextManager[Any] = self.api.use_span(span, end_on_exit=False)
        return found

    def trace_of(self, span: Span, before: Trace | None) -> Trace | None:
        """The trace context for messages: this span as their parent."""
        carrier: dict[str, str] = {}
        self.propagator.inject(carrier, context=self.api.set_span_in_context(span))
        parent = carrier.get("traceparent")
        return before if parent is None else Trace(parent, carrier.get("tracestate", ""))

    def finish(self, span: Span, route: str, status: int) -> None:
        span.set_attribute("http.response.status_code", status)
        span.set_attribute("http.route", route)
        if status >= 500:
            span.set_status(self.api.Status(self.api.StatusCode.ERROR))
        span.end()


def find_spans() -> Spans | None:
    """The spans; ``None`` if no SDK is set up, in which case the API has a no-op provider."""
    if "opentelemetry.sdk.trace" not in sys.modules:
        return None
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    provider = trace.get_tracer_provider()
    if not type(provider).__module__.startswith("opentelemetry.sdk"):
        return None
    return Spans(trace.get_tracer(NAME), trace, TraceContextTextMapPropagator())
