"""Browsers: session cookies, cross-site requests, CORS, and what every answer carries."""

from http.cookies import SimpleCookie
from typing import Any

import pytest

from gateway.config.web import DeclaredRoute

QUEUE = "/v1/%2F/queues/orders/messages"
PAGE = "https://app.example"
EVIL = "https://evil.example"


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def make(make_rig: Any, **settings: Any) -> Any:
    rig = make_rig(**settings)
    rig.clock = rig.app.state.context.authenticator.clock = Clock()
    rig.queue("orders")
    return rig


async def session(rig: Any, **headers: str) -> str:
    """Log in; gives the Cookie field."""
    async with rig.http() as http:
        answer = await http.post("/v1/session", headers=headers)
        assert answer.status_code == 201
        (morsel,) = SimpleCookie(answer.headers["set-cookie"]).values()
        return f"{morsel.key}={morsel.value}"


async def test_a_cookie_is_strict(rig: Any) -> None:
    async with rig.http() as http:
        answer = await http.post("/v1/session")
        (morsel,) = SimpleCookie(answer.headers["set-cookie"]).values()
        assert morsel.key == "__Host-amqp-gateway"
        assert morsel["secure"] and morsel["httponly"] and morsel["samesite"] == "Strict"
        assert morsel["path"] == "/" and not morsel["domain"]
        assert answer.headers["cache-control"] == "no-store"
        assert morsel.value not in answer.text


async def test_a_session_tells_what_its_user_may(rig: Any) -> None:
    access = rig.broker.access
    access.set_tags("alice", ["monitoring"])
    async with rig.http() as http:
        for answer in (await http.get("/v1/session"), await http.post("/v1/session")):
            told = answer.json()
            assert (told["user"], told["tags"]) == ("alice", ["monitoring"])
            mine = [one._asdict() for one in access.permissions_of("alice")]
            assert told["permissions"] == mine and mine


async def test_a_cookie_acts_for_own_pages_only(make_rig: Any) -> None:
    rig = make(make_rig, origins=(PAGE,), origin_credentials=True)
    cookie = await session(rig)
    async with rig.http(None) as http:
        for headers, status in (
            ({}, 403),  # neither field: no browser of today, and no page of ours
            ({"sec-fetch-site": "same-origin"}, 201),
            ({"sec-fetch-site": "none"}, 403),
            ({"sec-fetch-site": "same-site"}, 403),
            ({"sec-fetch-site": "cross-site"}, 403),
            ({"origin": "http://localhost"}, 201),
            ({"origin": "http://localhost.evil.example"}, 403),
            ({"origin": "http://localhost:81"}, 403),
            ({"origin": "null"}, 403),
            ({"origin": ""}, 403),
            ({"origin": EVIL, "sec-fetch-site": "same-origin"}, 403),
            ({"origin": PAGE, "sec-fetch-site": "cross-site"}, 201),
        ):
            answer = await http.post(QUEUE, content=b"x", headers={"cookie": cookie} | headers)
            assert answer.status_code == status, headers
        for headers, status in (
            ({}, 200),
            ({"sec-fetch-site": "none"}, 200),
            ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
            ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 403),
            ({"origin": EVIL}, 403),
        ):
            answer = await http.get("/v1/session", headers={"cookie": cookie} | headers)
            assert answer.status_code == status, headers


async def test_a_remembered_password_acts_for_own_pages_only(rig: Any) -> None:
    rig.queue("orders")
    async with rig.http() as http:
        for headers, status in (
            ({}, 201),
            ({"sec-fetch-site": "cross-site"}, 403),
            ({"sec-fetch-site": "same-site"}, 403),
            ({"origin": EVIL}, 403),
            ({"origin": "http://localhost"}, 201),
        ):
            answer = await http.post(QUEUE, content=b"x", headers=headers)
            assert answer.status_code == status, headers
        # An image of another site must not take messages; a link may lead to the console.
        image = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
        link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        stream = "/v1/%2F/events?source=queue:orders"
        assert (await http.get(stream, headers=image)).status_code == 403
        assert (await http.get(stream, headers=link)).status_code == 403
        assert (await http.get("/openapi.json", headers=link)).status_code == 200


