"""Messages that one link must not be given again, though others may have them (1.0 §3.4.5,
"undeliverable-here"; also messages too large for a receiver, or without a form in its version), or
one channel (0-9a0 §4.7.10, §4.8.10: reject).

A message is excluded by the place where it stands. The consumer gets a cursor with its first
exclusion, and from then on takes its messages as a consumer with a filter does: past those that it
must not have. Queues without exclusions pay one look at an empty table for each message that ends.
"""

from typing import Protocol

from gateway.errors import Condition, Refusal

MOST = 10_000
"""Messages standing in a queue that one link may be excluded from."""

Excluded = tuple[object, int]
"""A lane, and a position in it."""


class ExclusionIndex(dict[Excluded, "list[Exclusions]"]):
    """Of one queue: by place, the links that must not get the message that stands there."""

    def forget(self, lane: object, position: int) -> None:
        """There is no message at this place any more."""
        for exclusions in self.pop((lane, position), ()):
            exclusions.places.discard((lane, position))


class ExcludingQueue(Protocol):
    """A queue from whose messages links are excluded."""

    excluded: ExclusionIndex


class Exclusions:
    """The messages of one queue that one link must not get. It lives as long as the link: a link
    that is suspended keeps it for the consumer that it gets when it is resumed."""

    __slots__ = ("index", "places", "shared")

    def __init__(self, index: ExclusionIndex) -> None:
        self.index = index
        """That of the queue."""
        self.shared = False
        """They are a channel's, and not over with a consumer."""
        self.places: set[Excluded] = set()

    @property
    def full(self) -> bool:
        return len(self.places) >= MOST

    def check(self) -> None:
        """Refuses (506) one more when there are too many: the link would have to be given some of
        them again."""
        if self.full:
            text = f"more than {MOST} messages of a queue are undeliverable here"
            raise Refusal(Condition.RESOURCE_ERROR, text)

    def add(self, lane: object, position: int) -> None:
        place = lane, position
        if place not in self.places:
            self.places.add(place)
            self.index.setdefault(place, []).append(self)

    def clear(self) -> None:
        """The link is over."""
        for place in self.places:
            others = self.index[place]
            others.remove(self)
            if not others:
                del self.index[place]
        self.places.clear()
