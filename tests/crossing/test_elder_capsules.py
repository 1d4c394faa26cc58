"""Capsules among the drafts of 2005 and 0.8a2: ours are used, edits win, and those of others mean
nothing."""

from typing import Any

import pytest

from gateway.adapters.commands.content import COMMAND, least
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.contents.dialect import CHILDREN, ClassDialect, child
from gateway.adapters.methods.drafts.content import CONTENTS
from gateway.adapters.performatives.content import SECTIONS
from gateway.crossing.capsule import LARGEST
from gateway.crossing.crossing import Crossing, Fidelity
from gateway.crossing.legacy_forms import FORMS
from gateway.message import Dialect, Message, Properties
from gateway.values import Array, Float, Int, Scaled, ULong

KEY, OTHER = b"k" * 32, b"o" * 32
JMS, FILE, FIRST, TEST = (
    CONTENTS[key] for key in (("0-9a6", 7), ("0-9a6", 8), ("0-9a0", 6), ("0-9a6", 12))
)
READERS: list[Dialect] = [JMS, FILE, FIRST, COMMAND]
RICH: dict[str, Any] = {
    "f": Float(1.5),
    "d": Scaled(2, 12345),
    "l": [1, None],
    "n": 1 << 40,
    "s": "x",
}


def made(dialect: Dialect, header: bytes, body: bytes = b"body", key: str = "k") -> Message:
    return Message(dialect, header, body, "x", key, dialect.essentials(header))


def over(message: Message, *readers: Dialect) -> Message:
    crossing = Crossing(KEY)
    for reader in readers:
        crossed = crossing.cross(message, reader)
        assert crossed.fidelity is not Fidelity.LOSSY, crossed.inexact
        message = made(reader, crossed.header, crossed.body[:])
    assert crossing.forged == 0
    return message


def changed(message: Message, **given: Any) -> Message:
    """What a peer makes of it that knows its own version only: all else stays."""
    found = message.dialect.read(message.header)
    for name, value in given.items():
        setattr(found, name, value)
    octets = FORMS[message.dialect.name].capsule_in(message.header)
    form = FORMS[message.dialect.name]
    bare = form.without_capsule(message.dialect.write(found))
    return made(message.dialect, form.with_capsule(bare, octets), message.body[:])


def with_capsule(message: Message, octets: bytes) -> bytes:
    form = FORMS[message.dialect.name]
    return form.with_capsule(form.without_capsule(message.header), octets)


BASE = made(BASIC, BASIC.write(Properties(message_id="m", application={**RICH, "q": ULong(7)})))
MODERN = made(
    SECTIONS,
    SECTIONS.write(
        Properties(message_id="m", annotations={"x-opt-a": Array([1, 2], 0x55)}, application=RICH)
    ),
)


@pytest.mark.parametrize("reader", READERS, ids=lambda each: each.name)
@pytest.mark.parametrize("message", [BASE, MODERN], ids=["0-9-1", "1.0"])
class TestForeignCapsules:
    def refused(
        self, message: Message, header: bytes, home: Dialect, body: bytes = b"body"
    ) -> None:
        crossing = Crossing(KEY)
        back = crossing.cross(made(message.dialect, header, body), home)
        assert crossing.forged == 1
        assert back.header != home.write(Properties()) and BASE.header != back.header

    def test_changed(self, reader: Dialect, message: Message) -> None:
        there = over(message, reader)
        octets = FORMS[reader.name].capsule_in(there.header)
        for place in range(0, len(octets), 29):
            forged = bytearray(octets)
            forged[place] ^= 1
            self.refused(there, with_capsule(there, bytes(forged)), message.dialect)

    def test_cut(self, reader: Dialect, message: Message) -> None:
        there = over(message, reader)
        octets = FORMS[reader.name].capsule_in(there.header)
        for size in (0, 1, 40, len(octets) - 1):
            self.refused(there, with_capsule(there, octets[:size]), message.dialect)

    def test_of_another_key(self, reader: Dialect, message: Message) -> None:
        header, body, fidelity, _ = Crossing(OTHER).cross(message, reader)
        assert fidelity is Fidelity.CAPSULE
        self.refused(made(reader, header, body[:]), header, message.dialect)

    def test_on_another_message(self, reader: Dialect, message: Message) -> None:
        octets = FORMS[reader.name].capsule_in(over(message, reader).header)
        other = made(reader, reader.write(Properties(message_id="o", application={"o": "o"})))
        self.refused(other, with_capsule(other, octets), message.dialect, b"another body")

    def test_of_its_own_dialect(self, reader: Dialect, message: Message) -> None:
        """A message is of no other version than the one that it is written in."""
        octets = FORMS[reader.name].capsule_in(over(message, reader).header)
        if message.dialect is BASIC:
            self.refused(message, FORMS["0-9-1"].with_capsule(message.header, octets), SECTIONS)


