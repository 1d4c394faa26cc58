"""The JMS client of Qpid over 0-8, 0-9, 0-9-1 and 0-10: with the gateway, and with Qpid Broker-J,
which shows what its users are used to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.interop import brokers
from tests.interop.restarts import LINES, Restartable, Seen, checks, compare, java, running
from tests.interop.servers import Server

pytestmark = pytest.mark.interop

SOURCE = Path(__file__).parent / "clients/qpid/QpidJms.java"
VERSIONS = ("0-8", "0-9", "0-9-1", "0-10")

EXPECTED: dict[str, Any] = {
    "properties": {
        "text": "grün ✓",
        "a text": "String red",
        "a int": "Integer -5",
        "a long": "Long 5000000000",
        "a short": "Short -3",
        "a byte": "Byte -2",
        "a yes": "Boolean true",
        "a double": "Double 1.5",
        "a float": "Float 0.5",
        "type": "kind",
        "correlation": "c-1",
        "priority": 7,
        "expires": True,
        "id": True,
    },
    "kinds": [7, "3t", "9z", "[o]", ""],
    "browser": [["a", "b", "c"], [], ["a", "b", "c"]],
    "selector": [["n2", "n4"], ["n0", "n1", "n3"]],
    "wrong_selector": "refused",
    "topic": [["n0", "n1", "n2"], [], ["n1"]],
    "durable_subscription": [["n0", "n1", "n2"], ["n2"]],
    "transactions": ["kept", "kept true", "too", None],
    "client_acknowledge": ["a", "a true", "b", None],
    "request_reply": [True, True],
    "addresses": ["x", "x", "x"],
    "many": True,
    "last_value": [["a2", "c1", "b2"], ["a2", "c1", "b2"]],
    "groups": ["a1", "a2", "a3", "b1", "b2", "c1", "c2", "d1"],
    "long_browser": [True, True, True],
}


LONG_AT_BROKER_J = pytest.param("broker_j", marks=pytest.mark.long)
"""It shows that the program is right; nothing of ours takes part."""


@pytest.fixture(scope="module", params=["gateway", LONG_AT_BROKER_J])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    if request.param == "gateway":
        yield request.getfixturevalue("gateway")
        return
    if reason := brokers.broker_j_missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("broker_j")
    with running(lambda before: brokers.start_broker_j(folder)) as found:
        yield found.server


@pytest.fixture(scope="module", params=VERSIONS)
def seen(
    request: pytest.FixtureRequest, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Seen:
    """Results of the client's checks, in one run."""
    scratch = tmp_path_factory.mktemp("qpid")
    command = java("qpid-client", "qpid-client", [SOURCE, LINES])
    command[1:1] = [f"-Dqpid.amqp.version={request.param}", "-Dqpid.sync_op_timeout=10000"]
    target = Restartable(server, lambda before: before)  # nothing here has it killed
    return checks([*command, server.host, str(server.port)], target, scratch)


@pytest.mark.timeout(300)  # the first waits for all of the program
@pytest.mark.parametrize("check", EXPECTED)
def test_qpid_jms(check: str, seen: Seen) -> None:
    compare(seen, check, EXPECTED[check])
