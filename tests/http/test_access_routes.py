"""Declared routes, raw nodes refused, two listeners, and a log without secrets."""

import asyncio
import base64
import json
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.app import Gateway
from gateway.config import read_settings
from gateway.config.web import DeclaredRoute
from gateway.errors import ConfigError
from gateway.http.access.front import admin_plane
from gateway.http.access.rights import Action, Right
from gateway.http.configuration_checks import check_settings
from tests.http.settings_words import route_with_schema

SCHEMA = {
    "type": "object",
    "required": ["price"],
    "properties": {"price": {"type": "number"}, "next": {"$ref": "http://127.0.0.1:9/x"}},
}
ROUTES = (
    route_with_schema(SCHEMA, name="orders", queue="orders", max_body_octets=100),
    DeclaredRoute(
        name="prices",
        exchange="prices",
        key="{market}.{symbol}",
        stream=True,
        content_types=["text/plain"],
        unroutable="drop",
    ),
    DeclaredRoute(name="feed", exchange="prices", key="eur.abc", publish=False, stream=True),
)
JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain"}


@pytest.fixture
def declared(make_rig: Any) -> Any:
    rig = make_rig(raw_nodes=False, routes=ROUTES)
    rig.queue("orders")
    rig.queue("copies")
    rig.exchange("prices")
    rig.bind("copies", "prices", "eur.#")
    return rig


async def test_a_route_publishes_valid_messages(declared: Any) -> None:
    path = "/v1/%2F/routes/orders/messages"
    async with declared.http() as http:
        for content, headers, status, kind in (
            (b'{"price": 1}', JSON, 201, ""),
            (b'{"price": "1"}', JSON, 422, "schema"),
            (b"{}", JSON, 422, "schema"),
            (b"no json", JSON, 422, "schema"),
            (b"[" * 90, JSON, 422, "schema"),
            (b'{"price": 1}', TEXT, 415, "unsupported-media-type"),
            (b'{"price": 1}', {}, 415, "unsupported-media-type"),
            (b'{"price": 1}', JSON | {"content-encoding": "gzip"}, 415, "unsupported-media-type"),
            (b'{"price": 1' + b" " * 100 + b"}", JSON, 413, "too-large"),
        ):
            answer = await http.post(path, content=content, headers=headers)
            assert answer.status_code == status, content
            assert not kind or answer.json()["type"].endswith(kind)
        errors = (await http.post(path, content=b'{"price": "1"}', headers=JSON)).json()["errors"]
        assert errors[0]["pointer"] == "/price"

        async def parts() -> Any:
            for _ in range(3):
                yield b" " * 60

        answer = await http.post(path, content=parts(), headers=JSON)
        assert answer.status_code == 413
        assert (
            await http.post(path + "?x=1", content=b'{"price":1}', headers=JSON)
        ).status_code == 400
        assert (await http.get(path)).status_code == 405
    assert declared.depth("orders") == (1, 0)
    assert declared.fetch("orders").body == b'{"price": 1}'


async def test_a_template_takes_words_only(declared: Any) -> None:
    path = "/v1/%2F/routes/prices/messages"
    async with declared.http() as http:
        for query, status in (
            ("?market=eur&symbol=abc", 201),
            ("?market=usd&symbol=abc", 200),  # no queue takes it, and the route does not mind
            ("", 400),
            ("?market=eur", 400),
            ("?market=eur&symbol=abc&routing_key=x", 400),
            ("?market=eur&symbol=", 400),
            ("?market=eur.x&symbol=abc", 400),
            ("?market=%23&symbol=abc", 400),
            ("?market=*&symbol=abc", 400),
            ("?market=%0d%0a&symbol=abc", 400),
            ("?market=eur&symbol=" + "x" * 256, 400),
        ):
            answer = await http.post(path + query, content=b"x", headers=TEXT)
            assert answer.status_code == status, query
            if status == 200:
                assert answer.json() == {"outcome": "unroutable", "routed": False}
                assert answer.headers["amqp-outcome"] == "unroutable"
    assert declared.depth("copies") == (1, 0)


async def test_a_route_streams(declared: Any, listener: Any) -> None:
    async with declared.served() as port:
        async with listener(port, "source=route:feed") as reader:
            assert reader.status == 200
            await reader.opened()
            async with declared.http() as http:
                path = "/v1/%2F/routes/prices/messages?market=eur&symbol=abc"
                await http.post(path, content=b"7", headers=TEXT)
            assert (await reader.until()).body == {"text": "7"}
        for query, status in (
            ("source=route:orders", 403),
            ("source=route:none", 404),
            ("source=route:prices", 400),
            ("source=route:feed&binding=%23", 400),
            ("source=route:feed&source=exchange:prices", 404),
            ("source=exchange:prices", 404),
            ("source=queue:orders", 404),
            ("", 400),
        ):
            async with listener(port, query) as reader:
                assert reader.status == status, query
    async with declared.http() as http:
        for path, status in (
            ("/v1/%2F/routes/feed/messages", 405),
            ("/v1/%2F/routes/orders/events", 403),
            ("/v1/%2F/routes/prices/events", 400),
            ("/v1/%2F/routes/feed/events?source=queue:orders", 400),
            ("/v1/%2F/routes/feed/events?binding=%23", 400),
            ("/v1/other/routes/feed/events", 404),
            ("/v1/%2F/routes/feed/other", 404),
        ):
            assert (await http.get(path)).status_code == status, path
        assert (await http.post("/v1/%2F/routes/feed/messages", headers=JSON)).status_code == 403


