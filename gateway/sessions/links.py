"""Named links of all connections: the live ones, and the suspended ones that may be resumed.

A link is known by container, name and direction (§2.6.1). One that was detached without being
closed keeps its terminus and its unsettled deliveries until its expiry policy says otherwise.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, Protocol

from gateway.broker.broker import Broker
from gateway.broker.channel import nothing
from gateway.broker.exclusions import Exclusions
from gateway.broker.lanes import Entry
from gateway.broker.long_operations import PORTION
from gateway.broker.queues import Queue
from gateway.broker.settlements import Verdict
from gateway.broker.suspension import give_up, giving_up
from gateway.broker.vhost import VirtualHost
from gateway.operations import Outcome, Terminus

MOST_SUSPENDED = 10_000
"""Suspended links of one user."""

RECHECK = 1000
"""Milliseconds between checks of a dynamic node that is deleted once it holds no messages."""


class Key(NamedTuple):
    """Identity of a link. ``source``: the peer receives. Containers are apart by user: no user
    can steal the links of another by using the same container-id."""

    vhost: str
    user: str
    container: str
    name: str
    source: bool


class Node(NamedTuple):
    """The queue behind a source. ``owned``: it was made for the link and is deleted with it.
    ``subscription``: its messages are copies already, so that distribution mode "copy", which JMS
    requests for topics, is no different from "move"."""

    queue: str
    owned: bool = False
    subscription: bool = False

    def lasts(self, queue: Queue) -> bool:
        """Whether it is a durable subscription."""
        return self.subscription and queue.durable

    def copies(self, terminus: Terminus) -> bool:
        """Whether the link browses: messages stay in the queue."""
        return terminus.copy and not self.subscription


class LinkOwner(Protocol):
    """The connection over which a link is attached."""

    def stolen(self, link: "Link") -> None:
        """Another connection attaches the link by its name."""
        ...

    def target_deleted(self, link: "Link") -> None:
        """The queue to which the link sends is deleted."""
        ...


class Link:
    """One link. ``owner`` is ``None`` while it is suspended. ``parked`` are its unsettled
    deliveries by delivery tag; ``outcomes``, by delivery tag too, those that a sending peer was
    told."""

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
        self.owner: LinkOwner | None = None
        self.queue: Queue | None = None
        """The queue to which it sends, if its target is one."""
        self.maker = False
        """A dynamic node was made for it."""
        self.parked: dict[bytes, Entry] = {}
        self.outcomes: dict[bytes, Any] = {}
        self.exclusions: Exclusions | None = None
        """While it is suspended: messages that it must not receive when it is resumed."""
        self.due: int | None = None
        self.over = False
        self.busy = False
        """Its deliveries are being resumed, parked or given up, in several turns."""

    @property
    def default(self) -> Verdict:
        """Outcome of deliveries that are unsettled when the link ends (§3.5.3)."""
        default = self.terminus.default
        copies = self.node is not None and self.node.copies(self.terminus)
        return Outcome.RELEASE if copies or default is None else default

    def send_to(self, queue: Queue | None) -> None:
        """Watch for the deletion of the queue to which the link sends; ``None``: of none."""
        if self.queue is not None:
            self.queue.senders.pop(self, None)
        self.queue = queue
        if queue is not None:
            queue.senders[self] = None

    def queue_gone(self) -> None:
        """The queue to which the link sends is deleted."""
        self.queue = None
        if self.owner is not None:
            self.owner.target_deleted(self)

    def replace(self) -> None:
        """Another link goes on in its place."""
        self.over = True
        self.due = None
        self.send_to(None)
        self.drop_exclusions()

    def drop_exclusions(self) -> None:
        """The link has ended, or is attached again."""
        if self.exclusions is not None:
            self.exclusions.clear()
            self.exclusions = None

    def on_due(self) -> None:
        """Its expiry timeout is over, unless it was resumed meanwhile."""
        if self.owner is None:
            self.links.forget(self)


class Dynamic:
    """A dynamic node and its lifetime policy: "close", "links", "messages" or "links-or-messages"
    (§3.5.10 to §3.5.13)."""

    def __init__(self, links: "Links", vhost: VirtualHost, queue: Queue, policy: str) -> None:
        self.links = links
        self.vhost = vhost
        self.queue = queue
        self.policy = policy
        self.due: int | None = None
        self.made = True
        """The link that made it is attached."""

    def on_due(self) -> None:
        self.links.review(self)


class Links:
    """All links of a broker that have a name, and the nodes that depend on links."""

    def __init__(self) -> None:
        self.by_key: dict[Key, Link] = {}
        self.dynamic: dict[Queue, Dynamic] = {}
        self.senders: dict[Queue, int] = {}
        """Number of links that send to each dynamic node."""
        self.suspended: Counter[str] = Counter()
        """Number of suspended links, by user."""

    def enter(self, link: Link, owner: LinkOwner) -> None:
        """The link is live."""
        link.owner = owner
        self.by_key[link.key] = link

    def full(self, user: str) -> bool:
        """Whether a user has as many suspended links as it may have."""
        return self.suspended[user] >= MOST_SUSPENDED

    def suspend(self, link: Link) -> bool:
        """Keep it to be resumed; false if its user has too many suspended links already."""
        if self.full(link.key.user):
            return False
        self.suspended[link.key.user] += 1
        link.owner = None
        return True

    def resume(self, key: Key) -> Link | None:
        """Take a suspended link out, to be attached again; ``None`` if there is none."""
        link = self.by_key.get(key)
        if link is None or link.owner is not None:
            return None
        del self.by_key[key]
        self._awake(link)
        return link

    def put_back(self, link: Link) -> None:
        """It was taken out, and could not be attached yet: it is suspended as before."""
        self.by_key[link.key] = link
        self.suspended[link.key.user] += 1

    def expire(self, link: Link, broker: Broker) -> None:
        """Its expiry begins now (§3.5.6)."""
        if link.owner is not None or link.over:
            return
        if link.terminus.timeout == 0:
            self.forget(link)
        else:
            broker.state.schedule(link, broker.state.now + 1000 * link.terminus.timeout)

    def _awake(self, link: Link) -> None:
        """The link is suspended no longer."""
        self.suspended[link.key.user] -= 1
        if not self.suspended[link.key.user]:
            del self.suspended[link.key.user]

    def forget(self, link: Link, unsubscribe: bool = False, held: Iterable[Entry] = ()) -> None:
        """End the link for good: deliveries that it ``held`` or has parked get their default
        outcome; a queue that was made for it is deleted, and an auto-delete queue without other
        consumers. A durable subscription stays unless the peer ends it (``unsubscribe``)."""
        entries = [*held, *link.parked.values()]
        link.parked = {}
        then: Callable[[], None] = nothing
        if not link.over:
            link.over = True
            link.send_to(None)
            if link.owner is None and self.by_key.get(link.key) is link:
                self._awake(link)
            link.owner = None
            if self.by_key.get(link.key) is link:
                del self.by_key[link.key]
            link.drop_exclusions()
            queue = None if link.node is None else link.vhost.queues.get(link.node.queue)
            then = partial(self._end_node, link, queue, unsubscribe)
        if len(entries) > PORTION:
            steps = giving_up(entries, link.default)
            link.vhost.state.long_operations.begin(steps, lambda refusal: then(), atomic=False)
        else:
            give_up(entries, link.default)
            then()

    def _end_node(self, link: Link, queue: Queue | None, unsubscribe: bool) -> None:
        """Delete the queue behind a link that has ended, if it was there for the link."""
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
        """Count ``more`` senders of a queue, or fewer if negative; no-op unless it is dynamic."""
        if queue in self.dynamic:
            self.senders[queue] = self.senders.get(queue, 0) + more
            self.review(self.dynamic[queue])

    def left(self, queue: Queue | None, maker: bool) -> None:
        """A link to the queue has ended; ``maker``: the one that made the queue."""
        node = self.dynamic.get(queue) if queue is not None else None
        if node is not None:
            node.made = node.made and not maker
            self.review(node)

    def review(self, node: Dynamic) -> None:
        """Delete a node whose lifetime policy does not keep it any longer."""
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
            state.schedule(node, state.now + RECHECK)
