"""One channel in the broker: its consumers, its flow, its lifetime, and the parts for the rest.

The parts are called directly: ``publish_path``, ``topology``, ``settlements``,
``transactions``, ``links``. None of them knows the channel.
"""

import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import Any, Protocol, cast

from gateway.broker.access import Access
from gateway.broker.branches import Branches
from gateway.broker.browsing import Place, Seen, at, browse, remove, take_past
from gateway.broker.channel_branches import ChannelBranches
from gateway.broker.consumers import Consumer, Measure, Window
from gateway.broker.coordinator import TransactionCoordinator
from gateway.broker.cursors import Copies, Cursor, Matches
from gateway.broker.exclusions import Exclusions
from gateway.broker.facade import FacadeVirtualHost, UpstreamQueue, most_unsettled
from gateway.broker.facade_topology import FacadeTopology
from gateway.broker.feed_queue import Subscription
from gateway.broker.lanes import Copy, Entry
from gateway.broker.limits import read_consumer_priority
from gateway.broker.long_operations import PORTION, freeing
from gateway.broker.names import check_name
from gateway.broker.permissions import PermissionCache
from gateway.broker.publish_path import PublishListener, PublishPath
from gateway.broker.queues import Queue, QueueOwner
from gateway.broker.replies import REPLY_TO
from gateway.broker.returning import handed
from gateway.broker.settlements import ChannelSettlements
from gateway.broker.state import BrokerState
from gateway.broker.suspension import LinkSuspension
from gateway.broker.topology_requests import TopologyRequests
from gateway.broker.vhost import VirtualHost
from gateway.errors import Condition, Lost, Refusal
from gateway.message import Message, Table
from gateway.operations import STREAMS, Fetched, Outcome
from gateway.operations.rules import VersionRules


def nothing() -> None:
    """No-op."""


class Recipient(PublishListener, Protocol):
    """Receives deliveries and notices of one channel. Must not raise. One that has a
    ``deliver_run`` (``DeliverRun``) gets deliveries in runs too."""

    def deliver(
        self, consumer: str, delivery: int, redelivered: bool, message: Message, /
    ) -> None: ...

    def cancelled(self, tag: str, /) -> None: ...


class ChannelBroker(Protocol):
    """The parts of the broker that channels use."""

    state: BrokerState
    access: Access
    templates: dict[str, Table]
    confirming: dict[PublishPath, None]

    def branches(self, vhost: VirtualHost) -> Branches: ...


class ChannelClient(Protocol):
    """The connection that a channel belongs to."""

    broker: ChannelBroker
    vhost: VirtualHost
    user: str
    rules: VersionRules
    prefetch: tuple[int, int]
    channels: "dict[int, Channel]"
    exclusive: dict[Queue, None]
    is_session: bool

    @property
    def names(self) -> frozenset[str]: ...

    def close(self) -> None: ...

    def keep(self, channel: "Channel") -> None: ...

    def forget(self, channel: "Channel") -> None: ...


class SessionQueues:
    """Owner of the exclusive queues of one session, where they do not belong to the connection."""

    is_session = True

    def __init__(self) -> None:
        self.exclusive: dict[Queue, None] = {}


