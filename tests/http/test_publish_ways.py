"""The ways in: JSON forms, CloudEvents, batches, multipart, addresses, digests, large bodies."""

import asyncio
import base64
import hashlib
import json
from typing import Any
from uuid import UUID

import pytest

from gateway import values
from gateway.http.publish.bodies import Budget

QUEUE = "/v1/%2F/queues/orders/messages"
ANYWHERE = "/v1/%2F/messages"
FORM = {"content-type": "application/vnd.amqp-gateway.message+json"}
BATCH = {"content-type": "application/vnd.amqp-gateway.batch+json"}
EVENT = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.created"}


def kind_of(answer: Any) -> str:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    told = answer.json()
    assert told["status"] == answer.status_code
    assert told["outcome"] and "safe_to_retry" in told
    return str(told["type"]).rpartition("/")[2]


async def test_a_simple_form(rig: Any) -> None:
    rig.queue("orders")
    form = {
        "id": "urn:uuid:5a1d3c7e-0b42-7e96-8f4d-c2b7a9e61f03",
        "durable": True,
        "ttl_ms": 60000,
        "properties": {"n": 1, "u": {"$type": "ubyte", "value": 3}},
        "body": {"json": {"order": 17}},
    }
    async with rig.http() as http:
        answer = await http.post(QUEUE, json=form, headers=FORM)
    assert answer.status_code == 201, answer.text
    assert answer.headers["amqp-outcome"] == "accepted"
    assert answer.headers["amqp-message-id"] == '"5a1d3c7e-0b42-7e96-8f4d-c2b7a9e61f03";t=uuid'
    message = rig.fetch("orders")
    assert message.body == b'{"order":17}'
    found = message.properties
    assert found.message_id == UUID("5a1d3c7e-0b42-7e96-8f4d-c2b7a9e61f03")
    assert found.content_type == "application/json"
    assert found.application == {"n": 1, "u": 3}
    assert type(found.application["u"]) is values.UByte
    assert message.essentials.durable and message.essentials.ttl == 60000


async def test_a_full_form_by_parameter_or_member(rig: Any) -> None:
    rig.queue("orders")
    form = {"properties": {"subject": "s"}, "body": {"kind": "data", "base64": "AP8="}}
    full = {"content-type": FORM["content-type"] + "; view=full"}
    async with rig.http() as http:
        for sent, headers in ((form, full), ({"view": "full", **form}, FORM)):
            assert (await http.post(QUEUE, json=sent, headers=headers)).status_code == 201
            message = rig.fetch("orders")
            assert (message.body, message.properties.subject) == (b"\0\xff", "s")


@pytest.mark.parametrize(
    ("content", "status", "kind"),
    [
        (b"{", 400, "invalid-request"),
        (b'{"a":1,"a":2}', 400, "invalid-request"),
        (b'{"durble":true}', 422, "schema"),
        (b'{"priority":"4"}', 422, "schema"),
        (b'{"id":"%b"}' % (b"x" * 300), 201, ""),
    ],
)
async def test_forms_that_are_wrong(rig: Any, content: bytes, status: int, kind: str) -> None:
    rig.queue("orders")
    async with rig.http() as http:
        answer = await http.post(QUEUE, content=content, headers=FORM)
        assert answer.status_code == status, answer.text
        if kind:
            assert kind_of(answer) == kind
        beside = await http.post(QUEUE, json={}, headers={**FORM, "Amqp-Durable": "?1"})
        assert (beside.status_code, kind_of(beside)) == (400, "invalid-field")
        packed = await http.post(QUEUE, json={}, headers={**FORM, "Content-Encoding": "gzip"})
        assert (packed.status_code, kind_of(packed)) == (415, "unsupported-media-type")


