"""rhea in a real browser: AMQP 1.0 over WebSocket, subprotocol `amqp`, at /amqp."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop import brokers
from tests.interop.amqp1.programs import Json, rhea_missing
from tests.interop.servers import HOST, PEERS, Server

pytestmark = pytest.mark.interop

PAGE = Path(__file__).parents[1] / "browser" / "rhea.html"
BUNDLE = PEERS / "npm" / "node_modules" / "rhea" / "dist" / "rhea.min.js"


@pytest.fixture
def page(chrome: Any, broker: Server) -> Iterator[Any]:
    """The page, with the server's port as its origin."""
    if reason := rhea_missing():
        pytest.skip(reason)
    port = broker.websocket_port or broker.http_port
    if broker.name == "rabbitmq_1_0" or port is None:
        pytest.skip("this server does not speak AMQP 1.0 over WebSocket")
    origin = f"http://{HOST}:{port}"
    # the page does not really come from the loopback, so it must be allowed to go there
    chrome.grant_permissions(["local-network-access"], origin=origin)
    page = chrome.new_page()
    page.route(f"{origin}/rhea.html", lambda route: route.fulfill(path=PAGE))
    page.route(f"{origin}/rhea.js", lambda route: route.fulfill(path=BUNDLE))
    page.goto(f"{origin}/rhea.html")
    page.set_default_timeout(30_000)
    try:
        yield page
    finally:
        page.close()


def call(page: Any, broker: Server, function: str, **words: Any) -> Any:
    """Call one of the page's functions, with a limit on how long it may take."""
    port = broker.websocket_port or broker.http_port
    path = "/" if broker.name == "broker_j" else "/amqp"
    given = json.dumps({"url": f"ws://{HOST}:{port}{path}", **words})
    limit = "new Promise((_, no) => setTimeout(() => no(new Error('too late')), 30000))"
    return page.evaluate(f"Promise.race([{function}({given}), {limit}])")


def summed(size: int) -> int:
    found = 0
    for at in range(size):
        found = (found * 31 + at % 251) & 0xFFFFFFFF
    return found


def crossed(page: Any, broker: Server, messages: list[Json]) -> list[Json]:
    address = brokers.queue_address(broker, "browser")
    answer = call(page, broker, "cross", address=address, messages=messages)
    assert answer["accepted"] == len(messages)
    found: list[Json] = answer["got"]
    return found


def test_messages(page: Any, broker: Server) -> None:
    bodies = ["text", "grün ✓", True, 1.5, 7, None, [1, "two", None], {"k": "v"}]
    sent = [
        {"subject": f"number {at}", "application_properties": {"at": at, "even": at % 2 == 0}}
        | {"body": body}
        for at, body in enumerate(bodies)
    ]
    assert crossed(page, broker, sent) == sent


def test_many_in_order(page: Any, broker: Server) -> None:
    got = crossed(page, broker, [{"body": at} for at in range(500)])
    assert [one["body"] for one in got] == list(range(500))


@pytest.mark.parametrize("size", [0, 1, 16_384, 1 << 20])
def test_body(page: Any, broker: Server, size: int) -> None:
    (got,) = crossed(page, broker, [{"body": {"octets": size}}])
    assert got["body"] == {"octets": size, "sum": summed(size)}


def test_wrong_password(page: Any, broker: Server) -> None:
    answer = call(page, broker, "refused", password="wrong", protocols=["amqp"])
    assert answer != "open"


def test_right_password(page: Any, broker: Server) -> None:
    assert call(page, broker, "refused", password="guest", protocols=["amqp"]) == "open"
