"""Failures, quotas, sizes and time: what a caller can use up, and what comes in too large."""

import asyncio
import base64
import hmac
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from gateway.broker.access import Verifier, fits, make_verifier
from gateway.config.web import HttpListenerSettings
from gateway.http.access.protocol import bounded
from gateway.http.app import close
from gateway.http.direct_protocol import answering
from gateway.net.failures import SHARE
from gateway.net.passwords import Stopping, network

QUEUE = "/v1/%2F/queues/orders/messages"


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def make(make_rig: Any, **settings: Any) -> Any:
    rig = make_rig(**settings)
    rig.clock = rig.app.state.context.authenticator.clock = Clock()
    rig.queue("orders")
    return rig


# --- failures -----------------------------------------------------------------------------------


async def test_guessers_are_slowed_down_and_others_are_not(make_rig: Any) -> None:
    rig = make(make_rig, failures=5, failure_seconds=60)
    passwords = rig.app.state.context.authenticator.passwords
    credentials = rig.app.state.context.credentials
    async with rig.http("alice:wonder", "192.0.2.9") as known:
        assert (await known.get("/v1/session")).status_code == 200
        async with rig.http("alice:guess", "192.0.2.1") as http:
            statuses = [(await http.get("/v1/session")).status_code for _ in range(7)]
            assert statuses == [401] * 5 + [429] * 2
            answer = await http.get("/v1/session")
            assert answer.json()["type"].endswith("quota")
            assert int(answer.headers["retry-after"]) == 12
        async with rig.http("alice:wonder", "192.0.2.1") as http:
            assert (await http.get("/v1/session")).status_code == 200  # known to be right
        passwords.known.clear()
        credentials.kept.clear()
        async with rig.http("alice:wonder", "192.0.2.1") as http:
            assert (await http.get("/v1/session")).status_code == 429  # not known any more
        async with rig.http("alice:wonder", "192.0.2.2") as http:
            assert (await http.get("/v1/session")).status_code == 200  # guessed at elsewhere
        passwords.known.clear()
        credentials.kept.clear()
        async with rig.http("weak:weak", "192.0.2.1") as http:
            assert (await http.get("/v1/session")).status_code == 200  # another user
        rig.clock.now += 12
        async with rig.http("alice:wonder", "192.0.2.1") as http:
            assert (await http.get("/v1/session")).status_code == 200
        assert (await known.get("/v1/session")).status_code == 200


async def test_failures_with_an_old_password_do_not_hold_back_the_new_one(make_rig: Any) -> None:
    """Clients repeat the new password until the gateway learns of it, and are let in then."""
    rig = make(make_rig, failures=5)
    async with rig.http("alice:renewed", "192.0.2.1") as http:
        statuses = [(await http.get("/v1/session")).status_code for _ in range(6)]
        assert statuses == [401] * 5 + [429]
        rig.broker.access.change_password("alice", "renewed")
        assert (await http.get("/v1/session")).status_code == 200
    async with rig.http("alice:wonder", "192.0.2.1") as http:
        statuses = [(await http.get("/v1/session")).status_code for _ in range(6)]
        assert statuses == [401] * 5 + [429]


async def test_a_peer_that_guesses_at_many_users_is_slowed_down(make_rig: Any) -> None:
    rig = make(make_rig, failures=5)
    async with rig.http(None, "192.0.2.1") as http:
        statuses = [
            (await http.get("/v1/session", auth=(f"user-{number}", "x"))).status_code
            for number in range(5 * SHARE + 2)
        ]
    assert statuses == [401] * 5 * SHARE + [429] * 2


async def test_many_at_once_are_no_way_round(make_rig: Any) -> None:
    rig = make(make_rig, failures=5)
    async with rig.http(None, "192.0.2.1") as http:
        asked = [http.get("/v1/session", auth=("alice", f"guess-{n}")) for n in range(40)]
        answers = await asyncio.gather(*asked)
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == [401] * 5 + [429] * 35


async def test_all_programs_of_a_user_may_come_at_once(make_rig: Any) -> None:
    """As after a restart, when no password is known to be right yet."""
    rig = make(make_rig, failures=5)
    passwords = rig.app.state.context.authenticator.passwords
    async with rig.http("alice:wonder", "192.0.2.1") as http:
        answers = await asyncio.gather(*(http.get("/v1/session") for _ in range(100)))
    assert {answer.status_code for answer in answers} == {200}
    assert not passwords.under_way
    assert passwords.failures.take("alice", "192.0.2.1") == 0
    assert {bucket.levels.popitem()[1][0] for bucket in buckets(passwords)} == {4, 5 * SHARE - 1}