@pytest.mark.parametrize("reader", READERS, ids=lambda each: each.name)
def test_edits_win(reader: Dialect) -> None:
    for message in (BASE, MODERN):
        there = over(message, reader)
        found = reader.read(there.header).application or {}
        anew = changed(there, application={**found, "s": "y", "new": "n"}, content_type="a/b")
        crossing = Crossing(KEY)
        back = crossing.cross(anew, message.dialect)
        assert back.fidelity is Fidelity.EDITED and not crossing.forged
        read, old = (message.dialect.read(each) for each in (back.header, message.header))
        assert (read.content_type, read.message_id) == ("a/b", "m")
        assert read.application == {**(old.application or {}), "s": "y", "new": "n"}
        assert read.annotations == old.annotations


@pytest.mark.parametrize("home", [BASE, MODERN], ids=["0-9-1", "1.0"])
@pytest.mark.parametrize("between", [(COMMAND, JMS), (FIRST, COMMAND), (FILE, None), (None, JMS)])
def test_edits_win_in_a_version_between(home: Message, between: tuple[Any, Any]) -> None:
    """Edited in one version, read in a second, read in the first: the edit stays, and so does
    what only the capsule knows."""
    third = SECTIONS if home.dialect is BASIC else BASIC
    first, second = (each or third for each in between)
    there = over(home, first)
    found = first.read(there.header).application or {}
    there = changed(there, application={**found, "new": "n"})
    crossing = Crossing(KEY)
    crossed = crossing.cross(there, second)
    assert crossed.fidelity is Fidelity.EDITED
    assert (second.read(crossed.header).application or {})["new"] == "n"
    again = made(second, crossed.header, crossed.body[:])
    back = crossing.cross(again, home.dialect)
    assert back.fidelity is Fidelity.EDITED and not crossing.forged
    read, old = (home.dialect.read(each) for each in (back.header, home.header))
    assert read.application == {**(old.application or {}), "new": "n"}
    assert read.annotations == old.annotations and back.body == home.body


def test_edits_of_a_body_that_is_one_text() -> None:
    body = b"\x00\x53\x77\xb1\x00\x00\x00\x01a"
    header = SECTIONS.write(
        Properties(message_id="m", body_kind="value", application={"a": Array([1], 0x55)})
    )
    there = over(made(SECTIONS, header, body), COMMAND)
    assert there.body == b"a"
    third = over(there, JMS)
    assert (third.body, over(third, SECTIONS).body, over(there, SECTIONS).body) == (
        b"a",
        body,
        body,
    )
    there.body = b"longer"
    assert over(there, SECTIONS).body == b"\x00\x53\x77\xa1\x06longer"
    third = over(there, JMS)
    assert third.body == b"longer"
    assert over(third, SECTIONS).body == b"\x00\x53\x77\xa1\x06longer"


def test_a_class_without_headers_has_no_room() -> None:
    crossed = Crossing(KEY).cross(BASE, TEST)
    assert crossed.fidelity is Fidelity.LOSSY and "message-id" in crossed.inexact
    with pytest.raises(ValueError, match="message-id"):
        Crossing(KEY, "strict").cross(BASE, TEST)
    plain = made(BASIC, BASIC.write(Properties(content_type="a/b")))
    assert Crossing(KEY, "strict").cross(plain, TEST).fidelity is Fidelity.EXACT


