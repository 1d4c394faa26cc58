"""Unsettled deliveries in a row that have not been handled one by one.

Most deliveries come in runs, and their outcomes too, in the same order. One ``DeliveryRun`` then
stands for all of them, in each table of unsettled deliveries and at each of their ids. It is
shortened from its begin, or expanded into deliveries as soon as one of them is handled alone, or
the link over which we sent them is detached.
"""

from collections.abc import Sequence
from typing import Any

from gateway.adapters.performatives.links import Link


class DeliveryRun:
    """Deliveries over one link, ours or the peer's, without a state. ``id`` and ``number`` are
    those of the first; ``tags`` has all tags. ``numbered``: of the peer's deliveries, the table by
    number, in which the run stands, too. ``settled``: the tables of the session and of the link do
    not have them any more."""

    __slots__ = ("link", "id", "number", "tags", "numbered", "settled")

    second, reported, is_open = False, None, True
    """As of each delivery: it does not wait for the sender to settle, has no state of ours, and is
    part of no transaction."""

    def __init__(
        self,
        link: Link,
        id_: int,
        number: int,
        tags: Sequence[Any],
        numbered: dict[int, Any] | None = None,
    ) -> None:
        self.link = link
        self.id = id_
        self.number = number
        self.tags = tags
        self.numbered = numbered
        self.settled = False

    def front(self, most: int) -> "DeliveryRun":
        """The first of them, ``most`` at the most, which leave it: their place in the tables must
        be emptied."""
        if most >= len(self.tags):
            return self
        front = DeliveryRun(self.link, self.id, self.number, self.tags[:most])
        front.settled = self.settled
        self.shorten(most)
        return front

    def shorten(self, count: int) -> None:
        """So many at its begin leave it."""
        self.id += count
        self.number += count
        self.tags = self.tags[count:]


def enter(table: dict[int, Any], first: int, run: DeliveryRun) -> None:
    """The run stands in a table from this key on."""
    table.update(dict.fromkeys(range(first, first + len(run.tags)), run))


def remove(table: dict[int, Any], first: int, count: int) -> None:
    """Empty the places from this key on, which are all taken."""
    if len(table) == count:
        table.clear()
        return
    for key in range(first, first + count):
        del table[key]