async def test_cloudevents_in_binary_mode(rig: Any) -> None:
    rig.queue("orders")
    headers = {
        "ce-specversion": "1.0",
        "ce-id": "A 1",
        "ce-source": "/shop",
        "ce-type": "order.created",
        "ce-subject": "Gr%C3%BC%C3%9Fe",
        "ce-quoted": '"a \\"b\\""',
        "content-type": "application/json",
        "Amqp-Durable": "?1",
    }
    async with rig.http() as http:
        answer = await http.post(QUEUE, content=b'{"n": 1.0}', headers=headers)
        assert answer.status_code == 201, answer.text
        message = rig.fetch("orders")
        assert message.body == b'{"n": 1.0}'
        assert message.properties.content_type == "application/json"
        assert message.essentials.durable
        assert message.properties.application == {
            "cloudEvents_specversion": "1.0",
            "cloudEvents_id": "A 1",
            "cloudEvents_source": "/shop",
            "cloudEvents_type": "order.created",
            "cloudEvents_subject": "Grüße",
            "cloudEvents_quoted": 'a "b"',
        }
        mistakes: tuple[dict[str, str], ...] = (
            {"ce-type": ""},
            {"ce-specversion": "0.3"},
            {"ce-x": "%FF"},
            {"ce-a_b": "1"},
        )
        for wrong in mistakes:
            refused = await http.post(QUEUE, content=b"", headers={**headers, **wrong})
            assert (refused.status_code, kind_of(refused)) == (400, "invalid-field"), wrong
        del headers["ce-specversion"]
        plain = await http.post(QUEUE, content=b"x", headers=headers)
        assert plain.status_code == 201
    assert rig.fetch("orders").properties.application is None


async def test_cloudevents_in_structured_mode_stay_as_they_are(rig: Any) -> None:
    rig.queue("orders")
    media = {"content-type": "application/cloudevents+json", "Amqp-Durable": "?1"}
    text = json.dumps({**EVENT, "data": {"x": 1}}).replace("1}}", "1.0}}").encode()
    async with rig.http() as http:
        assert (await http.post(QUEUE, content=text, headers=media)).status_code == 201
        message = rig.fetch("orders")
        assert message.body == text
        assert message.properties.content_type == "application/cloudevents+json; charset=utf-8"
        assert message.essentials.durable
        mistakes: tuple[object, ...] = (
            {**EVENT, "id": ""},
            {**EVENT, "specversion": "2"},
            [],
            1,
        )
        for wrong in mistakes:
            refused = await http.post(QUEUE, json=wrong, headers=media)
            assert (refused.status_code, kind_of(refused)) == (422, "schema")


async def test_a_batch_of_cloudevents(rig: Any) -> None:
    rig.queue("orders")
    media = {"content-type": "application/cloudevents-batch+json", "Amqp-Durable": "?1"}
    second = b'{"specversion":"1.0","id":"2","source":"/s","type":"t","data":1.0}'
    text = b" [ " + json.dumps(EVENT).encode() + b" ,\n" + second + b' , {"id":"3"} ] '
    async with rig.http() as http:
        answer = await http.post(QUEUE, content=text, headers=media)
        assert answer.status_code == 207
        results = answer.json()["results"]
        assert [one["status"] for one in results] == [201, 201, 422]
        assert [one["id"] for one in results] == ["1", "2", "3"]
        assert rig.fetch("orders").body == json.dumps(EVENT).encode()
        assert rig.fetch("orders").body == second
        for broken in (b"", b"{}", b"[", b"[1", b"[1,]", b"[] x", b"\xff"):
            refused = await http.post(QUEUE, content=broken, headers=media)
            assert (refused.status_code, kind_of(refused)) == (400, "invalid-request"), broken


