"""Deliveries that outlive the link that received them, and with it their channel (1.0 §2.6.13)."""

from collections.abc import Iterable, Iterator

from gateway.broker.consumers import Window
from gateway.broker.exclusions import Exclusions
from gateway.broker.lanes import Entry
from gateway.broker.long_operations import PORTION, LongOperations
from gateway.broker.settlements import (
    Back,
    Verdict,
    add_modification,
    count_failure,
    in_portions,
    return_or_end,
)
from gateway.errors import Refusal
from gateway.operations import Modify, Outcome

Holding = dict[int, Entry]
"""Deliveries by number, ascending."""


class LinkSuspension:
    """Takes the unsettled deliveries of a consumer out of the window of its channel, and gives them
    to the consumer that takes its place."""

    __slots__ = ("window", "long_operations")

    def __init__(self, window: Window, long_operations: LongOperations) -> None:
        self.window = window
        self.long_operations = long_operations

    def park(self, tag: str) -> Holding:
        """Stop a consumer and take its deliveries out of the channel. They are still unsettled; the
        caller gives them up or keeps them, ``parted`` from the consumer. Its queue stays, though it
        might have ended with its last consumer. Of many deliveries, this is all that is done at
        once."""
        consumer = self.window.consumers.pop(tag, None)
        if consumer is None:
            return {}
        found = self.window.take_from(consumer)
        consumer.queue.remove_consumer(consumer, keep_queue=True)
        return found

    def release(self, entries: list[Entry]) -> None:
        """Parked deliveries go back to their queues. Of many, a portion in each turn; no consumer
        of this channel is served until all are there."""
        if len(entries) <= PORTION:
            give_up(entries, Outcome.RELEASE)
            return

        def released(refusal: Refusal | None) -> None:
            self.window.busy -= 1
            self.window.reopen()

        self.window.busy += 1
        self.window.reopen()
        steps = giving_up(entries, Outcome.RELEASE)
        self.long_operations.begin(steps, released, atomic=False)

    def exclusions(self, tag: str) -> Exclusions | None:
        """The messages that a consumer must not get: read before it is parked, and given to the
        consumer that takes its place."""
        consumer = self.window.consumers.get(tag)
        cursor = None if consumer is None else consumer.cursor
        return None if cursor is None else cursor.exclusions

    def adopt(self, tag: str, entries: list[Entry]) -> list[int]:
        """Parked deliveries belong to this consumer now; their new numbers."""
        consumer = self.window.consumers[tag]
        numbers: list[int] = []
        for entry in entries:
            numbers.append(self.window.hold(entry))
            consumer.hold(entry)
        return numbers


def parted(entry: Entry) -> Entry:
    """A parked delivery is not its consumer's any more."""
    if entry.consumer is not None:
        entry.consumer.release(entry)
    return entry


def give_up(entries: Iterable[Entry], verdict: Verdict) -> None:
    """Parked deliveries have this outcome."""
    for _ in giving_up(entries, verdict):
        pass


def giving_up(entries: Iterable[Entry], verdict: Verdict) -> Iterator[None]:
    """The same as a long operation. Until the end released messages count as unsettled."""

    def give_up_some(portion: list[Entry], back: Back) -> None:
        for entry in portion:
            queue = parted(entry).lane.queue
            outcome = verdict
            if isinstance(outcome, Modify):
                if not queue.gone:
                    add_modification(entry, outcome)
                elsewhere = outcome.elsewhere and queue.would_dead_letter(entry.message)
                outcome = Outcome.REJECT if elsewhere else Outcome.RELEASE
            elif outcome is Outcome.REJECT and not queue.gone:
                count_failure(entry)
            return_or_end(entry, outcome, back)

    return in_portions(entries, give_up_some)
