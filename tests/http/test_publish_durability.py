"""The durability that receipts claim is the one that messages have."""

import json
from typing import Any

import pytest

JSON = "application/vnd.amqp-gateway.message+json"
BATCH = "application/vnd.amqp-gateway.batch+json"
LINES = "application/vnd.amqp-gateway.messages+ndjson"
EVENT = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "made"}
PARTS = "--b\r\nContent-Type: text/plain\r\n\r\none\r\n--b--\r\n"
CE = {f"ce-{name}": value for name, value in EVENT.items()}


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


FORMS = [
    ({"content-type": "text/plain"}, "plain"),
    ({}, "plain, without a type"),
    ({"amqp-message-id": '"m"'}, "its own id"),
    ({"idempotency-key": '"k"'}, "a key"),
    ({"prefer": "wait=5"}, "careful"),
    ({**CE, "content-type": "text/plain"}, "event"),
    ({"content-type": JSON}, json.dumps({"body": "form"})),
    ({"content-type": JSON}, json.dumps({"view": "full", "body": {"text": "full"}})),
    ({"content-type": "application/cloudevents+json"}, json.dumps(EVENT)),
    ({"content-type": BATCH}, json.dumps({"messages": [{"body": "item"}]})),
    ({"content-type": BATCH}, json.dumps({"messages": [{"body": "all"}], "atomic": True})),
    (
        {"content-type": BATCH, "idempotency-key": '"k"'},
        json.dumps({"messages": [{"body": "all, keyed"}], "atomic": True}),
    ),
    ({"content-type": "application/cloudevents-batch+json"}, json.dumps([EVENT])),
    ({"content-type": "multipart/mixed; boundary=b"}, PARTS),
    ({"content-type": LINES}, json.dumps({"body": "line"})),
]
IDS = [f"{n}-{headers.get('content-type', 'none')[:60]}" for n, (headers, _) in enumerate(FORMS)]


def claims(answer: Any) -> list[str]:
    """What the receipts of an answer say."""
    media = answer.headers["content-type"]
    if "ndjson" in media:
        return [line["durability"] for line in lines(answer.text)]
    told = answer.json()
    if "results" in told:
        return [one["durability"] for one in told["results"]]
    assert answer.headers["amqp-durability"] == told["durability"]
    return [told["durability"]]


@pytest.mark.parametrize(("headers", "body"), FORMS, ids=IDS)
async def test_durable_by_default(make_rig: Any, headers: dict[str, str], body: str) -> None:
    """A durable queue keeps whatever is published without a word about it."""
    rig = make_rig(volatile=False)
    rig.queue("kept", durable=True)
    rig.queue("passing")
    async with rig.http() as http:
        for queue, word in (("kept", "disk"), ("passing", "memory")):
            path = f"/v1/%2F/queues/{queue}/messages"
            key = {"idempotency-key": f'"{queue}"'} if "idempotency-key" in headers else {}
            answer = await http.post(path, content=body, headers={**headers, **key})
            assert answer.status_code in (201, 207), answer.text
            assert claims(answer) == [word]
            message = rig.fetch(queue)
            assert message.essentials.durable is True


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"amqp-durable": "?0"}, "plain"),
        ({"amqp-durable": "?0", "idempotency-key": '"k"'}, "keyed"),
        ({"content-type": JSON}, json.dumps({"durable": False, "body": "form"})),
        ({"content-type": JSON}, json.dumps({"view": "full", "header": {"durable": False}})),
        ({"content-type": BATCH}, json.dumps({"messages": [{"durable": False, "body": "x"}]})),
        (
            {"content-type": "multipart/mixed; boundary=b"},
            PARTS.replace("Content-Type", "Amqp-Durable: ?0\r\nContent-Type"),
        ),
        ({"content-type": LINES}, json.dumps({"durable": False, "body": "line"})),
    ],
)
async def test_transient_on_request(make_rig: Any, headers: dict[str, str], body: str) -> None:
    rig = make_rig(volatile=False)
    rig.queue("kept", durable=True)
    async with rig.http() as http:
        path = "/v1/%2F/queues/kept/messages"
        answer = await http.post(path, content=body, headers=headers)
        assert claims(answer) == ["memory"]
    assert rig.fetch("kept").essentials.durable is False


async def test_several_queues(make_rig: Any) -> None:
    rig = make_rig(volatile=False)
    rig.queue("kept", durable=True)
    rig.queue("also", durable=True)
    rig.queue("passing")
    rig.queue("mine", durable=True, exclusive=True)
    for queue, key in (("kept", "#"), ("also", "both"), ("passing", "mixed"), ("mine", "mine")):
        rig.bind(queue, "amq.topic", key)
    path = "/v1/%2F/exchanges/amq.topic/messages?routing_key="
    async with rig.http() as http:
        words = {"alone": "disk", "both": "disk", "mixed": "mixed", "mine": "mixed"}
        for key, word in words.items():
            answer = await http.post(path + key, content=b"x")
            assert claims(answer) == [word], key
        # Where the key alone does not say where to.
        rig.bind("passing", "amq.headers", "")
        answer = await http.post("/v1/%2F/exchanges/amq.headers/messages", content=b"x")
        assert claims(answer) == ["memory"]
        # A copy for a queue in memory.
        copied = {"properties": {"CC": ["passing"]}, "routing_key": "alone", "body": "x"}
        answer = await http.post(
            "/v1/%2F/exchanges/amq.direct/messages", json=copied, headers={"content-type": JSON}
        )
        assert answer.status_code == 409
        copied["properties"] = {"CC": ["mixed"]}
        answer = await http.post(
            "/v1/%2F/exchanges/amq.topic/messages", json=copied, headers={"content-type": JSON}
        )
        assert claims(answer) == ["mixed"]


async def test_a_store_that_keeps_nothing(make_rig: Any) -> None:
    rig = make_rig(volatile=True)
    rig.queue("kept", durable=True)
    async with rig.http() as http:
        answer = await http.post("/v1/%2F/queues/kept/messages", content=b"x")
        assert claims(answer) == ["memory"]


async def test_rabbitmqs_path_has_rabbitmqs_rule(make_rig: Any) -> None:
    """Transient unless ``delivery_mode`` is 2."""
    rig = make_rig(volatile=False)
    rig.queue("kept", durable=True)
    body = {"routing_key": "kept", "payload": "x", "payload_encoding": "string"}
    async with rig.http() as http:
        for properties, durable in (({}, False), ({"delivery_mode": 2}, True)):
            answer = await http.post(
                "/api/exchanges/%2F/amq.default/publish", json={**body, "properties": properties}
            )
            assert answer.json() == {"routed": True}
            assert rig.fetch("kept").essentials.durable is durable
