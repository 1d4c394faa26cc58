"""Browsing shows a message also as the readers of other versions get it."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.crossing.crossing import Crossing

QUEUE = "/v1/%2F/queues/orders/messages"
FORM = {"content-type": "application/vnd.amqp-gateway.message+json"}
VERSIONS = ["0.8a2", "0-9a0", "0-9a6", "0-8, 0-9, 0-9-1", "0-10", "1.0"]


def make(make_rig: Any, mode: Any = "lossless") -> Any:
    rig = make_rig()
    rig.queue("orders")
    rig.app.state.context.dependencies.crossing = Crossing(bytes(32), mode)
    return rig


async def published(rig: Any, **message: Any) -> dict[str, Any]:
    """The message as it is browsed with its crossings."""
    async with rig.http() as http:
        made = await http.post(QUEUE, json=message, headers=FORM)
        assert made.status_code == 201, made.text
        told = (await http.get(f"{QUEUE}?crossings=true&view=full")).json()
        assert rig.depth("orders") == (1, 0)
    (one,) = told["messages"]
    found: dict[str, Any] = one
    return found


def by_version(one: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {seen["version"]: seen for seen in one["seen_as"]}


async def test_each_version_is_shown_and_what_a_capsule_keeps(make_rig: Any) -> None:
    rig = make(make_rig)
    one = await published(
        rig, reply_to="/queues/back", type="t", priority=4, properties={"n": 5}, body={"json": 1}
    )
    assert one["came_as"] == "0-9-1"
    seen = by_version(one)
    assert list(seen) == [name for name in VERSIONS if name != "0-8, 0-9, 0-9-1"]
    modern = seen["1.0"]
    assert (modern["fidelity"], modern["inexact"]) == ("capsule", ["reply-to"])
    assert modern["message"]["properties"]["reply_to"] == "/queues/back"
    assert modern["message"]["properties"]["subject"] == one["message"]["legacy"]["type"] == "t"
    assert modern["message"]["header"]["priority"] == 4
    assert modern["message"]["application_properties"] == {"n": 5}
    assert modern["message"]["body"] == one["message"]["body"]
    assert "gateway-origin" not in str(one)  # the capsule itself
    assert seen["0-9a6"]["message"]["legacy"]["type"] == "t"


async def test_a_message_of_1_0_is_shown_to_the_others(make_rig: Any) -> None:
    """A value of a type that 0-9-1 lacks makes HTTP publish sections."""
    rig = make(make_rig)
    one = await published(rig, properties={"at": {"$type": "uint", "value": 7}, "s": {
        "$type": "symbol", "value": "x"}}, subject="s")  # fmt: skip
    seen = by_version(one)
    assert one["came_as"] == "1.0" and "1.0" not in seen
    legacy = seen["0-8, 0-9, 0-9-1"]
    assert legacy["message"]["legacy"]["routing_key"] == "orders"
    assert legacy["fidelity"] in ("equivalent", "exact", "capsule")


async def test_without_the_parameter_there_is_none(make_rig: Any) -> None:
    rig = make(make_rig)
    await published(rig, body="x")
    async with rig.http() as http:
        (one,) = (await http.get(QUEUE)).json()["messages"]
        assert "came_as" not in one and "seen_as" not in one
        assert (await http.get(f"{QUEUE}?crossings=maybe")).status_code == 400


@pytest.mark.parametrize("view", ["simple", "full"])
async def test_large_bodies_are_left_out(make_rig: Any, view: str) -> None:
    rig = make(make_rig)
    async with rig.http() as http:
        await http.post(QUEUE, content=b"x" * 70_000)
        (one,) = (await http.get(f"{QUEUE}?crossings=true&view={view}")).json()["messages"]
    assert len(one["message"]["body"]["base64"]) > 90_000
    assert {str(seen["message"]["body"].get("base64")) for seen in one["seen_as"]} == {""}


async def test_readers_that_do_not_get_it_say_why(make_rig: Any) -> None:
    rig = make(make_rig, "strict")
    one = await published(rig, reply_to="/queues/back", properties={"long": "x" * 9000})
    modern = by_version(one)["1.0"]
    assert "cannot be carried exactly: reply-to" in modern["declined"]
    assert "message" not in modern