async def test_a_batch_has_the_outcome_of_each(rig: Any) -> None:
    rig.queue("orders")
    rig.queue("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    messages: list[Any] = [
        {"id": "a", "to": "orders", "body": "1"},
        {"to": "/queues/none", "body": "2"},
        {"to": "/exchanges/amq.fanout", "body": "3"},
        {"to": "full", "body": "4"},
        {"to": "full", "body": "5"},
        {"body": "6"},
        {"to": "orders", "priority": 999},
        {"to": "/nonsense/x"},
        {"to": "/exchanges/amq.direct/k%2Fk", "body": "7"},
    ]
    rig.bind("orders", "amq.direct", "k/k")
    async with rig.http() as http:
        answer = await http.post(ANYWHERE, json={"messages": messages}, headers=BATCH)
    assert answer.status_code == 207, answer.text
    told = answer.json()
    results = told["results"]
    assert [one["index"] for one in results] == list(range(9))
    assert [one["status"] for one in results] == [201, 404, 409, 201, 429, 400, 422, 400, 201]
    assert (told["accepted"], told["failed"]) == (3, 6)
    assert results[0]["id"] == "a" and results[0]["message_id"] == "a"
    assert results[4]["outcome"] == "rejected"
    assert results[4]["problem"]["safe_to_retry"] is True
    assert results[6]["problem"]["errors"][0]["pointer"] == "/priority"
    assert [rig.fetch("orders").body for _ in range(2)] == [b"1", b"7"]


async def test_batches_that_are_all_one(rig: Any) -> None:
    rig.queue("orders")
    async with rig.http() as http:

        async def post(messages: Any, **more: Any) -> Any:
            return await http.post(QUEUE, json={"messages": messages, **more}, headers=BATCH)

        good = await post([{"body": "1"}, {"body": "2"}])
        assert good.status_code == 201
        gone = await http.post(
            ANYWHERE, json={"messages": [{"to": "x"}, {"to": "y"}]}, headers=BATCH
        )
        assert (gone.status_code, kind_of(gone)) == (404, "address-not-found")
        assert len(gone.json()["results"]) == 2
        mistakes: tuple[object, ...] = ([], None, {}, [1] * 1001)
        for wrong in mistakes:
            refused = await post(wrong)
            assert refused.status_code in (413, 422)
        assert (await post([{}], on_error="maybe")).status_code == 422
        assert (await post([{}], atomc=True)).status_code == 422


async def test_stop_at_the_first_that_fails_but_only_its_key(rig: Any) -> None:
    rig.queue("orders")
    messages = [
        {"to": "orders", "ordering_key": "a", "body": "1"},
        {"to": "none", "ordering_key": "a", "body": "2"},
        {"to": "orders", "ordering_key": "a", "body": "3"},
        {"to": "orders", "ordering_key": "b", "body": "4"},
        {"to": "orders", "body": "5"},
    ]
    async with rig.http() as http:
        answer = await http.post(
            ANYWHERE, json={"messages": messages, "on_error": "stop"}, headers=BATCH
        )
    results = answer.json()["results"]
    assert [one["status"] for one in results] == [201, 404, 424, 201, 201]
    assert results[2]["outcome"] == "not-sent"
    assert results[2]["problem"]["safe_to_retry"] is True
    assert [rig.fetch("orders").body for _ in range(3)] == [b"1", b"4", b"5"]


