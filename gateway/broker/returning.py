"""Deliveries on their way back to their queue, gathered in portions.

All of them stand in their places at once, or a consumer of the queue would be given later messages
before earlier ones. So the work that takes time for each of them is done before that.
"""

from collections.abc import Iterator
from heapq import merge

from gateway.broker.lanes import DeliverySource, Entry, Lane, by_position, in_lanes
from gateway.operations import Outcome

SORTED = 4096
"""Deliveries put in order in one turn of the loop."""


class Returned:
    """Of one queue: for each lane, runs of deliveries that are ascending by position."""

    def __init__(self) -> None:
        self.lanes: dict[Lane, list[list[Entry]]] = {}
        self.octets = 0

    def add(self, entries: list[Entry]) -> None:
        for lane, found in in_lanes(entries).items():
            runs = self.lanes.setdefault(lane, [])
            if runs and runs[-1][-1].position < found[0].position:
                runs[-1] += found
            else:
                runs.append(found)
        self.octets += sum([len(entry.message.body) for entry in entries])

    def back_to(self, queue: DeliverySource) -> Iterator[None]:
        """Put all of them back, in portions: one run is made of each lane's first."""
        for runs in self.lanes.values():
            if len(runs) == 1:
                continue
            ordered: list[Entry] = []
            for entry in merge(*runs, key=by_position):
                ordered.append(entry)
                if len(ordered) % SORTED == 0:
                    yield
            runs[:] = [ordered]
        lanes = [(lane, runs[0]) for lane, runs in self.lanes.items()]
        yield from queue.taking_back(lanes, self.octets)


def handed(entries: list[Entry], outcome: Outcome) -> Iterator[tuple[Entry, Outcome]]:
    """One after the other, let go of as they are taken: to free all at the end would take long."""
    entries.reverse()
    while entries:
        yield entries.pop(), outcome
