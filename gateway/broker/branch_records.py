"""Prepared branches in the store: written by preparation, read at start.

A record of kind "branch" has the user, the time of preparation, and the number of the lane that
keeps the durable messages of the branch, at positions from 1 on; if it was decided by hand it has
its status instead of the lane. Its key is the virtual host and the xid. Records under that key
have a portion each: the names of the queues of some messages, or some deliveries of one lane that
the branch settles.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gateway.broker.lanes import Entry
from gateway.broker.long_operations import PORTION
from gateway.broker.store import Record, Store
from gateway.broker.transactions import PreparedPublishes
from gateway.operations import BranchStatus, Outcome, Xid

KIND = "branch"


class Settled(NamedTuple):
    """Deliveries of one lane with one outcome."""

    lane: int
    outcome: Outcome
    positions: list[int]


class StoredBranch(NamedTuple):
    """One branch as the records describe it. ``number`` is that of its lane. ``queues`` are the
    names of the queues of each message, by position."""

    vhost: str
    xid: Xid
    user: str
    number: int
    queues: dict[int, list[str]]
    settled: list[Settled]
    since: int = 0
    status: BranchStatus = BranchStatus.OK


def saving_branch(
    store: Store,
    stored: StoredBranch,
    publishes: Iterable[PreparedPublishes],
    settled: Iterable[tuple[Entry, Outcome]],
) -> Iterator[None]:
    """A long operation. Raises ``Unstorable``, and ``forget_branch`` must follow."""
    key = (stored.vhost, str(stored.xid))
    rows: list[list[str]] = []
    position = count = 0
    for prepared in publishes:
        for message, queues in zip(prepared.messages, prepared.queues, strict=True):
            names = [queue.name for queue in queues if queue.keeps and not queue.gone]
            if not names or not message.essentials.durable:
                continue
            position += 1
            store.append(stored.number, position, message, None, True)
            rows.append(names)
            if len(rows) == PORTION:
                count += 1
                store.save(KIND, (*key, str(count)), {"queues": rows, "from": position - PORTION})
                rows = []
                yield
    if rows:
        count += 1
        store.save(KIND, (*key, str(count)), {"queues": rows, "from": position - len(rows)})
    lanes: dict[tuple[int, Outcome], list[int]] = {}
    for entry, outcome in settled:
        if not entry.stored or entry.lane.queue.gone:
            continue
        lane = entry.lane.number, outcome
        positions = lanes.setdefault(lane, [])
        positions.append(entry.position)
        if len(positions) == PORTION:
            count += 1
            store.save(KIND, (*key, str(count)), settled_record(*lane, lanes.pop(lane)))
            yield
    for (number, outcome), positions in lanes.items():
        count += 1
        store.save(KIND, (*key, str(count)), settled_record(number, outcome, positions))
    value = {"user": stored.user, "number": stored.number, "since": stored.since}
    store.save(KIND, key, value)


def settled_record(lane: int, outcome: Outcome, positions: list[int]) -> dict[str, object]:
    return {"lane": lane, "outcome": int(outcome), "positions": positions}


def save_decision(store: Store, stored: StoredBranch) -> None:
    """It was decided by hand: its user and status are all that is left."""
    value = {"user": stored.user, "status": int(stored.status), "since": stored.since}
    store.save(KIND, (stored.vhost, str(stored.xid)), value)


def forget_branch(store: Store, vhost: str, xid: Xid, number: int) -> None:
    """Remove its records and the messages of its lane, if it has one."""
    key = (vhost, str(xid))
    store.forget_under(KIND, key)
    store.forget(KIND, key)
    if number:
        store.drop(number)


def read_xid(text: str) -> Xid:
    """The reverse of ``str``. Raises ``ValueError``."""
    kind, one, two = text.split(":")
    return Xid(int(kind), bytes.fromhex(one), bytes.fromhex(two))


def read_branches(records: Iterable[Record]) -> list[StoredBranch]:
    """All of them."""
    records = [record for record in records if record[0] == KIND]
    found: dict[tuple[str, ...], StoredBranch] = {}
    for _, key, value in records:
        if len(key) == 2:
            vhost, text = key
            found[key] = StoredBranch(
                vhost,
                read_xid(text),
                value["user"],
                value.get("number", 0),
                {},
                [],
                value.get("since", 0),
                BranchStatus(value.get("status", 0)),
            )
    for _, key, value in records:
        branch = found.get(key[:2])
        if branch is None or len(key) == 2:
            continue
        if "queues" in value:
            branch.queues.update(enumerate(value["queues"], value["from"] + 1))
        else:
            outcome = Outcome(value["outcome"])
            branch.settled.append(Settled(value["lane"], outcome, value["positions"]))
    return list(found.values())
