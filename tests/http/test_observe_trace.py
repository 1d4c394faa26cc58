"""Request ids, trace context, spans, latencies, and a readiness that tells the truth."""

import asyncio
import io
import json
import logging
import re
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.observe.logs import JsonLines, TextLines, redact
from gateway.http.observe.meter import BOUNDS, Histogram
from gateway.http.observe.trace import PARENT, read_trace

QUEUE = "/v1/%2F/queues/orders/messages"
PARENT_A = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
PARENT_B = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-00"


def headers_of(message: Any) -> dict[str, Any]:
    return dict(message.properties.application or {})


async def test_a_trace_goes_into_the_message(rig: Any) -> None:
    rig.queue("orders")
    async with rig.http() as http:
        given = {"traceparent": PARENT_A, "tracestate": "vendor=1"}
        answer = await http.post(QUEUE, content=b"x", headers=given)
        assert answer.status_code == 201
        assert answer.headers["traceparent"] == PARENT_A
        plain = await http.post(QUEUE, content=b"y")
        assert "traceparent" not in plain.headers
    assert headers_of(rig.fetch("orders")) == {"traceparent": PARENT_A, "tracestate": "vendor=1"}
    assert headers_of(rig.fetch("orders")) == {}


async def test_the_publishers_own_trace_is_never_overwritten(rig: Any) -> None:
    rig.queue("orders")
    async with rig.http() as http:
        own = {"traceparent": PARENT_A, "amqp-property": f'"traceparent";v="{PARENT_B}"'}
        assert (await http.post(QUEUE, content=b"x", headers=own)).status_code == 201
        near = {"traceparent": PARENT_A, "amqp-property": '"note";v="traceparent"'}
        assert (await http.post(QUEUE, content=b"x", headers=near)).status_code == 201
    assert headers_of(rig.fetch("orders")) == {"traceparent": PARENT_B}
    assert headers_of(rig.fetch("orders")) == {"note": "traceparent", "traceparent": PARENT_A}


async def test_a_trace_survives_a_restart_of_the_store(make_rig: Any) -> None:
    rig = make_rig(volatile=False)
    rig.queue("orders", durable=True)
    async with rig.http() as http:
        headers = {"traceparent": PARENT_A, "amqp-durable": "?1"}
        assert (await http.post(QUEUE, content=b"x", headers=headers)).status_code == 201
    assert headers_of(rig.fetch("orders")) == {"traceparent": PARENT_A}


@pytest.mark.parametrize(
    "given",
    [
        [],
        [b"nonsense"],
        [PARENT_A.encode(), PARENT_A.encode()],
        [PARENT_A.upper().encode()],
        [b"ff" + PARENT_A[2:].encode()],
        [PARENT_A.encode() + b"-more"],
        [b"00-" + b"0" * 32 + PARENT_A[35:].encode()],
        [PARENT_A[:36].encode() + b"0" * 16 + b"-01"],
        [b"\xff" * 55],
    ],
)
def test_a_malformed_trace_does_not_count(given: list[bytes]) -> None:
    assert read_trace([(b"traceparent", value) for value in given]) is None


def test_a_later_version_may_say_more() -> None:
    found = read_trace([(b"traceparent", b"01" + PARENT_A[2:].encode() + b"-more")])
    assert found is not None
    assert found.id == PARENT_A[3:35]


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_the_result_is_always_valid(parent: bytes, state: bytes) -> None:
    found = read_trace([(b"traceparent", parent), (b"tracestate", state)])
    if found is not None:
        assert PARENT.fullmatch(found.parent)
        assert "\n" not in found.state


async def test_every_answer_has_a_request_id(rig: Any) -> None:
    async with rig.http() as http:
        mine = await http.get("/livez", headers={"x-request-id": "mine-1"})
        assert mine.headers["x-request-id"] == "mine-1"
        made = {(await http.get("/livez")).headers["x-request-id"] for _ in range(3)}
        assert len(made) == 3
        for bad in ("a b", "x" * 200, "<script>"):
            answer = await http.get("/nothing", headers={"x-request-id": bad})
            assert answer.headers["x-request-id"] != bad


