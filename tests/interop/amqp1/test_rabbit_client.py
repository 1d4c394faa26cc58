"""RabbitMQ's own Python client of AMQP 1.0, for its management above all.

It insists on a server that calls itself RabbitMQ 4, so it is tried on the gateway only, with a
listener that does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.amqp1.conftest import NAME
from tests.interop.amqp1.programs import CLIENTS, Seen, checks
from tests.interop.peers import python_module
from tests.interop.restarts import compare
from tests.interop.servers import Server, start_gateway

pytestmark = pytest.mark.interop

COMPAT = '[amqp]\ncompat = "rabbitmq-4"\n'
_CROSSED = [True, ["accepted", "accepted", "released"], 1]

EXPECTED: dict[str, Any] = {
    "opens": {"product": "RabbitMQ"},
    "queues": {
        "name": True,
        "durable": True,
        "exclusive": False,
        "auto_delete": False,
        "type": "classic",
        "priority": 10,
        "messages": 3,
        "consumers": 0,
        "purged": 3,
        "left": 0,
    },
    "refusals": [
        None,
        "'ErrPreconditionFailed'",
        "'wrong response code received: 404'",
        "'wrong response code received: 403'",
        True,
    ],
    "names": [_CROSSED] * 5,
    "bindings": {
        "direct": [["accepted", "released"], 1],
        "topic": [["accepted", "released"], 1],
        "fanout": [["accepted", "released"], 1],
        "chain": [["accepted"], 1],
    },
    "outcomes": ["accepted", "rejected", "released"],
    "per_message": ["accepted", "to whom"],
    "consumers": {"seen": [["a", True], ["a", False]], "left": 0, "buried": ["b"]},
    "annotated": [{"x-opt-my": "again"}, {"x-opt-my": "gone"}],
    "settled": [["a", "b"], 0],
    "direct_reply_to": ["accepted", ["answer"], True],
}


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if NAME != "gateway":
        pytest.skip("the client refuses whatever does not call itself RabbitMQ 4")
    if reason := python_module("rabbitmq_amqp_python_client")():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("rabbit")
    config = folder / "compat.toml"
    config.write_text(COMPAT)
    server = start_gateway(folder, extra=["--config", str(config)])
    try:
        yield server
        assert server.alive, server.tail()
    finally:
        server.stop()


@pytest.fixture(scope="module")
def seen(rabbit: Server) -> Seen:
    program = str(CLIENTS / "rabbit_client.py")
    return checks([sys.executable, program, rabbit.host, str(rabbit.port)])


@pytest.mark.parametrize("check", EXPECTED)
def test_rabbit_client(check: str, seen: Seen) -> None:
    compare(seen, check, EXPECTED[check])
