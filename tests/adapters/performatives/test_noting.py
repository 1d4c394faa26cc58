"""What the broker adds to a stored header of 1.0, as message annotations."""

from typing import Any

import pytest

from gateway.adapters.performatives import splicing
from gateway.adapters.performatives.content import SECTIONS
from gateway.message import Properties
from gateway.values import Symbol, UInt


def header(number: int, **annotations: Any) -> bytes:
    given = {Symbol(f"x-opt-{name}"): value for name, value in annotations.items()}
    return SECTIONS.write(Properties(message_id=f"m-{number}", annotations=given or None))


def test_notes_of_equal_annotations_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    write = splicing.noted

    def counted(given: bytes, notes: dict[str, Any]) -> bytes:
        written.append(given)
        return write(given, notes)

    monkeypatch.setattr(splicing, "noted", counted)
    splicing._NOTED.clear()
    for number in range(20):
        for place in ("a", "b"):
            made = SECTIONS.read(SECTIONS.with_headers(header(number, place=place), {"hops": 1}))
            assert made.annotations == {"x-opt-place": place, "x-opt-hops": 1}
            assert made.message_id == f"m-{number}"
    assert len(written) == 2


@pytest.mark.parametrize("values", [(1, True, UInt(1), "1"), (["a"], ("a",), {"a": 1}, 1.0)])
def test_values_of_other_types_are_not_mixed_up(values: tuple[Any, ...]) -> None:
    for value in values * 2:
        for annotations in ({}, {"other": 1}):
            octets = SECTIONS.with_headers(header(1, **annotations), {"note": value})
            found = (SECTIONS.read(octets).annotations or {})["x-opt-note"]
            fresh = SECTIONS.write(Properties(annotations={Symbol("x-opt-note"): value}))
            wanted = (SECTIONS.read(fresh).annotations or {})["x-opt-note"]
            assert (type(found), found) == (type(wanted), wanted)