@pytest.mark.parametrize("reader", READERS, ids=lambda each: each.name)
def test_a_message_too_large_for_a_capsule_is_lossy_or_refused(reader: Dialect) -> None:
    given = Properties(durable=True, priority=4, application={"n": 1 << 20, "s": "x" * LARGEST})
    message = made(BASIC, BASIC.write(given))
    crossed = Crossing(KEY).cross(message, reader)
    assert (crossed.fidelity, crossed.inexact) == (Fidelity.LOSSY, ("headers.n",))
    with pytest.raises(ValueError, match="headers.n"):
        Crossing(KEY, "strict").cross(message, reader)


def test_fields_that_leave_no_room() -> None:
    header = BASIC.write(Properties(application={"s": "x" * 65_000, "n": Int(1)}))
    assert Crossing(KEY).cross(made(BASIC, header), COMMAND).fidelity is Fidelity.LOSSY


def test_large_children_need_no_capsule() -> None:
    inner = child(7, b"\0\0", [child(6, b"\0\0", [], b"c" * LARGEST)], b"b" * LARGEST)
    header = JMS.write(Properties(content_type="a/b", durable=True, priority=4)) + inner
    for readers in ((BASIC,), (SECTIONS,), (COMMAND,), (SECTIONS, BASIC)):
        there = over(made(JMS, header), *readers)
        assert FORMS[there.dialect.name].capsule_in(there.header) is None
        assert FORMS[JMS.name].same(over(there, JMS).header, header)
    natural = BASIC.read(over(made(JMS, header), SECTIONS, BASIC).header)
    assert {**(natural.application or {}), **(natural.annotations or {})} == {CHILDREN: inner}


@pytest.mark.parametrize("reader", [JMS, FIRST], ids=lambda each: each.name)
def test_a_destination_that_says_where_it_went_is_of_that_hop(reader: ClassDialect) -> None:
    crossing = Crossing(KEY)
    there = over(BASE, reader)
    record, children = reader.record(there.header)
    assert record.destination is None
    record.destination = "elsewhere"
    back = crossing.cross(made(reader, reader.joined(record, children), key="elsewhere"), BASIC)
    assert (back.header, back.fidelity) == (BASE.header, Fidelity.EXACT)


def test_a_destination_that_was_given_and_changed_is_an_edit() -> None:
    message = made(BASIC, BASIC.write(Properties(to="here", application={"n": 5})))
    there = over(message, JMS)
    record, children = JMS.record(there.header)
    record.destination = "there"
    back = Crossing(KEY).cross(made(JMS, JMS.joined(record, children)), BASIC)
    assert BASIC.read(back.header).to == "there" and back.fidelity is Fidelity.EDITED


@pytest.mark.parametrize("reader", READERS, ids=lambda each: each.name)
def test_notes_of_the_broker_come_beside_the_capsule(reader: Dialect) -> None:
    message = made(BASIC, BASE.header)
    there = over(message, reader)
    death = {"count": 1, "reason": "rejected", "queue": "q"}
    noted = made(reader, reader.with_headers(there.header, {"x-death": [death]}))
    back = over(noted, BASIC)
    expected = {**(BASIC.read(BASE.header).application or {}), "x-death": [death]}
    assert BASIC.read(back.header).application == expected


def test_a_peer_that_sets_empty_texts_means_nothing() -> None:
    record, _ = JMS.record(JMS.write(Properties(content_type="a/b", application={"n": Int(1)})))
    for name in record.__slots__:
        if getattr(record, name) is None:
            setattr(record, name, 0 if name in ("timestamp", "delivery_mode", "priority") else "")
    record.delivery_mode = 1
    there = Crossing(KEY).cross(made(JMS, JMS.joined(record, b"")), SECTIONS)
    assert there.fidelity is Fidelity.EQUIVALENT


def test_the_smallest_header_of_0_8a2_has_no_capsule() -> None:
    there = over(BASE, COMMAND)
    assert FORMS["0.8a2"].capsule_in(there.header) and not FORMS["0.8a2"].capsule_in(
        least(there.header)
    )


def test_decimals_and_signed_integers_of_the_elders_come_home() -> None:
    for reader in READERS:
        given = Properties(durable=True, priority=4, application={"d": Scaled(2, -5), "n": Int(-1)})
        message = made(reader, reader.write(given))
        for way in ((BASIC,), (SECTIONS,), (SECTIONS, BASIC), (BASIC, SECTIONS, BASIC)):
            assert over(message, *way, reader).header == message.header
