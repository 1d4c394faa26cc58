"""Qpid JMS: messages, queues, topics and subscriptions, acknowledgement, local transactions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop import brokers
from tests.interop.amqp1.programs import CLIENTS, Seen, checks
from tests.interop.compiled import compiled
from tests.interop.restarts import compare
from tests.interop.servers import Server

pytestmark = pytest.mark.interop

_VALUES = {
    "Boolean": "true",
    "Byte": "-128",
    "Short": "-32768",
    "Character": "ü",
    "Integer": "-2147483648",
    "Long": "-9223372036854775808",
    "Float": "0.5",
    "Double": "1.0E300",
    "String": "grün ✓",
}
_SEEN = {kind: f"{kind} {text}" for kind, text in _VALUES.items()}
_OCTETS = "[0, -1, -2, 10]"

EXPECTED: dict[str, Any] = {
    "order": {"count": 200, "in_order": True},
    "asynchronous_send": {"completed": True, "count": 20},
    "anonymous_producer": "to whom it concerns",
    "selector": {
        "colour = 'green' AND number BETWEEN 1 AND 2": ["green1"],
        "JMSType = 'even' AND colour LIKE 'b%'": ["blue2"],
        "colour IN ('red', 'yellow') OR nothing IS NOT NULL": ["red0"],
        "number * 2 + 1 > 6.5": ["green3"],
        "left": "[]",
    },
    "browser": {"browsed": [["a", "b", "c"], ["a", "b", "c"]], "left": ["a", "b", "c"]},
    "request_reply": [["ONE", True], ["TWO", True]],
    "expiry": {"noted": True, "left": ["lasting"]},
    "prefetch": {"first": "1", "others": True},
    "pull": [None, "a", "b", None],
    "client_acknowledge": {
        "seen": [["a", False, 1], ["b", False, 1], ["a", True, 2], "b"],
        "left": ["c"],
    },
    "redelivery_count": [
        ["again", False, 1],
        ["again", True, 2],
        ["again", True, 3],
        ["again", True, 4],
    ],
    "commit": {"taken": "old", "before": [], "after": ["new 1", "new 2"]},
    "rollback": {"taken": "old", "before": [], "after": ["old"]},
    "transaction_lost": {"taken": "old", "refused": "yes", "after": ["old"]},
    "bad_login": {"refused": True},
    "missing_queue": {"refused": True},
    "bodies": ["no body", "grün ✓", None, "", "an object"],
    "bytes": [True] * 5,
    "maps": {**_SEEN, "octets": f"byte[] {_OCTETS}", "void": "null null"},
    "streams": [*_SEEN.values(), f"byte[] {_OCTETS}", "null null"],
    "properties": {
        **{f"a{kind}": seen for kind, seen in _SEEN.items() if kind != "Character"},
        "JMSXDeliveryCount": "Integer 1",
        "JMSXGroupID": "String group",
        "JMSXGroupSeq": "Integer 7",
    },
    "headers": {
        "id": True,
        "type": "kind",
        "correlation": "c-1",
        "correlation_octets": _OCTETS,
        "reply_to": True,
        "to": True,
        "priority": 7,
        "mode": 1,
        "default_mode": 2,
        "timestamp": True,
        "expires": True,
        "redelivered": False,
    },
    "topic": [["a", "b", "c"], ["a", "b", "c"], ["c"]],
    "durable_subscription": [[], ["a", "b"], ["a", "b"], []],
    "shared_subscription": {"all": True, "twice": False},
    "shared_durable_subscription": {"all": True, "twice": False},
    "no_local": ["theirs"],
    "temporary_topic": [["a"], ["a"]],
}


@pytest.fixture(scope="module")
def seen(broker: Server, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What Qpid JMS saw, in one run."""
    if reason := brokers.java_missing("qpid-jms", "qpid-jms-client"):
        pytest.skip(reason)
    kind = brokers.KINDS[broker.name]
    for check in EXPECTED:
        brokers.queue_address(broker, f"jms.{check}")
    jars = brokers.classpath("qpid-jms")
    classes = compiled(sorted((CLIENTS / "jms").glob("*.java")), jars)
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", quiet, "-cp", f"{jars}:{classes}"]
    command += ["JmsClient", broker.host, str(broker.port), kind.queue, kind.topic]
    return checks(command)


@pytest.mark.timeout(300)  # the first waits for all of the program
@pytest.mark.parametrize("check", EXPECTED)
def test_jms(check: str, seen: Seen, broker: Server) -> None:
    if check == "missing_queue" and not brokers.KINDS[broker.name].declares:
        pytest.skip("here a queue appears when it is first used")
    compare(seen, check, EXPECTED[check])
