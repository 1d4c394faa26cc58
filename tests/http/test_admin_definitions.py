"""Definitions go out and in, RabbitMQ's too, and nothing is left out silently."""

import asyncio
import base64
import hashlib
import json
import os
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from gateway.broker.access import fits, read_user, user_record
from gateway.http.admin.definition_import import ITEMS_PER_TURN
from gateway.http.admin.tables import read_table, write_table
from gateway.operations import Bind, DeclareExchange, DeleteQueue
from gateway.values import (
    Decimal128,
    Described,
    Float,
    Int,
    Map,
    Scaled,
    Seconds,
    Symbol,
    UShort,
)

ADMIN = "guest:guest"
PATH = "/v1/admin/definitions"
HOST = "/v1/admin/vhosts/%2F"

RABBITMQ = {
    "rabbit_version": "3.10.8",
    "rabbitmq_version": "3.10.8",
    "product_name": "RabbitMQ",
    "product_version": "3.10.8",
    "users": [
        {
            "name": "bob",
            "password_hash": "MXqQiMclKPtI62a38Njw8qJQs35Ninz9uvoWpWvupu5VAsq8",
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": ["management", "administrator"],
            "limits": {},
        },
        {"name": "alice", "password_hash": "x", "tags": "monitoring"},
        {"name": "dora", "password": "open sesame", "tags": []},
    ],
    "vhosts": [{"name": "/"}, {"name": "shop", "metadata": {"tags": []}}],
    "permissions": [
        {"user": "bob", "vhost": "shop", "configure": ".*", "write": ".*", "read": ".*"},
        {"user": "nobody", "vhost": "/", "configure": "", "write": "", "read": ""},
        {"user": "bob", "vhost": "none", "configure": "", "write": "", "read": ""},
    ],
    "topic_permissions": [
        {"user": "bob", "vhost": "shop", "exchange": "x", "write": "^a", "read": ".*"},
        {"user": "nobody", "vhost": "/", "exchange": "x", "write": "", "read": ""},
    ],
    "parameters": [{"component": "shovel", "name": "s", "vhost": "/", "value": {}}],
    "global_parameters": [{"name": "internal_cluster_id", "value": "id"}],
    "policies": [{"vhost": "/", "name": "ttl", "pattern": "", "definition": {}}],
    "queues": [
        {
            "name": "q",
            "vhost": "shop",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-max-length": 5},
        },
        {"name": "big", "vhost": "shop", "arguments": {"x-queue-type": "stream"}},
    ],
    "exchanges": [{"name": "x", "vhost": "shop", "type": "topic", "arguments": {}}],
    "bindings": [
        {
            "source": "x",
            "vhost": "shop",
            "destination": "q",
            "destination_type": "queue",
            "routing_key": "a.#",
            "arguments": {},
        },
        {"source": "x", "vhost": "shop", "destination": "big", "destination_type": "queue"},
    ],
}


async def test_rabbitmq_definitions_are_applied_and_the_rest_is_named(rig: Any) -> None:
    async with rig.http(ADMIN) as http:
        answer = await http.post(PATH, json=RABBITMQ)
        assert answer.status_code == 200
        told = answer.json()
        assert {
            k: told[k] for k in ("vhosts", "permissions", "exchanges", "queues", "bindings")
        } == {
            "vhosts": 2,
            "permissions": 1,
            "exchanges": 1,
            "queues": 1,
            "bindings": 1,
        }
        logins = {one["name"]: one["login"] for one in told["users"]}
        assert logins == {"bob": "password", "alice": "kept", "dora": "password"}
        (bob,) = (one for one in told["users"] if one["name"] == "bob")
        assert "RabbitMQ's hash" in bob["note"]
        missing = "\n".join(told["not_applied"])
        for part in (
            "tag 'management' of user 'bob'",
            "permission of 'nobody'",
            "permission of 'bob' in vhost 'none'",
            "queue 'big' in vhost 'shop': invalid arg 'x-queue-type'",
            "binding from 'x' to 'big'",
            "policy 'ttl'",
            "parameter 's'",
            "global parameter 'internal_cluster_id'",
            "topic permission of 'nobody'",
        ):
            assert part in missing
        assert (await http.put("/v1/admin/users/bob", json={"password": "new"})).status_code == 200
    async with rig.http("bob:new") as http:
        assert (await http.get("/v1/admin/vhosts/shop/queues/q")).json()["arguments"] == {
            "x-max-length": 5
        }
        sent = await http.post(
            "/v1/shop/exchanges/x/messages?routing_key=a.b", content=b"it is routed"
        )
        assert sent.status_code == 201
        sent = await http.post("/v1/shop/exchanges/x/messages?routing_key=b.a", content=b"narrowed")
        assert sent.status_code == 403
        document = (await http.get(PATH)).json()
        assert document["topic_permissions"] == RABBITMQ["topic_permissions"][:1]


