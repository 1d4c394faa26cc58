"""Messages that one link must not be given again, though others may have them (1.0 §3.4.5,
"undeliverable-here"; also what is too large for a receiver, or has no form in its version), or one
channel (0-9a0 §4.7.10, §4.8.10: reject).

A message is excluded by the place where it stands. The consumer gets a cursor with its first
exclusion, and from then on takes its messages as a consumer with a filter does: past those that it
must not have. Queues without exclusions pay one look at an empty table for each message that ends.
"""

from typing import TYPE_CHECKING

from gateway.broker.cursors import Cursor
from gateway.errors import Condition, Refusal

if TYPE_CHECKING:
    from gateway.broker.consumers import Consumer
    from gateway.broker.deliveries import Lane
    from gateway.broker.queues import Queue

MOST = 10_000
"""Messages standing in a queue that one link may be excluded from."""


class Exclusions:
    """What one link must not get of one queue. It lives as long as the link: a link that is
    suspended keeps it for the consumer that it gets when it is resumed."""

    __slots__ = ("queue", "places", "shared")

    def __init__(self, queue: "Queue") -> None:
        self.queue = queue
        self.shared = False
        """They are a channel's, and not over with a consumer."""
        self.places: set[tuple[Lane, int]] = set()

    @property
    def full(self) -> bool:
        return len(self.places) >= MOST

    def check(self) -> None:
        """Refuses (506) one more when there are too many: the link would have to be given some of
        them again."""
        if self.full:
            text = f"more than {MOST} messages of a queue are undeliverable here"
            raise Refusal(Condition.RESOURCE_ERROR, text)

    def add(self, lane: "Lane", position: int) -> None:
        place = lane, position
        if place not in self.places:
            self.places.add(place)
            self.queue.excluded.setdefault(place, []).append(self)

    def drop(self, lane: "Lane", position: int) -> None:
        """The message is over, or there was none."""
        self.queue.included(lane, position)

    def clear(self) -> None:
        """The link is over."""
        excluded = self.queue.excluded
        for place in self.places:
            others = excluded[place]
            others.remove(self)
            if not others:
                del excluded[place]
        self.places.clear()


def exclusions_of(consumer: "Consumer", given: Exclusions | None = None) -> Exclusions:
    """Those of a consumer, which takes its messages with a cursor from now on; ``given`` are those
    that it is to have if it has none. It must be woken afterwards."""
    cursor = consumer.cursor
    if cursor is None:
        consumer.rest()
        cursor = consumer.cursor = Cursor(None, None)
        consumer.queue.dispatcher.reconsider(consumer)
    if cursor.exclusions is None:
        cursor.exclusions = given or Exclusions(consumer.queue)
    return cursor.exclusions


def share(consumer: "Consumer", whole: Exclusions) -> None:
    """A consumer has these from now on, and what it was excluded from before counts for all that
    share them. It must be woken afterwards."""
    old = exclusions_of(consumer, whole)
    if old is not whole:
        for lane, position in old.places:
            whole.add(lane, position)
        old.clear()
        assert consumer.cursor is not None
        consumer.cursor.exclusions = whole
