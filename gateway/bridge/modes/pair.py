"""The two upstreams of a facade that is being migrated: the port of its virtual host.

Each publish goes to the upstream that is the primary one of its address, and perhaps as a copy to
the other; consumers have their subscriptions at the primary one. While the mode of an address
changes, its publishes wait here.
"""

import logging
import secrets
from collections.abc import Callable, Collection
from functools import partial
from typing import cast

from gateway.adapters.methods.content import BASIC
from gateway.bridge.facade import Facade
from gateway.bridge.feeds import Feed
from gateway.bridge.modes.address import Address, Addresses
from gateway.bridge.modes.copies import KEPT, MARK, Expected, copied, copy_id, copy_of, original_id
from gateway.bridge.modes.follower import Follower
from gateway.bridge.modes.mode import NEW, NO_SHARE, OLD, Share
from gateway.bridge.modes.topology import Topology, pass_on
from gateway.bridge.queue_types import TYPE, find_queue
from gateway.bridge.remote_ends import CHANNEL, begin, look_for
from gateway.bridge.waiting import quietly
from gateway.broker.answers import Answer
from gateway.broker.facade import FacadeVirtualHost, UpstreamQueue
from gateway.broker.feed_queue import FeedQueue, UpstreamWork
from gateway.broker.message_keys import GROUP_OF_JMS, key_of
from gateway.broker.outbound import MOST_MESSAGES, PublishFate
from gateway.broker.stream_queues import STREAM
from gateway.errors import Condition, Refusal
from gateway.message import Message, Properties
from gateway.operations import FindQueue, Outcome

log = logging.getLogger("gateway.bridge")


