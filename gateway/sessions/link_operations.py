"""Performs the operations of adapters with links: attaching, credit, outcomes, transactions.

One ``LinkOperations`` belongs to one connection. Links that outlive theirs are in ``Links``.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from gateway.broker.channel import Channel
from gateway.broker.exclusions import Exclusions
from gateway.broker.lanes import Entry
from gateway.broker.long_operations import PORTION, unanswered
from gateway.broker.replies import REPLY_TO
from gateway.broker.settlements import add_modification
from gateway.broker.suspension import Holding, giving_up, parted
from gateway.errors import AwaitsUpstream, Condition, Refusal
from gateway.operations import (
    Attached,
    AttachSource,
    AttachTarget,
    Cancelled,
    Credit,
    DeclareTransaction,
    DetachLink,
    Discharge,
    Manage,
    Modify,
    Outcome,
    Post,
    Resumed,
    Retire,
    RetireMany,
    Settle,
    Stolen,
)
from gateway.sessions.consumers import ConsumerOperations
from gateway.sessions.context import SessionContext
from gateway.sessions.links import MOST_SUSPENDED, Key, Link, Links, Node
from gateway.sessions.long_requests import LongRequests, refused
from gateway.sessions.management import ManagementLinks
from gateway.sessions.replies import Replies
from gateway.sessions.subscriptions import PREFIXES
from gateway.sessions.termini import (
    NEVER,
    VOLATILE,
    Source,
    find_source,
    find_target,
    make_dynamic,
    narrow,
    reply_source,
)

MOST_LATE = 10_000
"""Late deliveries that are kept before the first search for stale ones. After each search the bound
is twice the number that remained, if that is more."""

CONNECTION = -1
"""In place of a channel number: the whole connection."""

Perform = Callable[[Channel, Any], object]


class LinkOperations:
    """Links of one connection. ``handlers`` by operation; ``follow`` performs the operations that
    the adapter has found since it last received; ``create_queues`` lets a link make the queue that
    its plain address names."""

    def __init__(
        self,
        context: SessionContext,
        replies: Replies,
        consumers: ConsumerOperations,
        long_requests: LongRequests,
        follow: Callable[[], None],
        links: Links,
        create_queues: bool,
    ) -> None:
        self._context = context
        self._replies = replies
        self._consumers = consumers
        self._long_requests = long_requests
        self._follow = follow
        self._links = links
        self._create_queues = create_queues
        self._attached: dict[tuple[int, str], Link] = {}
        """Live links by channel and tag."""
        self._suspended: dict[int, list[Link]] = {}
        """Suspended links whose expiry has not begun, by the channel that they were attached on;
        ``CONNECTION`` once that has ended."""
        self._late: dict[tuple[int, int], tuple[Link, bytes]] = {}
        """Unsettled deliveries of suspended links, and their delivery tags, by channel and
        delivery: the peer may still send their outcome (§2.7.6)."""
        self._most_late = MOST_LATE
        self._transactions: dict[tuple[int, str], list[bytes]] = {}
        """Ids of the open transactions of each coordinator link, by channel and tag."""
        self._management = ManagementLinks(context, replies)

    def handlers(self) -> dict[type[Any], Perform]:
        """By operation. Made anew for its caller: kept here, they would be a reference cycle."""
        return {
            AttachSource: self._attach_source,
            AttachTarget: self._attach_target,
            DetachLink: self._detach,
            Credit: self._credit,
            Modify: lambda channel, op: channel.settlements.modify(op),
            DeclareTransaction: self._declare,
            Discharge: self._discharge,
            Post: self._post,
            Retire: self._retire,
            RetireMany: self._retire_many,
            Manage: self._management.perform,
        }

    # --- attaching ------------------------------------------------------------------------------

    def _attach_source(self, channel: Channel, op: AttachSource) -> None:
        if op.terminus.address == "/management":
            self._management.attach_source(op)
            self._replies.answer(op.channel, op.token, Attached(op.terminus, node="management"))
            return
        key = self._key(op, True)
        if self._is_busy(key):
            self._long_requests.postpone(op)
            return
        with self._resuming(key) as old:
            self._check_room(key, op, old)
            source, maker = self._source(channel, op, old)
            self._subscribe(channel, op, source, old)
        link = Link(
            self._links, key, channel.vhost, source.terminus, source.node, op.channel, op.link
        )
        link.maker = maker
        parked = self._to_adopt(channel, op, old, link)
        self._enter(link)
        attached = Attached(source.terminus)
        start = partial(channel.start, op.link)
        answer = partial(self._replies.answer_when_safe, op.channel, op.token, attached, start)
        steps = self._adopting(channel, op, link, parked, attached.resumed)
        if len(parked) > PORTION:
            link.busy = True
            self._long_requests.undertake(channel, op, steps, atomic=False, answer=answer)
            return
        for _ in steps:
            pass
        answer()

    def _source(self, channel: Channel, op: AttachSource, old: Link | None) -> tuple[Source, bool]:
        """The source to consume from, and whether it was made for this link."""
        asked = op.terminus
        if asked.dynamic and op.settled and VOLATILE in asked.capabilities:
            return reply_source(asked), False
        if asked.dynamic:
            made, queue = make_dynamic(channel, asked, self._links, op.container, op.name)
            if queue:
                return find_source(channel, made, op.container, op.name, False), True
            asked = made
        node = old.node if old is not None else None
        if (
            old is not None
            and node is not None
            and asked.address in (None, old.terminus.address)
            and node.queue in channel.vhost.queues
            and not node.queue.startswith(PREFIXES)
        ):
            asked.address = node.queue
            source = find_source(channel, asked, op.container, op.name, False)
            source.terminus.address = old.terminus.address
            if node.subscription:
                narrow(channel, node.queue, source.filters)
                source = source._replace(filters=source.filters._replace(matches=None))
            return source._replace(node=node), old.maker
        return find_source(channel, asked, op.container, op.name, self._create_queues), False

    def _subscribe(
        self, channel: Channel, op: AttachSource, source: Source, old: Link | None
    ) -> None:
        """Start a consumer without credit. A resumed one does not receive messages that it has
        declined."""
        filters = source.filters
        exclusions = None
        if old is not None and op.unsettled is not None:
            exclusions = old.exclusions
        channel.subscribe(
            source.node.queue,
            op.link,
            no_ack=op.settled,
            no_local=filters.no_local,
            matches=filters.matches,
            copy=source.node.copies(source.terminus),
            credit=0,
            exclusions=exclusions,
            remaining_ttl=True,
        )
        if old is not None and exclusions is not None:
            old.exclusions = None  # the consumer has them
        if channel.publish_path.replies is not None and source.node.queue == REPLY_TO:
            source.terminus.address = f"/queues/{channel.publish_path.replies.name}"

    def _to_adopt(
        self, channel: Channel, op: AttachSource, old: Link | None, link: Link
    ) -> dict[bytes, Entry]:
        """Unsettled deliveries of the suspended link, by tag, if the peer resumes them; otherwise
        they are released."""
        if old is None:
            return {}
        parked, old.parked = old.parked, {}
        old.replace()
        copies = link.node is not None and link.node.copies(link.terminus)
        if op.unsettled is None or op.settled or copies:
            channel.links.release(list(parked.values()))
            return {}
        return {tag: entry for tag, entry in parked.items() if not entry.lane.queue.gone}

    def _adopting(
        self,
        channel: Channel,
        op: AttachSource,
        link: Link,
        parked: dict[bytes, Entry],
        resumed: list[Resumed],
    ) -> Iterator[None]:
        """Resume deliveries in portions; the result is added to ``resumed``. The channel or the
        queue may end before: the other deliveries are released."""
        left = iter(parked.items())
        while portion := list(islice(left, PORTION)):
            attached = op.link in channel.window.consumers
            if not (attached and self._context.has(op.channel, channel)):
                rest = [entry for _, entry in (*portion, *left)]
                yield from giving_up(rest, Outcome.RELEASE)
                break
            numbers = channel.links.adopt(op.link, [entry for _, entry in portion])
            for (tag, entry), number in zip(portion, numbers, strict=True):
                outcome = op.unsettled.get(tag) if op.unsettled is not None else None
                if outcome is None:
                    resumed.append(Resumed(tag, number, None, entry.message))
                    continue
                # The peer has the outcome: the store has it before the attach is answered.
                apply(channel, number, outcome)
                resumed.append(Resumed(tag, 0, outcome, None))
            yield
        link.busy = False

    def _attach_target(self, channel: Channel, op: AttachTarget) -> None:
        key = self._key(op, False)
        asked, maker, queue = op.terminus, False, ""
        with self._resuming(key) as old:
            self._check_room(key, op, old)
            if asked.dynamic:
                asked, queue = make_dynamic(channel, asked, self._links, op.container, op.name)
                maker = bool(queue)
            attached = find_target(channel, asked, self._create_queues, self._links)
            attached.forwarded = channel.vhost.outbound is not None
        if attached.node == "management":
            self._management.attach_target(op)
        elif attached.exchange == "":
            queue = attached.key
        link = Link(
            self._links,
            key,
            channel.vhost,
            attached.terminus,
            Node(queue) if queue else None,
            op.channel,
            op.link,
        )
        link.maker = maker
        if old is not None:
            old.replace()
            if op.unsettled is not None:
                attached.resumed = [
                    Resumed(tag, 0, outcome, None)
                    for tag, outcome in old.outcomes.items()
                    if tag in op.unsettled
                ]
        self._enter(link)
        link.send_to(channel.vhost.queues.get(queue))
        self._links.sending(link.queue, 1)
        self._replies.answer_when_safe(op.channel, op.token, attached)

    def _key(self, op: AttachSource | AttachTarget, source: bool) -> Key:
        context = self._context
        return Key(context.vhost, context.user, op.container, op.name, source)

    def _is_busy(self, key: Key) -> bool:
        """Whether the link of that name, which is stolen from its connection (§2.6.1), is still
        parking or resuming its deliveries."""
        live = self._links.by_key.get(key)
        if live is None or live.owner is None:
            return False
        if not live.busy:
            live.owner.stolen(live)
        return live.busy

    @contextmanager
    def _resuming(self, key: Key) -> Iterator[Link | None]:
        """The suspended link of that name, if there is one, while another is attached in its place.
        If that is refused, it is forgotten; if an upstream has to answer first, it is there again
        when the operation is repeated."""
        old = self._take_suspended(key)
        try:
            yield old
        except AwaitsUpstream:
            if old is not None:
                self._links.put_back(old)
            raise
        except Refusal:
            if old is not None:
                self._links.forget(old)
            raise

    def _take_suspended(self, key: Key) -> Link | None:
        """The suspended link of that name, if there is one; a live one is stolen first (§2.6.1)."""
        live = self._links.by_key.get(key)
        if live is not None and live.owner is not None:
            live.owner.stolen(live)
        return self._links.resume(key)

    def _check_room(self, key: Key, op: AttachSource | AttachTarget, old: Link | None) -> None:
        """Refuses (506) a new link that may outlive its connection if its user has too many
        suspended links."""
        lasting = op.terminus.expiry == NEVER or op.terminus.timeout > 0
        if lasting and old is None and self._links.full(key.user):
            text = f"{MOST_SUSPENDED} links of user '{key.user}' wait to be resumed"
            raise Refusal(Condition.RESOURCE_ERROR, text)

    def _enter(self, link: Link) -> None:
        self._attached[link.number, link.tag] = link
        self._links.enter(link, self)

    def stolen(self, link: Link) -> None:
        """Another connection attaches a link of ours by its name (link stealing, §2.6.1). Suspend
        it, so that the other connection can resume it."""
        self._context.adapter.send(Stolen(link.number, link.tag))
        self._follow()
        if link.owner is self and not link.busy:
            # The adapter's detach has to wait for answers: return the deliveries instead.
            self._attached.pop((link.number, link.tag), None)
            channel = self._context.channels.get(link.number)
            held = channel.links.park(link.tag) if channel is not None and link.key.source else {}
            self._links.forget(link, held=held.values())

    def target_deleted(self, link: Link) -> None:
        """Tell the peer that the queue to which it sends is deleted."""
        self._replies.notify(Cancelled(link.number, link.tag))

    # --- detaching ------------------------------------------------------------------------------

    def _detach(self, channel: Channel, op: DetachLink) -> None:
        link = self._attached.pop((op.channel, op.link), None)
        for transaction in self._transactions.pop((op.channel, op.link), ()):
            if channel.transactions.much_to_discharge(transaction):
                steps = channel.transactions.discharging(transaction, True)
                self._context.broker.state.long_operations.begin(steps, unanswered, atomic=False)
            elif transaction in channel.transactions.declared:
                channel.transactions.discharge(transaction, True)
        self._management.detach(op.channel, op.link)
        if link is not None:
            link.exclusions = channel.links.exclusions(op.link)
            held = channel.links.park(op.link) if link.key.source else {}
            if op.closed:
                refusal = None if op.failed else self._reason_to_keep(channel, link)
                steps = self._closing(link, held, not op.failed, refusal)
            else:
                steps = self._suspending(link, held, op)
            if len(held) > PORTION:
                link.busy = True
                self._long_requests.undertake(channel, op, steps, atomic=False)
                return
            for _ in steps:
                pass
        self._replies.answer(op.channel, op.token)

    def _closing(
        self, link: Link, held: Holding, unsubscribe: bool, refusal: Refusal | None
    ) -> Iterator[None]:
        """Close a link in portions: unsettled deliveries get their default outcome. The channel may
        end meanwhile. Ends with the ``refusal`` to ``unsubscribe``, if there is one."""
        try:
            yield from giving_up(held.values(), link.default)
        finally:
            link.busy = False
        self._links.forget(link, unsubscribe and refusal is None)
        if refusal is not None:
            raise refusal

    def _reason_to_keep(self, channel: Channel, link: Link) -> Refusal | None:
        """Why the peer cannot end the durable subscription behind a link, if there is one."""
        node = link.node
        queue = channel.vhost.queues.get(node.queue) if node is not None else None
        if node is None or queue is None or not (link.key.source and node.lasts(queue)):
            return None
        if queue.consumers:
            title = channel.vhost.title("queue", queue.name)
            return Refusal(Condition.RESOURCE_LOCKED, f"{title} is a subscription in use")
        try:
            channel.permissions.need("configure", "queue", queue.name)
        except Refusal as refusal:
            return refusal
        return None

    def _suspending(self, link: Link, held: Holding, op: DetachLink) -> Iterator[None]:
        """Suspend a link in portions, if its expiry policy allows. The channel may end before."""
        try:
            parked, late = yield from self._parking(held, op)
        finally:
            link.busy = False
        if link.over or not self._links.suspend(link):
            self._links.forget(link, held=parked.values())
            return
        link.parked = parked
        link.outcomes = op.outcomes
        if op.channel in self._context.channels:
            if len(self._late) > self._most_late:
                self._late = {
                    key: (other, tag)
                    for key, (other, tag) in self._late.items()
                    if tag in other.parked
                }
                self._most_late = max(MOST_LATE, 2 * len(self._late))
            self._late |= {key: (link, tag) for key, tag in late.items()}
        if link.terminus.expiry == "link-detach" or (op.lost and link.terminus.expiry != NEVER):
            self._links.expire(link, self._context.broker)
        else:
            self._keep_suspended(link, op.channel)

    @staticmethod
    def _parking(
        held: Holding, op: DetachLink
    ) -> Generator[None, None, tuple[dict[bytes, Entry], dict[tuple[int, int], bytes]]]:
        """The deliveries that a link held, by tag, and the tags by channel and delivery. Deliveries
        that were not sent are released."""
        tags = op.unsettled
        parked: dict[bytes, Entry] = {}
        late: dict[tuple[int, int], bytes] = {}
        unsent: list[Entry] = []
        for count, (number, entry) in enumerate(held.items(), 1):
            parted(entry)
            tag = tags.get(number)
            if tag is None:
                unsent.append(entry)
            else:
                parked[tag] = entry
                late[op.channel, number] = tag
            if count % PORTION == 0:
                yield
        yield from giving_up(unsent, Outcome.RELEASE)
        return parked, late

    def _keep_suspended(self, link: Link, channel: int) -> None:
        """Let its expiry begin with the end of its session or connection, which may be over."""
        if self._context.closed:
            waits = link.terminus.expiry == NEVER
        elif channel in self._context.channels:
            self._suspended.setdefault(channel, []).append(link)
            return
        else:
            waits = link.terminus.expiry in ("connection-close", NEVER)
            if waits:
                self._suspended.setdefault(CONNECTION, []).append(link)
        if not waits:
            self._links.expire(link, self._context.broker)

    def channel_ended(self, channel: int, _: Channel | None = None) -> None:
        """Forget the links of a channel; those that last as long as it begin to expire
        (§3.5.6)."""
        for key in [key for key in self._attached if key[0] == channel]:
            self._links.forget(self._attached.pop(key))
        self._management.channel_ended(channel)
        self._late = {key: late for key, late in self._late.items() if key[0] != channel}
        suspended = self._suspended.pop(channel, [])
        keep = [link for link in suspended if link.terminus.expiry in ("connection-close", NEVER)]
        if keep:
            self._suspended.setdefault(CONNECTION, []).extend(keep)
        for link in suspended:
            if link not in keep:
                self._links.expire(link, self._context.broker)

    def closed(self) -> None:
        """The connection is over."""
        for channel in {number for number, _ in self._attached} | set(self._suspended) - {
            CONNECTION
        }:
            self.channel_ended(channel)
        for link in self._suspended.pop(CONNECTION, []):
            if link.terminus.expiry != NEVER:
                self._links.expire(link, self._context.broker)

    # --- deliveries -----------------------------------------------------------------------------

    def _credit(self, channel: Channel, op: Credit) -> None:
        if not self._management.credit(op):
            self._consumers.credit(channel, op)

    def late(self, op: Any) -> bool:
        """Apply the outcome of a delivery whose link is suspended, unless the link was resumed or
        has expired meanwhile. False if the operation is not such an outcome."""
        if not isinstance(op, Settle | Modify) or (op.channel, op.delivery) not in self._late:
            return False
        link, tag = self._late.pop((op.channel, op.delivery))
        entry = link.parked.pop(tag, None)
        if entry is None or entry.lane.queue.gone:
            return True
        channel = self._context.channels[op.channel]
        if isinstance(op, Settle):
            outcome = op.outcome
        else:
            outcome = Outcome.RELEASE
            if op.elsewhere and not (link.node is not None and link.node.copies(link.terminus)):
                outcome = self._declined(link, entry)
            add_modification(entry, op)
        channel.settlements.conclude([(entry, outcome)])
        return True

    def _declined(self, link: Link, entry: Entry) -> Outcome:
        """Do not deliver this message to the link again when it is resumed."""
        queue = entry.lane.queue
        if queue.would_dead_letter(entry.message):
            return Outcome.REJECT
        if link.exclusions is None:
            link.exclusions = Exclusions(queue.excluded)
        if not link.exclusions.full:
            link.exclusions.add(entry.lane, entry.position)
        return Outcome.RELEASE

    # --- transactions ---------------------------------------------------------------------------

    def _declare(self, channel: Channel, op: DeclareTransaction) -> None:
        transaction = channel.transactions.declare()
        self._transactions.setdefault((op.channel, op.link), []).append(transaction)
        self._replies.answer(op.channel, op.token, transaction)

    def _discharge(self, channel: Channel, op: Discharge) -> None:
        transactions = channel.transactions
        try:
            if not op.fail:
                transactions.discharge_upstream(op.transaction)
        except AwaitsUpstream:
            raise
        except Refusal as refusal:
            undoing = transactions.discharging(op.transaction, True)
            self._long_requests.undertake(channel, op, refused(undoing, refusal))
            return
        open_ = self._transactions.get((op.channel, op.link), [])
        if op.transaction in open_:
            open_.remove(op.transaction)
        self._context.publisher = True
        if transactions.much_to_discharge(op.transaction):
            steps = transactions.discharging(op.transaction, op.fail)
            self._long_requests.undertake(channel, op, steps)
            return
        transactions.discharge(op.transaction, op.fail)
        self._replies.answer_when_safe(op.channel, op.token)

    def _post(self, channel: Channel, op: Post) -> None:
        routed = channel.transactions.post(op.transaction, op.message)
        self._replies.answer(op.channel, op.token, routed)

    def _retire(self, channel: Channel, op: Retire) -> None:
        channel.transactions.retire(op.transaction, op.delivery, op.outcome, op.settled)

    def _retire_many(self, channel: Channel, op: RetireMany) -> None:
        steps = channel.transactions.retiring_many(
            op.transaction, op.deliveries, op.outcome, op.settled
        )
        if steps is not None:
            self._long_requests.undertake(channel, op, steps, atomic=False)


def apply(channel: Channel, delivery: int, outcome: Outcome | Modify) -> None:
    if isinstance(outcome, Modify):
        channel.settlements.modify(replace(outcome, delivery=delivery))
    else:
        channel.settlements.settle(delivery, False, outcome)