class Channel:
    """Made by ``Client.channel``. ``consumer_limit`` and ``consumer_size`` are the prefetch limits,
    in messages and octets, of consumers to come."""

    __slots__ = (
        "client", "broker", "vhost", "number", "recipient", "permissions", "window", "publish_path",
        "topology", "settlements", "transactions", "links", "consumer_limit", "consumer_size",
        "branches", "owner",
    )  # fmt: skip

    def __init__(self, client: ChannelClient, number: int, recipient: Recipient) -> None:
        self.client = client
        self.broker = broker = client.broker
        self.vhost = vhost = client.vhost
        self.number = number
        self.recipient = recipient
        self.owner: QueueOwner = SessionQueues() if client.rules.session_exclusive else client
        """Of exclusive queues that are declared here."""
        self.permissions = PermissionCache(broker.access, client.user, vhost.name)
        self.window = Window()
        self.publish_path = PublishPath(
            vhost,
            broker.state,
            self.permissions,
            client,
            recipient,
            broker.confirming,
            client.rules.returns_refused,
        )
        kind = FacadeTopology if isinstance(vhost, FacadeVirtualHost) else TopologyRequests
        self.topology: TopologyRequests = kind(
            self.owner, vhost, self.permissions, client.rules, broker.templates
        )
        self.settlements = ChannelSettlements(self.window, vhost)
        self.transactions = TransactionCoordinator(self.publish_path, self.settlements)
        self.links = LinkSuspension(self.window, broker.state.long_operations)
        self.branches: ChannelBranches | None = None
        """``None`` before ``select_branches``."""
        self.consumer_limit = 0
        self.consumer_size = 0

    def publish(self, message: Message, mandatory: bool = False, immediate: bool = False) -> None:
        """For callers with few messages. Sessions call the publish path itself, as forwarding
        would cost a call per message."""
        self.publish_path.publish(message, mandatory, immediate)

    def forget_rights(self) -> None:
        """Users or permissions have changed."""
        self.permissions.forget()
        self.publish_path.writable.clear()

    # --- branches -------------------------------------------------------------------------------

    def select_branches(self) -> None:
        """The channel may be associated with branches from now on. Refuses (406) one with
        transactions of its own."""
        self.transactions.check_local()
        if self.transactions.own is not None:
            raise Refusal(Condition.PRECONDITION_FAILED, "cannot switch from tx to dtx mode")
        if self.branches is None:
            branches = self.broker.branches(self.vhost)
            self.branches = ChannelBranches(
                branches, self.settlements, self.publish_path, self.client.user
            )

    def select_transactions(self) -> None:
        """Publishes and settlements wait for a commit. Refuses (406) a channel with branches, or
        with confirms."""
        if self.branches is not None:
            raise Refusal(Condition.PRECONDITION_FAILED, "cannot switch from dtx to tx mode")
        self.transactions.select()

    def needed_branches(self) -> ChannelBranches:
        """Refuses (503) before ``select_branches``."""
        if self.branches is None:
            raise Refusal(Condition.COMMAND_INVALID, "the channel has not selected dtx mode")
        return self.branches

    # --- consuming ------------------------------------------------------------------------------

    def subscribe(
        self,
        queue: str,
        tag: str = "",
        no_ack: bool = False,
        exclusive: bool = False,
        no_local: bool = False,
        arguments: Table | None = None,
        *,
        matches: Matches | None = None,
        copy: bool = False,
        credit: int | None = None,
        exclusions: Exclusions | None = None,
        remaining_ttl: bool = False,
        measure: Measure | None = None,
    ) -> str:
        """Make a consumer; nothing is delivered before ``start``. Answers with its tag.

        ``matches`` is its filter; other messages are left to other consumers. With ``copy`` it
        takes nothing: it gets copies of the messages in the queue and of later ones, and their
        settlement has no effect. ``credit``: see there. ``exclusions`` are those of the consumer
        whose place it takes. ``remaining_ttl``: messages with a time to live come with the rest of
        it. ``measure``: octets of credit that a message takes."""
        name = self.topology.named(queue)
        arguments = arguments or {}
        check_name("consumer tag", tag)
        if tag in self.window.consumers:
            raise Refusal(
                Condition.NOT_ALLOWED, f"attempt to reuse consumer tag '{tag}'", Lost.CONNECTION
            )
        if name == REPLY_TO:
            found = self.publish_path.open_replies(no_ack, self.topology.answers)
            no_local, copy, arguments = False, False, {}
        else:
            self.permissions.need("read", "queue", name)
            found = self.vhost.queue(name, self.owner)
        limits = found.limits
        copy, no_local = copy or limits.browse_only, no_local or limits.no_local
        title, borrowed = self.vhost.title("queue", name), isinstance(found, UpstreamQueue)
        priority = read_consumer_priority(arguments, title, borrowed)
        others = found.consumers
        # One that is exclusive is alone.
        if (
            (exclusive and (others or limits.single_active))
            or (others and others[0].exclusive)
            or (STREAMS in arguments and any(STREAMS in other.arguments for other in others))
        ):
            what = self.vhost.title("queue", name)
            raise Refusal(self.client.rules.exclusive_use, f"{what} in exclusive use")
        tag = tag or "amq.ctag-" + urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        if exclusions is not None and exclusions.index is not found.excluded:
            exclusions = None
        excluded = self.settlements.excluded
        if exclusions is None and excluded and not copy:
            exclusions = excluded.get(found)
        cursor = None
        if matches or copy or exclusions is not None or found.dispatcher.groups is not None:
            cursor = Cursor(matches, Copies(self.broker.state) if copy else None, exclusions)
        consumer = Consumer(
            tag,
            found,
            self.window,
            self.recipient.deliver,
            self.recipient.cancelled,
            no_ack=no_ack,
            exclusive=exclusive,
            no_local=no_local,
            origin=self.client,
            priority=priority,
            limit=self.consumer_limit,
            size=self.consumer_size,
            arguments=arguments,
            credit=credit,
            cursor=cursor,
            remaining_ttl=remaining_ttl,
            measure=measure,
        )
        consumer.deliver_run = getattr(self.recipient, "deliver_run", None)
        self.window.consumers[tag] = consumer
        found.lifetime.touch()
        found.add_consumer(consumer)
        return tag

    def prepare_consumer(
        self, queue: str, no_ack: bool, exclusive: bool, arguments: Table, credit: int | None
    ) -> None:
        """Ask the upstream of a facade whether there may be such a consumer. Does nothing in other
        virtual hosts."""
        answers = self.topology.answers
        if answers is not None and self.topology.named(queue) != REPLY_TO:
            found = self.readable(queue)
            assert isinstance(found, UpstreamQueue)
            limits = most_unsettled(no_ack, self.consumer_limit, self.window, credit)
            subscription = Subscription(exclusive, arguments, credit == 0, *limits)
            found.open_feed(answers, subscription, self.client.names)

    def start(self, tag: str) -> None:
        """Deliveries may begin."""
        consumer = self.window.consumers.get(tag)
        if consumer is not None:
            consumer.started = True
            consumer.wake()

    def unsubscribe(self, tag: str, keep_queue: bool = False) -> None:
        """Stop a consumer; an unknown tag is no error. Its deliveries stay with the channel.
        ``keep_queue``: do not auto-delete the queue."""
        consumer = self.window.consumers.pop(tag, None)
        if consumer is not None:
            consumer.queue.remove_consumer(consumer, keep_queue)
            exclusions = None if consumer.cursor is None else consumer.cursor.exclusions
            if exclusions is not None and not exclusions.shared:
                exclusions.clear()

    def credit(self, tag: str, count: int | None, octets: int | None = None) -> None:
        """So many more deliveries are allowed to a consumer from now on, whether they are settled
        or not; 0 stops it, ``None`` is no limit. With a ``count`` they may have so many ``octets``
        in all. An unknown tag is no error: it may have been cancelled meanwhile. Ends a
        ``drain``."""
        consumer = self.window.consumers.get(tag)
        if consumer is None:
            return
        if consumer.draining is not None:
            consumer.drop_credit()
        changed = (consumer.credit is None) is not (count is None)
        changed = changed or (consumer.octet_credit is None) is not (octets is None)
        consumer.credit, consumer.octet_credit = count, octets
        if changed:
            consumer.queue.dispatcher.reconsider(consumer)
        if count == 0 or octets is not None:
            consumer.rest()  # one that is in line is offered the messages anew
        if count != 0:
            consumer.wake()

    def drain(self, tag: str, told: Callable[[int], None]) -> None:
        """Deliver ready messages for the credit of a consumer and drop the rest of it; ``told`` is
        called with how much that was. At once, unless not everything could be looked at in this
        turn or nothing may go out now; no later than when the consumer ends. No limit becomes a
        credit of 0."""
        consumer = self.window.consumers.get(tag)
        if consumer is None:
            told(0)
            return
        if consumer.draining is not None:
            consumer.drop_credit()
        if consumer.octet_credit is not None:
            consumer.rest()  # it is offered the messages anew
        consumer.draining = told
        consumer.wake()

    def fetch(self, queue: str, no_ack: bool = False) -> Fetched | None:
        """Take one message, or ``None`` if there is none."""
        found = self.readable(queue)
        excluded = self.settlements.excluded
        exclusions = None if excluded is None else excluded.get(found)
        if isinstance(found, UpstreamQueue):
            assert self.topology.answers is not None
            entry = found.take_from_upstream(self.topology.answers)
        else:
            entry = found.take() if exclusions is None else take_past(found, exclusions)
        if entry is None:
            return None
        if no_ack:
            self.window.last = tag = self.window.last + 1
            found.finish(entry)
            return Fetched(tag, entry.deliveries > 0, entry.message, found.left, queue)
        return self.hold(found, entry)

    def hold(self, queue: Queue, entry: Entry) -> Fetched:
        """A message that was taken is unsettled on this channel."""
        redelivered = entry.deliveries > 0
        queue.hold(entry)
        window = self.window
        window.last = tag = window.last + 1
        window.unsettled[tag] = entry
        return Fetched(tag, redelivered, entry.message, queue.left)

    def pick(self, queue: Queue, place: Place) -> Fetched | None:
        """Take the message at a place of a queue that ``readable`` gave, if it is ready there."""
        entry = queue.backlog.pick(*place)
        if entry is None:
            return None
        queue.lifetime.touch()
        queue.count_delivery(entry)
        return self.hold(queue, entry)

    def acquire(self, deliveries: list[int]) -> list[int]:
        """Take the messages of which these browsed deliveries are copies, as far as they are still
        ready: the deliveries are held from now on. Those that are held already stay so. Returns
        the deliveries that are held."""
        held: list[int] = []
        for _ in self.acquiring(deliveries, held):
            pass
        return held

    def acquiring(self, deliveries: list[int], held: list[int]) -> Iterator[None]:
        """The same as a long operation, which adds to ``held``."""
        unsettled = self.window.unsettled
        for count, tag in enumerate(deliveries, 1):
            if count % PORTION == 0:
                yield
            entry = unsettled.get(tag)
            if isinstance(entry, Copy) and entry.consumer is not None:
                consumer = cast(Consumer, entry.consumer)
                queue = cast(Queue, consumer.queue)
                taken = queue.backlog.pick(entry.original.priority, entry.position)
                if taken is None:
                    continue
                consumer.release(entry)
                entry.lane.queue.unsettled -= 1
                queue.count_delivery(taken)
                queue.hold(taken)
                consumer.hold(taken)
                unsettled[tag] = taken
            if entry is not None:
                held.append(tag)

    def readable(self, queue: str) -> Queue:
        """Refuses with 403, 404, or 405 if it is another's."""
        name = self.topology.named(queue)
        self.permissions.need("read", "queue", name)
        return self.vhost.queue(name, self.owner)

    def browse(
        self, queue: str, after: Place | None = None, limit: int = 100, octets: int = 1 << 20
    ) -> list[Seen]:
        """Ready messages behind a place, which stay in the queue (``browsing.browse``)."""
        return browse(self.browsable(queue), after, limit, octets)

    def browsable(self, queue: str) -> Queue:
        """As ``readable``; refuses (540) the queue of an upstream, whose messages are there."""
        found = self.readable(queue)
        if isinstance(found, UpstreamQueue):
            raise Refusal(Condition.NOT_IMPLEMENTED, "queues of an upstream cannot be browsed")
        return found

    def move(self, queue: str, place: Place, exchange: str, key: str) -> str:
        """Publish the ready message at a place elsewhere and take it out, both in one batch of the
        store: "moved", or why nothing was done: "gone", "unroutable" or "full"."""
        found = self.readable(queue)
        path = self.publish_path
        target = path.writable.get(exchange) or path.find_writable(exchange)
        old = at(found, place)
        if old is None:
            return "gone"
        message = old.routed_as(exchange, key, old.essentials._replace(expiry=None))
        path.check_topics(target, message)
        queues = path.routed(target, message)
        if not queues:
            return "unroutable"
        if any(to.refuses_when_full and to.overflows(len(old.body)) for to in queues):
            return "full"
        for to in queues:
            to.put(message, self.client)
        remove(found, place)
        return "moved"

    def prefetch(self, count: int, size: int = 0, shared: bool = False) -> None:
        """Limit the unsettled deliveries: of the channel, or of each consumer to come. 0 is no
        limit. By the rules of some versions the limit is that of every channel of the connection,
        or always of the channel."""
        if self.client.rules.channel_prefetch:
            channels = [self]
            if shared:
                self.client.prefetch = (count, size)
                channels = list(self.client.channels.values())
        elif shared:
            channels = [self]
        else:
            self.consumer_limit, self.consumer_size = count, size
            return
        for channel in channels:
            window = channel.window
            window.limit, window.size = count, size
            window.wake()

    def flow(self, active: bool) -> None:
        """The peer stops deliveries, or lets them go on."""
        self.window.flowing = active
        self.window.reopen()

    def pause(self) -> None:
        """The peer's socket is full."""
        self.window.paused = True
        self.window.reopen()

    def resume(self) -> None:
        self.window.paused = False
        self.window.reopen()

    def allow_deliveries(self, allowed: bool) -> None:
        """Whether the channel's output has room for more deliveries."""
        self.window.output_full = not allowed
        self.window.reopen()

    @property
    def much_to_give_back(self) -> bool:
        """Whether closing is more than a portion, or earlier settlements are still under way."""
        held = len(self.window.unsettled) + self.transactions.held
        if self.branches is not None:
            held += self.branches.held
        return held > PORTION or self.window.busy > 0

    def close(self, then: Callable[[], None] = nothing) -> None:
        """The channel is over: consumers stop, unsettled messages are released. ``then`` is called
        when they are back: now, or in a later turn if they are many."""
        window = self.window
        if window.closed:
            then()
            return
        much = self.much_to_give_back
        window.closed = self.publish_path.closed = True
        window.reopen()
        posts, entries = self.transactions.abandon()
        if self.branches is not None:
            for publishes, settled in self.branches.abandon():
                posts.append(publishes)
                entries += settled
        for tag in list(window.consumers):
            self.unsubscribe(tag)
        for exclusions in (self.settlements.excluded or {}).values():
            exclusions.clear()
        self.settlements.excluded = None
        entries += window.unsettled.values()
        window.unsettled.clear()
        self.broker.confirming.pop(self.publish_path, None)
        self.client.forget(self)
        if much:
            steps = self.giving_back(posts, entries)
            self.broker.state.long_operations.begin(steps, lambda refusal: then(), atomic=False)
            self.leave_queues()
        else:
            self.settlements.conclude((entry, Outcome.RELEASE) for entry in entries)
            self.leave_queues()
            then()

    def leave_queues(self) -> None:
        """The exclusive queues of a session are deleted, or free for others."""
        if not self.owner.is_session:
            return
        ending = []
        for queue in list(self.owner.exclusive):
            if queue.auto_delete and queue.limits.auto_delete_timeout is None:
                ending.append(queue)
                continue
            del self.owner.exclusive[queue]
            queue.owner = None
            queue.lifetime.touch()
            if queue.auto_delete:
                queue.lifetime.abandon()
        self.vhost.remove_queues(ending)

    def giving_back(self, posts: list[list[Any]], entries: list[Entry]) -> Iterator[None]:
        """Forget the publishes that wait for a commit, and release the deliveries, in portions."""
        for some in posts:
            yield from freeing(some)
        yield from self.settlements.concluding(handed(entries, Outcome.RELEASE))
