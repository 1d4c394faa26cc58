"""The further routing keys in the headers CC and BCC are no way round what a token is narrowed
to, nor round a declared route, whatever the form of the publish."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.config.web import BearerSettings, DeclaredRoute
from tests.http.test_access_tokens import ISSUER, RSA, Clock, bearer, key_set, token

QUEUE = "/v1/%2F/queues/orders/messages"
ROUTE = "/v1/%2F/routes/shop/messages"
FORM = {"content-type": "application/vnd.amqp-gateway.message+json"}
BATCH = {"content-type": "application/vnd.amqp-gateway.batch+json"}
LINES = {"content-type": "application/vnd.amqp-gateway.messages+ndjson"}
NARROW = "publish:%2F/queue/orders publish:%2F/queue/copies publish:%2F/route/shop"


@pytest.fixture
def narrowed(make_rig: Any, tmp_path: Path) -> Any:
    path = tmp_path / "jwks.json"
    path.write_bytes(key_set(RSA))
    settings = BearerSettings(issuer=ISSUER, audience="gateway", jwks=str(path), user_claim="name")
    routes = (
        DeclaredRoute(name="shop", queue="orders", content_types=[FORM["content-type"]]),
        DeclaredRoute(
            name="news", exchange="amq.topic", key="a", content_types=[FORM["content-type"]]
        ),
    )
    rig = make_rig(bearer=settings, routes=routes)
    rig.app.state.context.authenticator.clock = Clock()
    for name in ("orders", "copies", "victim"):
        rig.queue(name)
    rig.bind("victim", "amq.topic", "b")
    return rig


def form(header: str, *keys: str) -> dict[str, Any]:
    return {"body": {"text": "x"}, "properties": {header: list(keys)}}


def depths(rig: Any) -> dict[str, int]:
    return {name: rig.depth(name)[0] for name in ("orders", "copies", "victim")}


@pytest.mark.parametrize("header", ["CC", "BCC"])
async def test_each_key_is_asked_for(narrowed: Any, header: str) -> None:
    bad, good = form(header, "copies", "victim"), form(header, "copies")
    headers = bearer(token(scope=NARROW))
    async with narrowed.http(None) as http:
        answer = await http.post(QUEUE, content=json.dumps(bad), headers=headers | FORM)
        assert answer.status_code == 403, answer.text
        assert "victim" in answer.json()["detail"]
        for atomic in (False, True):
            document = json.dumps({"messages": [bad], "atomic": atomic})
            answer = await http.post(QUEUE, content=document, headers=headers | BATCH)
            assert "victim" in answer.text and '"accepted"' not in answer.text, answer.text
        answer = await http.post(QUEUE, content=json.dumps(bad) + "\n", headers=headers | LINES)
        assert "victim" in answer.text and '"outcome":"accepted"' not in answer.text
        assert depths(narrowed) == {"orders": 0, "copies": 0, "victim": 0}
        answer = await http.post(QUEUE, content=json.dumps(good), headers=headers | FORM)
        assert answer.status_code == 201, answer.text
        assert depths(narrowed) == {"orders": 1, "copies": 1, "victim": 0}
    async with narrowed.http() as http:  # nothing narrows a password
        answer = await http.post(QUEUE, content=json.dumps(bad), headers=FORM)
        assert answer.status_code == 201, answer.text
        assert depths(narrowed) == {"orders": 2, "copies": 2, "victim": 1}


@pytest.mark.parametrize("route", ["shop", "news"])
async def test_a_route_has_its_own_key(narrowed: Any, route: str) -> None:
    path, key = f"/v1/%2F/routes/{route}/messages", "b" if route == "news" else "victim"
    async with narrowed.http() as http:
        for header in ("CC", "BCC"):
            document = json.dumps(form(header, key))
            answer = await http.post(path, content=document, headers=FORM)
            assert answer.status_code == 403, answer.text
    assert depths(narrowed) == {"orders": 0, "copies": 0, "victim": 0}


async def test_so_it_is_with_the_publish_of_rabbitmq(narrowed: Any) -> None:
    path = "/api/exchanges/%2F/amq.default/publish"
    scope = bearer(token(scope=NARROW + " publish:%2F/exchange/*"))
    wide = bearer(token(scope="publish"))

    def asked(key: str, **headers: Any) -> str:
        properties = {"headers": headers}
        return json.dumps(
            {"routing_key": key, "properties": properties, "payload": "x"}
            | {"payload_encoding": "string"}
        )

    async with narrowed.http(None) as http:
        for document in (
            asked("victim"),
            asked("orders", CC=["victim"]),
            asked("orders", BCC=["victim"]),
        ):
            answer = await http.post(path, content=document, headers=scope)
            assert answer.status_code == 401, answer.text
        assert depths(narrowed) == {"orders": 0, "copies": 0, "victim": 0}
        answer = await http.post(path, content=asked("orders", CC=["copies"]), headers=scope)
        assert answer.json() == {"routed": True}
        answer = await http.post(path, content=asked("orders", CC=["victim"]), headers=wide)
        assert answer.json() == {"routed": True}
    assert depths(narrowed) == {"orders": 2, "copies": 1, "victim": 1}
