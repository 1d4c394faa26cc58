"""Patterns of headers of 0-9-1: what they give is what the conversion gives, for every header."""

import random
import string
from typing import Any

import pytest

from gateway import values
from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.crossing.crossing import Crossing
from gateway.crossing.references import References
from gateway.message import Message, Properties
from tests.crossing.test_patterns import counted, crossed
from tests.drawing import examples

KEY = b"k" * 32
NAMES = (
    "a", "number", "text", "x-first-death-queue", "x-delivery-count", "JMSXGroupID",
    "JMSXGroupSeq", "CC", "x-opt-note", "x-amqp10-message-id", "x-gateway-hops", "ü",
    "qpid.subject",
)  # fmt: skip
IDS = (
    "AMQP_ULONG:7",
    "urn:uuid:6f1d83c2-a9e5-4b7f-8c03-d15e92b7a468",
    "ID:x",
    "short",
    "",
    "AMQP_",
)


def text(chance: random.Random) -> str:
    size = chance.choice([0, 1, 3, 4, 5, 5, 5, 20, 200])
    made = "".join(chance.choices(string.ascii_letters, k=size))
    return chance.choice([made, made, made, made + "ü", made + "\udcff"])


def value(chance: random.Random, kind: str) -> Any:
    if kind == "text":
        return text(chance)
    if kind == "int":
        return values.Int(chance.choice([0, -1, 127, 128, -129, 70_000, -70_000]))
    if kind == "long":
        return chance.choice([0, -1, 5, 300, 1 << 31, 1 << 40, -(1 << 40), (1 << 32) - 1])
    if kind == "list":
        return [text(chance)]
    if kind == "table":
        return {"deep": text(chance)}
    return {
        "yes": True,
        "void": None,
        "octets": b"\xff\x00",
        "double": 0.5,
        "short": values.Short(3),
    }[kind]


KINDS = (
    "text", "text", "text", "int", "long", "list", "table", "yes", "void", "octets", "double",
    "short",
)  # fmt: skip


def one_of(chance: random.Random, kinds: dict[str, str], fixed: dict[str, Any]) -> Message:
    given = dict(fixed)
    for name in ("message_id", "correlation_id"):
        given[name] = chance.choice([None, text(chance), *IDS])
    if kinds:
        given["application"] = {name: value(chance, kind) for name, kind in kinds.items()}
    header = BASIC.write(Properties(**given))
    place = chance.choice(["", "amq.direct"]), chance.choice(["q", "key"])
    return Message(BASIC, header, b"body", *place, BASIC.essentials(header))


@pytest.mark.parametrize("seed", range(examples(400)))
def test_every_header_is_as_if_it_were_the_only_one(seed: int) -> None:
    chance = random.Random(seed)
    crossing = Crossing(KEY)
    for _ in range(4):
        names = chance.sample(NAMES, chance.randrange(5))
        kinds = {name: chance.choice(KINDS) for name in names}
        fixed = {
            "durable": chance.choice([None, True]),
            "priority": chance.choice([None, 3]),
            "content_type": chance.choice([None, "text/plain", "amqp/map"]),
            "reply_to": chance.choice([None, "answers"]),
            "type": chance.choice([None, "kind"]),
            "ttl": chance.choice([None, 60_000]),
            "app_id": chance.choice([None, "app"]),
        }
        for _ in range(12):
            one = one_of(chance, kinds, fixed)
            assert crossed(crossing, one) == crossed(Crossing(KEY), one), one.properties
            assert crossing.counts.keys() <= {
                ("0-9-1", SECTIONS.name, fidelity)
                for fidelity in ("exact", "equivalent", "capsule")
            }


def message(**given: Any) -> Message:
    header = BASIC.write(Properties(**given))
    return Message(BASIC, header, b"x", "", "q", BASIC.essentials(header))


def test_ids_and_headers_are_not_converted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    crossing = Crossing(KEY)
    converted = counted(crossing, monkeypatch)
    for number in range(1000, 1100):
        headers = {"n": number, "text": f"ü {number}", "yes": True}
        one = message(message_id=f"m-{number}", correlation_id=f"c-{number}", application=headers)
        made, body = crossing(one, SECTIONS)
        properties = SECTIONS.read(made)
        assert (properties.message_id, properties.correlation_id) == (f"m-{number}", f"c-{number}")
        assert properties.application == headers and body == b"x"
    assert len(converted) == 3, "the first, and two stand-ins for all others"
    assert sum(crossing.counts.values()) == 100


def test_a_reply_is_correlated_by_the_id_that_its_text_refers_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when other replies of its kind came before."""
    crossing = Crossing(KEY)
    for number in range(10):
        crossing(message(correlation_id=f"reply-{number}"), SECTIONS)
    references = References()
    references.remember("guest", "reply-7", b"the id")
    monkeypatch.setattr(crossing, "_references", references)
    for number, wanted in ((7, b"the id"), (8, "reply-8")):
        found = SECTIONS.read(
            crossing(message(correlation_id=f"reply-{number}", type="k"), SECTIONS)[0]
        )
        assert found.correlation_id == wanted
        again = SECTIONS.read(
            crossing(message(correlation_id=f"reply-{number}", app_id="b"), SECTIONS)[0]
        )
        assert again.correlation_id == wanted
