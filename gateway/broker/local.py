"""Clients of the broker inside this process: HTTP, event streams, leases and administration.

A ``LocalClient`` is attached as a user, like a connection over the network, and opens
``LocalChannel``s. A channel publishes with an outcome, declares, subscribes, fetches and settles
with the permissions of its user. Everything here is called within a turn.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple, Protocol

from gateway.broker.broker import Broker
from gateway.broker.browsing import Place, Seen
from gateway.broker.channel import Channel, Recipient
from gateway.broker.client import Client
from gateway.broker.confirms import Confirms
from gateway.broker.cursors import Matches
from gateway.broker.exchanges import Binding, Exchange
from gateway.broker.facade import FacadeVirtualHost
from gateway.broker.lanes import Entry
from gateway.broker.publish_path import read_copies
from gateway.broker.queues import Queue
from gateway.broker.vhost import VirtualHost
from gateway.errors import Condition, LocalError
from gateway.message import Message, Table
from gateway.operations import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Fetched,
    Outcome,
    PurgeQueue,
    Unbind,
)

DISK, MIXED, MEMORY = "disk", "mixed", "memory"
"""Where a published message is kept: on disk in all of its queues, in some of them, in none."""


class Subscriber(Protocol):
    """Receives the deliveries of a channel's consumers. Must not raise."""

    def deliver(
        self, consumer: str, delivery: int, redelivered: bool, message: Message, /
    ) -> None: ...

    def cancelled(self, tag: str, /) -> None:
        """The broker ended a consumer."""
        ...


class NoSubscriber:
    """For a channel without consumers."""

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        raise LocalError("this channel has no consumers")

    def cancelled(self, tag: str) -> None:
        raise LocalError("this channel has no consumers")


NO_SUBSCRIBER = NoSubscriber()


class PublishOutcome(Protocol):
    """Is told the outcome of one publish. ``returned`` comes before ``settle``, within
    ``publish``."""

    def returned(self, condition: Condition, text: str, /) -> None:
        """The message was routed to no queue, or could not be delivered."""
        ...

    def settle(self, accepted: bool, /) -> None:
        """The broker confirmed (basic.ack) or rejected (basic.nack) it."""
        ...

    def lose(self) -> None:
        """The channel ended before the confirm, which will never come."""
        ...


HTTP = "http"
"""Protocol, and listener, of clients that do not say another."""


class PrivateQueue(NamedTuple):
    """A queue of the gateway's own, and the exchange that it is bound to."""

    name: str
    exchange: Exchange


class LocalClient:
    """One connection. ``ended`` is called once when it is closed, also by the deletion of its
    virtual host. ``internal``: it does the gateway's own work as a user, who may have lost access
    since."""

    def __init__(
        self, broker: Broker, vhost: str, user: str, name: str, *, internal: bool = False,
        protocol: str = HTTP,
    ) -> None:  # fmt: skip
        """Raises ``Refusal``. ``protocol`` is told by the journal."""
        if internal and vhost in broker.vhosts:
            found = broker.vhosts[vhost]
            self._client = Client(broker, found, user, name)
            found.clients[self._client] = None
        else:
            self._client = broker.attach(vhost, user, name)
        self._client.origin = {"protocol": protocol}
        if protocol == HTTP:
            self._client.origin["listener"] = HTTP
        self.user = user
        self.ended: Callable[[], None] = lambda: None
        self._client.ended = self._end
        self._channels: dict[LocalChannel, None] = {}
        self._numbers = count(1)

    @property
    def closed(self) -> bool:
        return self._client.closed

    def close(self) -> None:
        """End all channels; unsettled deliveries are requeued. May be called twice."""
        self._client.close()

    def channel(self, subscriber: Subscriber = NO_SUBSCRIBER) -> "LocalChannel":
        channel = LocalChannel(self, self._open, subscriber)
        self._channels[channel] = None
        return channel

    def transaction(self) -> "LocalTransaction":
        return LocalTransaction(self._open)

    def _open(self, recipient: Recipient) -> Channel:
        return self._client.channel(next(self._numbers), recipient)

    def leave(self, channel: "LocalChannel") -> None:
        """A channel was closed by itself."""
        self._channels.pop(channel, None)

    def _end(self) -> None:
        channels, self._channels = list(self._channels), {}
        for channel in channels:
            channel.lose()
        self.ended()


