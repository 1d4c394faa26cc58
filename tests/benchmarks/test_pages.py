"""Measured rows stand in the pages as in the table of all rows."""

import pytest

from benchmarks import pages
from benchmarks.__main__ import markdown
from benchmarks.rows import Row, compare


def read(name: str) -> str:
    return (pages.DOCS / name).read_text()


TABLE = pages.lines_in(read(pages.TABLE))


@pytest.mark.parametrize("name", pages.PAGES)
def test_pages_have_the_rows_of_the_table(name: str) -> None:
    """``python -m benchmarks.pages`` writes them."""
    page = read(name)
    assert page == pages.with_rows(page, TABLE)
    assert len(TABLE) > 200


def test_every_group_is_in_the_page_of_the_benchmarks() -> None:
    shown = {line.group for line in pages.lines_in(read("benchmarks.md"))}
    assert shown == {line.group for line in TABLE}


def rows(**figures: float) -> list[pages.Line]:
    """Rows of the group ``codec`` as a run writes them: ours, against 2 of a peer."""
    found = [
        compare(Row("codec", name, "msg/s", against="our 0-9-1"), [ours], [2.0])
        for name, ours in figures.items()
    ]
    return pages.lines_in("\n".join(markdown(found)))


def test_newer_rows_replace_those_with_their_names_and_peers() -> None:
    other = pages.Line("http: POST", "bare uvicorn", "| http: POST | ... |")
    known = [*rows(decode=1.0, encode=1.0), other]
    assert [line.peer for line in known] == ["our 0-9-1", "our 0-9-1", "bare uvicorn"]
    found = pages.merged(known, rows(encode=3.0, forward=4.0))
    assert [(line.label, line.text.count("1.50")) for line in found] == [
        ("codec: decode", 0), ("codec: encode", 3), ("codec: forward", 0), ("http: POST", 0),
    ]  # fmt: skip


PAGE = """\
<!-- rows: codec: de*; codec: f* -->

| row |
|---|
| codec: gone | 1 |

Text.

<!-- ratios -->

| row | peer | ratio |
|---|---|---|
| codec: encode | our 0-9-1 | 9.99 |

More.
"""


def test_tables_of_a_page_are_written_again() -> None:
    lines = rows(decode=1.0, encode=3.0, forward=4.0)
    page = pages.with_rows(PAGE, lines)
    shown = [line.label for line in pages.lines_in(page)]
    assert shown == ["codec: decode", "codec: forward"]
    assert "| codec: encode | our 0-9-1 | 1.50 |\n\nMore.\n" in page
    assert "\n\nText.\n\n" in page
    assert pages.with_rows(page, lines) == page


@pytest.mark.parametrize("label", ["codec: de*", "codec: encode |"])
def test_a_row_that_is_not_there_is_told(label: str) -> None:
    with pytest.raises(LookupError, match="no row is"):
        pages.with_rows(PAGE.replace(label, "codec: x" + label[-2:]), rows(decode=1.0, encode=3.0))