async def test_own_definitions_go_round(rig: Any, make_rig: Any) -> None:
    rig.queue("orders", durable=True, arguments={"x-max-length": 9})
    rig.queue("mine", exclusive=True)
    rig.exchange("shop")
    rig.bind("orders", "shop", "a.*")
    async with rig.http(ADMIN) as http:
        exported = (await http.get(PATH)).json()
    assert [one["name"] for one in exported["queues"]] == ["orders"]
    other = make_rig()
    async with other.http(ADMIN) as http:
        told = (await http.post(PATH, json=exported)).json()
        assert told["not_applied"] == []
        assert {one["login"] for one in told["users"]} == {"password"}
        assert (await http.get(PATH)).json() == exported
    async with other.http("weak:weak") as http:
        assert (await http.get(HOST + "/queues/orders")).status_code == 200


async def test_levels_of_priority_go_round(rig: Any, make_rig: Any) -> None:
    rig.queue("plain", durable=True)
    rig.queue("ten", durable=True, levels=10)
    rig.queue("asked", durable=True, arguments={"x-max-priority": 3})
    levels = {"plain": 1, "ten": 10, "asked": 4}
    async with rig.http(ADMIN) as http:
        exported = (await http.get(PATH)).json()
        shown = (await http.get(HOST + "/queues")).json()["queues"]
        assert {one["name"]: one["priority_levels"] for one in shown} == levels
    written = {one["name"]: one.get("priority_levels") for one in exported["queues"]}
    assert written == {"plain": None, "ten": 10, "asked": None}
    async with make_rig().http(ADMIN) as http:
        assert (await http.post(PATH, json=exported)).json()["not_applied"] == []
        for one in (await http.get("/api/queues")).json():
            assert one["priority_levels"] == levels[one["name"]]
            assert "x-max-priority" not in one["arguments"] or one["name"] == "asked"


async def test_passwords_and_verifiers_survive_the_way(rig: Any, make_rig: Any) -> None:
    async with rig.http(ADMIN) as http:
        await http.put("/v1/admin/users/carol", json={"password": "secret of carol"})
        exported = (await http.get(PATH)).json()
    assert "secret of carol" not in str(exported)
    other = make_rig()
    async with other.http(ADMIN) as http:
        await http.post(PATH, json=exported)
        again = await http.put(
            "/v1/admin/users/carol/permissions/%2F",
            json={"configure": "", "write": "", "read": ""},
        )
        assert again.status_code == 201
    async with other.http("carol:secret of carol") as http:
        assert (await http.get(HOST + "/queues")).status_code == 200


async def test_a_damaged_verifier_is_named(rig: Any) -> None:
    broken = {"salt": "!", "stored_key": "AA==", "server_key": "AA==", "iterations": 4096}
    empty = broken | {"salt": ""}
    users = [{"name": "e", "scram_sha_256": broken}, {"name": "f", "scram_sha_256": empty}]
    async with rig.http(ADMIN) as http:
        told = (await http.post(PATH, json={"users": users})).json()
        assert told["users"] == []
        assert len(told["not_applied"]) == 2
        assert (await http.get("/v1/admin/users/e")).status_code == 404


async def test_only_administrators_see_or_change_definitions(rig: Any) -> None:
    async with rig.http() as http:
        for path in (PATH, "/api/definitions"):
            assert (await http.get(path)).status_code in (401, 403)
            assert (await http.post(path, json={})).status_code in (401, 403)


ODD_ARGUMENTS: dict[str, Any] = {
    "x-message-ttl": Int(5),
    "x-expires": 60_000,
    "x-max-length": UShort(9),
    "x-max-length-bytes": 1 << 40,
    "x-overflow": "reject-publish-dlx",
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "ä" * 127,
    "x-single-active-consumer": True,
    "x-queue-mode": "lazy",
    "x-odd": {
        "$type": "a key like our mark",
        "inner": {"$type": "binary", "value": "no base64"},
        "bytes": b"\xff\0",
        "void": None,
        "list": [1, [b"", {}], "text", None, True],
        "moment": Seconds(1_700_000_000),
        "double": 1e300,
        "single": Float(0.5),
        "decimal": Scaled(2, 314),
        "least": -(1 << 63),
        "text": "\u0000\u2028\U0001f600",
        "infinite": float("inf"),
    },
}
ODD_NAMES = (
    "a/b %2F?#&",
    "ä" * 127,
    "'\"<script>",
    " ",
    "\u2028",
    "subscription:me:mine",
    "0",
    "$type",
)


