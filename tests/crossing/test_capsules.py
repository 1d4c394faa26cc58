"""Capsules: ours are used, edits win, and those of others mean nothing."""

import hmac
from typing import Any
from uuid import UUID

import pytest

from gateway.adapters.methods import types as fields
from gateway.adapters.methods.content import BASIC, read_header
from gateway.adapters.methods.splicing import with_headers
from gateway.adapters.methods.wire.layouts import BasicProperties, write_basic_properties
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.decoding import decode
from gateway.adapters.performatives.splicing import annotations_of, with_annotations
from gateway.crossing.capsule import Seal, entry, mapped
from gateway.crossing.crossing import Crossing, Fidelity
from gateway.message import Dialect, Message, Properties, cross_with, plainly
from gateway.values import Array, Scaled, Symbol, ULong
from tests import in_memory
from tests.crossing.messages import legacy, modern, octets_of, section

KEY, OTHER = b"k" * 32, b"o" * 32
ORIGIN, OUR_ORIGIN = "x-opt-gateway-origin", "x-gateway-origin"


def made(dialect: Dialect, header: bytes, body: bytes = b"body") -> Message:
    return Message(dialect, header, body, "x", "k", dialect.essentials(header))


def basic(headers: dict[str, Any] | None = None, **given: Any) -> Message:
    table = None if headers is None else fields.write_table(headers)
    return legacy(write_basic_properties(BasicProperties(headers=table, **given)))


PRICED = {"price": Scaled(2, 12345), "n": 1}
"""Headers with a decimal, which needs a capsule."""


def risen(message: Message) -> Message:
    header, body, fidelity, _ = Crossing(KEY).cross(message, SECTIONS)
    assert fidelity is Fidelity.CAPSULE
    return made(SECTIONS, header, in_memory.small(body))


def test_a_decimal_comes_home() -> None:
    message = basic(PRICED, message_id="m")
    header, body, fidelity, inexact = Crossing(KEY).cross(message, SECTIONS)
    assert inexact == ("headers.price",)
    there = made(SECTIONS, header, in_memory.small(body))
    back = Crossing(KEY).cross(there, BASIC)
    assert (back.header, back.fidelity) == (message.header, Fidelity.EXACT)


@pytest.mark.parametrize("place", range(0, 400, 7))
def test_a_changed_capsule_is_refused(place: int) -> None:
    there = risen(basic(PRICED, message_id="m"))
    annotations = dict(annotations_of(there.header))
    octets = bytearray(annotations[ORIGIN])
    octets[place % len(octets)] ^= 1
    annotations[Symbol(ORIGIN)] = bytes(octets)
    check_refused(Crossing(KEY), with_annotations(there.header, annotations))


def check_refused(crossing: Crossing, header: bytes, body: bytes = b"body") -> None:
    back = crossing.cross(made(SECTIONS, header, in_memory.small(body)), BASIC)
    found = BASIC.read(back.header).application or {}
    assert found["price"] == "123.45"
    assert crossing.forged == 1


@pytest.mark.parametrize("size", [0, 1, 40, 100])
def test_a_cut_capsule_is_refused(size: int) -> None:
    there = risen(basic(PRICED, message_id="m"))
    annotations = dict(annotations_of(there.header))
    annotations[Symbol(ORIGIN)] = annotations[ORIGIN][:size]
    check_refused(Crossing(KEY), with_annotations(there.header, annotations))


@pytest.mark.parametrize("other", [7, "text", None, [b"x"], {"v": 1}, b"\x45", b"\xc1\x01\x00"])
def test_invalid_capsules_are_refused(other: Any) -> None:
    header = SECTIONS.write(
        Properties(annotations={ORIGIN: other}, application={"price": "123.45"})
    )
    crossing = Crossing(KEY)
    back = crossing.cross(made(SECTIONS, header), BASIC)
    assert (BASIC.read(back.header).application or {})["price"] == "123.45"


