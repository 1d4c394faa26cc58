"""Links as the broker's side knows them: which are live, and which wait to be resumed.

A link is known by container, name and direction (§2.6.1). One that was detached without being
closed keeps its terminus and its unsettled deliveries until its expiry policy says otherwise.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.broker.broker import Broker
from gateway.broker.channel import nothing
from gateway.broker.deliveries import Entry
from gateway.broker.exclusions import Exclusions
from gateway.broker.queues import Queue
from gateway.broker.settlements import Verdict
from gateway.broker.suspension import give_up, giving_up
from gateway.broker.undertakings import PORTION
from gateway.broker.vhost import VirtualHost
from gateway.operations import Cancelled, Outcome, Terminus

if TYPE_CHECKING:
    from gateway.sessions.session import Session

MOST_SUSPENDED = 10_000
"""Links of one user that wait to be resumed."""

LOOK_AGAIN = 1000
"""Milliseconds after which a node is looked at that lives as long as it holds messages."""


class Key(NamedTuple):
    """Who a link is. ``source``: the peer receives. A container is one user's: nobody else can
    steal its links by calling itself the same."""

    vhost: str
    user: str
    container: str
    name: str
    source: bool


class Node(NamedTuple):
    """What is behind a source. ``owned``: the queue was made for the link and goes with it.
    ``subscription``: what stands in it are copies already, so that distribution mode "copy", which
    JMS asks of topics, is no different from "move"."""

    queue: str
    owned: bool = False
    subscription: bool = False

    def lasts(self, queue: Queue) -> bool:
        """Is it a durable subscription?"""
        return self.subscription and queue.durable

    def copies(self, terminus: Terminus) -> bool:
        """Are messages looked at and left?"""
        return terminus.copy and not self.subscription


class Link:
    """One link. ``session`` is ``None`` while it is suspended. ``parked`` are deliveries that are
    unsettled, by their tags; ``outcomes`` what a sending peer was told, by its tags."""

    def __init__(
        self,
        links: "Links",
        key: Key,
        vhost: VirtualHost,
        terminus: Terminus,
        node: Node | None,
        number: int,
        tag: str,
    ) -> None:
        self.links = links
        self.key = key
        self.vhost = vhost
        self.terminus = terminus
        self.node = node
        self.number = number
        self.tag = tag
        self.session: Session | None = None
        self.queue: Queue | None = None
        """What it sends to, if that is a queue."""
        self.maker = False
        """A dynamic node was made for it."""
        self.parked: dict[bytes, Entry] = {}
        self.outcomes: dict[bytes, Any] = {}
        self.exclusions: Exclusions | None = None
        """While it is suspended: what it must not get when it is resumed."""
        self.due: int | None = None
        self.over = False
        self.detaching = False
        """What it holds is being parked or given up, in several turns."""

    @property
    def default(self) -> Verdict:
        """What becomes of deliveries that have no outcome when the link is over (§3.5.3)."""
        default = self.terminus.default
        copies = self.node is not None and self.node.copies(self.terminus)
        return Outcome.RELEASE if copies or default is None else default

    def send_to(self, queue: Queue | None) -> None:
        """The link is to hear of the end of this queue; ``None``: of none any more."""
        if self.queue is not None:
            self.queue.senders.pop(self, None)
        self.queue = queue
        if queue is not None:
            queue.senders[self] = None

    def queue_gone(self) -> None:
        """There is nowhere to send to any more."""
        self.queue = None
        if self.session is not None:
            self.session.notify(Cancelled(self.number, self.tag))

    def drop_exclusions(self) -> None:
        """It is over, or attached anew."""
        if self.exclusions is not None:
            self.exclusions.clear()
            self.exclusions = None

    def on_due(self) -> None:
        """Its time is over, unless it was resumed meanwhile."""
        if self.session is None:
            self.links.forget(self)


class Dynamic:
    """A node made on demand, and what ends it: the link that made it, "links", "messages", or
    "links-or-messages" (§3.5.10 to §3.5.13)."""

    def __init__(self, links: "Links", vhost: VirtualHost, queue: Queue, policy: str) -> None:
        self.links = links
        self.vhost = vhost
        self.queue = queue
        self.policy = policy
        self.due: int | None = None
        self.made = True
        """The link that made it is there."""

    def on_due(self) -> None:
        self.links.review(self)


class Links:
    """All links of a broker that have a name, and the nodes that depend on links."""

    def __init__(self) -> None:
        self.by_key: dict[Key, Link] = {}
        self.dynamic: dict[Queue, Dynamic] = {}
        self.senders: dict[Queue, int] = {}
        """Links that send to a dynamic node."""
        self.suspended: Counter[str] = Counter()
        """How many links wait to be resumed, by user."""

    def enter(self, link: Link, session: "Session") -> None:
        """It is live."""
        link.session = session
        self.by_key[link.key] = link

    def full(self, user: str) -> bool:
        """Whether no more links of a user may wait to be resumed."""
        return self.suspended[user] >= MOST_SUSPENDED

    def suspend(self, link: Link) -> bool:
        """It waits to be resumed; False if there are too many of its user already."""
        if self.full(link.key.user):
            return False
        self.suspended[link.key.user] += 1
        link.session = None
        return True

    def resume(self, key: Key) -> Link | None:
        """A suspended link comes back to life."""
        link = self.by_key.get(key)
        if link is None or link.session is not None:
            return None
        del self.by_key[key]
        self._awake(link)
        link.due = None
        return link

    def expire(self, link: Link, broker: Broker) -> None:
        """Its expiry begins now (§3.5.6)."""
        if link.session is not None or link.over:
            return
        if link.terminus.timeout == 0:
            self.forget(link)
        else:
            broker.state.schedule(link, broker.state.now + 1000 * link.terminus.timeout)

    def _awake(self, link: Link) -> None:
        """It waits no more."""
        self.suspended[link.key.user] -= 1
        if not self.suspended[link.key.user]:
            del self.suspended[link.key.user]

    def forget(self, link: Link, unsubscribe: bool = False, held: Iterable[Entry] = ()) -> None:
        """It is over for good: what it ``held``, or has parked, has its default outcome; a queue
        that was made for it goes too, and one that lives as long as it has consumers. A durable
        subscription stays unless the peer ends it (``unsubscribe``)."""
        entries = [*held, *link.parked.values()]
        link.parked = {}
        then: Callable[[], None] = nothing
        if not link.over:
            link.over = True
            link.send_to(None)
            if link.session is None and self.by_key.get(link.key) is link:
                self._awake(link)
            link.session = None
            if self.by_key.get(link.key) is link:
                del self.by_key[link.key]
            link.drop_exclusions()
            queue = None if link.node is None else link.vhost.queues.get(link.node.queue)
            then = partial(self._end_node, link, queue, unsubscribe)
        if len(entries) > PORTION:
            steps = giving_up(entries, link.default)
            link.vhost.state.undertakings.begin(steps, lambda refusal: then(), whole=False)
        else:
            give_up(entries, link.default)
            then()

    def _end_node(self, link: Link, queue: Queue | None, unsubscribe: bool) -> None:
        """A queue that was there for a link may be over with it."""
        node = link.node
        if node is None or queue is None or queue.gone:
            return
        ended = unsubscribe or not node.lasts(queue)
        owned = node.owned or queue.auto_delete
        if link.key.source and not queue.consumers and owned and ended:
            link.vhost.remove_queue(queue)
        if not link.key.source:
            self.sending(queue, -1)
        self.left(queue, link.maker)

    # --- dynamic nodes --------------------------------------------------------------------------

    def made(self, vhost: VirtualHost, queue: Queue, policy: str) -> None:
        self.dynamic[queue] = Dynamic(self, vhost, queue, policy)

    def sending(self, queue: Queue | None, more: int) -> None:
        """One sender more, or less, of a dynamic node."""
        if queue in self.dynamic:
            self.senders[queue] = self.senders.get(queue, 0) + more
            self.review(self.dynamic[queue])

    def left(self, queue: Queue | None, maker: bool) -> None:
        """A link to a node is gone; ``maker``: the one that made it."""
        node = self.dynamic.get(queue) if queue is not None else None
        if node is not None:
            node.made = node.made and not maker
            self.review(node)

    def review(self, node: Dynamic) -> None:
        """Delete a node that has lived long enough."""
        queue, policy = node.queue, node.policy
        if queue.gone:
            self.dynamic.pop(queue, None)
            self.senders.pop(queue, None)
            return
        used = bool(queue.consumers or self.senders.get(queue) or node.made)
        full = bool(queue.depth or queue.unsettled)
        keep = {
            "close": node.made,
            "links": used,
            "messages": node.made or full,
            "links-or-messages": used or full,
        }[policy]
        if not keep:
            self.dynamic.pop(queue, None)
            self.senders.pop(queue, None)
            node.vhost.remove_queue(queue)
        elif not node.made and "messages" in policy:
            state = node.vhost.state
            state.schedule(node, state.now + LOOK_AGAIN)
