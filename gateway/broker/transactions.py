"""Transactions of a channel: publishes and settlements that wait for their commit.

The messages being settled stay with the channel, out of reach of another settlement; rolling back
gives them back as they were.
"""

from collections.abc import Iterator

from gateway.broker.lanes import Entry
from gateway.broker.long_operations import PORTION
from gateway.message import Message
from gateway.operations import Modify, Outcome

Retired = tuple[int, Entry, Outcome | Modify, bool]
"""Number, delivery, verdict, and whether the peer has forgotten the delivery."""


class Transaction:
    """The channel's own (0-9-1 class tx). ``publishes``: message, mandatory, immediate.
    ``settlements``: tag, entry, outcome."""

    __slots__ = ("publishes", "settlements", "octets")

    def __init__(self) -> None:
        self.publishes: list[tuple[Message, bool, bool]] = []
        self.settlements: list[tuple[int, Entry, Outcome]] = []
        self.octets = 0

    def publish(self, message: Message, mandatory: bool, immediate: bool) -> None:
        self.publishes.append((message, mandatory, immediate))
        self.octets += message.weight

    def settle(self, tag: int, entry: Entry, outcome: Outcome) -> None:
        self.settlements.append((tag, entry, outcome))

    def settling(self, tags: list[int], entries: list[Entry], outcome: Outcome) -> Iterator[None]:
        """Settle many, in portions."""
        for first in range(0, len(tags), PORTION):
            last = first + PORTION
            for tag, entry in zip(tags[first:last], entries[first:last], strict=True):
                self.settlements.append((tag, entry, outcome))
            yield

    def take_publishes(self) -> list[tuple[Message, bool, bool]]:
        publishes, self.publishes = self.publishes, []
        self.octets = 0
        return publishes

    def take_settlements(self) -> list[tuple[int, Entry, Outcome]]:
        settlements, self.settlements = self.settlements, []
        return settlements


class DeclaredTransaction:
    """A transaction that a coordinator declared under an id (1.0 §4.2): messages posted, and
    deliveries retired (number, entry, verdict, and whether the peer has forgotten the delivery)."""

    __slots__ = ("posts", "retired", "octets")

    def __init__(self) -> None:
        self.posts: list[Message] = []
        self.retired: list[Retired] = []
        self.octets = 0