async def test_odd_but_legal_things_go_round(rig: Any, make_rig: Any) -> None:
    broker, channel = rig.broker, rig.channel
    for name in ODD_NAMES:
        broker.create_vhost(name)
        broker.access.add_user(name, "password", ("monitoring",), loopback_only=name == "0")
        broker.access.set_permissions(name, name, "^$", "a|b", ".*")
        rig.queue(name, durable=True, arguments=ODD_ARGUMENTS)
    for number, kind in enumerate(("direct", "fanout", "topic", "headers")):
        alternate = {"alternate-exchange": ODD_NAMES[0], "odd": ODD_ARGUMENTS["x-odd"]}
        for name in ODD_NAMES:
            said = DeclareExchange(
                1,
                None,
                f"{number}{name}"[:128],
                kind,
                durable=number != 1,
                auto_delete=number == 2,
                internal=number == 3,
                arguments=alternate if number else {},
            )
            channel.topology.declare_exchange(said)
    rig.queue("passing")
    rig.queue("", durable=True, auto_delete=True)
    rig.queue("many", durable=True, arguments={"x-max-priority": 9})
    rig.queue("safe", durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 3})
    for name in (*ODD_NAMES, "passing"):
        for key in ("", "#", "a.*.b", "ä" * 127):
            channel.topology.bind(Bind(1, None, name, "amq.topic", key, ODD_ARGUMENTS["x-odd"]))
            channel.topology.bind(
                Bind(1, None, name, f"0{ODD_NAMES[0]}", key, {"x-selector": "a = 1"})
            )
        matching = {"x-match": "any-with-x", "a": None, "b": b"\xff", "c": Int(5)}
        channel.topology.bind(Bind(1, None, name, "amq.match", "", matching))
    over = Bind(1, None, f"1{ODD_NAMES[1]}"[:128], "amq.topic", "x.#", {}, to_exchange=True)
    channel.topology.bind(over)
    async with rig.http(ADMIN) as http:
        exported = (await http.get(PATH)).json()
    other = make_rig()
    async with other.http(ADMIN) as http:
        told = (await http.post(PATH, json=exported)).json()
        assert told["not_applied"] == []
        assert (await http.get(PATH)).json() == exported
        # Once more: what is there is equal to what is asked for.
        assert (await http.post(PATH, json=exported)).json()["not_applied"] == []
    mine, its = broker.vhosts["/"], other.broker.vhosts["/"]
    for name in ODD_NAMES:
        assert its.queues[name].limits == mine.queues[name].limits


async def test_one_name_that_is_too_long_costs_itself(rig: Any) -> None:
    """It may have been kept from before names had a limit."""
    queues = [{"name": "x" * 300, "vhost": "/"}, {"name": "fine", "vhost": "/"}]
    users = [{"name": "y" * 300, "password": "secret"}]
    async with rig.http(ADMIN) as http:
        told = (await http.post(PATH, json={"queues": queues, "users": users})).json()
        assert [text.rpartition(":")[2] for text in told["not_applied"]] == [
            " the name of the user has 300 octets, and 255 are allowed",
            " the name of the queue has 300 octets, and 255 are allowed",
        ]
        assert (await http.get(HOST + "/queues/fine")).status_code == 200


def test_values_of_1_0_go_round() -> None:
    """They come over ``/management``."""
    table = {
        "decimal": Decimal128.of(Decimal("3.14")),
        "keys": {1: "one", b"two": 2},
        "list as key": Map([([1], 2), ("x", None)]),
        "described": Described(Symbol("a:b"), {"$type": 5}),
        "id": UUID(int=7),
    }
    assert read_table(json.loads(json.dumps(write_table(table)))) == table


async def test_the_export_is_made_in_portions(rig: Any) -> None:
    """Others are served in between, and what comes or goes meanwhile harms nothing."""
    count = 4 * ITEMS_PER_TURN
    for number in range(count):
        rig.queue(f"q{number:05}", durable=True)
    rig.bind("q00000", "amq.topic", "a")
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            rig.queue(f"other{turns}", durable=True)
            rig.channel.topology.delete_queue(DeleteQueue(1, None, f"q{turns:05}"))
            await asyncio.sleep(0)

    async with rig.http(ADMIN) as http:
        busy = asyncio.create_task(others())
        answer = await http.get(PATH)
        busy.cancel()
    assert turns > count // ITEMS_PER_TURN
    names = [one["name"] for one in answer.json()["queues"]]
    assert len(set(names)) == len(names)
    assert set(names) >= {f"q{number:05}" for number in range(turns + 1, count)}


