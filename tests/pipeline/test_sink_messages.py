"""Rows as messages, and messages to a gateway that answers as it likes. Without Spark."""

import json
from base64 import b64decode
from typing import Any
from uuid import UUID

import httpx
import pytest

from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.sections import part
from gateway.http.publish.replays.archived import restored
from gateway.journal.canonical import COLUMNS, Rows
from gateway.journal.entries import NOBODY, Entry
from gateway.message import Message, Properties
from gateway.values import ULong
from pyspark_amqp.messages import Messages, octets_of
from pyspark_amqp.options import OptionError
from pyspark_amqp.publishing import (
    FULL_SECONDS,
    Fate,
    Publishing,
    Ready,
    ReplayError,
    Target,
    batches,
)

PLACE = ("rows", "0")


def row_of(message: Message, *names: str) -> dict[str, Any]:
    """A row of the journal."""
    names = names or tuple(one.name for one in COLUMNS)
    entry = Entry(7, 0, "/", "/exchanges/orders", 3, NOBODY, message, len(message.body))
    ((values),) = Rows("j", list(names)).of([entry])
    return dict(zip(names, values, strict=True))


def published(exchange: str = "orders", key: str = "eu.new") -> Message:
    header = BASIC.write(Properties(
        durable=True, message_id="m\udcff", type="t", priority=3,
        application={"number": 5, "table": {"x": [1]}},
    ))  # fmt: skip
    return Message(BASIC, header, b"body", exchange, key, BASIC.essentials(header))


def test_a_row_of_the_journal_is_exact() -> None:
    message = published()
    found = Messages("", None).of(row_of(message))
    assert isinstance(found, Ready)
    assert found[:4] == ("j", "/exchanges/orders", 3, "/exchanges/orders/eu.new")
    again = restored(found.octets)
    assert (again.dialect, again.header, again.body) == (BASIC, message.header, b"body")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("", "/exchanges/orders/a%2Fb"),
        ("/exchanges/copy", "/exchanges/copy/a%2Fb"),
        ("/exchanges/copy/x", "/exchanges/copy/x"),
        ("/queues/copy", "/queues/copy"),
    ],
)
def test_targets(target: str, expected: str) -> None:
    """The routing key is in the annotations, which may be a column or in ``amqp10``."""
    message = published(key="a/b")
    for names in (("annotations",), ()):
        row = row_of(message, "journal_id", "address", "offset", "amqp10", *names)
        found = Messages(target, None).of(row)
        assert isinstance(found, Ready)
        assert found.to == expected


def test_a_row_of_columns() -> None:
    row = {
        "address": "/queues/orders", "body": b"x", "message_id": "17", "message_id_type": "ulong",
        "correlation_id": "0192f3c1-7a10-7c2e-9b1d-3f2a5c6d7e8f", "correlation_id_type": "uuid",
        "subject": "s", "ttl_ms": 5, "priority": 9, "content_type": "text/plain", "creation_ms": 1,
        "properties": [("a", "b")], "annotations": [("x-note", "n"), ("x-exchange", "e")],
    }  # fmt: skip
    found = Messages("", PLACE).of(row)
    assert isinstance(found, Ready)
    assert found[:4] == ("rows", "0", 0, "/queues/orders")
    header, body = part(found.octets)
    properties = SECTIONS.read(header)
    assert body == b"x"
    assert properties == Properties(
        durable=True, message_id=ULong(17), subject="s", ttl=5, priority=9,
        correlation_id=UUID("0192f3c1-7a10-7c2e-9b1d-3f2a5c6d7e8f"), content_type="text/plain",
        creation_time=1, application={"a": "b"}, annotations={"x-note": "n"},
    )  # fmt: skip
    assert type(properties.message_id) is ULong


def test_bodies() -> None:
    for row, expected in (
        ({"body": "text"}, b"text"),
        ({"body": b"\x00\x53\x77\xa1\x01x", "body_kind": "value"}, b"\x00\x53\x77\xa1\x01x"),
        ({"body": None, "body_kind": "none"}, b""),
        ({"body": b"", "body_kind": "data"}, b""),
    ):
        header, body = part(octets_of(row))
        assert body == expected
        kind = SECTIONS.read(header).body_kind
        assert kind in (None, row.get("body_kind")) or kind == "data"


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"body": None}, "amqp10 and body are null"),
        ({"body": None, "body_ref": "b/17"}, "file b/17"),
        ({"body": b"x", "body_kind": "value"}, "amqp-value"),
        ({"body": b"x", "message_id": "x", "message_id_type": "ulong"}, "message_id: 'x' is no"),
        ({"body": b"x", "message_id": "x", "message_id_type": "odd"}, "message_id_type"),
        ({"body": b"x", "address": None}, "address: is null"),
    ],
)
def test_rows_that_are_no_messages(row: dict[str, Any], text: str) -> None:
    found = Messages("", PLACE).of({"address": "/queues/a", **row})
    assert isinstance(found, Fate)
    assert (found.outcome, text in found.problem) == ("rejected", True), found.problem


