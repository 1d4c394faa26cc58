"""Errors say which rule it is, what they saw, and one thing to try."""

from typing import Any

import pytest

QUEUE = "/v1/%2F/queues/orders/messages"
JSON = {"Content-Type": "application/json"}


async def problem(rig: Any, method: str, path: str, **options: Any) -> dict[str, Any]:
    async with rig.http() as http:
        answer = await http.request(method, path, **options)
    assert answer.status_code >= 400, answer.text
    told: dict[str, Any] = answer.json()
    return told


@pytest.mark.parametrize(
    ("sent", "hint"),
    [
        ("order-17", 'it came as order-17, put it in double quotes: Idempotency-Key: "order-17"'),
        ("8e03978e-40d5", 'put it in double quotes: Idempotency-Key: "8e03978e-40d5"'),
        ("two words", 'Idempotency-Key: "two words"'),
        ("17", 'Idempotency-Key: "17"'),
        ('"open', "double quotes of 1 to 255 characters: not a structured field item"),
        ('""', "of 1 to 255 characters"),
    ],
)
async def test_an_idempotency_key_without_quotes(rig: Any, sent: str, hint: str) -> None:
    rig.queue("orders")
    told = await problem(rig, "POST", QUEUE, content=b"x", headers={"Idempotency-Key": sent})
    assert told["type"] == "/problems/idempotency-key"
    assert hint in told["detail"], told


async def test_fields_without_quotes(rig: Any) -> None:
    rig.queue("orders")
    for name, sent in (("amqp-subject", "new order"), ("amqp-message-id", "order 17")):
        told = await problem(rig, "POST", QUEUE, content=b"x", headers={name: sent})
        assert told["type"] == "/problems/invalid-field" and told["field"] == name
        assert told["detail"].endswith(f'put it in double quotes: {name}: "{sent}"'), told


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/v1///queues/orders/messages", "/ is written %2F in a path: " + QUEUE),
        ("/v1//queues/orders/messages", "/ is written %2F in a path: " + QUEUE),
        ("/v1/queues/orders/messages", "needs a virtual host, / as %2F: " + QUEUE),
        ("/v1/%2F/queue/orders/messages", "did you mean: " + QUEUE),
        ("/v1/%2F/queues/orders/message", "did you mean: " + QUEUE),
        ("/v1/%2F/orders/messages", "behind queues/: " + QUEUE),
        ("/v1/%2F/queues/orders", "published to: " + QUEUE),
        ("/v1/admin/vhosts///queues/a", "/ is written %2F in a path: /v1/admin/vhosts/%2F/queues"),
        ("/v1/admin/vhost/%2F/queues/a", "did you mean: /v1/admin/vhosts/%2F/queues/a"),
        ("/v2/%2F/queues/orders", "nothing at /v2/%2F/queues/orders"),
    ],
)
async def test_a_path_that_is_nearly_one(rig: Any, path: str, hint: str) -> None:
    told = await problem(rig, "POST", path, content=b"x")
    assert told["type"] == "/problems/not-found"
    assert hint in told["detail"], told


async def test_paths_that_are_like_none_have_no_hint(rig: Any) -> None:
    for path in ("/nothing", "/v1/a/b/c/d/e/f/g", "/v1/" + "queues/" * 60):
        told = await problem(rig, "GET", path)
        assert told["detail"] == f"nothing at {path}"


@pytest.mark.parametrize(
    ("segment", "hint"),
    [
        ("default", "the default one, /, is written %2F in a path"),
        ("%252F", "percent-encoded twice; encode it once, / as %2F"),
    ],
)
async def test_a_virtual_host_that_is_not_there(rig: Any, segment: str, hint: str) -> None:
    for path in (f"/v1/{segment}/queues/orders/messages", f"/v1/admin/vhosts/{segment}/queues"):
        told = await problem(rig, "GET", path)
        assert told["type"] == "/problems/address-not-found"
        assert hint in told["detail"], told


async def test_no_route_names_exchange_and_key(rig: Any) -> None:
    path = "/v1/%2F/exchanges/amq.direct/messages"
    told = await problem(rig, "POST", f"{path}?routing_key=paid", content=b"x")
    assert told["type"] == "/problems/unroutable"
    assert (told["exchange"], told["routing_key"]) == ("amq.direct", "paid")
    assert "exchange 'amq.direct'" in told["detail"] and "routing key 'paid'" in told["detail"]
    assert told["detail"].endswith("bind a queue to it with this key")
    told = await problem(rig, "POST", path, content=b"x")
    assert told["detail"].endswith("or send a routing key (?routing_key=KEY)")
    batch = {
        "atomic": True,
        "messages": [{"to": "/exchanges/amq.direct/paid", "body": {"json": 1}}],
    }
    media = {"Content-Type": "application/vnd.amqp-gateway.batch+json"}
    told = await problem(rig, "POST", "/v1/%2F/messages", json=batch, headers=media)
    assert "routing key 'paid'" in str(told), told