async def test_large_documents_are_read_beside_the_loop(rig: Any) -> None:
    queues = [{"name": f"q{number}" + "x" * 200, "vhost": "/"} for number in range(500)]
    async with rig.http(ADMIN) as http:
        told = (await http.post(PATH, json={"queues": queues})).json()
        assert (told["queues"], told["not_applied"]) == (500, [])
        bad = await http.post(PATH, content=b'{"queues": [' + b" " * 100_000)
        assert bad.status_code == 400


def rabbit_hash(password: str, algorithm: str) -> dict[str, str]:
    """As RabbitMQ makes it: four octets of salt, and the digest of salt and password."""
    salt = os.urandom(4)
    digest = hashlib.new(algorithm, salt + password.encode()).digest()
    return {
        "password_hash": base64.b64encode(salt + digest).decode(),
        "hashing_algorithm": f"rabbit_password_hashing_{algorithm}",
    }


@pytest.mark.parametrize("algorithm", ["md5", "sha256", "sha512"])
async def test_users_of_rabbitmq_log_in_with_their_passwords(rig: Any, algorithm: str) -> None:
    """The first login makes a verifier of SCRAM of it, which is stored. Wrong passwords do not, and
    the export hands the hash on until then."""
    hashed = rabbit_hash("grün 7", algorithm)
    given = {"users": [{"name": "bob", "tags": ["administrator"], **hashed}]}
    access = rig.broker.access
    async with rig.http(ADMIN) as http:
        assert (await http.post(PATH, json=given)).json()["users"][0]["login"] == "password"
        (exported,) = (
            one for one in (await http.get(PATH)).json()["users"] if one["name"] == "bob"
        )
        assert {key: exported[key] for key in hashed} == hashed
        assert "scram_sha_256" not in exported
    before = access.user("bob")
    async with rig.http("bob:wrong") as http:
        assert (await http.get("/v1/admin/overview")).status_code == 401
    assert access.user("bob") == before
    for _ in range(2):
        async with rig.http("bob:grün 7") as http:
            assert (await http.get("/v1/admin/overview")).status_code == 200
    after = access.user("bob")
    assert after.rabbit_hash is None
    assert fits(after.verifier, "grün 7")
    assert read_user("bob", user_record(after)) == after
    assert read_user("bob", user_record(before)) == before
    async with rig.http(ADMIN) as http:
        (exported,) = (
            one for one in (await http.get(PATH)).json()["users"] if one["name"] == "bob"
        )
        assert exported["password_hash"] == ""
        assert "scram_sha_256" in exported


@pytest.mark.parametrize(
    "hashed",
    [
        {"password_hash": "not base64!"},
        {"password_hash": "AAAA"},
        {"password_hash": "A" * 48, "hashing_algorithm": "rabbit_password_hashing_sha512"},
        {"password_hash": "A" * 48, "hashing_algorithm": "my_module"},
        {"password_hash": ""},
    ],
)
async def test_other_hashes_lock_their_users(rig: Any, hashed: dict[str, str]) -> None:
    async with rig.http(ADMIN) as http:
        answer = await http.post(PATH, json={"users": [{"name": "bob", "tags": [], **hashed}]})
        (told,) = answer.json()["users"]
        assert told["login"] == "locked"
        assert told["note"].startswith("set a password: ")


async def test_levels_of_an_argument_go_round(rig: Any) -> None:
    """They are said once: as a member of the entry they could not be read back."""
    arguments = {"x-priority-levels": 5}
    async with rig.http(ADMIN) as http:
        body = {"durable": True, "arguments": arguments}
        assert (await http.put("/api/queues/%2F/five", json=body)).status_code == 201
        exported = (await http.get(PATH)).json()
        (queue,) = exported["queues"]
        assert queue["arguments"] == arguments and "priority_levels" not in queue
        assert (await http.post(PATH, json=exported)).json()["queues"] == 1


async def test_the_last_administrator_stays_one(rig: Any) -> None:
    """A document of another broker knows users, and not their tags here."""
    given = {"users": [{"name": "guest", "password": "guest", "tags": []}]}
    async with rig.http(ADMIN) as http:
        told = (await http.post(PATH, json=given)).json()
        assert told["not_applied"] == ["user 'guest' stays an administrator: there is no other"]
        other = {"users": [{"name": "ann", "password": "p", "tags": ["administrator"]}]}
        for document in (other, given):
            assert (await http.post(PATH, json=document)).json()["not_applied"] == []
        assert (await http.get("/api/users")).status_code == 401
