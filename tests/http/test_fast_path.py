"""The fast path of a plain publish answers as the full path does, and forgets what has changed."""

import asyncio
import gc
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from gateway.config.web import HttpListenerSettings
from gateway.http.access.credential_cache import MOST_KEPT, CredentialCache
from gateway.http.access.protocol import bounded
from gateway.http.app import close
from gateway.http.direct_protocol import answering
from gateway.http.fast_path import LONGEST, read_node
from gateway.http.publish.results import Result, accepted_answer, receipt_of, single_answer
from gateway.values import ULong

QUEUE = "/v1/%2F/queues/orders/messages"
TOPIC = "/v1/%2F/exchanges/amq.topic/messages"
CALLER = {"authorization": "Basic YWxpY2U6d29uZGVy"}
MINE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

ASKED: dict[str, tuple[str, dict[str, str]]] = {
    "plain": (QUEUE, {}),
    "metadata": (QUEUE, {"amqp-priority": "3", "amqp-type": '"t"', "content-type": "text/plain"}),
    "message id": (QUEUE, {"amqp-message-id": '"mine"'}),
    "request id": (QUEUE, {"x-request-id": "mine-1"}),
    "bad request id": (QUEUE, {"x-request-id": "<script>"}),
    "trace": (QUEUE, {"traceparent": MINE, "tracestate": "a=1"}),
    "bad trace": (QUEUE, {"traceparent": "00-nothing"}),
    "exchange": (TOPIC + "?routing_key=k", {}),
    "unroutable": (TOPIC + "?routing_key=none", {}),
    "query of a queue": (QUEUE + "?routing_key=k", {}),
    "strange query": (TOPIC + "?key=k", {}),
    "token in the query": (TOPIC + "?access_token=k", {}),
    "no queue": ("/v1/%2F/queues/none/messages", {}),
    "no vhost": ("/v1/none/queues/orders/messages", {}),
    "no UTF-8": ("/v1/%2F/queues/%ff/messages", {}),
    "long name": (f"/v1/%2F/queues/{'x' * 300}/messages", {}),
    "slash in a name": ("/v1/%2F/queues/a%2Fb/messages", {}),
    "full": ("/v1/%2F/queues/full/messages", {}),
    "unknown field": (QUEUE, {"amqp-durabel": "?1"}),
    "bad field": (QUEUE, {"amqp-priority": "many"}),
    "digest": (QUEUE, {"content-digest": "sha-256=:AAAA:"}),
    "key": (QUEUE, {"idempotency-key": "unquoted"}),
    "batch": (QUEUE, {"content-type": "application/vnd.amqp-gateway.batch+json"}),
    "page": (QUEUE, {"origin": "https://app.example"}),
    "foreign page": (QUEUE, {"origin": "https://evil.example"}),
    "cross-site": (QUEUE, {"sec-fetch-site": "cross-site"}),
    "nobody": (QUEUE, {"authorization": ""}),
    "wrong": (QUEUE, {"authorization": "Basic YWxpY2U6d3Jvbmc="}),
    "no scheme": (QUEUE, {"authorization": "wonder"}),
    "weak": (QUEUE, {"authorization": "Basic d2Vhazp3ZWFr"}),
}
OWN = frozenset({"amqp-message-id", "x-request-id", "content-length"})
"""Fields that are another with every answer; who gave them finds them again."""