async def test_all_or_none(make_rig: Any) -> None:
    rig = make_rig(volatile=False)
    rig.queue("orders", durable=True)
    rig.queue("full", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    good = {"to": "orders", "durable": True, "body": "1"}
    async with rig.http() as http:

        async def post(*messages: Any) -> Any:
            batch = {"messages": messages, "atomic": True}
            return await http.post(ANYWHERE, json=batch, headers=BATCH)

        for bad, status in (
            ({"to": "none"}, 404),
            ({"to": "/exchanges/amq.fanout"}, 409),
            ({"to": "orders", "user_id": "bob"}, 422),
            ({"to": "orders", "prority": 1}, 422),
        ):
            answer = await post(good, bad, good)
            assert answer.status_code == status, answer.text
            assert [one["status"] for one in answer.json()["results"]] == [424, status, 424]
        answer = await post(*[{"to": "full"}] * 3)
        assert answer.status_code == 429
        assert rig.depth("orders") == rig.depth("full") == (0, 0)
        answer = await post(good, {"to": "full"}, {"to": "full"})
        assert answer.status_code == 201, answer.text
        assert answer.json()["accepted"] == 3
        assert (rig.depth("orders"), rig.depth("full")) == ((1, 0), (2, 0))
        assert len(rig.broker.vhosts["/"].clients) == 2
        assert all(len(client.channels) == 1 for client in rig.broker.vhosts["/"].clients)


def multipart(*parts: tuple[dict[str, str], bytes], end: bool = True) -> bytes:
    lines = []
    for headers, body in parts:
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        lines.append(b"--frontier\r\n" + head.encode() + b"\r\n" + body + b"\r\n")
    return b"".join(lines) + (b"--frontier--\r\n" if end else b"")


async def test_multipart_takes_octets_as_they_are(rig: Any) -> None:
    rig.queue("orders")
    media = {"content-type": 'multipart/mixed; boundary="frontier"'}
    octets = bytes(range(256)) + b"\r\n--frontie\r\n"
    parts = [
        ({"Content-Type": "image/png", "Content-ID": "<p1>", "Amqp-Durable": "?1"}, octets),
        ({"Amqp-Property": '"n";v=1', "ce-id": "x"}, b""),
        ({"Amqp-Priority": "x"}, b"bad"),
    ]
    async with rig.http() as http:
        answer = await http.post(QUEUE, content=multipart(*parts), headers=media)
        assert answer.status_code == 207, answer.text
        results = answer.json()["results"]
        assert [one["status"] for one in results] == [201, 201, 400]
        assert results[0]["id"] == "p1"
        first = rig.fetch("orders")
        assert first.body == octets
        assert (first.properties.content_type, first.essentials.durable) == ("image/png", True)
        second = rig.fetch("orders")
        assert (second.body, second.properties.application) == (b"", {"n": 1})
        for content in (b"", b"x", multipart(*parts[:1], end=False)):
            broken = await http.post(QUEUE, content=content, headers=media)
            assert (broken.status_code, kind_of(broken)) == (400, "invalid-request")
        none = await http.post(QUEUE, content=b"", headers={"content-type": "multipart/mixed"})
        assert kind_of(none) == "invalid-request"
        many = await http.post(QUEUE, content=multipart(*[({}, b"")] * 1001), headers=media)
        assert (many.status_code, kind_of(many)) == (413, "too-large")
    assert rig.depth("orders") == (0, 0)


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("orders", 201),
        ("%2Fqueues%2Forders", 201),
        ("%2Fexchanges%2Famq.direct%2Fk", 201),
        ("%2Fexchanges%2Famq.fanout", 409),
        ("%2Ftopic%2Fx", 400),
        ("%2Fqueues%2F%25FF", 400),
        ("none", 404),
    ],
)
async def test_addresses(rig: Any, address: str, status: int) -> None:
    rig.queue("orders")
    rig.bind("orders", "amq.direct", "k")
    path = f"/v1/%2F/addresses/{address}/messages"
    async with rig.http() as http:
        for headers in ({}, {"Prefer": "wait=5"}):
            answer = await http.post(path, content=b"x", headers=headers)
            assert answer.status_code == status, answer.text


async def test_a_raw_message_that_says_where_to(rig: Any) -> None:
    rig.queue("orders")
    async with rig.http() as http:
        sent = await http.post(ANYWHERE, content=b"x", headers={"Amqp-To": '"orders"'})
        assert (sent.status_code, sent.json()["address"]) == (201, "orders")
        lost = await http.post(ANYWHERE, content=b"x")
        assert (lost.status_code, kind_of(lost)) == (400, "invalid-request")


def digest(kind: str, octets: bytes) -> str:
    found = hashlib.new(kind.replace("-", ""), octets).digest()
    return f"{kind}=:{base64.b64encode(found).decode()}:"


