"""Client role: consumers of one session, their credit, and deliveries that are not settled.

A consumer with a prefetch has a window: a transfer is complete, and its credit comes back, when it
is settled. Other transfers are complete when they arrive.
"""

from itertools import takewhile
from typing import Any, NamedTuple

from gateway.adapters.segments.subscriptions import UNLIMITED
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import AcceptMode, AcquireMode, CreditUnit, FlowMode
from gateway.operations import Fetched


class Consumer:
    """One subscription of ours. ``settled``: its deliveries need no accept. ``copy``: it browses.
    ``count`` and ``octets`` are its credit, ``None`` without limit; in a window they are those of
    the whole window. ``granted``: the server has been given it. ``leaving``: it has been cancelled;
    a command for it would cost the session. ``fetching``: it is there for one ``Fetch``, whose
    result is ``fetched``."""

    __slots__ = (
        "tag", "settled", "copy", "window", "count", "octets", "granted", "leaving", "fetching",
        "fetched",
    )  # fmt: skip

    def __init__(
        self,
        tag: str,
        settled: bool,
        copy: bool,
        window: bool,
        count: int | None,
        octets: int | None = None,
        fetching: bool = False,
    ) -> None:
        self.tag = tag
        self.settled = settled
        self.copy = copy
        self.window = window
        self.count = count
        self.octets = octets
        self.granted = self.leaving = False
        self.fetching = fetching
        self.fetched: Fetched | None = None

    @property
    def held_back(self) -> bool:
        """Its transfers are complete when they are settled."""
        limited = self.count is not None or self.octets is not None
        return self.window and limited and not self.settled

    def subscribe(self, queue: str, exclusive: bool, arguments: bytes | None) -> Any:
        return w.MessageSubscribe(
            queue=queue,
            destination=self.tag,
            accept_mode=AcceptMode.NONE if self.settled else AcceptMode.EXPLICIT,
            acquire_mode=AcquireMode.NOT_ACQUIRED if self.copy else AcquireMode.PRE_ACQUIRED,
            exclusive=exclusive,
            arguments=arguments,
        )

    def grant(self) -> list[Any]:
        """The commands that give it its credit. It must have none."""
        mode = FlowMode.WINDOW if self.window else FlowMode.CREDIT
        count = UNLIMITED if self.count is None else self.count
        octets = UNLIMITED if self.octets is None else self.octets
        return [
            w.MessageSetFlowMode(self.tag, mode),
            w.MessageFlow(self.tag, CreditUnit.BYTE, octets),
            w.MessageFlow(self.tag, CreditUnit.MESSAGE, count),
        ]


class Arrival(NamedTuple):
    """A delivery that is not settled: the number of its transfer, and whether that is complete
    already. ``held``: the message is ours; a browsed one is not before it is acquired."""

    number: int
    complete: bool
    held: bool


class Deliveries:
    """The unsettled deliveries of one session."""

    __slots__ = ("last", "unsettled")

    def __init__(self) -> None:
        self.last = 0
        """The number of the last delivery."""
        self.unsettled: dict[int, Arrival] = {}
        """By delivery, ascending."""

    def up_to(self, delivery: int) -> list[int]:
        """Those up to this one; 0 is all."""
        if not delivery:
            return list(self.unsettled)
        return list(takewhile(lambda each: each <= delivery, self.unsettled))

    def restore(self, arrivals: dict[int, Arrival]) -> None:
        """Their settlement was rolled back."""
        self.unsettled = dict(sorted({**self.unsettled, **arrivals}.items()))

    def acquired(self, ranges: list[tuple[int, int]], deliveries: list[int]) -> list[int]:
        """Those of these deliveries whose messages are ours now, as their transfers are in these
        ranges."""
        found = []
        for delivery in deliveries:
            arrival = self.unsettled.get(delivery)
            if arrival and any(low <= arrival.number <= high for low, high in ranges):
                self.unsettled[delivery] = arrival._replace(held=True)
                found.append(delivery)
        return found
