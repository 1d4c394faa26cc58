"""Queues that look at a key of their messages: last-value queues, and those with message groups.

Other queues pay nothing for them.
"""

from collections.abc import Iterable
from typing import Any

from gateway.broker.browsing import AHEAD, AHEAD_OCTETS, Place, browse
from gateway.broker.consumers import Consumer
from gateway.broker.groups import Fetching, Groups
from gateway.broker.lanes import Entry, Lane
from gateway.broker.last_values import LastValues
from gateway.broker.limits import QueueArguments
from gateway.broker.message_keys import Key
from gateway.broker.queues import REFUSED, Queue, QueueHost
from gateway.message import Message

READ = 256
"""Messages read at once when a last-value queue comes back."""


class KeyedQueue(Queue):
    """With ``values`` a message replaces the one before it with the same key, unless a consumer
    holds that: then it does not come back. The newer one stands at the end, so that consumers of
    copies see it. With ``groups`` consumers get the messages of a group one consumer at a time."""

    __slots__ = ("values", "groups")

    def __init__(self, vhost: QueueHost, name: str, number: int, **given: Any) -> None:
        super().__init__(vhost, name, number, **given)
        limits = self.limits
        key, group = limits.last_value_key, limits.group_key
        self.values = None if key is None else LastValues(key)
        self.groups = None if group is None else Groups(self, group, limits.group_sticky)
        self.dispatcher.groups = self.groups

    # --- in -------------------------------------------------------------------------------------

    def put(self, message: Message, origin: object = None) -> int:
        values, groups, backlog = self.values, self.groups, self.backlog
        lane = backlog.lane(message.essentials.priority) if backlog.ranked else backlog.lanes[0]
        position = lane.next
        if values is not None and (key := values.key_of(message)) is not None:
            if not self.replace(values, key, message):
                return REFUSED
            values.add(key, (lane, position))
        result = super().put(message, origin)
        if result == REFUSED or lane.next == position:  # it never stood here
            if values is not None:
                values.forget((lane, position))
            if groups is not None:
                groups.over((lane, position))
        return result

    def replace(self, values: LastValues, key: Key, message: Message) -> bool:
        """Take out the message that this one replaces. False if there is no room for it."""
        place = values.newest.get(key)
        if place is None:
            return True
        lane, position = place
        old = lane.at(position)
        if old is None:
            values.outdated.add(place)
            return True
        grows = len(message.body) - len(old.message.body)
        if self.refuses_when_full and self.overflows(grows, 0):
            if self.limits.overflow == "reject-publish-dlx":
                self.dead_letter(message, "maxlen")
            return False
        entry = self.backlog.pick(lane.priority, position)
        if entry is not None:  # or it has expired
            self.finish(entry)
        return True

    def take_back(self, lanes: Iterable[tuple[Lane, list[Entry]]]) -> None:
        kept = []
        for lane, found in lanes:
            if self.groups is not None:
                for entry in found:
                    self.groups.over((lane, entry.position))
            standing = [entry for entry in found if self.returns(entry)]
            if standing:
                kept.append((lane, standing))
        super().take_back(kept)

    def returns(self, entry: Entry) -> bool:
        """Whether a delivery that comes back stands in the queue again; if not, it ends."""
        if self.values is None or self.values.returns(entry):
            return True
        self.backlog.octets -= len(entry.message.body)
        self.unsettled -= 1
        self.finish(entry)
        return False

    def index(self) -> None:
        """Find the newest messages in a backlog that was restored. Of one key there are several if
        a consumer held the older ones."""
        values = self.values
        if values is None:
            return
        old: list[tuple[Lane, int]] = []
        for lane in self.backlog.lanes:
            start = lane.paged_from
            while lane.paged and (found := lane.read_paged(start, READ)):
                for kept in found:
                    key = values.key_of(kept.message)
                    if key is not None:
                        if key in values.newest:
                            old.append(values.newest[key])
                        values.add(key, (lane, kept.position))
                start = found[-1].position + 1
        for lane, position in old:
            entry = self.backlog.pick(lane.priority, position)
            if entry is not None:
                self.finish(entry)

    # --- out ------------------------------------------------------------------------------------

    def take(self) -> Entry | None:
        """Fetch the first message whose group no consumer holds, if it stands near the head."""
        groups = self.groups
        if groups is None:
            return super().take()
        self.lifetime.touch()
        self.sweep()
        lanes = {lane.priority: lane for lane in self.backlog.lanes}
        after: Place | None = None
        looks, most = 0, self.state.limits.max_looks
        while looks < most and (seen := browse(self, after, AHEAD, AHEAD_OCTETS)):
            looks += len(seen)
            for one in seen:
                after = one.place
                lane, who = lanes[after.priority], Fetching()
                if groups.admits(who, lane, after.position, one.message):
                    entry = self.backlog.pick(*after)
                    if entry is not None:
                        groups.given(who, lane, after.position, entry.message, settled=False)
                        self.count_delivery(entry)
                        return entry
        return None

    def finish(self, entry: Entry) -> None:
        super().finish(entry)
        place = entry.lane, entry.position
        if self.values is not None:
            self.values.forget(place)
        if self.groups is not None:
            self.groups.over(place)

    def purge(self) -> int:
        count = super().purge()
        if self.values is not None:
            self.values.clear()
        if self.groups is not None:
            self.groups.clear()
        return count

    def remove_consumer(self, consumer: Consumer, keep_queue: bool = False) -> None:
        super().remove_consumer(consumer, keep_queue)
        if self.groups is not None:
            self.groups.left(consumer)


def queue_kind(limits: QueueArguments) -> type[Queue]:
    """The class of a queue with these arguments."""
    keyed = limits.last_value_key is not None or limits.group_key is not None
    return KeyedQueue if keyed else Queue