def prepared(make_rig: Any, **settings: Any) -> Any:
    rig = make_rig(**settings)
    rig.queue("orders")
    rig.queue("a/b")
    rig.queue("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    rig.bind("orders", "amq.topic", "k")
    return rig


async def ask(rig: Any, path: str, fields: dict[str, str]) -> dict[str, Any]:
    """What can be compared."""
    async with rig.http(None) as http:
        answer = await http.post(path, content=b"x", headers={**CALLER, **fields})
    headers = {n: v for n, v in answer.headers.items() if n not in OWN or v == fields.get(n)}
    body = answer.json()
    for name in ("message_id", "confirmed_at"):
        body.pop(name, None)
    counted = dict(rig.app.state.context.counters.requests)
    stored = rig.depth("orders")
    return {"status": answer.status_code, "is": headers, "body": body} | {
        "counted": counted,
        "stored": stored,
        "names": sorted(answer.headers),
    }


@pytest.mark.parametrize("what", ASKED)
@pytest.mark.parametrize("pages", [False, True], ids=["no pages", "pages"])
async def test_both_ways_answer_alike(
    make_rig: Any, what: str, pages: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, fields = ASKED[what]
    origins = ["https://app.example"] if pages else []
    found = []
    for fast in (True, False):
        rig = prepared(make_rig, origins=origins)
        if not fast:
            monkeypatch.setattr(rig.app.fast_path, "find", lambda scope: None)
        # The second time the credentials are known, if they are good.
        found.append([await ask(rig, path, fields) for _ in range(2)])
    assert found[0] == found[1]


async def test_a_failure_is_a_problem_document_and_is_told_to_the_server(
    make_rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for fast in (True, False):
        rig = prepared(make_rig)
        if not fast:
            monkeypatch.setattr(rig.app.fast_path, "find", lambda scope: None)

        def broken() -> None:
            raise RuntimeError("a mistake of ours, with wonder in it")

        monkeypatch.setattr(rig.dependencies, "begin_turn", broken)
        async with rig.http() as http:
            answer = await http.post(QUEUE, content=b"x")
        assert answer.headers["content-type"] == "application/problem+json"
        assert "wonder" not in answer.text
        assert answer.headers["x-request-id"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        counted = rig.app.state.context.counters.requests
        found.append((answer.status_code, answer.json(), counted, sorted(answer.headers)))
    assert found[0] == found[1]
    assert found[0][0] == 500


async def test_a_line_in_the_log_says_the_same(make_rig: Any, caplog: Any) -> None:
    rig = prepared(make_rig, log_requests=True)
    with caplog.at_level(logging.INFO, "gateway.http.access"):
        async with rig.http() as http:
            for fields in ({}, {"prefer": "wait=1"}):
                await http.post(QUEUE, content=b"x", headers={"x-request-id": "mine", **fields})
    fast, full = (vars(record) for record in caplog.records)
    for name in ("request_id", "method", "route", "status", "peer", "msg", "args", "levelname"):
        assert fast[name] == full[name]
    assert fast["message_id"] and full["message_id"]
    assert "wonder" not in caplog.text


# --- credentials that were good -------------------------------------------------------------------


async def statuses(rig: Any, peer: str = "127.0.0.1", **more: str) -> int:
    async with rig.http("alice:wonder", peer) as http:
        return int((await http.post(QUEUE, content=b"x", headers=more)).status_code)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "password": lambda access: access.change_password("alice", "another"),
    "removed": lambda access: access.remove_user("alice"),
    "made anew": lambda access: (
        access.remove_user("alice"),
        access.add_user("alice", "another", ()),
        access.set_permissions("alice", "/", ".*", ".*", ".*"),
    ),
}


@pytest.mark.parametrize("what", CHANGES)
async def test_a_changed_user_is_checked_again(make_rig: Any, what: str) -> None:
    rig = prepared(make_rig)
    credentials = rig.app.fast_path.credentials
    assert await statuses(rig) == 201
    assert len(credentials.kept) == 1
    assert await statuses(rig) == 201
    CHANGES[what](rig.broker.access)
    assert await statuses(rig) == 401
    assert not credentials.kept


async def test_permissions_are_asked_each_time(make_rig: Any) -> None:
    rig = prepared(make_rig)
    access = rig.broker.access
    assert await statuses(rig) == 201
    access.set_permissions("alice", "/", ".*", "^$", ".*")
    assert await statuses(rig) == 403
    access.set_permissions("alice", "/", ".*", ".*", ".*")
    assert await statuses(rig) == 201


async def test_a_loopback_user_is_refused_from_elsewhere(make_rig: Any) -> None:
    rig = prepared(make_rig)
    rig.broker.access.add_user("local", "wonder", (), loopback_only=True)
    rig.broker.access.set_permissions("local", "/", ".*", ".*", ".*")
    for peer, fields, status in (
        ("127.0.0.1", {}, 201),
        ("192.0.2.1", {}, 401),
        ("127.0.0.1", {"x-forwarded-for": "192.0.2.1"}, 401),
        ("127.0.0.1", {"host": "evil.example"}, 401),
        ("127.0.0.1", {}, 201),
    ):
        async with rig.http("local:wonder", peer) as http:
            answer = await http.post(QUEUE, content=b"x", headers=fields)
        assert answer.status_code == status


async def test_quotas_count_on_the_fast_path(make_rig: Any) -> None:

    rig = prepared(make_rig, quota={"requests": 3, "requests_seconds": 3600})
    async with rig.http() as http:
        answers = [await http.post(QUEUE, content=b"x") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [201] * 3 + [429] * 2
    assert all("ratelimit" in answer.headers for answer in answers)


async def test_the_cache_is_bounded_and_holds_no_secret(make_rig: Any) -> None:
    rig = prepared(make_rig)
    credentials: CredentialCache = rig.app.fast_path.credentials
    assert await statuses(rig) == 201
    (digest,) = credentials.kept
    assert b"wonder" not in digest and b"YWxpY2U6d29uZGVy" not in digest
    verifier, principal = credentials.kept[digest]
    for number in range(MOST_KEPT):
        credentials.keep(b"%d" % number, principal)
    assert 0 < len(credentials.kept) <= MOST_KEPT


def test_only_good_paths_are_remembered() -> None:
    read_node.cache_clear()
    assert read_node(b"/v1/%2F/queues/a%2Fb/messages", b"") is not None
    for path in (b"/v1//queues/a/messages", b"/v1/%2F/queues//messages", b"/v1/%2F/queues/a"):
        assert read_node(path, b"") is None
    assert read_node(b"/v1/%2F/queues/a/messages", b"routing_key=k") is None
    assert LONGEST < 4096


# --- on a socket of ours --------------------------------------------------------------------------


@asynccontextmanager
async def served(rig: Any, direct: bool = True, **more: Any) -> AsyncIterator[int]:
    bounds = bounded(HttpListenerSettings(max_head_octets=8192, max_connections=100))
    config = uvicorn.Config(
        rig.app,
        port=0,
        http=answering(bounds, rig.app) if direct else bounds,
        server_header=False,
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        **more,
    )
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        await close(rig.app)
        await server.shutdown()


def request(number: int, *more: str, path: str = QUEUE) -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        f"Authorization: {CALLER['authorization']}",
    ]
    lines += [f"X-Request-Id: n-{number}", "Content-Length: 1", *more, "", "x"]
    return "\r\n".join(lines).encode()


async def talk(port: int, octets: bytes, answers: int) -> list[tuple[list[str], dict[str, Any]]]:
    """Heads (sorted, without what is another each time) and documents, on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(octets)
    found = []
    async with asyncio.timeout(30):
        for _ in range(answers):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = head.lower().split("\r\n")
            (length,) = (int(line[15:]) for line in lines if line.startswith("content-length:"))
            document = json.loads(await reader.readexactly(length))
            for name in ("message_id", "confirmed_at"):
                document.pop(name, None)
            lines = [one for one in lines if not one.startswith(("date:", "amqp-message-id:"))]
            found.append((sorted(lines), document))
    writer.close()
    return found


async def test_the_same_octets_on_a_socket(make_rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for way in ("direct", "fast", "full"):
        rig = prepared(make_rig)
        if way == "full":
            monkeypatch.setattr(rig.app.fast_path, "find", lambda scope: None)
        async with served(rig, direct=way == "direct") as port:
            several = request(1) + request(2, path="/v1/%2F/queues/none/messages") + request(3)
            found.append(await talk(port, several, 3))
            found[-1] += await talk(port, request(4, "Connection: close"), 1)
            found[-1] += await talk(port, request(5), 1)
        assert rig.depth("orders") == (4, 0)
    assert found[0] == found[1] == found[2]
    assert [head for head, _ in found[0] if "x-request-id: n-2" in head]
    assert "connection: close" in found[0][3][0]


async def test_answered_requests_leave_no_garbage(make_rig: Any) -> None:
    """What would stay until it is collected: the collector is asked rarely here."""
    rig = prepared(make_rig)
    async with served(rig) as port:
        await talk(port, request(0), 1)
        gc.collect()
        gc.disable()
        try:
            await talk(port, b"".join([request(number) for number in range(50)]), 50)
            held = sum(type(one) is RequestResponseCycle for one in gc.get_objects())
        finally:
            gc.enable()
    assert held < 5


@pytest.mark.parametrize("durability", ["disk", "mixed", "memory"])
@pytest.mark.parametrize("message_id", ["m-1", b"\x00\xff", ULong(7), 'a"b%s\\', "ID"])
@pytest.mark.parametrize("address", ["orders", "route:eur", 'q"%s\u00e9', "ADDRESS DURABILITY"])
def test_the_receipt_that_is_written_fast_is_the_receipt(
    message_id: Any, address: str, durability: str
) -> None:
    now = 1_767_225_600_123
    answer = accepted_answer(message_id, address, durability, now)
    assert json.loads(bytes(answer.body)) == receipt_of(message_id, address, durability, now)
    single = single_answer(Result(receipt_of(message_id, address, durability, now)), "/")
    assert (answer.status, dict(answer.headers).keys()) == (201, dict(single.headers).keys())