@pytest.mark.parametrize("change", [
    {"n": [5]}, {"n": [None]}, {"n": ["a", ["odd"]]}, {"n": "text"}, {"p": 7}, {"h": "text"},
    {"s": None}, {"o": 1}, {"w": b"x"},
])  # fmt: skip
def test_an_odd_capsule_with_a_right_signature_is_refused(change: dict[str, Any]) -> None:
    """Anybody may sign for the archive, whose key is known to all."""
    seal = Seal(KEY)
    value = annotations_of(risen(basic(PRICED, message_id="m")).header)[ORIGIN]
    assert seal.read(value) is not None
    found = decode(value)
    del found["k"]
    found.update(change)
    order = [name for name in "vphownsk" if name in found]
    entries = [entry(name, found[name]) for name in order]
    entries.append(entry("k", seal.name + hmac.digest(KEY, mapped(entries), "sha256")))
    assert seal.read(mapped(entries)) is None


def test_a_capsule_of_another_key_is_refused() -> None:
    check_refused(Crossing(OTHER), risen(basic(PRICED, message_id="m")).header)


def test_a_capsule_on_another_message_is_refused() -> None:
    octets = annotations_of(risen(basic(PRICED, message_id="m")).header)[ORIGIN]
    header = SECTIONS.write(
        Properties(
            message_id="other", annotations={ORIGIN: octets}, application={"price": "123.45"}
        )
    )
    check_refused(Crossing(KEY), header, b"another body")


def test_a_capsule_of_the_other_direction_is_refused() -> None:
    there = risen(basic(PRICED, message_id="m"))
    octets = annotations_of(there.header)[ORIGIN]
    header = with_headers(b"\x00\x00", {OUR_ORIGIN: octets, "n": 1})
    crossing = Crossing(KEY)
    crossing.cross(made(BASIC, header), SECTIONS)
    assert crossing.forged == 1


def test_edits_win_over_the_capsule() -> None:
    there = risen(basic(PRICED, message_id="m", priority=3, user_id="alice"))
    found = SECTIONS.read(there.header)
    found.priority, found.user_id = 7, b"mallory"
    found.application = {**(found.application or {}), "new": "n"}
    found.annotations = {**(found.annotations or {})}
    back = Crossing(KEY).cross(made(SECTIONS, SECTIONS.write(found)), BASIC)
    assert back.fidelity is Fidelity.EDITED
    read = BASIC.read(back.header)
    assert (read.message_id, read.priority, read.user_id) == ("m", 7, b"mallory")
    assert read.application == {**PRICED, "new": "n"}


def test_removed_copies_stay_removed() -> None:
    there = risen(basic({**PRICED, "CC": ["secret"]}, message_id="m"))
    found = SECTIONS.read(there.header)
    assert found.annotations is not None
    del found.annotations["x-cc"]
    back = Crossing(KEY).cross(made(SECTIONS, SECTIONS.write(found)), BASIC)
    assert BASIC.read(back.header).application == PRICED


def sunk(octets: bytes) -> Message:
    header, body, fidelity, _ = Crossing(KEY).cross(modern(octets), BASIC)
    assert fidelity is Fidelity.CAPSULE
    return made(BASIC, header, in_memory.small(body))


RICH = (
    section(0x72, {Symbol("x-opt-a"): Array([1, 2], 0x55)})
    + section(0x74, {"n": 1})
    + section(0x75, b"one")
    + section(0x75, b"two")
)


def test_sections_come_home_and_edits_win() -> None:
    there = sunk(RICH)
    assert there.body == b"onetwo"
    back = Crossing(KEY).cross(there, SECTIONS)
    assert octets_of(made(SECTIONS, back.header, in_memory.small(back.body))) == RICH
    header = with_headers(there.header, {"n": 2})
    back = Crossing(KEY).cross(made(BASIC, header, there.body), SECTIONS)
    assert back.fidelity is Fidelity.EDITED
    expected = RICH.replace(section(0x74, {"n": 1}), section(0x74, {"n": 2}))
    assert octets_of(made(SECTIONS, back.header, in_memory.small(back.body))) == expected


