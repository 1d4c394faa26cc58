"""Qpid's JMS clients for 0-x and for 1.0 with each other: each a publisher and a subscriber in a
process of its own, and each asks the other and gets its replies."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.interop import brokers
from tests.interop.restarts import LINES, Seen, java
from tests.interop.servers import Server, end_group

pytestmark = pytest.mark.interop

FOLDER = Path(__file__).parent / "clients/jms"
PACKAGES = {"legacy": ("qpid-client", "javax.jms"), "modern": ("qpid-jms", "jakarta.jms")}
PEERS = {"0-8": "legacy", "0-9-1": "legacy", "0-10": "legacy", "1.0": "modern"}
DIRECTIONS = [
    *permutations(("0-9-1", "0-10", "1.0"), 2),
    ("0-8", "1.0"),
    ("1.0", "0-8"),
    ("0-8", "0-9-1"),
    ("0-8", "0-10"),
]

PROPERTIES = {
    "aBoolean": "Boolean true",
    "aByte": "Byte -128",
    "aShort": "Short -32768",
    "anInt": "Integer -2147483648",
    "aLong": "Long -9223372036854775808",
    "aFloat": "Float 0.5",
    "aDouble": "Double 1.0E300",
    "aString": "String grün ✓",
}
HEADERS = {
    "type": "kind",
    "id": True,
    "mode": 2,
    "priority": 7,
    "redelivered": False,
    "timestamp": True,
    "expires": True,
}
VALUES = {
    "boolean": "Boolean true",
    "byte": "Byte -1",
    "short": "Short -2",
    "int": "Integer 3",
    "long": "Long 4",
    "float": "Float 0.5",
    "double": "Double 1.0E300",
    "string": "String grün",
    "bytes": "byte[] [0, -1]",
}
BODIES: dict[str, tuple[str, Any]] = {
    "text": ("TextMessage", "grün ✓"),
    "text empty": ("TextMessage", ""),
    "text null": ("TextMessage", None),
    "bytes": ("BytesMessage", "byte[] [0, -1, 65]"),
    "bytes empty": ("BytesMessage", "byte[] []"),
    "map": ("MapMessage", VALUES),
    "map empty": ("MapMessage", {}),
    "stream": ("StreamMessage", [*VALUES.values(), "Character ü"]),
    "stream empty": ("StreamMessage", []),
    "object": ("ObjectMessage", "[o, 5]"),
    # The client for 0-x takes a message without content type for bytes, also from itself.
    "plain": ("BytesMessage", "byte[] []"),
    "correlation": ("TextMessage", "c"),
    "correlation bytes": ("TextMessage", "c"),
    "group": ("TextMessage", "c"),
}
CORRELATIONS = {"correlation": "c-1", "correlation bytes": "byte[] [0, -1, -2, 10]"}
GROUP = {"JMSXGroupID": "String g", "JMSXGroupSeq": "Integer 7"}
REPLIES = ("temporary queue", "temporary topic", "queue", "topic")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The command of each client's program."""
    found = {}
    for name, (artefacts, package) in PACKAGES.items():
        scratch = tmp_path_factory.mktemp(name)
        source = scratch / "JmsPeer.java"
        source.write_text((FOLDER / source.name).read_text().replace("PACKAGE", package))
        sources = [source, FOLDER / name / "Dial.java", LINES]
        wanted = "qpid-client" if name == "legacy" else "qpid-jms-client"
        found[name] = java(artefacts, wanted, sources)
    return found


def command(programs: dict[str, list[str]], server: Server, version: str) -> list[str]:
    words = [f"-Dqpid.amqp.version={version}", "-Dqpid.sync_op_timeout=10000"]
    program = programs[PEERS[version]]
    return [program[0], *words, *program[1:], server.host, str(server.port)]


@contextmanager
def started(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            end_group(process)


def lines(text: str) -> Seen:
    seen: Seen = {}
    for line in text.splitlines():
        if line.startswith("{"):
            one = json.loads(line)
            seen[one["check"]] = one
    return seen


def conversation(
    programs: dict[str, list[str]],
    server: Server,
    versions: tuple[str, str],
    verbs: tuple[str, str],
) -> tuple[Seen, str]:
    """Checks of the first peer, which did the first verb while the second peer did the other, and
    the output of both."""
    queue = f"jms.{verbs[0]}.{versions[0]}.{versions[1]}"
    for name in (queue, f"{queue}.replies"):
        brokers.declare(server, name)
    first, second = (
        [*command(programs, server, version), verb, queue]
        for version, verb in zip(versions, verbs, strict=True)
    )
    with started(second) as other, started(first) as one:
        said, _ = one.communicate(timeout=120)
        told, _ = other.communicate(timeout=60)
    return lines(said), said + told


@pytest.fixture(scope="module", params=DIRECTIONS, ids="-to-".join)
def received(
    request: pytest.FixtureRequest, programs: dict[str, list[str]], gateway: Server
) -> tuple[Seen, str]:
    sender, receiver = request.param
    return conversation(programs, gateway, (receiver, sender), ("receive", "send"))


@pytest.fixture(scope="module", params=DIRECTIONS, ids="-asks-".join)
def answered(
    request: pytest.FixtureRequest, programs: dict[str, list[str]], gateway: Server
) -> tuple[Seen, str]:
    return conversation(programs, gateway, request.param, ("ask", "answer"))


@pytest.mark.timeout(300)  # the first of a direction waits for both programs
@pytest.mark.parametrize("check", BODIES)
def test_messages_arrive(check: str, received: tuple[Seen, str]) -> None:
    seen, said = received
    assert "got" in seen.get(check, {}), said[-2000:]
    got = seen[check]["got"]
    kind, body = BODIES[check]
    assert (got["kind"], got["body"]) == (kind, body)
    expected = {**PROPERTIES, **(GROUP if check == "group" else {})}
    assert {name: got["properties"].get(name) for name in expected} == expected
    assert {name: got[name] for name in HEADERS} == HEADERS
    if check in CORRELATIONS:
        assert got["correlation"] == CORRELATIONS[check]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("reply", REPLIES)
def test_replies_come_back(reply: str, answered: tuple[Seen, str]) -> None:
    seen, said = answered
    assert seen.get(reply, {}).get("got") == [f"{reply} answered", True], said[-2000:]