def test_a_key_that_is_null() -> None:
    row = {"journal_id": "j", "address": "/queues/a", "offset": None, "body": b""}
    with pytest.raises(ReplayError, match="offset: is null in row 1"):
        Messages("", None).of(row)
    other = {**row, "offset": 0, "vhost": "other"}
    found = [Messages("", None).of({**other, "vhost": host}) for host in ("other", "/")]
    assert len({one.address for one in found if isinstance(one, Ready)}) == 2


# --- to a gateway -------------------------------------------------------------------------------


class Answers:
    """A gateway with these answers: functions of the request's document."""

    def __init__(self, *answers: Any, **given: Any) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.now = 0.0
        client = httpx.Client(transport=httpx.MockTransport(self.answer))
        publishing = Publishing("http://gateway", "u", "p", replay="a/b", **given)
        self.target = Target(publishing, client, lambda: self.now, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(found, Exception):
            raise found
        if callable(found):
            found = found(json.loads(request.content)["messages"])
        return found if isinstance(found, httpx.Response) else httpx.Response(200, json=found)

    def offsets(self) -> list[list[int]]:
        return [[m["offset"] for m in json.loads(r.content)["messages"]] for r in self.requests]


def whole(messages: list[Any]) -> dict[str, Any]:
    count = len(messages)
    return {"attempted": count, "published": count, "duplicates": [], "rejected": []}


def part_of(count: int, **reason: Any) -> dict[str, Any]:
    found = {"attempted": count, "published": count, "duplicates": [], "rejected": []}
    return found | ({"reason": reason} if reason else {})


def ready(count: int, size: int = 1) -> list[Ready]:
    return [Ready("j", "/queues/a", n, "/queues/b", bytes(size)) for n in range(count)]


def test_what_is_left_is_sent_again() -> None:
    """Until all is dealt with: over pauses, a gateway that is away, and one that is full."""
    busy = httpx.Response(503, json={"detail": "paused"}, headers={"retry-after": "1"})
    gateway = Answers(
        part_of(2), httpx.ConnectError("away"), busy, part_of(0, retry_after_ms=1000), whole, most=3
    )
    found = list(gateway.target.publish(ready(5)))
    assert [one.message.offset for one in found] == list(range(5))
    assert {one.outcome for one in found} == {"published"}
    assert gateway.offsets() == [[0, 1, 2], [2], [2], [2], [2], [3, 4]]
    first = gateway.requests[0]
    assert first.url.raw_path == b"/v1/%2F/replays/a%2Fb/messages?on_error=stop"
    assert b64decode(json.loads(first.content)["messages"][0]["amqp10"]) == b"\x00"


def test_outcomes() -> None:
    problem = {"title": "No queue", "detail": "nowhere"}
    told = {
        "attempted": 3,
        "published": 1,
        "duplicates": [1],
        "rejected": [{"index": 2, "problem": problem}],
    }
    gateway = Answers(told, skip=True, rate=500.0)
    found = [(one.outcome, one.problem) for one in gateway.target.publish(ready(3))]
    assert found == [("published", ""), ("duplicate", ""), ("rejected", "No queue: nowhere")]
    assert gateway.requests[0].url.params == httpx.QueryParams({"rate": "500"})


def test_too_large_is_halved() -> None:
    def small(messages: list[Any]) -> Any:
        if len(messages) == 1 and messages[0]["offset"] != 2:
            return whole(messages)
        return httpx.Response(413, json={"detail": "too large"})

    gateway = Answers(small)
    found = [(one.message.offset, one.outcome) for one in gateway.target.publish(ready(4))]
    assert found == [(0, "published"), (1, "published"), (2, "rejected"), (3, "published")]


@pytest.mark.parametrize(
    ("answer", "text", "kind"),
    [
        (httpx.Response(401, json={"detail": "who"}), "user: .* 401 who", ReplayError),
        (httpx.Response(404, json={"detail": "no"}), "vhost: .* 404 no", ReplayError),
        (httpx.Response(500, content=b""), "gateway: .* 500", ReplayError),
        (httpx.ConnectError("away"), "gateway: http://gateway: away", ReplayError),
        (part_of(0, detail="full", retry_after_ms=1000), "target: /queues/b: full", ReplayError),
        (part_of(0, detail="keys", quota="replay-keys"), "replayId: keys", OptionError),
    ],
)
def test_what_does_not_heal(answer: Any, text: str, kind: type[Exception]) -> None:
    gateway = Answers(answer)
    with pytest.raises(kind, match=text):
        list(gateway.target.publish(ready(1)))
    assert gateway.now < 2 * FULL_SECONDS


def test_batches() -> None:
    assert [len(one) for one in batches(ready(1001), 500)] == [500, 500, 1]
    assert [len(one) for one in batches(ready(5, 3 << 20), 500)] == [1, 1, 1, 1, 1]
    assert list(batches([], 500)) == []
