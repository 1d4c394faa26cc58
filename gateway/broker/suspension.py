"""Deliveries that outlive the link that received them, and with it their channel (1.0 §2.6.13)."""

from collections.abc import Iterable, Iterator
from itertools import islice

from gateway.broker.consumers import Window
from gateway.broker.exclusions import Exclusions
from gateway.broker.lanes import DeliverySource, Entry
from gateway.broker.long_operations import PORTION, LongOperations
from gateway.broker.returning import Returned
from gateway.broker.settlements import Verdict, count_failure, note_failure
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
        consumer.queue.remove_consumer(consumer, spare=True)
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
        self.long_operations.begin(steps, released, whole=False)

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
    """The same in portions, for ``LongOperations``. Until the end released messages count as
    unsettled; then all those of a queue are ready at once."""
    left = iter(entries)
    returns: dict[DeliverySource, Returned] = {}
    while portion := list(islice(left, PORTION)):
        back: dict[DeliverySource, list[Entry]] = {}
        _give_up(portion, verdict, back)
        for queue, found in back.items():
            returns.setdefault(queue, Returned()).add(found)
        yield
    for queue, returned in returns.items():
        yield from returned.back_to(queue)
        yield


def _give_up(
    entries: list[Entry], verdict: Verdict, back: dict[DeliverySource, list[Entry]]
) -> None:
    for entry in entries:
        parted(entry)
        queue = entry.lane.queue
        if queue.gone:
            queue.unsettled -= 1
            queue.finish(entry)
            continue
        outcome, reason = verdict, "rejected"
        if isinstance(verdict, Modify):
            note_failure(entry, verdict)
            elsewhere = verdict.elsewhere and queue.would_dead_letter(entry.message)
            outcome = Outcome.REJECT if elsewhere else Outcome.RELEASE
        elif verdict is Outcome.REJECT:
            count_failure(entry)
        if outcome is Outcome.RELEASE:
            most = queue.most_deliveries
            if most is None or entry.deliveries <= most:
                back.setdefault(queue, []).append(entry)
                continue
            outcome, reason = Outcome.REJECT, "delivery_limit"
        queue.unsettled -= 1
        if outcome is Outcome.REJECT:
            queue.reject(entry, reason)
        else:
            queue.finish(entry)
