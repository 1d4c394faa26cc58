"""Performs what adapters with links ask: attaching, credit, outcomes, transactions.

One ``LinkOperations`` belongs to one session. What outlives its connection is in ``Links``.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from gateway.broker.channel import Channel
from gateway.broker.deliveries import Entry
from gateway.broker.exclusions import Exclusions
from gateway.broker.replies import REPLY_TO
from gateway.broker.settlements import note_failure
from gateway.broker.suspension import Holding, giving_up, parted
from gateway.broker.undertakings import PORTION, whatever
from gateway.errors import Condition, Refusal
from gateway.operations import (
    Assure,
    Attached,
    AttachSource,
    AttachTarget,
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
from gateway.sessions.links import MOST_SUSPENDED, Key, Link, Node
from gateway.sessions.management import ManagementLinks
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

if TYPE_CHECKING:
    from gateway.sessions.session import Session

MOST_LATE = 10_000
"""Outcomes that may be late before those are looked for whose time is over; more if so many are
still good."""

Perform = Callable[[Channel, Any], None]


class LinkOperations:
    """Links of one connection. ``handlers`` by operation."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._links = session.registry.links
        self._create = session.registry.create_queues
        self._here: dict[tuple[int, str], Link] = {}
        self._waiting: dict[int, list[Link]] = {}
        """Suspended, while the session they were in goes on, or its connection."""
        self._late: dict[tuple[int, int], tuple[Link, bytes]] = {}
        """What suspended links left unsettled, by channel and delivery: the peer may still say its
        outcome by that (§2.7.6)."""
        self._most_late = MOST_LATE
        self._works: dict[tuple[int, str], list[bytes]] = {}
        self._managing = ManagementLinks(session)
        self.handlers: dict[type[Any], Perform] = {
            AttachSource: self._attach_source,
            AttachTarget: self._attach_target,
            DetachLink: self._detach,
            Credit: self._credit,
            Modify: self._modify,
            Assure: self._assure,
            DeclareTransaction: self._declare,
            Discharge: self._discharge,
            Post: self._post,
            Retire: self._retire,
            RetireMany: self._retire_many,
            Manage: self._managing.perform,
        }

    # --- attaching ------------------------------------------------------------------------------

    def _attach_source(self, channel: Channel, op: AttachSource) -> None:
        if op.terminus.address == "/management":
            self._managing.listen(op)
            self._session.answer(op.channel, op.token, Attached(op.terminus, node="management"))
            return
        key = self._key(op, True)
        if self._is_detaching(key):
            self._session.portions.put_off(op)
            return
        old = self._again(key)
        self._check_room(key, op, old)
        try:
            source, maker = self._source(channel, op, old)
            self._subscribe(channel, op, source, old)
        except Refusal:
            if old is not None:
                self._links.forget(old)
            raise
        link = Link(
            self._links, key, channel.vhost, source.terminus, source.node, op.channel, op.link
        )
        link.maker = maker
        resumed = self._adopt(channel, op, old, link)
        self._enter(link)
        attached = Attached(source.terminus, resumed=resumed)
        then = partial(channel.start, op.link)
        self._session.answer_when_safe(op.channel, op.token, attached, then)

    def _source(self, channel: Channel, op: AttachSource, old: Link | None) -> tuple[Source, bool]:
        """What to consume from, and whether it was made for this link."""
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
        return find_source(channel, asked, op.container, op.name, self._create), False

    def _subscribe(
        self, channel: Channel, op: AttachSource, source: Source, old: Link | None
    ) -> None:
        """A consumer without credit. One that is resumed does not get what it has declined."""
        filters = source.filters
        exclusions = None
        if old is not None and op.unsettled is not None:
            exclusions, old.exclusions = old.exclusions, None
        channel.subscribe(
            source.node.queue,
            op.link,
            no_ack=op.settled,
            no_local=filters.no_local,
            matches=filters.matches,
            copy=source.node.copies(source.terminus),
            credit=0,
            exclusions=exclusions,
            ages=True,
        )
        if channel.publish_path.replies is not None and source.node.queue == REPLY_TO:
            source.terminus.address = f"/queues/{channel.publish_path.replies.name}"

    def _adopt(
        self, channel: Channel, op: AttachSource, old: Link | None, link: Link
    ) -> list[Resumed]:
        """What the old link left unsettled: it goes on if the peer resumes it, else goes back."""
        if old is None:
            return []
        parked, old.parked = old.parked, {}
        old.over = True
        old.drop_exclusions()
        copies = link.node is not None and link.node.copies(link.terminus)
        if op.unsettled is None or op.settled or copies:
            channel.links.release(list(parked.values()))
            return []
        entries = {tag: entry for tag, entry in parked.items() if not entry.lane.queue.gone}
        numbers = channel.links.adopt(op.link, list(entries.values()))
        resumed = []
        for (tag, entry), number in zip(entries.items(), numbers, strict=True):
            outcome = op.unsettled.get(tag)
            if outcome is None:
                resumed.append(Resumed(tag, number, None, entry.message))
                continue
            # The peer has decided: that is safe before the attach is answered.
            apply(channel, number, outcome)
            resumed.append(Resumed(tag, 0, outcome, None))
        return resumed

    def _attach_target(self, channel: Channel, op: AttachTarget) -> None:
        key = self._key(op, False)
        old = self._again(key)
        self._check_room(key, op, old)
        asked, maker, queue = op.terminus, False, ""
        if asked.dynamic:
            asked, queue = make_dynamic(channel, asked, self._links, op.container, op.name)
            maker = bool(queue)
        try:
            attached = find_target(channel, asked, self._create, self._links)
        except Refusal:
            if old is not None:
                self._links.forget(old)
            raise
        if attached.node == "management":
            self._managing.take(op)
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
            old.over = True
            old.send_to(None)
            if op.unsettled is not None:
                attached.resumed = [
                    Resumed(tag, 0, outcome, None)
                    for tag, outcome in old.outcomes.items()
                    if tag in op.unsettled
                ]
        self._enter(link)
        link.send_to(channel.vhost.queues.get(queue))
        self._links.sending(link.queue, 1)
        self._session.answer_when_safe(op.channel, op.token, attached)

    def _key(self, op: AttachSource | AttachTarget, source: bool) -> Key:
        session = self._session
        return Key(session.vhost, session.user, op.container, op.name, source)

    def _is_detaching(self, key: Key) -> bool:
        """Whether the link of that name, which is taken from where it is (§2.6.1), is not there
        yet: of much that it holds, some is still to be parked."""
        live = self._links.by_key.get(key)
        if live is None or live.session is None:
            return False
        if not live.detaching:
            live.session.stolen(live)
        return live.detaching

    def _again(self, key: Key) -> Link | None:
        """The link of that name if it is suspended; one that is live is stolen first (§2.6.1)."""
        live = self._links.by_key.get(key)
        if live is not None and live.session is not None:
            live.session.stolen(live)
        return self._links.resume(key)

    def _check_room(self, key: Key, op: AttachSource | AttachTarget, old: Link | None) -> None:
        """Refuses (506) a new link that may outlive its connection to a user who has too many of
        them waiting."""
        lasting = op.terminus.expiry == NEVER or op.terminus.timeout > 0
        if lasting and old is None and self._links.full(key.user):
            text = f"{MOST_SUSPENDED} links of user '{key.user}' wait to be resumed"
            raise Refusal(Condition.RESOURCE_ERROR, text)

    def _enter(self, link: Link) -> None:
        self._here[link.number, link.tag] = link
        self._links.enter(link, self._session)

    def stolen(self, link: Link) -> None:
        """Somebody else attached by the name of our link. It is suspended, so that the thief can
        resume it."""
        session = self._session
        session.adapter.send(Stolen(link.number, link.tag))
        session.perform(session.adapter.found())
        if link.session is session and not link.detaching:
            # The adapter's detach has to wait for answers; what it would suspend goes back.
            self._here.pop((link.number, link.tag), None)
            channel = session.channels.get(link.number)
            held = channel.links.park(link.tag) if channel is not None and link.key.source else {}
            self._links.forget(link, held=held.values())

    # --- detaching ------------------------------------------------------------------------------

    def _detach(self, channel: Channel, op: DetachLink) -> None:
        link = self._here.pop((op.channel, op.link), None)
        for work in self._works.pop((op.channel, op.link), ()):
            if channel.transactions.much_to_discharge(work):
                steps = channel.transactions.discharging(work, True)
                self._session.broker.state.undertakings.begin(steps, whatever, whole=False)
            elif work in channel.transactions.declared:
                channel.transactions.discharge(work, True)
        self._managing.leave(op.channel, op.link)
        if link is not None:
            link.exclusions = channel.links.exclusions(op.link)
            held = channel.links.park(op.link) if link.key.source else {}
            if op.closed:
                refusal = None if op.failed else self._reason_to_keep(channel, link)
                steps = self._closing(link, held, not op.failed, refusal)
            else:
                steps = self._suspending(link, held, op)
            if len(held) > PORTION:
                link.detaching = True
                self._session.portions.undertake(channel, op, steps, whole=False)
                return
            for _ in steps:
                pass
        self._session.answer(op.channel, op.token)

    def _closing(
        self, link: Link, held: Holding, unsubscribe: bool, refusal: Refusal | None
    ) -> Iterator[None]:
        """For good, in portions: what was unsettled has its default outcome. The channel may end
        meanwhile. Ends with the ``refusal`` to ``unsubscribe``, if there is one."""
        try:
            yield from giving_up(held.values(), link.default)
        finally:
            link.detaching = False
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
            what = channel.vhost.title("queue", queue.name)
            return Refusal(Condition.RESOURCE_LOCKED, f"{what} is a subscription in use")
        try:
            channel.permissions.need("configure", "queue", queue.name)
        except Refusal as refusal:
            return refusal
        return None

    def _suspending(self, link: Link, held: Holding, op: DetachLink) -> Iterator[None]:
        """To be resumed, if its expiry policy allows; in portions. The channel may end before."""
        try:
            parked, late = yield from self._parking(held, op)
        finally:
            link.detaching = False
        if link.over or not self._links.suspend(link):
            self._links.forget(link, held=parked.values())
            return
        link.parked = parked
        link.outcomes = op.outcomes
        if op.channel in self._session.channels:
            if len(self._late) > self._most_late:
                self._late = {k: of for k, of in self._late.items() if of[1] in of[0].parked}
                self._most_late = max(MOST_LATE, 2 * len(self._late))
            self._late |= {place: (link, tag) for place, tag in late.items()}
        if link.terminus.expiry == "link-detach" or (op.lost and link.terminus.expiry != NEVER):
            self._links.expire(link, self._session.broker)
        else:
            self._wait(link, op.channel)

    @staticmethod
    def _parking(
        held: Holding, op: DetachLink
    ) -> Generator[None, None, tuple[dict[bytes, Entry], dict[tuple[int, int], bytes]]]:
        """What a link held by tag, and the tags by channel and delivery. What was not sent goes
        back."""
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

    def _wait(self, link: Link, channel: int) -> None:
        """Its expiry begins with the end of its session or connection, which may be over."""
        if self._session.closed:
            waits = link.terminus.expiry == NEVER
        elif channel in self._session.channels:
            self._waiting.setdefault(channel, []).append(link)
            return
        else:
            waits = link.terminus.expiry in ("connection-close", NEVER)
            if waits:
                self._waiting.setdefault(-1, []).append(link)
        if not waits:
            self._links.expire(link, self._session.broker)

    def ended(self, channel: int) -> None:
        """A session is over: links that live as long as it begin to expire (§3.5.6)."""
        for number, tag in [place for place in self._here if place[0] == channel]:
            self._links.forget(self._here.pop((number, tag)))
        self._managing.ended(channel)
        self._late = {place: late for place, late in self._late.items() if place[0] != channel}
        waiting = self._waiting.pop(channel, [])
        keep = [link for link in waiting if link.terminus.expiry in ("connection-close", NEVER)]
        if keep:
            self._waiting.setdefault(-1, []).extend(keep)
        for link in waiting:
            if link not in keep:
                self._links.expire(link, self._session.broker)

    def closed(self) -> None:
        """The connection is over."""
        for channel in {number for number, _ in self._here} | set(self._waiting) - {-1}:
            self.ended(channel)
        for link in self._waiting.pop(-1, []):
            if link.terminus.expiry != NEVER:
                self._links.expire(link, self._session.broker)

    # --- deliveries -----------------------------------------------------------------------------

    def _credit(self, channel: Channel, op: Credit) -> None:
        if not self._managing.credit(op):
            self._session.consuming.credit(channel, op)

    def _assure(self, channel: Channel, op: Assure) -> None:
        self._session.answer_when_safe(op.channel, op.token, holds=False)

    def _modify(self, channel: Channel, op: Modify) -> None:
        channel.settlements.modify(op)

    def late(self, op: Any) -> bool:
        """Is this the outcome of a delivery whose link is suspended? Then it applies, unless the
        link was resumed or has expired meanwhile."""
        if not isinstance(op, Settle | Modify) or (op.channel, op.delivery) not in self._late:
            return False
        link, tag = self._late.pop((op.channel, op.delivery))
        entry = link.parked.pop(tag, None)
        if entry is None or entry.lane.queue.gone:
            return True
        channel = self._session.channels[op.channel]
        if isinstance(op, Settle):
            outcome = op.outcome
        else:
            outcome = Outcome.RELEASE
            if op.elsewhere and not (link.node is not None and link.node.copies(link.terminus)):
                outcome = self._declined(link, entry)
            note_failure(entry, op)
        channel.settlements.conclude([(entry, outcome)])
        return True

    def _declined(self, link: Link, entry: Entry) -> Outcome:
        """A suspended link is not to get this again when it is resumed."""
        queue = entry.lane.queue
        if queue.vhost.dead_letters.would_route(queue, entry.message):
            return Outcome.REJECT
        if link.exclusions is None:
            link.exclusions = Exclusions(queue)
        if not link.exclusions.full:
            link.exclusions.add(entry.lane, entry.position)
        return Outcome.RELEASE

    # --- transactions ---------------------------------------------------------------------------

    def _declare(self, channel: Channel, op: DeclareTransaction) -> None:
        work = channel.transactions.declare()
        self._works.setdefault((op.channel, op.link), []).append(work)
        self._session.answer(op.channel, op.token, work)

    def _discharge(self, channel: Channel, op: Discharge) -> None:
        works = self._works.get((op.channel, op.link), [])
        if op.transaction in works:
            works.remove(op.transaction)
        self._session.publisher = True
        if channel.transactions.much_to_discharge(op.transaction):
            steps = channel.transactions.discharging(op.transaction, op.fail)
            self._session.portions.undertake(channel, op, steps)
            return
        channel.transactions.discharge(op.transaction, op.fail)
        self._session.answer_when_safe(op.channel, op.token)

    def _post(self, channel: Channel, op: Post) -> None:
        routed = channel.transactions.post(op.transaction, op.message)
        self._session.answer(op.channel, op.token, routed)

    def _retire(self, channel: Channel, op: Retire) -> None:
        channel.transactions.retire(op.transaction, op.delivery, op.outcome, op.settled)

    def _retire_many(self, channel: Channel, op: RetireMany) -> None:
        channel.transactions.retire_many(op.transaction, op.deliveries, op.outcome, op.settled)


def apply(channel: Channel, delivery: int, outcome: Outcome | Modify) -> None:
    if isinstance(outcome, Modify):
        channel.settlements.modify(replace(outcome, delivery=delivery))
    else:
        channel.settlements.settle(delivery, False, outcome)
