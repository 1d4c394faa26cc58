"""How the headers of a class of content are encoded: a table of fields, in one version's letters.

``PUBLISHED`` is that of 0-8 and 0-9; the drafts have theirs in ``drafts/types.py``.
"""

from collections.abc import Callable
from typing import NamedTuple

from gateway.adapters.methods import types as fields
from gateway.adapters.methods.essentials import check_table, check_value
from gateway.adapters.methods.tags import FieldError
from gateway.message import Table

LONG = b"SxC"
"""Tags of text and binary values, whose length has four octets."""


class Entry(NamedTuple):
    """One entry as it is written. ``text``: its octets, if it is text or binary, else empty."""

    name: bytes
    text: bytes
    whole: bytes


class FieldTables(NamedTuple):
    """The encoding of tables: encoded entries <-> a table. All raise ``FieldError``."""

    read: Callable[[bytes], Table]
    write: Callable[[Table], bytes]
    check: Callable[[bytes], None]
    """Whether ``read`` can read it; decodes nothing."""
    cut: Callable[[bytes], list[Entry]]
    """The entries one by one, not decoded."""
    usual: Callable[[bytes], bytes]
    """The same table in the form that is written here, so that further entries can follow."""


def cut(entries: bytes) -> list[Entry]:
    """The entries of a table of 0-8 or 0-9. Raises ``FieldError``."""
    found, at, end = [], 0, len(entries)
    try:
        while at < end:
            tag = at + 1 + entries[at]
            stop = check_value(entries, tag, end, 0)
            text = entries[tag + 5 : stop] if entries[tag] in LONG else b""
            found.append(Entry(entries[at + 1 : tag], text, entries[at:stop]))
            at = stop
    except IndexError as error:
        raise FieldError("a field table is cut short") from error
    return found


def _check(entries: bytes) -> None:
    check_table(entries, 0, len(entries))


PUBLISHED = FieldTables(fields.read_table, fields.write_table, _check, cut, lambda entries: entries)