@pytest.mark.parametrize(
    "cookie",
    [
        "__Host-amqp-gateway=",
        "__Host-amqp-gateway=" + "A" * 43,
        "__Host-amqp-gateway=../../etc/passwd",
        "__Host-amqp-gateway=" + "A" * 10_000,
        "amqp-gateway-session=" + "A" * 43,
        "other=1",
        "\xff\xfe",
    ],
)
async def test_a_foreign_cookie_is_401(make_rig: Any, cookie: str) -> None:
    rig = make(make_rig, session={"plain_http": True})
    async with rig.http(None) as http:
        headers = [(b"cookie", cookie.encode("latin-1")), (b"sec-fetch-site", b"same-origin")]
        assert (await http.post(QUEUE, content=b"x", headers=headers)).status_code == 401


async def test_two_sessions_are_none(rig: Any) -> None:
    one, two = await session(rig), await session(rig)
    async with rig.http(None) as http:
        both = {"cookie": f"{one}; {two}"}
        assert (await http.get("/v1/session", headers=both)).status_code == 401


async def test_a_session_ends_with_its_credential(make_rig: Any) -> None:
    rig = make(make_rig, session={"seconds": 100})
    access = rig.broker.access

    async def works(cookie: str) -> bool:
        async with rig.http(None) as http:
            answer = await http.get("/v1/session", headers={"cookie": cookie})
            assert answer.status_code in (200, 401)
            return bool(answer.status_code == 200)

    cookie = await session(rig)
    assert await works(cookie)
    rig.clock.now += 100
    assert not await works(cookie)

    cookie = await session(rig)
    async with rig.http(None) as http:
        headers = {"cookie": cookie, "sec-fetch-site": "same-origin"}
        answer = await http.delete("/v1/session", headers=headers)
        assert answer.status_code == 204 and "Max-Age=0" in answer.headers["set-cookie"]
    assert not await works(cookie)

    cookie = await session(rig)
    access.change_password("alice", "other")
    assert not await works(cookie)
    access.change_password("alice", "wonder")
    assert not await works(cookie)


async def test_sessions_survive_a_restart_and_ids_are_not_kept(make_rig: Any) -> None:
    from gateway.http.app import build

    rig = make(make_rig)
    cookie = await session(rig)
    kept = repr(list(rig.store.records()))
    assert "http-session" in kept
    assert cookie.partition("=")[2] not in kept
    rig.app = build(rig.dependencies)
    rig.app.state.context.authenticator.clock = rig.clock
    async with rig.http(None) as http:
        assert (await http.get("/v1/session", headers={"cookie": cookie})).status_code == 200


async def test_sessions_are_bounded(make_rig: Any) -> None:
    rig = make(make_rig, session={"max_sessions": 3})
    cookies = [await session(rig) for _ in range(4)]
    async with rig.http(None) as http:
        statuses = [
            (await http.get("/v1/session", headers={"cookie": one})).status_code for one in cookies
        ]
    assert statuses == [401, 200, 200, 200]


async def test_plain_http_needs_the_setting_and_this_machine(make_rig: Any) -> None:
    rig = make(make_rig, session={"plain_http": True})
    async with rig.http() as http:
        answer = await http.post("/v1/session")
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("amqp-gateway-session=") and "Secure" not in cookie
    given = {"cookie": cookie.partition(";")[0]}
    async with rig.http(None) as http:
        assert (await http.get("/v1/session", headers=given)).status_code == 200
        proxied = given | {"x-forwarded-for": "192.0.2.1"}
        assert (await http.get("/v1/session", headers=proxied)).status_code == 401
    async with rig.http(None, "192.0.2.1") as http:
        assert (await http.get("/v1/session", headers=given)).status_code == 401


async def test_a_name_pointed_at_us_is_not_this_machine(rig: Any) -> None:
    """DNS rebinding: the page believes that it talks to its own server."""
    async with rig.http("guest:guest") as http:
        for host, status in (("localhost", 200), ("127.0.0.1:8080", 200), ("evil.example", 401)):
            answer = await http.get("/v1/session", headers={"host": host})
            assert answer.status_code == status, host
    async with rig.http(None) as http:
        assert (await http.get("/metrics")).status_code == 200
        for given in ({"host": "evil.example"}, {"forwarded": "for=192.0.2.1"}):
            assert (await http.get("/metrics", headers=given)).status_code == 401


# --- CORS ---------------------------------------------------------------------------------------

PATHS = [QUEUE, "/v1/%2F/events", "/v1/%2F/routes/x/messages", "/v1/session", "/livez", "/nothing"]