def test_an_edited_body_stays_edited() -> None:
    there = sunk(section(0x74, {"a": Array([1], 0x55)}) + b"\x00\x53\x77\xb1\x00\x00\x00\x01a")
    assert there.body == b"a"
    back = Crossing(KEY).cross(made(BASIC, there.header, b"b"), SECTIONS)
    assert back.body == section(0x77, "b") and back.fidelity is Fidelity.EDITED
    whole = Crossing(KEY).cross(there, SECTIONS)
    assert whole.body == b"\x00\x53\x77\xb1\x00\x00\x00\x01a"


def test_a_message_too_large_for_a_capsule_is_lossy_or_refused() -> None:
    message = basic({"d": Scaled(1, 5), "s": "x" * 9000})
    crossed = Crossing(KEY).cross(message, SECTIONS)
    assert (crossed.fidelity, crossed.inexact) == (Fidelity.LOSSY, ("headers.d",))
    with pytest.raises(ValueError, match="headers.d"):
        Crossing(KEY, "strict").cross(message, SECTIONS)


def test_natural_and_lenient_write_no_capsule() -> None:
    for mode, fidelity in (("natural", Fidelity.NATURAL), ("lenient", Fidelity.LOSSY)):
        crossed = Crossing(KEY, mode).cross(basic({**PRICED, "t": {"a": 1}}), SECTIONS)  # type: ignore[arg-type]
        assert crossed.fidelity is fidelity and ORIGIN.encode() not in crossed.header
        assert (b"x-opt-gateway-headers" in crossed.header) is (mode == "natural")


def test_octets_only_if_asked() -> None:
    odd = legacy(write_basic_properties(BasicProperties(headers=b"\x01aL" + bytes(7) + b"\x05")))
    assert Crossing(KEY).cross(odd, SECTIONS).fidelity is Fidelity.EQUIVALENT
    assert Crossing(KEY, fidelity="bytes").cross(odd, SECTIONS).fidelity is Fidelity.CAPSULE


@pytest.mark.parametrize(
    "id_", ["text", UUID(int=7), ULong(7), b"\0\xff", "AMQP_ULONG:7", "m" * 300, b"b" * 200]
)
def test_an_id_copied_into_a_reply_comes_home_with_its_type(id_: Any) -> None:
    """A 1.0 requester, a legacy responder that copies text, and the requester again."""
    request = SECTIONS.write(Properties(message_id=id_, reply_to="q"))
    crossing = Crossing(KEY)
    asked = crossing.cross(made(SECTIONS, request), BASIC)
    wire = BasicProperties(correlation_id=copied(asked.header))
    reply = crossing.cross(legacy(write_basic_properties(wire)), SECTIONS)
    found = SECTIONS.read(reply.header).correlation_id
    assert found == id_ and type(found) is type(id_)


def copied(header: bytes) -> str | None:

    return read_header(header).message_id


def test_equal_headers_are_converted_once_and_counted_each_time() -> None:
    crossing = Crossing(KEY)
    for body in (b"1", b"2"):
        message = basic(PRICED)
        message.body = body
        header, found = crossing(message, SECTIONS)
        assert found == body
    assert crossing.counts == {("0-9-1", "1.0", "capsule"): 2}
    value, other = (modern(section(0x77, each)) for each in (5, b"bytes"))
    assert crossing(value, BASIC)[1] != crossing(other, BASIC)[1] == b"bytes"


def test_messages_cross_as_the_process_says() -> None:
    crossing = Crossing(KEY)
    cross_with(crossing)
    try:
        message = basic(PRICED)
        assert message.form_for(BASIC) == (message.header, b"body")
        assert ORIGIN.encode() in message.form_for(SECTIONS)[0]
    finally:
        cross_with(plainly)