async def test_a_403_names_right_and_pattern(rig: Any) -> None:
    rig.queue("orders")
    rig.broker.access.set_permissions("alice", "/", ".*", "^shop", ".*")
    told = await problem(rig, "POST", "/v1/%2F/exchanges/amq.topic/messages", content=b"x")
    assert told["type"] == "/problems/forbidden"
    assert told["detail"] == (
        "write access to exchange 'amq.topic' in vhost '/' refused for user 'alice': "
        "the write permission is '^shop'"
    )
    told = await problem(rig, "POST", QUEUE, content=b"x")
    assert told["instance"] == QUEUE
    assert told["detail"] == (
        "write access to exchange 'amq.default' in vhost '/' refused for user 'alice': the write "
        "permission is '^shop'; queues are published to through this exchange"
    )
    rig.broker.access.set_permissions("alice", "/", ".*", ".*", "")
    told = await problem(rig, "POST", "/v1/%2F/queues/orders/deliveries", json={"wait_ms": 0})
    assert told["detail"] == (
        "user 'alice' may not receive queue 'orders' in vhost '/': the read permission is ''"
    )


async def test_a_413_names_size_and_setting(make_rig: Any) -> None:
    rig = make_rig(max_body_octets=1000, max_batch_octets=100)
    rig.queue("orders")
    told = await problem(rig, "POST", QUEUE, content=b"x" * 1001)
    assert told["type"] == "/problems/too-large"
    assert told["detail"] == (
        "a body has at most 1000 octets here, and this one has 1001; the setting "
        "http.max_body_octets has the limit"
    )
    assert (told["limit_octets"], told["setting"]) == (1000, "http.max_body_octets")
    media = {"Content-Type": "application/vnd.amqp-gateway.batch+json"}
    told = await problem(rig, "POST", "/v1/%2F/messages", content=b" " * 101, headers=media)
    assert told["setting"] == "http.max_batch_octets"


async def test_names_that_were_meant(rig: Any) -> None:
    rig.queue("orders")
    queue = "/v1/admin/vhosts/%2F/queues/q"
    told = await problem(rig, "PUT", queue, json={"durabel": True})
    assert told["detail"] == "/durabel: unknown member (did you mean durable?)"
    assert told["errors"] == [
        {"pointer": "/durabel", "detail": "unknown member (did you mean durable?)"}
    ]
    told = await problem(rig, "POST", "/v1/%2F/queues/orders/deliveries", json={"wait": 1})
    assert told["detail"] == "/wait: unknown member (did you mean wait_ms?)"
    document = {"filter": {"raeson": "expired"}}
    told = await problem(rig, "POST", "/v1/%2F/dead-letters/orders/redrive", json=document)
    assert told["errors"][0]["pointer"] == "/filter/raeson"
    assert told["errors"][0]["detail"] == "unknown member (did you mean reason?)"
    told = await problem(rig, "GET", "/v1/%2F/events?sorce=queue:orders")
    assert told["detail"] == "no such parameter: sorce (did you mean source?)"
    told = await problem(rig, "POST", "/v1/%2F/events", json={"formt": "full"})
    assert told["detail"] == "/formt: unknown member (did you mean format?)"
    told = await problem(rig, "POST", QUEUE, content=b"x", headers={"Amqp-Priorty": "3"})
    assert told["detail"] == "amqp-priorty: no such metadata field (did you mean amqp-priority?)"
    told = await problem(rig, "POST", QUEUE + "?priority=3", content=b"x")
    assert "'priority'" in told["detail"]


async def test_arguments_that_were_meant(rig: Any) -> None:
    async with rig.http() as http:
        arguments = {"x-max-lenght": 3, "x-unlike-anything": 1}
        path = "/v1/admin/vhosts/%2F/queues/q"
        made = (await http.put(path, json={"arguments": arguments})).json()
        assert made["warnings"] == [
            "x-max-lenght is not known and has no effect (did you mean x-max-length?)",
            "x-unlike-anything is not known and has no effect",
        ]
        rig.broker.access.set_tags("alice", ["administrator"])
        policy = {"pattern": "q", "definition": {"x-mesage-ttl": 3}}
        told = (await http.put("/api/policies/%2F/p", json=policy)).json()
        assert "x-mesage-ttl (did you mean message-ttl?)" in told["reason"]