class UpstreamPair:
    """``old`` and ``new`` are the upstream and its successor."""

    def __init__(self, old: Facade, new: Facade, addresses: Addresses) -> None:
        self.addresses = addresses
        self.sides = {OLD: old, NEW: new}
        self.topology = Topology(self.sides, addresses)
        self.ask = self.topology.ask
        self.host: FacadeVirtualHost
        self._epoch = secrets.token_hex(4)
        self._expected = Expected()
        self._last_copy = 0
        self._copies: dict[int, Address] = {}
        """Copies under way that no publish waits for, by their numbers, which are negative."""
        self._marks: dict[str, Address] = {}
        self._exchanges_held = False
        self._transacting: dict[Answer, tuple[set[Address], bool]] = {}
        """Transactions under way: the addresses of their publishes, and whether an exchange is
        among these."""
        self._held_work: list[tuple[UpstreamWork, Answer]] = []
        self._held: list[int] = []
        """Publishes to exchanges that wait since a queue changes its broker."""
        for side, facade in self.sides.items():
            facade.serves = partial(self._serves, side)
            facade.conclude = partial(self._conclude, side)
            facade.taken = partial(self._taken, side)
            facade.on_lost = partial(self._lose_copies, side)
            facade.is_copy = self._is_copy

    def _serves(self, side: int, queue: str) -> bool:
        """Whether a queue may have subscriptions at a side."""
        address = self.addresses.queue(queue)
        split = address.share.splits and not self.topology.is_temporary(queue)
        return split or self.topology.side(queue) == side

    def sides_of(self, queue: FeedQueue, address: Address, share: Share) -> tuple[int, ...]:
        """Where a consumer has its subscriptions if this is the share of its address."""
        arrangement = address.arrangement
        if share is NO_SHARE or not share.splits:
            return (OLD,) if self.topology.is_temporary(queue.name) else (arrangement.primary,)
        if self.topology.is_temporary(queue.name):
            return (OLD,)
        if share.keys and address.opened:
            return arrangement.primary, arrangement.other
        if not queue.client.isdisjoint(share.consumers):
            return (arrangement.other,)
        return (arrangement.primary,)

    def follower(self, address: Address) -> Follower:
        """Of the side that is not the primary one of a queue."""
        primary = self.sides[address.arrangement.primary]
        other = self.sides[address.arrangement.other]
        return Follower(
            self.host.name,
            (other.upstream, other.places.queue(address.name)),
            (primary.upstream, primary.places.queue(address.name)),
            address.copies,
            self._expected,
            address.arrangement.kept,
        )

    # --- publishing -------------------------------------------------------------------------------

    def publish(self, number: int, message: Message) -> None:
        """Hot."""
        address = self.addresses.of(message)
        arrangement = address.arrangement
        passage = self.host.outbound.under_way[number]
        if address.holding or (self._exchanges_held and message.exchange):
            passage.awaits = 0
            (address.held if address.holding else self._held).append(number)
            if self.host.outbound.full:
                self.sides[OLD].on_full()
            return
        if address.share is not NO_SHARE and shares(address, message):
            passage.awaits = arrangement.other
            self.sides[arrangement.other].publish(number, message)
            return
        passage.awaits = arrangement.primary
        if arrangement.copy:
            message = self._copy(address, number, message)
        self.sides[arrangement.primary].publish(number, message)

    def _copy(self, address: Address, number: int, message: Message) -> Message:
        """Publish a copy; the message as its primary broker gets it."""
        arrangement = address.arrangement
        passage = self.host.outbound.under_way[number]
        other = self.sides[arrangement.copy]
        self._last_copy += 1
        id = f"{KEPT if arrangement.kept else 'c'}-{self._epoch}-{self._last_copy}"
        copy = copy_of(message, id)
        if arrangement.waited:
            passage.awaits = OLD | NEW
            passage.copier, passage.copy = arrangement.copy, copy
            passage.message = copied(message, id)
            other.publish(number, copy)
            return passage.message
        if not other.publisher.ready or len(self._copies) >= MOST_MESSAGES:
            address.copies.lost += 1
            return message
        if arrangement.kept:
            passage.message = copied(message, id)
        else:
            self._expected.add(id, message)
        self._copies[-self._last_copy] = address
        other.publish(-self._last_copy, copy)
        return passage.message

    def _conclude(self, side: int, number: int, fate: PublishFate, text: str) -> None:
        """A side has told the fate of a message, or of a copy."""
        if number < 0:
            address = self._copies.pop(number, None)
            if address is not None:
                self._copied(address, fate, text)
            return
        passage = self.host.outbound.under_way.get(number)
        if passage is None or not passage.awaits & side:
            return
        passage.awaits &= ~side
        if side == passage.copier:
            self._copied(self.addresses.of(passage.message), fate, text)
        else:
            passage.told = fate, text
        if not passage.awaits and passage.told is not None:
            self.host.outbound.conclude(number, *passage.told)

    def _taken(self, side: int, numbers: list[int]) -> None:
        for number in numbers:
            self._conclude(side, number, PublishFate.TAKEN, "")

    def _copied(self, address: Address, fate: PublishFate, text: str) -> None:
        if fate is PublishFate.TAKEN:
            address.copies.made += 1
            return
        address.copies.lost += 1
        address.error = f"a copy was not taken: {text or fate.value}"

    def _lose_copies(self, side: int) -> None:
        """A connection is lost: copies that nobody waits for are not published again."""
        for number, address in list(self._copies.items()):
            if address.arrangement.copy == side:
                address.copies.lost += 1
                del self._copies[number]

    def hold_exchanges(self) -> None:
        """Publishes to all exchanges wait: they may lead to a queue that changes its broker."""
        self._exchanges_held = True

    def release_exchanges(self) -> None:
        self._exchanges_held = False
        held, self._held = self._held, []
        self._publish_held(held)

    def is_under_way(self, addresses: Collection[Address]) -> bool:
        """Whether publishes that should wait from now on, or their copies, have no fate yet; or a
        broker has not got a queue, an exchange or a binding yet that the other one has."""
        return (
            any(
                one.awaits
                and (
                    (self._exchanges_held and one.message.exchange)
                    or self.addresses.of(one.message) in addresses
                )
                for one in self.host.outbound.under_way.values()
            )
            or any(
                (self._exchanges_held and exchanges) or not found.isdisjoint(addresses)
                for found, exchanges in self._transacting.values()
            )
            or any(one in addresses for one in self._copies.values())
            or self.topology.is_under_way(addresses)
        )

    def _publish_held(self, held: list[int]) -> None:
        held_work, self._held_work = self._held_work, []
        for work, answer in held_work:
            self._transact(work, answer)
        under_way = self.host.outbound.under_way
        for number in held:
            if number in under_way:
                self.publish(number, under_way[number].message)

    def release(self, address: Address) -> None:
        """The publishes of an address go on, and so do its consumers."""
        address.holding = False
        held, address.held = address.held, []
        self._publish_held(held)
        known = self.host.queues.known(address.name) if address.kind == "queue" else None
        if isinstance(known, UpstreamQueue):
            known.type.forget()  # the queue of the other broker may have another one
        waiting, address.waiting = address.waiting, []
        for one in waiting:
            one()
        if address.kind == "queue":
            for queue in self._feed_queues(address.name):
                self.wanted(queue)

    def relieved(self) -> None:
        self.sides[OLD].on_full()

    # --- transactions -----------------------------------------------------------------------------

    def allow_transactions(self) -> Answer:
        return self.sides[OLD].allow_transactions()

    def transact(self, work: UpstreamWork) -> Answer:
        """One of the upstreams commits. A transaction that both had to be part of is refused."""
        answer = Answer()
        self._transact(work, answer)
        return answer

    def _transact(self, work: UpstreamWork, answer: Answer) -> None:
        addresses = [self.addresses.of(message) for message, _ in work.publishes]
        if any(one.holding for one in addresses) or (
            self._exchanges_held and any(message.exchange for message, _ in work.publishes)
        ):
            self._held_work.append((work, answer))
            return
        sides: set[int] = set()
        publishes: list[tuple[Message, bool]] = []
        copies: list[tuple[Address, Message]] = []
        for (given, mandatory), address in zip(work.publishes, addresses, strict=True):
            message, arrangement = given, address.arrangement
            if address.share is not NO_SHARE and shares(address, message):
                sides.add(arrangement.other)
            else:
                sides.add(arrangement.primary)
                if arrangement.copy:
                    message, copy = self._copied_in_transaction(address, message)
                    copies.append((address, copy))
            publishes.append((message, mandatory))
        for borrowed in work.accepted:
            found = [side for side, one in self.sides.items() if one.has(borrowed.feed)]
            sides.update(found or sides or {OLD})
        if len(sides) > 1:
            text = "a transaction cannot be part of two upstreams"
            answer.resolve(None, Refusal(Condition.NOT_IMPLEMENTED, text))
            return
        side = sides.pop() if sides else OLD
        self._transacting[answer] = {*addresses}, any(one.exchange for one, _ in work.publishes)
        later = self.sides[side].transact(work._replace(publishes=publishes))

        def end() -> None:
            del self._transacting[answer]
            if later.succeeded:
                for address, copy in copies:
                    self._publish_copy(address, copy)
            pass_on(later, answer)

        later.then(end)

    def _copied_in_transaction(self, address: Address, message: Message) -> tuple[Message, Message]:
        """The message as its primary broker gets it, and its copy. The copy is made when the
        transaction is committed, and nobody waits for it."""
        self._last_copy += 1
        kept = address.arrangement.kept
        id = f"{KEPT if kept else 'c'}-{self._epoch}-{self._last_copy}"
        if not kept:
            self._expected.add(id, message)
        return copied(message, id) if kept else message, copy_of(message, id)

    def _publish_copy(self, address: Address, copy: Message) -> None:
        other = self.sides[address.arrangement.copy]
        if not other.publisher.ready or len(self._copies) >= MOST_MESSAGES:
            address.copies.lost += 1
            return
        self._last_copy += 1
        self._copies[-self._last_copy] = address
        other.publish(-self._last_copy, copy)

    # --- consuming --------------------------------------------------------------------------------

    def wanted(self, queue: FeedQueue) -> None:
        address = self.addresses.queue(queue.name)
        if address.split is not None:
            address.split.changed.set()
        if queue.gone:  # subscriptions end where they are
            for side in list(queue.feeds):
                self.sides[side].wanted(queue)
            return
        if address.holding:
            return
        sides = self.sides_of(queue, address, address.share)
        for side in [one for one in queue.feeds if one not in sides]:
            feed = queue.feeds.pop(side)
            if not feed.lost:  # opened while the queue was changing its broker
                self.sides[side].run_soon(feed.retire())
        for side in sides:
            self.sides[side].wanted(queue)

    def fetch(self, queue: FeedQueue) -> Answer:
        return self._when_released(queue, Facade.fetch)

    def seek(self, queue: FeedQueue) -> Answer:
        return self._when_released(queue, Facade.seek)

    def open(self, queue: FeedQueue) -> Answer:
        """At one side; the other one is opened when the consumer begins."""
        return self._when_released(queue, Facade.open)

    def open_replies(self, name: str) -> Answer:
        """At both brokers: where a reply is published depends on the modes at its gateway."""
        answers = {side: one.open_replies(name) for side, one in self.sides.items()}
        return answers[self.topology.side(name)]

    def close_replies(self, name: str) -> None:
        for side in self.sides.values():
            side.close_replies(name)

    def _when_released(
        self, queue: FeedQueue, ask: Callable[[Facade, FeedQueue], Answer]
    ) -> Answer:
        """The answer of the side of a queue, once this is no longer changing. With messages at both
        sides, the other one is asked if the first has none, or not enough."""
        address = self.addresses.queue(queue.name)
        answer = Answer()

        def go_on() -> None:
            self._ask_each(list(self.sides_of(queue, address, address.share)), queue, ask, answer)

        if address.holding:
            address.waiting.append(go_on)
        else:
            go_on()
        return answer

    def _ask_each(
        self,
        sides: list[int],
        queue: FeedQueue,
        ask: Callable[[Facade, FeedQueue], Answer],
        answer: Answer,
    ) -> None:
        later = ask(self.sides[sides.pop(0)], queue)

        def go_on() -> None:
            enough = (
                bool(later.succeeded and later.value()) if ask is Facade.fetch else not queue.room
            )
            if not sides or ask is Facade.open or enough or not later.succeeded:
                pass_on(later, answer)
            else:
                self._ask_each(sides, queue, ask, answer)

        later.then(go_on)

    def other_queues(self, address: Address) -> list[FeedQueue]:
        """The consumers of an address with subscriptions at the broker that is not its primary."""
        other = address.arrangement.other
        return [
            one
            for one in self._feed_queues(address.name)
            if other in self.sides_of(one, address, address.share)
        ]

    def open_other(self, address: Address) -> None:
        """All consumers are at both brokers from now on."""
        address.opened = True
        self.forget_marks(address)
        for queue in self._feed_queues(address.name):
            self.wanted(queue)

    def mark(self, address: Address) -> bool:
        """Publish a mark behind all messages of a queue: when it comes they have been delivered
        (``open_other``). False if there is no connection."""
        side = self.sides[address.arrangement.primary]
        if not side.publisher.ready:
            return False
        self._last_copy += 1
        id = f"{MARK}-{self._epoch}-{self._last_copy}"
        self._marks[id] = address
        header = BASIC.write(Properties())
        empty = Message(BASIC, header, b"", "", address.name, BASIC.essentials(header))
        side.publish(-self._last_copy, copy_of(empty, id))
        return True

    async def check_split(self, address: Address) -> None:
        """Raises ``Refusal`` if consumers cannot be at both sides: one does not have the queue, or
        it is a stream, where a consumer has a place of its own."""
        for facade in self.sides.values():
            name = facade.places.queue(address.name)
            remote = await begin(facade.upstream, f"facade {self.host.name}: {name}")
            try:
                await look_for(remote, name)
                if not remote.lost(CHANNEL):
                    found = await find_queue(remote, CHANNEL, FindQueue(CHANNEL, None, name))
                    if found.arguments.get(TYPE) == STREAM:
                        text = f"{name!r} is a stream: its consumers change their broker together"
                        raise Refusal(Condition.PRECONDITION_FAILED, text)
            finally:
                await quietly(facade.upstream.disconnect(remote))

    def forget_marks(self, address: Address) -> None:
        """Those under way tell nothing any more."""
        self._marks = {id: one for id, one in self._marks.items() if one is not address}

    def _is_copy(self, message: Message) -> bool:
        """Consumers get messages, and no copies (one may lie where its queue has moved to before
        the exchange that it was published to) or marks."""
        id = copy_id(message)
        if id.startswith(MARK) and (address := self._marks.get(id)) is not None:
            self.open_other(address)
        return bool(id)

    def _feed_queues(self, name: str) -> list[FeedQueue]:
        found = self.host.queues.known(name)
        if not isinstance(found, UpstreamQueue):
            return []
        return [cast(FeedQueue, one.queue) for one in found.consumers]

    async def retire_feeds(self, address: Address, side: int, share: Share | None) -> None:
        """End the subscriptions of a queue at one side, all (``None``) or those that are not there
        with this share; its consumers stay."""
        for feed in list(self.sides[side].feeds.values()):
            if not isinstance(feed, Feed):
                continue
            queue = feed.queue
            if queue is None or queue.name != address.name:
                continue
            if share is None or side not in self.sides_of(queue, address, share):
                await feed.retire()

    def on_settled(self, queue: str, message: Message, outcome: Outcome) -> None:
        """A delivery is settled: the copy of its message is removed."""
        address = self.addresses.queue(queue)
        follower = address.follower if address.arrangement.kept else None
        if follower is not None and outcome is not Outcome.RELEASE and (id := original_id(message)):
            follower.settled(id)


def shares(address: Address, message: Message) -> bool:
    """Whether a message goes to the other broker. Its key is its group, or the routing key."""
    key = message.key
    if address.share.percent or address.share.keys:
        group = key_of(message, GROUP_OF_JMS)
        key = key if group is None else str(group[1])
    return address.share.takes(message.user, key)