def buckets(passwords: Any) -> tuple[Any, Any]:
    return passwords.failures.by_user, passwords.failures.by_peer


@pytest.fixture
def gated(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Passwords are computed when the test says so."""
    authenticator = threading.Event()

    def fitting(verifier: Verifier, password: str) -> bool:
        assert authenticator.wait(30)
        return fits(verifier, password)

    monkeypatch.setattr("gateway.broker.access.fits", fitting)
    yield authenticator
    authenticator.set()


async def test_a_password_changed_in_the_middle_of_its_check_is_not_known(
    make_rig: Any, gated: threading.Event
) -> None:
    rig = make(make_rig)
    async with rig.http("alice:wonder") as http:
        asked = asyncio.gather(*(http.get("/v1/session") for _ in range(3)))
        await rig.until(lambda: rig.app.state.context.authenticator.passwords.under_way)
        rig.broker.access.change_password("alice", "another")
        gated.set()
        assert {answer.status_code for answer in await asked} == {401}
        assert (await http.get("/v1/session")).status_code == 401


async def test_an_attempt_that_begins_with_the_shutdown_is_refused(make_rig: Any) -> None:
    """The gateway stops between the attempt and the task that computes its verifier."""
    passwords = make(make_rig).app.state.context.authenticator.passwords
    computing = passwords.computation("alice", "guess", b"digest")
    passwords.close()
    with pytest.raises(Stopping):
        await computing


async def test_requests_during_the_shutdown_get_503(make_rig: Any, gated: threading.Event) -> None:
    rig = make(make_rig)
    passwords = rig.app.state.context.authenticator.passwords
    async with rig.http("alice:wonder") as http, rig.http("guest:guest") as late:
        asked = [
            asyncio.ensure_future(http.get("/v1/session", auth=("alice", f"guess-{n}")))
            for n in range(5)
        ]
        await rig.until(lambda: len(passwords.computing) == 5)
        passwords.close()
        answer = await late.get("/v1/session")
        assert answer.status_code == 503
        assert answer.json()["type"].endswith("draining") and answer.json()["safe_to_retry"]
        gated.set()
        statuses = sorted([(await one).status_code for one in asked])
        assert statuses == [401, 503, 503, 503, 503]  # the first was being computed


async def test_right_passwords_use_nothing_up(make_rig: Any) -> None:
    rig = make(make_rig, failures=2)
    passwords = rig.app.state.context.authenticator.passwords
    async with rig.http() as http:
        for _ in range(10):
            passwords.known.clear()
            assert (await http.get("/v1/session")).status_code == 200


def test_a_subscriber_has_many_addresses() -> None:
    assert network("2001:db8::1") == network("2001:db8::ffff:1")
    assert network("2001:db8:0:1::1") != network("2001:db8::1")
    assert network("192.0.2.1") != network("192.0.2.2")
    assert network("unix") == "unix"


async def test_an_unknown_user_costs_as_much_as_a_wrong_password(
    make_rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same computation, compared in constant time and answered alike, beside the loop."""
    rig = make(make_rig, failures=1000)
    computed: list[tuple[int, bool]] = []
    compared: list[tuple[int, int]] = []

    def fitting(verifier: Verifier, password: str) -> bool:
        computed.append((verifier.iterations, threading.get_ident() == here))
        return fits(verifier, password)

    def comparing(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return compare(one, other)

    compare = hmac.compare_digest
    here = threading.get_ident()
    monkeypatch.setattr("gateway.broker.access.fits", fitting)
    monkeypatch.setattr("gateway.broker.access.hmac.compare_digest", comparing)
    answers = []
    for user in ("alice", "nobody"):
        async with rig.http(f"{user}:guess", "192.0.2.1") as http:
            answer = await http.get("/v1/session")
            answers.append((answer.status_code, answer.text, dict(answer.headers)))
    for answer in answers:
        answer[2].pop("x-request-id", None)
    assert answers[0] == answers[1] and answers[0][0] == 401
    assert computed == [(rig.broker.access.iterations, False)] * 2
    assert compared == [(32, 32)] * 2


async def test_new_passwords_are_hashed_beside_the_loop(
    make_rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every door where an administrator says one."""
    rig = make(make_rig)
    rig.broker.access.set_tags("alice", ["administrator"])
    here, where = threading.get_ident(), []

    def making(password: str, iterations: int) -> Verifier:
        where.append(threading.get_ident() == here)
        return make_verifier(password, iterations)

    monkeypatch.setattr("gateway.net.passwords.make_verifier", making)
    monkeypatch.setattr("gateway.broker.access.make_verifier", making)
    document = {
        "users": [{"name": "dora", "password": "x", "tags": ""}, {"name": "eve", "tags": ""}]
    }
    async with rig.http() as http:
        for _ in range(2):
            one = await http.put("/v1/admin/users/bob", json={"password": "secret"})
            two = await http.put("/api/users/carl", json={"password": "secret", "tags": ""})
            assert {one.status_code, two.status_code} <= {200, 201, 204}, (one.text, two.text)
        answer = await http.post("/v1/admin/definitions", json=document)
        assert answer.status_code == 200, answer.text
    assert where == [False] * 6
    for name in ("bob:secret", "carl:secret", "dora:x"):
        async with rig.http(name) as http:
            assert (await http.get("/v1/session")).status_code == 200
    long = {"password": "x" * 2000}
    async with rig.http() as http:
        assert (await http.put("/v1/admin/users/bob", json=long)).status_code == 422


# --- quotas -------------------------------------------------------------------------------------


async def test_requests_have_a_quota_per_principal(make_rig: Any) -> None:
    rig = make(make_rig, quota={"requests": 3, "requests_seconds": 6})
    async with rig.http() as http:
        for left in (2, 1, 0):
            answer = await http.post(QUEUE, content=b"x")
            assert answer.status_code == 201
            assert answer.headers["ratelimit-policy"] == '"requests";q=3;w=6'
            assert answer.headers["ratelimit"].startswith(f'"requests";r={left};t=')
        answer = await http.post(QUEUE, content=b"x")
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "2"
        assert answer.headers["ratelimit"] == '"requests";r=0;t=2'
        body = answer.json()
        assert body["type"].endswith("quota") and body["safe_to_retry"] is True
        assert body["outcome"] == "not-sent"
        rig.clock.now += 2
        assert (await http.post(QUEUE, content=b"x")).status_code == 201
    async with rig.http("weak:weak") as http:
        assert (await http.get("/v1/session")).status_code == 200
    assert rig.depth("orders") == (4, 0)


async def test_octets_have_a_quota(make_rig: Any) -> None:
    rig = make(make_rig, quota={"octets": 1000, "octets_seconds": 10})

    async def parts() -> AsyncIterator[bytes]:
        yield b"x" * 600

    async with rig.http() as http:
        assert (await http.post(QUEUE, content=b"x" * 700)).status_code == 201
        assert (await http.post(QUEUE, content=b"x" * 700)).status_code == 429
        assert (await http.post(QUEUE, content=b"x" * 300)).status_code == 201
        rig.clock.now += 10
        # Of unknown length: charged as it comes, so the next one pays.
        headers = {"transfer-encoding": "chunked"}
        assert (await http.post(QUEUE, content=parts(), headers=headers)).status_code == 201
        assert (await http.post(QUEUE, content=b"x" * 500)).status_code == 429


# --- sizes and time, on a socket ----------------------------------------------------------------


@asynccontextmanager
async def served(rig: Any, seconds: float = 30, connections: int = 100) -> AsyncIterator[int]:
    limits = HttpListenerSettings(
        max_head_octets=8192, idle_seconds=seconds, max_connections=connections
    )
    config = uvicorn.Config(
        rig.app,
        port=0,
        http=answering(bounded(limits), rig.app),
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
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


async def exchange(port: int, octets: bytes, parts: int = 1) -> tuple[int, dict[str, Any], str]:
    """Status, document and head of the answer to whatever octets."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for at in range(0, len(octets), max(1, len(octets) // parts)):
        writer.write(octets[at : at + max(1, len(octets) // parts)])
        await asyncio.sleep(0)
    try:
        answer = await asyncio.wait_for(reader.read(), 30)
    except ConnectionResetError:
        answer = b""
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    try:
        document = json.loads(body)
    except ValueError:
        document = {}
    return int(head.split()[1]) if head else 0, document, head.decode("latin-1")


def request(*fields: str, method: str = "GET", path: str = "/livez", body: str = "") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *fields]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode("latin-1")


ALICE = "Authorization: Basic " + base64.b64encode(b"alice:wonder").decode()


@pytest.mark.parametrize("parts", [1, 50])
@pytest.mark.parametrize(
    "octets",
    [
        request("X: " + "a" * 9000),
        request(*[f"X-{number}: a" for number in range(300)]),
        request(path="/" + "a" * 9000),
        b"GET /livez HTTP/1.1\r\nX: " + b"a" * 20_000,
        b"GET /" + b"a" * 20_000,
    ],
)
async def test_heads_are_bounded(rig: Any, octets: bytes, parts: int) -> None:
    async with served(rig) as port:
        status, document, _ = await exchange(port, octets, parts)
        assert status in (431, 0)
        if status:
            assert document["type"].endswith("head-too-large")
        assert (await exchange(port, request()))[0] == 200


@pytest.mark.parametrize(
    "octets",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"AMQP\x00\x00\x09\x01\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost : x\r\n\r\n",
        request("Content-Length: 1", "Transfer-Encoding: chunked", method="POST"),
        request("Content-Length: -1", method="POST"),
        request("Content-Length: 99999999999999999999999", method="POST"),
        request("X: a\x00b"),
        request("Transfer-Encoding: chunked", method="POST", body="zz\r\n"),
    ],
)
async def test_invalid_http_is_a_problem_document(rig: Any, octets: bytes) -> None:
    async with served(rig) as port:
        status, document, _ = await exchange(port, octets)
        assert 400 <= status < 500
        assert document["status"] == status


async def test_slow_requests_are_dropped(rig: Any) -> None:
    rig.queue("orders")
    async with served(rig, seconds=0.2) as port:
        for octets in (
            b"",
            b"GET /livez HTTP/1.1\r\n",
            request(ALICE, "Content-Length: 9", method="POST", path=QUEUE, body="x"),
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(octets)
            answer = await asyncio.wait_for(reader.read(), 30)
            assert answer == b"" or b" 408 " in answer.split(b"\r\n")[0]
            writer.close()
    assert rig.depth("orders") == (0, 0)


async def test_a_stream_is_not_a_slow_request(rig: Any) -> None:
    rig.exchange("prices")
    async with served(rig, seconds=0.5) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(ALICE, path="/v1/%2F/events?source=exchange:prices"))
        await reader.readuntil(b"gateway.open")
        await asyncio.sleep(1.2)
        async with rig.http() as http:
            path = "/v1/%2F/exchanges/prices/messages"
            assert (await http.post(path, content=b"x")).status_code == 201
        await asyncio.wait_for(reader.readuntil(b"prices"), 30)
        writer.close()


async def test_connections_are_bounded(rig: Any) -> None:
    async with served(rig, connections=2) as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        status, document, _ = await exchange(port, b"")
        assert (status, document["status"]) == (503, 503)
        for _, writer in held:
            writer.close()


async def test_nothing_that_is_echoed_makes_a_header(rig: Any) -> None:
    rig.queue("orders")
    evil = "%0d%0aSet-Cookie:%20a=b"
    async with served(rig) as port:
        for octets in (
            request(ALICE, path=f"/v1/{evil}/queues/orders/messages", method="POST"),
            request(ALICE, path=f"/v1/%2F/queues/{evil}/messages", method="POST"),
            request(ALICE, path=f"/v1/%2F/exchanges/{evil}/messages?routing_key={evil}",
                    method="POST"),
            request(ALICE, path=f"/v1/%2F/events?source=queue:{evil}"),
            request(ALICE, path=f"/v1/%2F/events?source=queue:orders&last_event_id={evil}"),
            request(ALICE, f'Amqp-Message-Id: %"{evil}"', path=QUEUE, method="POST"),
            request(ALICE, 'Amqp-Message-Id: %"%0d%0aset-cookie: a"', path=QUEUE, method="POST"),
            request(ALICE, f"X-Request-Id: {evil}", f"Traceparent: {evil}"),
            request(path=f"/{evil}"),
            request(f"Origin: {evil}", method="OPTIONS", path=QUEUE),
            request("Authorization: Basic " + evil),
        ):  # fmt: skip
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(octets)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
            writer.close()
            assert b"set-cookie" not in head.lower().replace(b"%0d%0aset-cookie", b"")


@pytest.mark.parametrize(
    "name", ["..", "%2e%2e", "%2E%2E%2F%2E%2E", "..%2F..%2Fetc%2Fpasswd", ".", "%2F", "a%00b"]
)
async def test_names_are_names_and_no_paths(rig: Any, name: str) -> None:
    """They may hold anything, they stay in their segment, and nothing is looked up by them."""
    from urllib.parse import unquote

    rig.queue(unquote(name))
    async with served(rig) as port:
        octets = request(
            ALICE, "Content-Length: 1", path=f"/v1/%2F/queues/{name}/messages", method="POST",
            body="x",
        )  # fmt: skip
        assert (await exchange(port, octets))[0] == 201
        assert rig.depth(unquote(name)) == (1, 0)
        for path in (f"/console/{name}", f"/{name}", f"/v1/{name}", f"/console.js/{name}"):
            status, document, _ = await exchange(port, request(ALICE, path=path))
            assert status == 404 and document["status"] == 404
