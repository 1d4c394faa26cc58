"""What ``/openapi.json`` says of credentials holds: each way in opens the routes that list it."""

import base64
import json
import time
from typing import Any
from urllib.parse import quote

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from gateway.config.web import DeclaredRoute
from tests.http.description_words import Operation, examples, operations
from tests.http.settings_words import shared_bearer

SECRET = b"a shared secret that is long enough!"
BEARER = shared_bearer(SECRET, "weak")
ROUTE = DeclaredRoute(name="prices", queue="orders", stream=True)
SOURCES = {"queues": "queue:orders", "exchanges": "exchange:amq.topic", "routes": "route:prices"}
BAD = "heartbeat=1"
"""A parameter for which a stream that would never end is refused, after its credential is good."""
Credential = tuple[dict[str, str], str]
"""Fields, and what stands in the query."""


@pytest.fixture
def rig(make_rig: Any) -> Any:
    """``weak`` may read two things and change nothing."""
    found = make_rig(bearer=BEARER, routes=(ROUTE,))
    found.queue("orders")
    found.broker.access.set_permissions("weak", "/", "^$", "^$", r"^(orders|amq\.topic)$")
    return found


async def credentials(http: Any, operation: Operation) -> dict[str, Credential]:
    """One of each kind; a ticket is for the stream that this operation opens, if it opens one."""
    now = int(time.time())
    claims = {"iss": "https://issuer", "aud": "gateway", "sub": "s", "iat": now, "exp": now + 600}
    token = jwt.encode({"alg": "HS256", "typ": "at+jwt"}, claims, OctKey.import_key(SECRET))
    opened = await http.post("/v1/session")
    http.cookies.clear()
    cookie = opened.headers["set-cookie"].partition(";")[0]
    parts = operation.path.split("/")
    source = SOURCES.get(parts[3] if len(parts) > 3 else "", "queue:orders")
    made = await http.post("/v1/stream-tickets", json={"sources": [source]})
    password = base64.b64encode(b"weak:weak").decode()
    return {
        "basic": ({"authorization": f"Basic {password}"}, ""),
        "bearer": ({"authorization": f"Bearer {token}"}, ""),
        "session": ({"cookie": cookie, "sec-fetch-site": "same-origin"}, ""),
        "ticket": ({}, f"ticket={made.json()['ticket']}"),
    }


async def ask(http: Any, operation: Operation, credential: Credential) -> Any:
    """The answer to the example of the operation, or to as much of it as it must have."""
    path, fields = operation.path, dict(credential[0])
    query = [credential[1], BAD if operation.path.endswith("/events") else ""]
    for one in operation.told.get("parameters", []):
        if one["in"] == "path":
            path = path.replace(f"{{{one['name']}}}", quote(str(one["example"]), safe=""))
        elif one.get("required") and one["in"] == "query":
            value = one["example"][0] if isinstance(one["example"], list) else one["example"]
            query.append(f"{one['name']}={quote(str(value), safe='')}")
    content = None
    for media, told in operation.bodies.items():
        found = examples(told)
        if found:
            fields["content-type"] = media
            content = found[0] if isinstance(found[0], str) else json.dumps(found[0])
            break
    url = path + "?" + "&".join(filter(None, query))
    method = operation.method.upper()
    return await http.request(method, url, headers=fields, content=content, auth=None)


def opens(answer: Any) -> bool:
    """Whether the credential is good here. RabbitMQ says 401 where something is not permitted, too,
    and then asks for no other credential; a session makes no session, though it says who asks."""
    no_session = answer.request.url.path == "/v1/session" and answer.status_code == 403
    return "www-authenticate" not in answer.headers and not no_session


async def test_each_security_scheme_opens_its_operations(rig: Any) -> None:
    failed, tried = [], 0
    async with rig.http("weak:weak") as http:
        document = (await http.get("/openapi.json")).json()
        schemes = document["components"]["securitySchemes"]
        assert document["security"] == [{"basic": []}, {"bearer": []}, {"session": []}]
        assert schemes.keys() == {"basic", "bearer", "session", "ticket"}
        for operation in operations(document):
            listed = operation.told.get("security", document["security"])
            if listed == [] or {} in listed:
                continue
            names = {name for one in listed for name in one}
            for name, credential in (await credentials(http, operation)).items():
                answer = await ask(http, operation, credential)
                tried += 1
                if opens(answer) is not (name in names):
                    failed.append(f"{operation} {name}: {answer.text}, listed {sorted(names)}")
    assert not failed, "\n".join(failed)
    assert tried > 400


@pytest.mark.parametrize("plain", [False, True])
async def test_only_ways_that_are_open_are_listed(make_rig: Any, plain: bool) -> None:
    rig = make_rig(session={"plain_http": plain})
    async with rig.http() as http:
        openapi = (await http.get("/openapi.json")).json()
        asyncapi = (await http.get("/asyncapi.json")).json()
    wanted = {"basic", "session", "ticket"} | ({"plain_session"} if plain else set())
    assert openapi["components"]["securitySchemes"].keys() == wanted
    told = asyncapi["components"]["securitySchemes"]
    assert told.keys() == wanted | {"plain"}
    assert told["session"]["type"] == "httpApiKey" and told["session"]["in"] == "cookie"
    path = openapi["paths"]["/v1/{vhost}/events"]
    assert {"ticket": []} in path["get"]["security"] and "security" not in path["post"]
    assert json.dumps(openapi).count('"ticket": []') == 4