async def test_spans_when_an_sdk_is_set_up(make_rig: Any) -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry import trace as api
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    from gateway.http.observe.spans import Spans

    exporter = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    rig = make_rig()
    spans = Spans(provider.get_tracer("test"), api, TraceContextTextMapPropagator())
    rig.app.observe.spans = spans
    rig.queue("orders")
    async with rig.http() as http:
        answer = await http.post(QUEUE, content=b"x", headers={"traceparent": PARENT_A})
        await http.get("/nothing")
    publish, nothing = exporter.get_finished_spans()
    assert publish.parent and publish.attributes and nothing.attributes
    assert publish.parent.span_id == int("00f067aa0ba902b7", 16)
    assert publish.attributes["http.route"] == "/v1/{vhost}/queues/{queue}/messages"
    assert publish.attributes["http.response.status_code"] == 201
    assert nothing.attributes["http.route"] == "other"
    parent = headers_of(rig.fetch("orders"))["traceparent"]
    assert parent == answer.headers["traceparent"]
    assert parent[36:52] == f"{publish.context.span_id:016x}"
    assert parent[3:35] == PARENT_A[3:35]


# --- readiness ------------------------------------------------------------------------------------


async def test_ready_says_when_the_disk_hangs(make_rig: Any) -> None:
    rig = make_rig(volatile=False, canary_seconds=0.05)
    rig.held = True
    async with rig.http(None) as http:
        for path in ("/startupz", "/readyz"):
            answer = await http.get(path)
            assert answer.status_code == 503
            assert answer.json()["checks"]["publish"] is False
        rig.release()
        for path in ("/readyz", "/startupz"):
            assert (await http.get(path)).status_code == 200
        await asyncio.sleep(0.06)
        rig.held = True
        assert (await http.get("/readyz")).status_code == 503
        assert (await http.get("/startupz")).status_code == 200
        assert (await http.get("/livez")).status_code == 200


async def test_ready_says_that_publishers_are_held_back(rig: Any) -> None:
    async with rig.http(None) as http:
        assert (await http.get("/readyz")).json()["checks"]["publish"] is True
        rig.broker.alarm("disk", True)
        assert (await http.get("/readyz")).status_code == 503


async def test_a_publish_on_demand(make_rig: Any) -> None:
    """A good publish of a moment ago proves nothing of now, for who says so."""
    rig = make_rig(volatile=False, canary_seconds=60)
    canary = rig.app.state.context.canary
    async with rig.http(None) as http:
        assert (await http.get("/readyz")).json()["publish_ms"] >= 0
        assert (await http.get("/readyz")).status_code == 200
        assert canary.position == 1
        for position in (2, 3):
            assert (await http.get("/readyz?canary=1")).status_code == 200
            assert canary.position == position
        rig.held = True
        assert (await http.get("/readyz")).status_code == 200
        canary.limit_seconds = 0.05
        for _ in range(2):
            answer = await http.get("/readyz?canary=1")
            assert answer.status_code == 503
            assert answer.json() == {
                "status": "not-ready", "checks": {"amqp": True, "store": True, "publish": False}
            }  # fmt: skip
        assert canary.position == 4, "one at a time"
        canary.limit_seconds = 60
        # Those who ask while one is under way that began before share the next one.
        asking = [asyncio.create_task(canary.check(True)) for _ in range(5)]
        await asyncio.sleep(0)
        rig.release()
        rig.held = True
        await rig.until(lambda: canary.position == 5)
        rig.release()
        assert await asyncio.gather(*asking) == [True] * 5
        assert canary.position == 5
        assert (await http.get("/readyz?canary=perhaps")).status_code == 422
    assert rig.store.read(canary.number, 0, 10) == []


async def test_the_canary_leaves_nothing_behind(make_rig: Any) -> None:
    rig = make_rig(volatile=False, canary_seconds=5)
    canary = rig.app.state.context.canary
    canary.fresh_seconds = 0
    for _ in range(3):
        assert await canary.check()
        rig.end()
    assert rig.store.read(canary.number, 0, 10) == []


# --- meters ---------------------------------------------------------------------------------------


