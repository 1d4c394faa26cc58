"""Topology and depths of queues, read from the store at start.

Messages stay in the store until they are needed; those delivered before are marked redelivered.
"""

from typing import Any

from gateway.broker.exchange_types import EXCHANGE_TYPES
from gateway.broker.exchanges import Binding, Destination
from gateway.broker.handover import KIND as DELETED
from gateway.broker.journal import ADDRESS, INDEX
from gateway.broker.keyed import KeyedQueue, queue_kind
from gateway.broker.limits import read_queue_arguments
from gateway.broker.plain import read_table
from gateway.broker.policies import KINDS as POLICY_KINDS
from gateway.broker.queues import Queue
from gateway.broker.store import Depth, Record
from gateway.broker.vhost import VirtualHost
from gateway.errors import Refusal, StoreError

TOPOLOGY = (
    *("vhost", "exchange", "queue", "binding", DELETED, "journal", "branch"),
    *(ADDRESS, INDEX),
    *POLICY_KINDS,
)
"""Kinds of records that a broker starts with. (Messages of journals and branches stand like a
queue's.)"""


def restore_topology(vhosts: dict[str, VirtualHost], records: list[Record]) -> None:
    """Exchanges, queues and bindings, in that order, into virtual hosts that exist."""
    depths = next(iter(vhosts.values())).store.depths() if vhosts else {}
    for kind, key, value in records:
        if kind in POLICY_KINDS and key[0] in vhosts:
            vhosts[key[0]].policies.restore(kind, key[1], value)
    for host in vhosts.values():
        for exchange in host.exchanges.values():
            host.policies.apply_to_exchange(exchange)
    for wanted in ("exchange", "queue", "binding", DELETED):
        for kind, key, value in records:
            vhost = vhosts.get(key[0]) if kind == wanted else None
            if vhost is None:
                continue
            if kind == "exchange":
                restore_exchange(vhost, key[1], value)
            elif kind == "queue":
                vhost.enter_queue(restored_queue(vhost, key[1], value, depths))
            elif kind == DELETED:
                restore_deleted(vhost, value, depths)
            else:
                restore_binding(vhost, key, value)
    claimed = {
        value["number"]
        for kind, _, value in records
        if kind in ("journal", "branch") and "number" in value
    }
    if vhosts:
        claimed |= next(iter(vhosts.values())).state.journal.restore(records, depths)
    drop_orphans(vhosts, depths, claimed)


def restore_exchange(vhost: VirtualHost, name: str, value: dict[str, Any]) -> None:
    kind = EXCHANGE_TYPES[value["type"]]
    vhost.enter_exchange(
        kind(
            name,
            durable=True,
            auto_delete=value["auto_delete"],
            internal=value["internal"],
            arguments=read_table(value["arguments"]),
        )
    )


def restored_queue(
    vhost: VirtualHost, name: str, value: dict[str, Any], depths: dict[int, Depth]
) -> Queue:
    """A queue of a virtual host, which it is not entered in yet."""
    arguments = read_table(value["arguments"])
    lanes = {int(priority): number for priority, number in value["lanes"].items()}
    limits = read_queue_arguments(arguments, vhost.title("queue", name))
    queue = queue_kind(limits)(
        vhost,
        name,
        lanes[0],
        durable=True,
        owner=None,
        auto_delete=value["auto_delete"],
        arguments=arguments,
        limits=limits,
        levels=value.get("levels", 0),
    )
    vhost.state.next_number = max(vhost.state.next_number, *(n + 1 for n in lanes.values()))
    vhost.policies.begin_with(queue)
    queue.backlog.restore(lanes, depths)
    if isinstance(queue, KeyedQueue):
        queue.index()
    return queue


def restore_deleted(vhost: VirtualHost, value: dict[str, Any], depths: dict[int, Depth]) -> None:
    """A deleted queue whose messages are on their way to its dead letter exchange: so are those
    now that were unsettled."""
    queue = restored_queue(vhost, value["name"], value, depths)
    queue.gone = True
    vhost.hand_over(queue)
    vhost.state.schedule(queue, vhost.state.now)


def restore_binding(vhost: VirtualHost, key: tuple[str, ...], value: dict[str, Any]) -> None:
    _, source, kind, destination, routing_key, _ = key
    start = vhost.exchanges.get(source)
    found: Destination | None = (
        vhost.exchanges.get(destination) if kind == "exchange" else vhost.queues.get(destination)
    )
    if start is not None and found is not None:
        arguments = read_table(value["arguments"])
        try:
            vhost.add_binding(Binding(start, found, routing_key, arguments), save=False)
        except Refusal as refusal:
            # Such as a regular expression, and no engine for them any more.
            what = f"'{source}' to '{destination}'"
            raise StoreError(f"the binding from {what} cannot be restored: {refusal}") from None


def drop_orphans(
    vhosts: dict[str, VirtualHost], depths: dict[int, Depth], claimed: set[int]
) -> None:
    """Messages whose queue is not there any more. ``claimed`` numbers belong to journals and
    branches."""
    for vhost in vhosts.values():
        for number in depths.keys() | claimed:
            vhost.state.next_number = max(vhost.state.next_number, number + 1)
    known = {
        lane.number
        for vhost in vhosts.values()
        for queue in (*vhost.queues.values(), *vhost.leaving)
        for lane in queue.backlog.lanes
    }
    for number in depths.keys() - known - claimed:
        next(iter(vhosts.values())).store.drop(number)