@pytest.mark.parametrize(
    "query",
    [
        "source=exchange:amq.topic?binding=",
        "source=exchange:amq.topic%3Fbinding%3Dprices.",
        "source=exchange:amq.topic&binding=prices.",
    ],
)
async def test_a_source_whose_hash_was_cut_off(rig: Any, query: str) -> None:
    told = await problem(rig, "GET", f"/v1/%2F/events?{query}")
    assert told["type"] == "/problems/invalid-request"
    assert "exchange:amq.topic" in told["detail"] and "write %23" in told["detail"]


async def test_the_type_of_curl_is_noticed(rig: Any) -> None:
    """``curl -d`` says that a body is a form. It is published as it came, and the receipt warns."""
    rig.queue("orders")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    async with rig.http() as http:
        for more in ({}, {"Idempotency-Key": '"k"'}, {"Idempotency-Key": '"k"'}):
            answer = await http.post(QUEUE, content=b'{"a": 1}', headers=form | more)
            assert answer.status_code == 201
            (warning,) = answer.json()["warnings"]
            assert "curl -d" in warning and "-H 'Content-Type: application/json'" in warning
        assert "warnings" not in (await http.post(QUEUE, content=b"1", headers=JSON)).json()
    message = rig.fetch("orders")
    assert message.properties.content_type == "application/x-www-form-urlencoded"
    for method, path in (
        ("PUT", "/v1/admin/vhosts/%2F/queues/q"),
        ("POST", "/v1/%2F/events"),
    ):
        told = await problem(rig, method, path, content=b"{}", headers=form)
        assert told["type"] == "/problems/unsupported-media-type"
        assert told["detail"].endswith(
            "the body is application/x-www-form-urlencoded, which curl -d says by itself; "
            "add -H 'Content-Type: application/json'"
        )


async def test_the_first_user_from_another_machine(rig: Any) -> None:
    """The answer is the same for any password, and whether or not the user exists."""
    details = []
    for user in ("guest:guest", "guest:wrong", "mallory:guest"):
        async with rig.http(user, peer="192.0.2.7") as http:
            answer = await http.get("/v1/admin/vhosts")
        assert answer.status_code == 401
        details.append(answer.json()["detail"])
    right, wrong, other = details
    assert right == wrong and "amqp-gateway user add NAME" in right
    assert other == "Unknown user or wrong password."


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"{'max': 1}", "in a shell, put single quotes around the whole body"),
        (b'{"max": 1', "Expecting ',' delimiter"),
        (b'{"max": NaN}', "NaN is not JSON"),
        (b'{"max": 1, "max": 2}', "an object has a member twice"),
        (b'{"max": "\xff"}', "it is not UTF-8 at octet 9"),
        (b"[" * 10_000, "it is nested too deeply"),
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/%2F/queues/orders/deliveries"),
        ("PUT", "/v1/admin/vhosts/%2F/queues/orders"),
        ("POST", "/v1/%2F/queues/orders/events"),
    ],
)
async def test_what_is_not_json(rig: Any, method: str, path: str, sent: bytes, why: str) -> None:
    rig.queue("orders")
    told = await problem(rig, method, path, content=sent, headers=JSON)
    assert told["type"] == "/problems/invalid-request"
    assert told["detail"].startswith("the body is not JSON: ") and why in told["detail"], told


async def test_values_and_parameters_that_are_not_taken(rig: Any) -> None:
    """The value is named, and no branch of a union."""
    rig.queue("orders")
    messages, receive = QUEUE, "/v1/%2F/queues/orders/deliveries"
    for path, text in (
        ("?limit=0", 'limit: Input should be greater than or equal to 1; it is "0"'),
        ("?limit=ten", '; it is "ten"'),
        ("?after=abc", "after: String should match pattern"),
        ("?limt=5", "no such parameter: limt (did you mean limit?)"),
        ("?colour=5", "there are after, crossings, limit, payload, view"),
    ):
        told = await problem(rig, "GET", messages + path)
        assert text in told["detail"] and "str" not in told["detail"].split(":")[0], told
    for body, detail in (
        ({"max": 0}, "/max: Input should be greater than or equal to 1; it is 0"),
        ({"mode": "later"}, "/mode: Input should be 'lease' or 'auto'; it is \"later\""),
        ({"filter": "nonsense"}, "/filter: no field 'nonsense' to filter by"),
    ):
        told = await problem(rig, "POST", receive, json=body)
        assert told["detail"] == detail
    told = await problem(rig, "PUT", "/v1/admin/users/shop", json={"password": 17})
    assert "17" not in told["detail"], "it may be a secret"


async def test_a_405_names_the_methods(rig: Any) -> None:
    told = await problem(rig, "PUT", QUEUE, content=b"x")
    assert told["detail"] == "PUT is not allowed here: use one of GET, HEAD, POST"
    async with rig.http() as http:
        looked = await http.head("/openapi.json")
        assert looked.status_code == 200 and looked.headers["etag"]
