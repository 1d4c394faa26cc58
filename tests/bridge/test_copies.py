"""Copies of messages: their notes, and how they differ from their messages."""

from typing import Any

from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.bridge.modes import copies
from gateway.bridge.modes.copies import Copies, Expected, copied, copy_id, copy_of, original_id
from gateway.bridge.modes.mode import Mode, can_change
from gateway.message import Message, Properties


def message(body: bytes = b"body", **given: Any) -> Message:
    header = BASIC.write(Properties(**given))
    return Message(BASIC, header, body, "", "orders", BASIC.essentials(header))


def arrived(message: Message, dialect: Any = SECTIONS) -> Message:
    """As the other broker delivers it."""
    header, body = message.form_for(dialect)
    return Message(dialect, header, body, "", "orders", dialect.essentials(header))


def test_notes_are_read_in_every_form() -> None:
    for dialect in (BASIC, SECTIONS):
        copy = arrived(copy_of(message(application={"a": 1}), "k-1"), dialect)
        assert (copy_id(copy), original_id(copy)) == ("k-1", "")
        original = arrived(copied(message(), "k-1"), dialect)
        assert (copy_id(original), original_id(original)) == ("", "k-1")
    assert copy_id(message()) == original_id(message()) == ""


def test_differences_have_classes() -> None:
    mine = message(application={"n": 7, "text": "ü"}, message_id="m", priority=3)
    for dialect in (BASIC, SECTIONS):
        assert copies.differences(mine, arrived(copy_of(mine, "c-1"), dialect)) == set()
    other = message(b"other", application={"n": 8, "text": "ü"}, message_id="m", priority=3)
    assert copies.differences(mine, arrived(other)) == {"body", "property"}
    typed = message(application={"n": "7", "text": "ü"}, message_id="m", priority=3)
    assert copies.differences(mine, arrived(typed, BASIC)) == {"type"}


def test_a_copy_waits_for_its_message_or_the_other_way_round() -> None:
    held = Copies()
    assert held.hold("a", 1)
    assert held.settled("a") == 1 and held.held == 0
    assert held.settled("b") is None
    assert not held.hold("b", 2)
    assert held.hold("c", 3) and held.take_held() == [3]


def test_what_is_expected_is_bounded() -> None:
    expected = Expected()
    for n in range(copies.MOST_EXPECTED + 5):
        expected.add(str(n), message())
    assert expected.get("4") is None and expected.get("5") is not None
    expected.add("large", message(bytes(copies.MOST_OCTETS)))
    assert expected.get(str(copies.MOST_EXPECTED + 4)) is None
    held = Copies()
    for n in range(copies.MOST_SETTLED + 1):
        held.settled(str(n))
    assert held.hold("0", 1) and not held.hold("1", 2)


def test_the_last_mode_comes_after_new_primary() -> None:
    for mode in Mode:
        assert can_change(Mode.NEW_PRIMARY, mode)
        assert can_change(mode, Mode.NEW_ONLY) is (mode in (Mode.NEW_PRIMARY, Mode.NEW_ONLY))
        assert can_change(Mode.NEW_ONLY, mode) is (mode in (Mode.NEW_PRIMARY, Mode.NEW_ONLY))