async def test_content_digests_are_checked(rig: Any) -> None:
    rig.queue("orders")
    body = b"x" * 100_000
    async with rig.http() as http:

        async def post(value: str) -> Any:
            return await http.post(QUEUE, content=body, headers={"Content-Digest": value})

        for good in (digest("sha-256", body), digest("sha-512", body), "md5=:AAAA:"):
            assert (await post(good)).status_code == 201
        both = await post(f"{digest('sha-256', body)}, {digest('sha-512', b'y')}")
        assert (both.status_code, kind_of(both)) == (400, "digest-mismatch")
        assert both.json()["safe_to_retry"] is True
        for malformed in ("sha-256=abc", "sha-256", "=", 'sha-256="x"'):
            refused = await post(malformed)
            assert (refused.status_code, kind_of(refused)) == (400, "invalid-field"), malformed
    assert rig.depth("orders") == (3, 0)


async def test_large_bodies_wait_beside_memory_and_within_a_budget(make_rig: Any) -> None:
    rig = make_rig(spool_octets=1000, max_inflight_octets=50_000)
    rig.queue("orders")
    body = bytes(range(256)) * 150

    async def slowly() -> Any:
        for at in range(0, len(body), 700):
            yield body[at : at + 700]

    async with rig.http() as http:
        for headers in ({}, {"Content-Digest": digest("sha-256", body)}):
            for content in (body, slowly()):
                answer = await http.post(QUEUE, content=content, headers=headers)
                assert answer.status_code == 201, answer.text
                assert rig.fetch("orders").body == body
        started = asyncio.Event()
        go_on = asyncio.Event()

        async def stalled() -> Any:
            yield body[:2000]
            started.set()
            await go_on.wait()
            yield body[2000:]

        first = asyncio.create_task(
            http.post(QUEUE, content=stalled(), headers={"Content-Length": str(len(body))})
        )
        await started.wait()
        second = await http.post(QUEUE, content=body)
        assert (second.status_code, kind_of(second)) == (503, "backpressure")
        small = await http.post(QUEUE, content=b"x" * 900)
        assert small.status_code == 201
        go_on.set()
        assert (await first).status_code == 201
        assert (await http.post(QUEUE, content=body)).status_code == 201


def test_the_budget_is_always_given_back() -> None:
    budget = Budget(100)
    with pytest.raises(ValueError), budget.hold() as held:
        held.reach(60)
        held.reach(40)
        assert budget.used == 60
        raise ValueError
    assert budget.used == 0


async def expecting(port: int, path: str, length: int, *fields: str) -> str:
    """Sends a head that expects 100 and no body; what comes back first."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    token = base64.b64encode(b"alice:wonder").decode()
    head = [
        f"POST {path} HTTP/1.1",
        "Host: gateway",
        f"Content-Length: {length}",
        "Expect: 100-continue",
        *(fields or (f"Authorization: Basic {token}",)),
    ]
    writer.write("\r\n".join([*head, "", ""]).encode())
    first = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)).decode()
    if first.startswith("HTTP/1.1 100"):
        writer.write(b"x" * length)
        first += (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)).decode()
    writer.close()
    return first


async def test_refusals_come_before_the_body_is_requested(make_rig: Any) -> None:
    rig = make_rig(max_body_octets=1000)
    rig.queue("orders")
    async with rig.served() as port:
        good = await expecting(port, QUEUE, 10)
        assert good.startswith("HTTP/1.1 100") and "HTTP/1.1 201" in good
        for path, length, status, fields in (
            (QUEUE, 1001, 413, ()),
            (QUEUE, 10, 401, ("Authorization: Basic eDp4",)),
            ("/v1/%2F/queues/none/messages", 10, 404, ()),
            ("/v1/%2F/exchanges/none/messages", 10, 404, ()),
            ("/v1/none/queues/orders/messages", 10, 404, ()),
        ):
            refused = await expecting(port, path, length, *fields)
            assert refused.startswith(f"HTTP/1.1 {status}"), refused
            assert "connection: close" in refused.lower()
        rig.broker.alarm("disk", True)
        assert (await expecting(port, QUEUE, 10)).startswith("HTTP/1.1 503")
    assert rig.depth("orders") == (1, 0)