@pytest.mark.parametrize("path", PATHS)
async def test_preflight_is_answered_for_all_routes(make_rig: Any, path: str) -> None:
    rig = make(make_rig, origins=(PAGE,))
    asked = {"access-control-request-method": "POST"}
    async with rig.http(None) as http:
        answer = await http.options(path, headers=asked | {"origin": PAGE})
        assert answer.status_code == 204
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert answer.headers["access-control-max-age"] == "7200"
        assert "access-control-allow-credentials" not in answer.headers
        allowed = answer.headers["access-control-allow-headers"].split(", ")
        assert "idempotency-key" in allowed and "amqp-property" in allowed and "*" not in allowed
        assert "origin" in answer.headers["vary"].lower()
        for origin in (EVIL, "null", PAGE + ".evil.example", PAGE.upper(), f"{PAGE}:8443"):
            answer = await http.options(path, headers=asked | {"origin": origin})
            assert answer.status_code == 403
            assert "access-control-allow-origin" not in answer.headers


async def test_every_answer_has_cors_headers(make_rig: Any) -> None:
    rig = make(make_rig, origins=(PAGE,), origin_credentials=True)
    async with rig.http() as http:
        for path, status in ((QUEUE, 201), ("/v1/%2F/queues/none/messages", 404), ("/x", 404)):
            answer = await http.post(path, content=b"x", headers={"origin": PAGE})
            assert answer.status_code == status
            assert answer.headers["access-control-allow-origin"] == PAGE
            assert answer.headers["access-control-allow-credentials"] == "true"
            assert "amqp-message-id" in answer.headers["access-control-expose-headers"]
            assert "Origin" in answer.headers["vary"]
            answer = await http.post(path, content=b"x", headers={"origin": EVIL})
            assert "access-control-allow-origin" not in answer.headers
            assert "Origin" in answer.headers["vary"]
            answer = await http.post(path, content=b"x")
            assert "Origin" in answer.headers["vary"]


async def test_without_origins_there_is_no_cors(rig: Any) -> None:
    async with rig.http() as http:
        asked = {"origin": PAGE, "access-control-request-method": "POST"}
        answer = await http.options(QUEUE, headers=asked)
        assert answer.status_code in (403, 405)
        assert "access-control-allow-origin" not in answer.headers


# --- every answer -------------------------------------------------------------------------------


async def test_security_headers_are_everywhere(rig: Any) -> None:
    rig.queue("orders")
    async with rig.http() as http:
        for method, path in (("POST", QUEUE), ("GET", "/"), ("GET", "/x"), ("GET", "/livez")):
            answer = await http.request(method, path)
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        page = await http.get("/")
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert "unsafe" not in page.headers["content-security-policy"]
        assert page.headers["cross-origin-opener-policy"] == "same-origin"
        assert len(page.headers.get_list("content-security-policy")) == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        # a link, a picture, a frame: whichever site they are on, and from the address bar
        ({"sec-fetch-mode": "navigate", "sec-fetch-site": "none"}, 403),
        ({"sec-fetch-mode": "navigate", "sec-fetch-site": "same-origin"}, 403),
        ({"sec-fetch-mode": "no-cors", "sec-fetch-site": "same-origin"}, 403),
        ({"sec-fetch-mode": "cors", "sec-fetch-site": "same-origin"}, 200),
        # plain http to another machine: browsers say less
        ({"accept": "text/html,*/*;q=0.8", "accept-language": "en"}, 403),
        ({"accept": "image/webp,*/*", "accept-language": "en"}, 403),
        ({"accept": "text/event-stream", "accept-language": "en"}, 200),
        ({"accept": "*/*"}, 200),
        ({"accept": "*/*", "accept-language": "*"}, 200),
        ({}, 200),
    ],
)
async def test_a_link_takes_no_messages(
    make_rig: Any, listener: Any, headers: dict[str, str], status: int
) -> None:
    """Whatever the credentials, and by whichever path a queue is read."""
    route = DeclaredRoute(name="work", queue="orders", stream=True)
    rig = make(make_rig, routes=(route,))
    async with rig.http() as http:
        await http.post(QUEUE, content=b"precious")
    paths = [
        ("/v1/%2F/queues/orders/events", ""),
        ("/v1/%2F/events", "source=queue:orders"),
        ("/v1/%2F/events", "source=exchange:amq.topic&source=queue:orders"),
        ("/v1/%2F/events", "source=queue:orders&ack=explicit"),
        ("/v1/%2F/routes/work/events", ""),
        ("/v1/%2F/events", "source=route:work"),
    ]
    async with rig.served() as port:
        for path, query in paths:
            async with listener(port, query, path=path, headers=headers) as reader:
                assert reader.status == status, (path, query)
            if status == 403:
                assert rig.depth("orders") == (1, 0)
        # Copies do no harm.
        async with listener(port, "source=exchange:amq.topic", headers=headers) as reader:
            assert reader.status == 200