async def test_raw_nodes_are_off(declared: Any) -> None:
    declared.broker.create_vhost("admin")
    async with declared.http() as http:
        for method, path in (
            ("POST", "/v1/%2F/queues/orders/messages"),
            ("GET", "/v1/%2F/queues/orders/messages"),
            ("POST", "/v1/%2F/exchanges/prices/messages"),
            ("POST", "/v1/%2F/messages"),
            ("POST", "/v1/%2F/requests"),
            ("POST", "/v1/%2F/queues/orders/deliveries"),
            ("GET", "/v1/%2F/dead-letters/orders"),
            ("GET", "/v1/%2F/events?source=queue:orders"),
            ("POST", "/v1/admin/queues/orders/messages"),
            ("GET", "/v1/%2F/queues"),
            ("POST", "/v1/%2f/queues/orders/messages"),
        ):
            answer = await http.request(method, path, content=b"x")
            assert answer.status_code == 404, path
            assert answer.json()["outcome"] == "not-sent"
    assert declared.depth("orders") == (0, 0)


async def test_rights_are_for_the_route_and_permissions_for_its_target(declared: Any) -> None:
    authenticator = declared.app.state.context.authenticator
    path = "/v1/%2F/routes/prices/messages?market=eur&symbol=abc"
    async with declared.http(None) as http:
        assert (await http.post(path, content=b"x", headers=TEXT)).status_code == 401
    async with declared.http("weak:weak") as http:
        assert (await http.post(path, content=b"x", headers=TEXT)).status_code == 403
    async with declared.http() as http:
        cookie = (await http.post("/v1/session")).headers["set-cookie"].partition(";")[0]
    (digest,) = authenticator.sessions.records.found
    record = authenticator.sessions.records.get(digest)
    for kind, name, status in (
        ("route", "prices", 201),
        ("route", "x", 403),
        ("exchange", "*", 403),
    ):
        right = Right(frozenset({Action.PUBLISH}), "/", kind, name)
        authenticator.sessions.records.save(digest, record | {"rights": [right.record()]})
        headers = TEXT | {"cookie": cookie, "sec-fetch-site": "same-origin"}
        async with declared.http(None) as http:
            answer = await http.post(path, content=b"x", headers=headers)
            assert answer.status_code == status, (kind, name)


# --- listeners ----------------------------------------------------------------------------------


async def test_administration_has_its_own_listener(make_rig: Any) -> None:
    rig = make_rig(admin_apart=True, raw_nodes=False)
    rig.queue("orders")
    paths = (
        "/",
        "/metrics",
        "/metrics/queues",
        "/livez",
        "/readyz",
        "/v1/admin/users",
        "/v1/connections",
        "/api/x/y",
    )
    async with rig.http("guest:guest") as http:
        for path in paths:
            assert (await http.get(path)).status_code == 404, path
        assert (await http.get("/v1/session")).status_code == 200
    rig.app = admin_plane(rig.app)
    async with rig.http("guest:guest") as http:
        for path in paths[:-1]:
            assert (await http.get(path)).status_code == 200, path
        answer = await http.post("/v1/%2F/queues/orders/messages", content=b"x")
        assert answer.status_code == 201


CONFIGURATION = """
durable = false
log_level = "debug"

[amqp]
port = 0

[http]
port = 0
origins = ["https://app.example"]

[http.bearer]
issuer = "https://issuer.example"
audience = "gateway"
secret_file = "{secret}"
user_claim = "name"

[http.session]
plain_http = true

[http.vhost_quota]
octets = 1000
streams = 7

[admin]
port = 0

[[routes]]
name = "orders"
queue = "orders"
json_schema = "{schema}"
idempotency = "required"
quota = {{ requests = 5, requests_seconds = 2, leases = 9 }}
"""


def configure(path: Path, **changed: Any) -> Any:
    secret, schema, file = path / "secret", path / "schema.json", path / "gateway.toml"
    secret.write_text(changed.get("secret", "a shared secret that is long enough!"))
    schema.write_text(changed.get("schema", json.dumps(SCHEMA)))
    text = CONFIGURATION.format(secret=secret, schema=schema)
    for old, new in changed.get("replace", {}).items():
        text = text.replace(old, new)
    file.write_text(text)
    return read_settings(file)


def test_the_configuration_says_it_all(tmp_path: Path) -> None:
    settings = configure(tmp_path)
    check_settings(settings)
    http, route = settings.http, settings.routes[0]
    assert settings.admin.port is not None and http.origins == ["https://app.example"]
    assert http.bearer.issuer and http.bearer.accepted_algorithms == ["HS256"]
    assert route.schema_document == SCHEMA
    assert route.idempotency == "required"
    assert (route.quota.requests, route.quota.requests_seconds) == (5, 2)
    assert route.quota.leases == 9
    assert (http.vhost_quota.octets, http.vhost_quota.octets_seconds) == (1000, 1)
    assert http.vhost_quota.requests is None
    assert http.vhost_quota.streams == 7