class LocalChannel:
    """One channel. ``deliver`` and ``cancelled`` are the subscriber's: it is called directly."""

    __slots__ = (
        "client", "vhost", "deliver", "cancelled", "under_way", "_channel", "_virtual_host",
        "_path", "_confirms", "_publishing",
    )  # fmt: skip

    def __init__(
        self,
        client: LocalClient,
        open_channel: Callable[[Recipient], Channel],
        subscriber: Subscriber,
    ) -> None:
        self.client = client
        self.deliver = subscriber.deliver
        self.cancelled = subscriber.cancelled
        self.under_way: dict[int, PublishOutcome] = {}
        """Publishes that are not confirmed yet, by their number."""
        self._channel = channel = open_channel(self)
        self._virtual_host: VirtualHost = channel.vhost
        self.vhost: str = channel.vhost.name
        self._path = channel.publish_path
        self._confirms: Confirms | None = None
        self._publishing: PublishOutcome | None = None

    @contextmanager
    def answered(self, again: bool) -> Iterator[None]:
        """Operations within are those of one request; ``again``: the answers of an
        upstream that it needed have come, and count."""
        answers = self._channel.topology.answers
        if answers is None:
            yield
            return
        answers.again = again
        try:
            yield
        finally:
            answers.again = False

    def close(self) -> None:
        """Unsettled deliveries are requeued."""
        self.client.leave(self)
        self._channel.close()
        self.lose()

    # --- publishing -----------------------------------------------------------------------------

    def publish(self, message: Message, outcome: PublishOutcome) -> bool:
        """Publish with confirms, mandatory. ``False``: it was returned, or a queue rejected it, as
        is known before the confirm. Raises ``Refusal``; then ``outcome`` is told nothing. Hot."""
        confirms = self._confirms
        if confirms is None:
            self._path.select_confirms()
            confirms = self._confirms = self._path.confirms
            assert confirms is not None
        self._publishing = outcome
        try:
            self._channel.publish_path.publish(message, True)
            taken = self._publishing is not None
        finally:
            self._publishing = None
        self.under_way[confirms.sequence] = outcome
        # An accepted publish leaves no run, or shares one with others that were accepted.
        runs = confirms.runs
        return taken and not (runs and not runs[-1].accepted)

    def publish_unconfirmed(self, message: Message) -> None:
        """Publish without asking for an outcome. Only for a channel that has no confirms. Raises
        ``Refusal``."""
        self._channel.publish(message)

    def durability(self, message: Message) -> str:
        """``DISK``, ``MIXED`` or ``MEMORY``, in the turn in which it was published. Hot."""
        return durability(self._virtual_host, message)

    def check_writable(self, exchange: str) -> None:
        """Raises ``Refusal`` unless the user may publish to an exchange that exists."""
        if exchange not in self._path.writable:
            self._path.find_writable(exchange)

    def has_queue(self, name: str) -> bool:
        """Whether there is a queue, or a place for direct replies, of this name."""
        return self._virtual_host.is_reply(name) or name in self._virtual_host.queues

    def confirm(self, sequence: int, multiple: bool, accepted: bool) -> None:
        if not multiple:
            self.under_way.pop(sequence).settle(accepted)
            return
        for number in list(self.under_way):
            if number > sequence:
                break
            self.under_way.pop(number).settle(accepted)

    def returned(self, message: Message, condition: Condition, text: str) -> None:
        # The broker returns within publish, an upstream later.
        outcome, self._publishing = self._publishing, None
        if outcome is None:
            outcome = self.under_way.get(self._path.returning)
        if outcome is not None:
            outcome.returned(condition, text)

    def lose(self) -> None:
        """The channel is gone; the outcomes under way are told so."""
        lost = list(self.under_way.values())
        self.under_way.clear()
        for outcome in lost:
            outcome.lose()

    # --- topology, with the permissions of the user ---------------------------------------------

    def declare_queue(
        self,
        name: str,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        arguments: Table | None = None,
        levels: int = 0,
    ) -> None:
        self._channel.topology.declare_queue(
            DeclareQueue(
                self._channel.number,
                None,
                name,
                durable=durable,
                auto_delete=auto_delete,
                arguments=arguments or {},
                levels=levels,
            )
        )

    def delete_queue(self, name: str, if_unused: bool = False, if_empty: bool = False) -> int:
        """How many messages were deleted with it."""
        op = DeleteQueue(self._channel.number, None, name, if_unused, if_empty)
        return self._channel.topology.delete_queue(op)

    def purge_queue(self, name: str) -> int:
        """How many messages were removed."""
        return self._channel.topology.purge_queue(PurgeQueue(self._channel.number, None, name))

    def declare_exchange(
        self,
        name: str,
        type: str,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self._channel.topology.declare_exchange(
            DeclareExchange(
                self._channel.number,
                None,
                name,
                type,
                durable=durable,
                auto_delete=auto_delete,
                internal=internal,
                arguments=arguments or {},
            )
        )

    def delete_exchange(self, name: str, if_unused: bool = False) -> None:
        op = DeleteExchange(self._channel.number, None, name, if_unused)
        self._channel.topology.delete_exchange(op)

    def bind(
        self, destination: str, source: str, key: str, arguments: Table, to_exchange: bool
    ) -> None:
        op = Bind(self._channel.number, None, destination, source, key, arguments, to_exchange)
        self._channel.topology.bind(op)

    def unbind(
        self, destination: str, source: str, key: str, arguments: Table, to_exchange: bool
    ) -> None:
        op = Unbind(self._channel.number, None, destination, source, key, arguments, to_exchange)
        self._channel.topology.unbind(op)

    # --- the gateway's own queues ---------------------------------------------------------------

    def bind_private_queue(self, exchange: str, key: str, durable: str = "") -> PrivateQueue:
        """A queue of the gateway's own, bound to an exchange without the user's permissions:
        exclusive and server-named, or the durable one of this name, made if it does not exist."""
        vhost, client = self._virtual_host, self._channel.client
        source = vhost.exchange(exchange)
        if isinstance(vhost, FacadeVirtualHost):
            private = vhost.private_queue(exchange, key)
            vhost.own(private, client)
            return PrivateQueue(private.name, source)
        name = durable or vhost.new_name()
        queue = vhost.queues.get(name)
        if queue is None:
            number = self._channel.number
            op = DeclareQueue(number, None, name, durable=bool(durable), exclusive=not durable)
            queue = vhost.make_queue(name, op, client)
        vhost.add_binding(Binding(source, queue, key, {}))
        return PrivateQueue(name, source)

    # --- consuming ------------------------------------------------------------------------------

    def prefetch(self, messages: int, octets: int) -> None:
        """Limits of unsettled deliveries for each consumer that subscribes from now on."""
        self._channel.prefetch(messages, octets)

    def subscribe(
        self,
        queue: str,
        *,
        no_ack: bool = False,
        exclusive: bool = False,
        permitted: bool = False,
        matches: Matches | None = None,
        remaining_ttl: bool = False,
        arguments: Table | None = None,
    ) -> str:
        """The tag of a new consumer, which gets nothing before ``start``. ``permitted``: the caller
        has checked that this queue may be read. ``matches`` is its filter; other messages stay.
        ``remaining_ttl``: a message that expires comes as ``ExpiringMessage``. Raises
        ``Refusal``."""
        if permitted:
            self._channel.permissions.grant("read", queue)
        return self._channel.subscribe(
            queue,
            "",
            no_ack,
            exclusive,
            matches=matches,
            remaining_ttl=remaining_ttl,
            arguments=arguments,
        )

    def prepare(self, queue: str, arguments: Table) -> None:
        """Ask the upstream of a facade whether there may be such a consumer, whose rights the
        caller has checked; ``subscribe`` follows. Raises ``AwaitsUpstream``, or the refusal."""
        self._channel.permissions.grant("read", queue)
        self._channel.prepare_consumer(queue, False, False, arguments, None)

    def start(self, tag: str) -> None:
        """Deliveries may begin."""
        self._channel.start(tag)

    def unsubscribe(self, tag: str, keep_queue: bool = False) -> None:
        """End a consumer; its unsettled deliveries stay. ``keep_queue``: an auto-delete queue
        stays."""
        self._channel.unsubscribe(tag, keep_queue)

    def fetch(self, queue: str, no_ack: bool = False) -> Fetched | None:
        """Take the first ready message (basic.get). Raises ``Refusal``."""
        return self._channel.fetch(queue, no_ack)

    def at_hand(self, queue: str) -> int:
        """Ready messages of a queue that can be fetched without asking another broker."""
        found = self._channel.vhost.queues.get(queue)
        return 0 if found is None else found.at_hand

    def pick(self, queue: Queue, place: Place) -> Fetched | None:
        """Take the ready message at a place."""
        return self._channel.pick(queue, place)

    def delivery_count(self, delivery: int) -> int:
        """How often an unsettled message was delivered before."""
        return self._channel.settlements.delivery_count(delivery)

    @property
    def unsettled_octets(self) -> int:
        """Octets of the unsettled deliveries of consumers."""
        return self._channel.window.octets

    def unsettled(self, delivery: int) -> Message | None:
        """An unsettled message, unless it is gone with its queue."""
        entry = self._entry(delivery)
        return None if entry is None or entry.lane.queue.forfeited else entry.message

    def would_dead_letter(self, delivery: int) -> bool:
        """Whether a rejected delivery would be dead-lettered to a queue other than its own."""
        entry = self._entry(delivery)
        return entry is not None and entry.lane.queue.would_dead_letter(entry.message)

    def check_declinable(self, delivery: int) -> None:
        """Raises ``Refusal`` if the consumer has declined too many messages already."""
        entry = self._entry(delivery)
        if entry is not None:
            self._channel.settlements.check_exclusions(entry)

    def settle(self, delivery: int, outcome: Outcome, headers: Table | None = None) -> None:
        """``headers`` are added to the message. An unknown delivery is no error."""
        settlements = self._channel.settlements
        if delivery in settlements.unsettled:
            if headers:
                settlements.annotate(delivery, headers)
            settlements.settle(delivery, False, outcome)

    def settle_up_to(self, delivery: int, outcome: Outcome) -> None:
        """All unsettled deliveries up to this one (multiple)."""
        self._channel.settlements.settle(delivery, True, outcome)

    def _entry(self, delivery: int) -> Entry | None:
        return self._channel.settlements.unsettled.get(delivery)

    # --- browsing -------------------------------------------------------------------------------

    def readable(self, queue: str) -> Queue:
        """Raises ``Refusal``: 403, 404, or 405 for another connection's exclusive queue."""
        return self._channel.readable(queue)

    def browsable(self, queue: str) -> Queue:
        """Likewise, and 540 for the queue of an upstream."""
        return self._channel.browsable(queue)

    def browse(self, queue: str, after: Place | None, limit: int, octets: int) -> list[Seen]:
        """Ready messages, which stay where they are."""
        return self._channel.browse(queue, after, limit, octets)

    def move(self, queue: str, place: Place, exchange: str, key: str) -> str:
        """Publish the message at a place elsewhere and remove it, in one step: "moved", or the
        reason why not: "gone", "unroutable" or "full"."""
        return self._channel.move(queue, place, exchange, key)


class LocalTransaction:
    """Messages that are published in one step, or not at all: a message that cannot be routed, or
    that a queue would reject, is found before the commit. For one turn."""

    def __init__(self, open_channel: Callable[[Recipient], Channel]) -> None:
        self._channel = open_channel(Unheard())
        self._channel.transactions.check_local()
        self._channel.transactions.select()
        self._added: dict[Queue, tuple[int, int]] = {}

    def publish(self, message: Message) -> str:
        """ "" or the reason why it must not be committed: "unroutable" or "full". Raises
        ``Refusal``."""
        channel = self._channel
        channel.publish(message, True)
        vhost = channel.vhost
        exchange = vhost.exchange(message.exchange)
        queues = exchange.routes.get(message.key)
        if queues is None:
            queues = vhost.router.route(exchange, message)
        if not queues:
            return "unroutable"
        for queue in queues:
            if not queue.refuses_when_full:
                continue
            messages, octets = self._added.get(queue, (0, 0))
            messages, octets = messages + 1, octets + len(message.body)
            self._added[queue] = messages, octets
            if queue.overflows(octets, messages):
                return "full"
        return ""

    def commit(self) -> None:
        self._channel.transactions.commit()

    def rollback(self) -> None:
        self._channel.transactions.rollback()

    def durability(self, message: Message) -> str:
        """``DISK``, ``MIXED`` or ``MEMORY``, after the commit."""
        return durability(self._channel.vhost, message)

    def close(self) -> None:
        self._channel.close()


class Unheard(NoSubscriber):
    """For a channel without consumers and confirms, whose messages are all routed."""

    def confirm(self, sequence: int, multiple: bool, accepted: bool) -> None:
        raise LocalError("this channel has no confirms")

    def returned(self, message: Message, condition: Condition, text: str) -> None:
        raise LocalError("this channel publishes nothing that may be returned")


class TopologyImport:
    """Declares in a virtual host without permissions, for an import of definitions by an
    administrator. Raises ``Refusal``."""

    def __init__(self, broker: Broker, vhost: VirtualHost, user: str) -> None:
        self.broker = broker
        self.vhost = vhost
        self.user = user

    def declare_exchange(
        self,
        name: str,
        type: str,
        *,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
    ) -> None:
        op = DeclareExchange(0, None, name, type, False, durable, auto_delete, internal, arguments)
        self.vhost.declare_exchange(op)

    def declare_queue(
        self, name: str, *, durable: bool, auto_delete: bool, arguments: Table, levels: int
    ) -> None:
        op = DeclareQueue(0, None, name, False, durable, False, auto_delete, arguments, levels)
        found = self.vhost.queues.get(name)
        if found is not None:
            self.vhost.check_same_queue(found, op, None)
        else:
            owner = Client(self.broker, self.vhost, self.user, "definitions")
            self.vhost.make_queue(name, op, owner)

    def bind(
        self, destination: str, source: str, key: str, arguments: Table, to_exchange: bool
    ) -> None:
        vhost = self.vhost
        to = vhost.exchange(destination) if to_exchange else vhost.queue(destination)
        vhost.add_binding(Binding(vhost.exchange(source), to, key, arguments))


def remove_private_queue(broker: Broker, vhost: str, name: str) -> None:
    """Delete a durable queue of the gateway's own, if it and its virtual host still exist."""
    found = broker.vhosts.get(vhost)
    queue = None if found is None else found.queues.get(name)
    if found is not None and queue is not None:
        found.remove_queue(queue)


def durability(vhost: VirtualHost, message: Message) -> str:
    essentials = message.essentials
    if not essentials.durable:
        return MEMORY
    if vhost.outbound is not None:
        return DISK  # as durable as the queues of the upstream are
    exchange = vhost.exchanges.get(message.exchange)
    if exchange is None:
        return MEMORY
    queues = exchange.routes.get(message.key)
    if queues is None:
        queues = vhost.router.route(exchange, message)
    if essentials.has_headers and b"CC" in message.header:
        message, copies = read_copies(message)
        queues = vhost.router.route_copies(exchange, message, queues, copies)
    if len(queues) == 1:
        return DISK if queues[0].keeps else MEMORY
    kept = [queue.keeps for queue in queues]
    if all(kept):
        return DISK if kept else MEMORY
    return MIXED if any(kept) else MEMORY
