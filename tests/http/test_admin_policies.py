"""Policies over HTTP: RabbitMQ's paths, definitions, and where they are shown."""

import json
from typing import Any

import pytest

ADMIN = "guest:guest"
QUEUE = "/api/queues/%2F/orders"


async def test_set_seen_and_deleted(rig: Any) -> None:
    async with rig.http(ADMIN) as http:
        await http.put(QUEUE, json={"durable": True})
        given = {"pattern": "^orders", "definition": {"max-length": 5}, "priority": 3}
        for status in (201, 204):
            answer = await http.put("/api/policies/%2F/limits", json=given)
            assert (answer.status_code, answer.content) == (status, b"")
        view = given | {"vhost": "/", "name": "limits", "apply-to": "all"}
        for path in ("/api/policies", "/api/policies/%2F"):
            assert (await http.get(path)).json() == [view]
        assert (await http.get("/api/policies/%2F/limits")).json() == view
        assert (await http.get("/api/operator-policies/%2F/limits")).status_code == 404
        operator = {"pattern": "", "definition": {"max-length": 3}, "apply-to": "queues"}
        answer = await http.put("/api/operator-policies/%2F/top", json=operator)
        assert answer.status_code == 201
        assert [one["name"] for one in (await http.get("/api/operator-policies")).json()] == ["top"]
        seen = (await http.get(QUEUE)).json()
        assert (seen["policy"], seen["operator_policy"]) == ("limits", "top")
        assert seen["effective_policy_definition"] == {"max-length": 3}
        assert seen["arguments"] == {}
        detail = (await http.get("/v1/admin/vhosts/%2F/queues/orders")).json()
        assert (detail["policy"], detail["operator_policy"]) == ("limits", "top")
        assert detail["effective_policy_definition"] == {"max-length": 3}
        for kind, name in (("policies", "limits"), ("operator-policies", "top")):
            for status in (204, 404):
                assert (await http.delete(f"/api/{kind}/%2F/{name}")).status_code == status
        seen = (await http.get(QUEUE)).json()
        assert (seen["policy"], seen["effective_policy_definition"]) == (None, {})


async def test_keys_without_effect_are_named(rig: Any) -> None:
    given = {"pattern": "", "definition": {"ha-mode": "all", "max-length": 5}}
    async with rig.http(ADMIN) as http:
        for status in (201, 200):
            answer = await http.put("/api/policies/%2F/ha", json=given)
            assert answer.status_code == status
            assert answer.json() == {"warnings": ["ha-mode has no effect: there is one node"]}


@pytest.mark.parametrize(
    "given",
    [
        {"pattern": "x"}, {"definition": {"max-length": 1}}, {"pattern": 1, "definition": {}},
        {"pattern": "", "definition": {"max-lenght": 1}}, {"pattern": "", "definition": []},
        {"pattern": "(", "definition": {"max-length": 1}},
        {"pattern": "(a+)+(?!b)$", "definition": {"max-length": 1}},
        {"pattern": "", "definition": {"max-length": 1}, "priority": "high"},
        {"pattern": "", "definition": {"max-length": 1}, "apply-to": []},
        {"pattern": "\ud800", "definition": {"dead-letter-exchange": "\ud800"}},
    ],
)  # fmt: skip
async def test_refused(rig: Any, given: Any) -> None:
    async with rig.http(ADMIN) as http:
        answer = await http.put("/api/policies/%2F/p", content=json.dumps(given))
        assert answer.status_code == 400, answer.text
        assert (await http.get("/api/policies")).json() == []


async def test_only_administrators_may_change_them(rig: Any) -> None:
    given = {"pattern": "", "definition": {"max-length": 1}}
    async with rig.http(ADMIN) as http:
        await http.put("/api/users/m", json={"password": "m", "tags": "monitoring"})
        assert (await http.put("/api/policies/none/p", json=given)).status_code == 404
        assert (await http.delete("/api/policies/none/p")).status_code == 404
    async with rig.http("m:m") as http:
        assert (await http.put("/api/policies/%2F/p", json=given)).status_code == 401
        assert (await http.get("/api/policies")).json() == []


DEFINITIONS: dict[str, Any] = {
    "vhosts": [{"name": "/"}, {"name": "shop"}],
    "policies": [
        {"vhost": "shop", "name": "ttl", "pattern": "^q", "apply-to": "queues", "priority": 1,
         "definition": {"message-ttl": 60000, "ha-mode": "all"}},
        {"vhost": "shop", "name": "bad", "pattern": "(", "definition": {"max-length": 1}},
        {"vhost": "none", "name": "lost", "pattern": "", "definition": {"max-length": 1}},
    ],
    "parameters": [
        {"vhost": "shop", "component": "operator_policy", "name": "top",
         "value": {"pattern": "", "apply-to": "queues", "definition": {"max-length": 9}}},
        {"vhost": "shop", "component": "operator_policy", "name": "bad", "value": 5},
        {"vhost": "shop", "component": "shovel", "name": "s", "value": {}},
    ],
    "queues": [{"vhost": "shop", "name": "q", "durable": True, "arguments": {}}],
}  # fmt: skip


async def test_definitions_have_them(rig: Any) -> None:
    async with rig.http(ADMIN) as http:
        await http.put("/api/vhosts/shop")
        await http.put("/api/queues/shop/q2", json={"durable": True})
        told = (await http.post("/v1/admin/definitions", json=DEFINITIONS)).json()
        assert told["policies"] == 2
        missing = "\n".join(told["not_applied"])
        for part in (
            "policy 'bad' in vhost 'shop': '(' is not a regular expression",
            "policy 'lost' in vhost 'none'",
            "policy 'ttl' in vhost 'shop': ha-mode has no effect",
            "operator policy 'bad'",
            "parameter 's'",
        ):
            assert part in missing
        assert len(told["not_applied"]) == 5
        for name in ("q", "q2"):
            seen = (await http.get(f"/api/queues/shop/{name}")).json()
            assert (seen["policy"], seen["operator_policy"]) == ("ttl", "top")
        whole = (await http.get("/api/definitions")).json()
        assert whole["policies"] == DEFINITIONS["policies"][:1]
        (operator,) = whole["parameters"]
        assert operator["value"]["definition"] == {"max-length": 9}
        part = (await http.get("/api/definitions/shop")).json()
        assert part["policies"] == [
            {k: v for k, v in DEFINITIONS["policies"][0].items() if k != "vhost"}
        ]
        await http.delete("/api/vhosts/shop")
        assert (await http.get("/api/policies")).json() == []
        again = (await http.post("/api/definitions", json=whole)).json()
        assert (again["policies"], again["not_applied"]) == (
            2, ["policy 'ttl' in vhost 'shop': ha-mode has no effect: there is one node"],
        )  # fmt: skip
        await http.put("/api/vhosts/copy")
        answer = await http.post("/api/definitions/copy", json=part)
        assert answer.json()["policies"] == 2
        names = [one["vhost"] for one in (await http.get("/api/operator-policies")).json()]
        assert names == ["shop", "copy"]


async def test_exchanges_show_theirs(rig: Any) -> None:
    given = {"pattern": "^amq.direct$", "definition": {"alternate-exchange": "amq.fanout"}}
    async with rig.http(ADMIN) as http:
        await http.put("/api/policies/%2F/spare", json=given)
        assert (await http.get("/api/exchanges/%2F/amq.direct")).json()["policy"] == "spare"
        assert "policy" not in (await http.get("/api/exchanges/%2F/amq.topic")).json()