async def test_outcomes_and_latencies_are_counted(rig: Any) -> None:
    rig.queue("orders")
    rig.queue("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    async with rig.http() as http:
        for queue, status in (("orders", 201), ("none", 404), ("full", 429)):
            path = f"/v1/%2F/queues/{queue}/messages"
            assert (await http.post(path, content=b"x")).status_code == status
        text = (await http.get("/metrics")).text
    for outcome in ("accepted", "unroutable", "rejected"):
        assert f'http_publish_outcomes_total{{outcome="{outcome}"}} 1.0' in text
    assert "amqp_gateway_http_confirm_seconds_count 3.0" in text
    assert 'http_request_seconds_bucket{le="+Inf",route="/v1/{vhost}/queues' in text


@given(st.lists(st.floats(0, 20)))
def test_a_histogram_counts_everything_once(values: list[float]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    buckets = histogram.buckets()
    assert buckets[-1] == ("+Inf", len(values))
    for bound, (_, count) in zip(BOUNDS, buckets, strict=False):
        assert count == sum(value <= bound for value in values)


# --- logs -----------------------------------------------------------------------------------------


def lines_of(formatter: logging.Formatter, write: Any) -> str:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger = logging.getLogger("gateway.http.access")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        write(logger)
    finally:
        logger.removeHandler(handler)
    return stream.getvalue()


async def test_requests_are_lines_of_json_without_secrets(make_rig: Any) -> None:
    rig = make_rig(log_requests=True)
    rig.queue("orders")
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("gateway.http.access")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        async with rig.http() as http:
            await http.post(QUEUE, content=b"x", headers={"x-request-id": "r1"})
            await http.get("/v1/%2F/events?ticket=verysecret&source=queue:none")
    finally:
        logger.removeHandler(handler)
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["request_id"], first["status"], first["method"]) == ("r1", 201, "POST")
    assert first["route"] == "/v1/{vhost}/queues/{queue}/messages"
    assert re.match(r'"[0-9a-f-]{36}"', first["message_id"])
    assert "verysecret" not in stream.getvalue()
    assert "wonder" not in stream.getvalue()
    assert second["status"] >= 400


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Basic {}",
        "authorization=Bearer {}",
        "GET /events?ticket={}&x=1",
        'password="{}"',
        "{{'access_token': '{}'}}",
        "amqp://user:{}@host/",
        "Cookie: {}",
    ],
)
def test_secrets_are_taken_out(text: str) -> None:
    secret = "c2VjcmV0OnNlY3JldA=="
    line = text.format(secret)
    assert secret not in redact(line)

    def write(logger: logging.Logger) -> None:
        logger.info("%s", line)
        try:
            raise ValueError(line)
        except ValueError:
            logger.exception("it failed")

    for formatter in (JsonLines(), TextLines()):
        written = lines_of(formatter, write)
        assert secret not in written
        assert "[redacted]" in written


def test_ordinary_text_stays() -> None:
    for text in ("no token given", "user 'alice' may not", "http://127.0.0.1:8080/", "basic_nack"):
        assert redact(text) == text


# --- out of messages ------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["json", "cloudevents"])
async def test_a_trace_is_a_field_of_the_event(rig: Any, listener: Any, form: str) -> None:
    rig.queue("orders")
    async with rig.served() as port:
        async with rig.http() as http:
            await http.post(QUEUE, content=b"x", headers={"traceparent": PARENT_A})
        async with listener(port, f"source=queue:orders&format={form}") as stream:
            assert (await stream.until()).data["traceparent"] == PARENT_A


async def test_batches_and_requests_carry_the_trace(rig: Any) -> None:
    rig.queue("orders")
    batch = {"messages": [{"body": {"text": "a"}}, {"body": {"text": "b"}}], "atomic": True}
    headers = {
        "traceparent": PARENT_A,
        "content-type": "application/vnd.amqp-gateway.batch+json",
    }
    async with rig.http() as http:
        for atomic in (True, False):
            sent = await http.post(QUEUE, json=batch | {"atomic": atomic}, headers=headers)
            assert sent.is_success, sent.text
    found = [headers_of(rig.fetch("orders")) for _ in range(4)]
    assert found == [{"traceparent": PARENT_A}] * 4


HOSTILE = "x\n2026-01-01 00:00:00,000 ERROR gateway: made up\r\x1b[2J\u2028\u202e\x85\udcff"


@pytest.mark.parametrize("formatter", [TextLines(), JsonLines()], ids=["text", "json"])
def test_peers_write_no_lines_of_their_own(formatter: logging.Formatter) -> None:
    """Names and reasons of peers, in the text, in what is added, and in tracebacks."""
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        record = logging.getLogger("gateway").makeRecord(
            "gateway", 40, "f", 1, "closed: %s", (HOSTILE,), sys.exc_info(), extra={"who": HOSTILE}
        )
    lines = formatter.format(record).split("\n")
    assert all(line.isprintable() for line in lines)
    assert [line for line in lines[1:] if not line.startswith("    ")] == []
    assert r"x\n2026-01-01" in lines[0] and lines[0].encode()