@pytest.mark.parametrize(
    "changed",
    [
        {"secret": "short"},
        {"schema": '{"type": 7}'},
        {"schema": "no json"},
        {"replace": {'"https://app.example"': '"*"'}},
        {"replace": {'"https://app.example"': '"https://app.example/"'}},
        {"replace": {'"https://app.example"': '"null"'}},
        {"replace": {'audience = "gateway"': ""}},
        {"replace": {"secret_file = ": 'jwks = "http://issuer.example/x"\n#'}},
        {"replace": {"secret_file = ": 'jwks = "http://localhost.evil.example/x"\n#'}},
        {"replace": {"secret_file = ": 'jwks = "file:///etc/passwd"\n#'}},
        {"replace": {"secret_file = ": 'jwks = "/nonexistent"\n#'}},
        {"replace": {"secret_file = ": 'algorithms = ["none"]\nsecret_file = '}},
        {"replace": {"secret_file = ": 'algorithms = ["HS256"]\nsecret_file = '}},
        {"replace": {'user_claim = "name"': ""}},
        {"replace": {'queue = "orders"': ""}},
        {"replace": {'queue = "orders"': 'queue = "orders"\nexchange = "x"'}},
        {"replace": {'name = "orders"': 'name = "a/b"'}},
        {"replace": {'queue = "orders"': 'exchange = "x"\nstream = true\nkey = "{filter}"'}},
    ],
)
def test_a_configuration_that_would_be_unsafe_is_refused(tmp_path: Path, changed: Any) -> None:
    with pytest.raises(ConfigError):
        check_settings(configure(tmp_path, **changed))


async def test_no_secret_reaches_the_log_or_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """A whole gateway at debug level, and everything that is secret about what it is asked."""
    from joserfc import jwt
    from joserfc.jwk import OctKey

    caplog.set_level(1)
    answers: list[httpx.Response] = []
    secrets = ["pass-of-alice", "wrong-guess", "a shared secret that is long enough!"]
    secrets.append(base64.b64encode(b"alice:pass-of-alice").decode())
    secrets.append(base64.b64encode(b"alice:wrong-guess").decode())
    settings = configure(tmp_path)
    async with Gateway(settings) as gateway:
        gateway.broker.access.add_user("alice", "pass-of-alice", ("administrator",))
        gateway.broker.access.set_permissions("alice", "/", ".*", ".*", ".*")
        key = OctKey.import_key(secrets[2].encode())
        claims = {"iss": "https://issuer.example", "aud": "gateway", "exp": 4e9, "name": "alice",
                  "scope": "publish stream"}  # fmt: skip
        token = jwt.encode({"alg": "HS256"}, claims, key, algorithms=["HS256"])
        secrets += [token, token.rsplit(".", 1)[1]]
        base = f"http://127.0.0.1:{gateway.http_port}"
        async with httpx.AsyncClient(
            base_url=base, auth=("alice", "pass-of-alice"), timeout=60
        ) as http:
            made = await http.post("/v1/session")
            assert made.status_code == 201
            cookie = made.headers["set-cookie"].partition(";")[0]
            secrets.append(cookie.partition("=")[2])
            body = {"sources": ["exchange:amq.topic?binding=#"]}
            ticket = (await http.post("/v1/stream-tickets", json=body)).json()
            secrets.append(ticket["ticket"])
            assert (await http.get("/v1/nothing?password=pass-of-alice")).status_code == 404
        async with httpx.AsyncClient(base_url=base, timeout=60) as http:
            async with http.stream("GET", ticket["url"]) as stream:
                assert stream.status_code == 200
            assert (await http.get("/v1/session", headers={"cookie": cookie})).status_code == 200
            answers += [
                await http.get("/v1/session", headers={"authorization": given})
                for given in (f"Bearer {token}", f"Bearer {token[:-3]}", f"Basic {secrets[4]}")
            ]
            answers += [
                await http.get(url, headers={"cookie": cookie})
                for url in (
                    f"/v1/session?access_token={token}",
                    ticket["url"].replace("exchange", "queue"),
                    ticket["url"].replace("exchange", "queue") + "&errors=inband",
                    ticket["url"] + f"&ticket={ticket['ticket']}",
                    ticket["url"] + "&from=nonsense",
                )
            ]
            assert (await http.get("/livez")).status_code == 404
        admin = f"http://127.0.0.1:{gateway.admin_port}"
        async with httpx.AsyncClient(base_url=admin, timeout=60) as http:
            assert (await http.get("/livez")).status_code == 200
        await asyncio.sleep(0)
    ours = [one for one in caplog.records if not one.name.startswith(("httpx", "httpcore"))]
    written = "\n".join(logging.Formatter().format(one) for one in ours)
    written += "".join(capfd.readouterr())
    for secret in secrets:
        assert secret not in written
        for answer in answers:
            assert secret not in answer.text + str(answer.headers), answer.request.url
