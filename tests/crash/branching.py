"""The process that ``test_branches`` kills: moves numbered messages from one queue to another in
branches; says what it is going to do, does it, and says that it is done."""

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gateway.broker.branches import Completing
from gateway.broker.broker import Broker
from gateway.broker.channel import Channel
from gateway.message import Message
from gateway.operations import BranchStatus, DeclareQueue, Outcome, Xid
from gateway.store import SqliteStore
from tests import in_memory
from tests.broker.fakes import Heard
from tests.store.samples import message

COUNT = 3000
SIZES = [1, 2, 30, 1100]
"""Messages of one branch; the last is more than a portion."""


class Moving:
    """A broker on a directory, with the queues ``from`` and ``to``, and turns of its own."""

    def __init__(self, directory: Path) -> None:
        self.store = SqliteStore(directory)
        self.broker = Broker(self.store)
        self.client = self.broker.attach("/", "guest", "moving")
        self.channel: Channel = self.client.channel(1, Heard())
        for name in ("from", "to"):
            declare = DeclareQueue(1, None, name, durable=True)
            self.channel.topology.declare_queue(declare)
        self.branches = self.broker.branches(self.client.vhost)

    def turn(self) -> None:
        """One turn, and the commit of its batch if no long operation holds it."""
        state = self.broker.state
        state.long_operations.work()
        self.broker.end_turn()
        if not state.long_operations.holding:
            batch = self.store.take()
            if batch is not None:
                self.store.write(batch)
                self.broker.committed(batch.mark)

    def complete(self, work: tuple[bool, Completing]) -> BranchStatus:
        """The status of a branch, when the store has it."""
        found: list[BranchStatus] = []
        safe: list[int] = []

        def steps() -> Iterator[None]:
            found.append((yield from work[1]))

        def done(refusal: Any) -> None:
            self.broker.when_safe(lambda: safe.append(1))

        self.broker.state.long_operations.begin(steps(), done)
        while not safe:
            self.turn()
        return found[0]

    def numbers(self, queue: str) -> list[int]:
        """Those that are ready."""
        backlog = self.client.vhost.queues[queue].backlog
        found: list[int] = []
        after = 0
        for lane in backlog.lanes:
            for entry in lane.ready:
                found.append(number_of(entry.message))
                after = entry.position
            # Of a lane without any that is paged, the store has those that branches hold.
            while lane.paged and (kept := lane.read_paged(max(lane.paged_from, after + 1), 1000)):
                found += [number_of(one.message) for one in kept]
                after = kept[-1].position
        return found

    def move(self, xid: Xid, count: int, chance: random.Random) -> list[int]:
        """In a branch that has ended; which ones."""
        mine = self.channel.needed_branches()
        mine.start(xid)
        moved: list[int] = []
        for _ in range(count):
            got = self.channel.fetch("from")
            if got is None:
                break
            self.channel.settlements.settle(got.delivery, False, Outcome.ACCEPT)
            moved.append(number_of(got.message))
            self.channel.publish(numbered(moved[-1], "to", chance))
        mine.end(xid)
        return moved


def numbered(number: int, queue: str, chance: random.Random) -> Message:
    return message(b"%d " % number * chance.choice([1, 300]), b"", "", queue)


def number_of(message: Message) -> int:
    return int(in_memory.octets(message).split()[0])


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(directory: str, seed: str) -> None:
    chance = random.Random(seed)
    moving = Moving(Path(directory))
    moving.channel.select_branches()
    if not any(moving.numbers(name) for name in ("from", "to")) and not moving.branches.known:
        for number in range(COUNT):
            moving.channel.publish(numbered(number, "from", chance))
        moving.turn()
    say("start")
    serial = 0
    branches = moving.branches
    ends: dict[str, Callable[[Xid], tuple[bool, Completing]]] = {
        "commit": lambda xid: branches.commit(xid, "guest", False),
        "rollback": lambda xid: branches.rollback(xid, "guest"),
        "commit-by-hand": lambda xid: branches.decide(xid, True),
        "rollback-by-hand": lambda xid: branches.decide(xid, False),
    }
    statuses = {
        "commit-by-hand": BranchStatus.HEURISTIC_COMMIT,
        "rollback-by-hand": BranchStatus.HEURISTIC_ROLLBACK,
    }
    decided = [branch.xid for branch in branches.in_doubt if branch.decided]
    left = [branch.xid for branch in branches.in_doubt if not branch.decided]
    while True:
        if decided and chance.random() < 0.3:
            xid = decided.pop()
            say(f"try forget {xid}")
            branches.forget(xid, "guest")
            while moving.store.dirty:
                moving.turn()
            say(f"done forget {xid}")
        if left and chance.random() < 0.7:
            xid = left.pop(chance.randrange(len(left)))
            end = chance.choice([*ends, "commit", "commit"])
            say(f"try {end} {xid}")
            assert moving.complete(ends[end](xid)) is statuses.get(end, BranchStatus.OK)
            say(f"done {end} {xid}")
            if end in statuses:
                decided.append(xid)
            continue
        serial += 1
        xid = Xid(7, f"{seed}-{serial}".encode(), b"\x00")
        moved = moving.move(xid, chance.choice(SIZES), chance)
        say(f"try prepare {xid} {moved}")
        assert moving.complete(moving.branches.prepare(xid, "guest")) is BranchStatus.OK
        say(f"done prepare {xid}")
        left.append(xid)
        if not moved and len(moving.numbers("to")) == COUNT:
            return


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
