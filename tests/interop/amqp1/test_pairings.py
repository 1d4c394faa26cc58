"""Every type, field and section, and bodies of any size, from each sender to each receiver.

Proton (blocking and event styles) and rhea, in all pairings, through one server. All cases of a
pairing cross in one run of its two programs; each is a test of its own here.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.interop import brokers
from tests.interop.amqp1.cases import CASES, LARGE, MARK, digest
from tests.interop.amqp1.programs import PROGRAMS, Failed, Json, receive, send
from tests.interop.servers import Server

pytestmark = pytest.mark.interop
HARM = {
    ("artemis", "annotation-key-ulong"): "Artemis closes the connection: it expects symbols",
}
"""Cases that brokers nobody here wrote do not carry. The gateway has no line here."""
PAIRS = [(sender, receiver) for sender in PROGRAMS for receiver in PROGRAMS]
Crossed = dict[str, Json]


def harm(broker: Server, case: str) -> str | None:
    return HARM.get((broker.name, case))


def name_of(message: Json) -> str:
    """The case a message is; the only one without a mark is `bare`."""
    section = message.get("application_properties", {"value": []})
    return str(dict(map(tuple, section["value"][:1])).get(MARK, "bare"))


@pytest.fixture(scope="module")
def crossed(broker: Server) -> Callable[[str, str], Crossed]:
    """What a receiver got of all the cases from a sender, and how it all ended under ""."""
    done: dict[tuple[str, str], Crossed] = {}

    def cross(sender: str, receiver: str) -> Crossed:
        if (sender, receiver) not in done:
            done[sender, receiver] = _cross(broker, sender, receiver)
        return done[sender, receiver]

    return cross


def _cross(broker: Server, sender: str, receiver: str) -> Crossed:
    address = brokers.queue_address(broker, f"pairing.{sender}.{receiver}")
    names = [name for name in CASES if not harm(broker, name)]
    ending = "never came"
    try:
        outcomes = send(PROGRAMS[sender], broker, address, [CASES[name] for name in names])
        refused = [
            (name, one["outcome"])
            for name, one in zip(names, outcomes, strict=True)
            if one["outcome"] != "accepted"
        ]
        assert not refused, refused
        got = receive(PROGRAMS[receiver], broker, address, len(names), "--seconds", "15")
    except Failed as failed:
        ending = str(failed)
        got = [line for line in failed.lines if "body" in line]
    return {**{name_of(message): message for message in got}, "": {"ending": ending}}


def bare(message: Json) -> Json:
    """Without what a broker on the way may add or say: defaults of the header, its annotations."""
    header = {
        name: value
        for name, value in message.get("header", {}).items()
        if (name, value) not in DEFAULTS
    }
    left = {**message, "header": dict(header)}
    left.pop("delivery_annotations", None)
    return left


DEFAULTS: list[tuple[str, Any]] = [
    ("durable", False),
    ("priority", {"$type": "ubyte", "value": "4"}),
    ("first_acquirer", False),
    ("first_acquirer", True),
    ("delivery_count", {"$type": "uint", "value": "0"}),
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("sender", "receiver"), PAIRS)
def test_message(
    sender: str, receiver: str, case: str, crossed: Callable[[str, str], Crossed], broker: Server
) -> None:
    for one in (sender, receiver):
        if reason := PROGRAMS[one].missing():
            pytest.skip(reason)
    if reason := harm(broker, case):
        pytest.skip(reason)
    found = crossed(sender, receiver)
    if case not in found:
        pytest.fail(str(found[""]["ending"]), pytrace=False)
    got, sent = bare(found[case]), bare(CASES[case])
    assert age(got["header"], sent["header"]) <= 60_000
    assert got == sent


def age(got: Json, sent: Json) -> int:
    """Milliseconds by which the time to live has shrunk; it is taken out of both."""
    before, after = (int(one.pop("ttl", {"value": "0"})["value"]) for one in (sent, got))
    assert (after == 0) == (before == 0) and after <= before
    return before - after


SIZES = [pytest.param(size, id=name) for name, size in LARGE.items() if size < 100 << 20]
SIZES += [pytest.param(100 << 20, id="100-MiB", marks=pytest.mark.slow)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("sender", "receiver"), PAIRS)
def test_body(sender: str, receiver: str, size: int, broker: Server) -> None:
    for one in (sender, receiver):
        if reason := PROGRAMS[one].missing():
            pytest.skip(reason)
    address = brokers.queue_address(broker, f"body.{sender}.{receiver}")
    sent = {"header": {"durable": True}, "body": {"kind": "data", "size": size}}
    (outcome,) = send(PROGRAMS[sender], broker, address, [sent])
    assert outcome == {"outcome": "accepted"}
    (got,) = receive(PROGRAMS[receiver], broker, address, 1)
    assert size_and_digest(got["body"]) == (size, digest(size))


def size_and_digest(body: Json) -> tuple[int, str]:
    (section,) = body["sections"]
    if isinstance(section, str):
        octets = base64.b64decode(section)
        return len(octets), hashlib.sha256(octets).hexdigest()
    return section["size"], section["sha256"]
