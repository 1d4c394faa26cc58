"""The path of a message from its publisher into queues, and the confirms for it.

``publish`` is the hottest function of the gateway. It handles most messages itself: no transaction,
a known exchange, and best of all no confirms and a waiting consumer that settles at once.
Everything else goes through ``full_publish``, which does the same with all checks.
"""

from collections.abc import Iterable
from typing import Protocol

from gateway.broker.answers import Answers
from gateway.broker.confirms import SAFE, Confirms
from gateway.broker.deadletters import header_keys, peek_properties, reencoded
from gateway.broker.exchanges import Exchange, Topic
from gateway.broker.limits import type_name
from gateway.broker.names import ALWAYS_FITS, check_key
from gateway.broker.outbound import Outbound
from gateway.broker.permissions import PermissionCache
from gateway.broker.queues import KEPT, REFUSED, Queue
from gateway.broker.recorder import Wired
from gateway.broker.replies import OCTETS, open_replies, with_reply_to
from gateway.broker.state import BrokerState
from gateway.broker.transactions import Transaction
from gateway.broker.vhost import VirtualHost
from gateway.errors import Condition, Refusal
from gateway.message import Message, WireRun

COPIES = b"CC"
"""In the names of the headers with further routing keys."""


class ToAll(Message):
    """A message to all queues bound to its exchange, with any key (0.8a2 §3.5.2.3: an empty name is
    that of all destinations). ``essentials`` must say that it has headers, or it would be published
    as a plain message."""

    __slots__ = ()


def read_copies(message: Message) -> tuple[Message, list[str]]:
    """The further routing keys of a message (headers CC and BCC), and the message without BCC."""
    properties = peek_properties(message)
    headers = properties.application or {}
    for name in ("CC", "BCC"):
        if name in headers and not isinstance(headers[name], list):
            reason = f'{{unacceptable_type_in_header,"{name}",{type_name(headers[name])}}}'
            raise Refusal(Condition.PRECONDITION_FAILED, f"invalid message: {reason}")
    keys = header_keys(headers, "CC", "BCC")
    if "BCC" in headers:
        properties.application = {k: v for k, v in headers.items() if k != "BCC"}
        message = reencoded(message, properties, message.exchange, message.key)
    return message, keys


def deliver_now(queues: Iterable[Queue], message: Message, origin: object) -> tuple[Queue, ...]:
    """Those of the queues that could hand the message to a consumer at once."""
    return tuple(queue for queue in queues if queue.could_deliver(message, origin))


class PublishListener(Protocol):
    """Hears about messages that were published. Must not raise."""

    def confirm(self, sequence: int, multiple: bool, accepted: bool, /) -> None: ...

    def returned(self, message: Message, condition: Condition, text: str, /) -> None: ...


class PublishPath:
    """``plain``: publishes are not held back, and only routed. ``writable`` are the exchanges
    the user may publish to, by name. ``no_reply_header``: the last properties seen that ask for no
    direct reply; ``replies`` is the queue where such replies arrive. ``origin`` is the connection,
    which ``no_local`` consumers compare. ``confirming`` are the paths of all channels with confirms
    to send at the end of the turn. ``returns_refused``: a rule of the client's version."""

    __slots__ = (
        "vhost", "state", "permissions", "origin", "listener", "confirming", "plain", "writable",
        "confirms", "transaction", "no_reply_header", "replies", "returns_refused", "user",
        "returning", "closed", "recorder", "outbound", "gathered", "_wired",
        "_durable",
    )  # fmt: skip

    def __init__(
        self,
        vhost: VirtualHost,
        state: BrokerState,
        permissions: PermissionCache,
        origin: object,
        listener: PublishListener,
        confirming: "dict[PublishPath, None]",
        returns_refused: bool = False,
    ) -> None:
        self.vhost = vhost
        self.state = state
        self.permissions = permissions
        self.user = permissions.user
        self.origin = origin
        self.listener = listener
        self.confirming = confirming
        self.recorder = vhost.recorder
        self.gathered: list[Message] = []
        """Messages that are not in the journal yet."""
        self._durable = False
        """Whether a durable one is among them."""
        self._wired: list[Wired] = []
        self.plain = self.unchecked
        self.outbound = self.direct
        """The way to the upstream, if publishes need no look but at their user, exchange, key and
        reply-to."""
        self.writable: dict[str, Exchange] = {}
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None
        """The channel's own transaction, in which publishes wait for its commit."""
        self.no_reply_header = b""
        self.replies: Queue | None = None
        self.returns_refused = returns_refused
        self.returning = 0
        """The number of an earlier publish that is being returned, if it is confirmed."""
        self.closed = False
        """The channel has ended."""

    @property
    def unchecked(self) -> bool:
        """Whether messages are only routed and recorded: their size is not limited, and they go to
        no upstream."""
        return self.state.limits.max_message is None and self.vhost.outbound is None

    @property
    def direct(self) -> Outbound | None:
        """The way to the upstream of messages whose size is not limited."""
        return self.vhost.outbound if self.state.limits.max_message is None else None

    def publish(self, message: Message, mandatory: bool = False, immediate: bool = False) -> None:
        """Hot. Measured in benchmarks/: no calls but the recipient's on the direct way."""
        message.user = self.user
        exchange = self.writable.get(message.exchange)
        header = message.header
        durable, _, _, user_id, has_headers, expiry = message.essentials
        if (
            exchange is None
            or user_id is not None
            or (has_headers and (message.__class__ is ToAll or header.find(COPIES) >= 0))
            or expiry is not None
            or (mandatory and self.confirms is None)
            or immediate
            or not self.plain
            or (header is not self.no_reply_header and header.find(OCTETS) >= 0)
        ):
            outbound = self.outbound
            if (
                outbound is not None
                and exchange is not None
                and user_id is None
                and not immediate
                and len(message.key) <= ALWAYS_FITS
                and (message.exchange or message.key not in self.vhost.replies)
                and header.find(OCTETS) < 0
            ):
                sequence = 0 if self.confirms is None else self.confirms.wait()
                outbound.publish(self, sequence, message, mandatory)
            else:
                self.full_publish(message, mandatory, immediate)
            return
        self.no_reply_header = header
        queues = exchange.routes.get(message.key)
        if queues is None:
            queues = self.routed(exchange, message)
        if not queues and mandatory:
            self.full_publish(message, mandatory, immediate)
            return
        if not queues:
            self.vhost.unrouted += 1
        confirms, recorder = self.confirms, self.recorder
        fate = 0
        if confirms is not None:
            origin = self.origin
            for queue in queues:
                one = queue.put(message, origin)
                if one > fate:
                    fate = one
            if recorder is not None and queues and fate != REFUSED:
                if not self.gathered:
                    recorder.journal.gather(self)
                self.gathered.append(message)
                if durable and recorder.wants(message):
                    self._durable = True
                    fate = KEPT
            confirms.add(self.state.store.mark if fate == KEPT else SAFE, fate != REFUSED)
            self.confirming[self] = None
            return
        for queue in queues:
            waiting = queue.waiting
            if waiting and not queue.backlog.depth:
                consumer = waiting[0]
                if consumer.simple:
                    if len(waiting) > 1:
                        waiting.rotate(-1)
                    queue.passed += 1
                    window = consumer.window
                    window.last = tag = window.last + 1
                    consumer.deliver(consumer.tag, tag, False, message)
                    continue
            one = queue.put(message, self.origin)
            if one > fate:
                fate = one
        if recorder is not None and queues and fate != REFUSED:
            if not self.gathered:
                recorder.journal.gather(self)
            self.gathered.append(message)
            if durable and recorder.wants(message):
                self._durable = True

    def gather_run(
        self, messages: list[Message], start: int, count: int, wire: WireRun | None
    ) -> None:
        """So many of these transient messages, from ``start`` on, were published with
        ``publish_run``; record them with others in this turn. ``wire``: all of the messages."""
        gathered, wired = self.gathered, self._wired
        if not gathered and self.recorder is not None:
            self.recorder.journal.gather(self)
        if wire is not None:
            if not start:
                wired.append(Wired(wire, len(gathered)))
            if wired and wired[-1].goes_on(wire, start, len(gathered)):
                wired[-1].count += count
        gathered += messages[start : start + count]

    def record_gathered(self) -> None:
        """Record the messages of this turn so far."""
        messages, wired = self.gathered[:], self._wired[:]
        self.gathered.clear()
        self._wired.clear()
        if self._durable:
            self._durable = False
            self.state.store.await_entries()
        if self.recorder is not None:
            self.recorder.record_gathered(messages, wired, self.origin)

    def wants_reply(self, header: bytes) -> bool:
        """Whether these properties may ask for a direct reply. If not, they are remembered, so that
        they are not searched again for the next message."""
        if header.find(OCTETS) >= 0:  # several times as fast as `in`
            return True
        self.no_reply_header = header
        return False

    def full_publish(self, message: Message, mandatory: bool, immediate: bool) -> None:
        exchange = self.checked(message)
        if message.header is not self.no_reply_header and self.wants_reply(message.header):
            message = with_reply_to(message, self.replies)
        if self.vhost.outbound is not None:
            if immediate:
                raise Refusal(Condition.NOT_IMPLEMENTED, "immediate=true is not for an upstream")
            check_key(message.key)
        if self.transaction is not None:
            if message.essentials.has_headers and message.header.find(COPIES) >= 0:
                read_copies(message)  # a refusal now is better than one in the middle of commit
            self.transaction.publish(message, mandatory, immediate)
            self.state.octets += message.weight
            if self.confirms is not None:
                self.confirms.add(SAFE, True)
                self.confirming[self] = None
            return
        if self.vhost.outbound is not None:
            self.send_out(self.vhost.outbound, message, mandatory)
            return
        fate = self.enqueue(exchange, message, mandatory, immediate)
        if self.confirms is not None:
            self.confirms.add(self.state.store.mark if fate == KEPT else SAFE, fate != REFUSED)
            self.confirming[self] = None
        elif fate == REFUSED and mandatory and self.returns_refused:
            self.listener.returned(message, Condition.RESOURCE_ERROR, "a queue is full")

    def send_out(self, outbound: Outbound, message: Message, mandatory: bool) -> None:
        """Publish to the upstream of a facade, which confirms it."""
        if self.is_direct_reply(message):
            self.reply_directly(message)
            if self.confirms is not None:
                self.confirms.add(SAFE, True)
                self.confirming[self] = None
            return
        sequence = 0 if self.confirms is None else self.confirms.wait()
        outbound.publish(self, sequence, message, mandatory)

    def is_direct_reply(self, message: Message) -> bool:
        return not message.exchange and message.key in self.vhost.replies

    def reply_directly(self, message: Message) -> None:
        """No-op if the requester has gone."""
        queue = self.vhost.replies.get(message.key)
        if queue is not None:
            queue.put(message, self.origin)

    def give_back(self, message: Message, condition: Condition, text: str) -> None:
        """A message that was published earlier comes back."""
        self.listener.returned(message, condition, text)

    def decide(self, first: int, last: int, mark: int, accepted: bool) -> None:
        """The upstream has told the fate of publishes, which are confirmed at the end of the turn,
        or when the batch ``mark`` is safe."""
        if self.confirms is not None:
            self.confirms.decide(first, last, mark, accepted)
            self.confirming[self] = None

    def enqueue(
        self, exchange: Exchange, message: Message, mandatory: bool, immediate: bool
    ) -> int:
        """Put a message into the queues it is routed to; the worst result among them."""
        copies: Iterable[str] = ()
        if message.__class__ is ToAll:
            return self.enqueue_for_all(exchange, message)
        if message.essentials.has_headers and message.header.find(COPIES) >= 0:
            message, copies = read_copies(message)
        queues = exchange.routes.get(message.key)
        if queues is None:
            queues = self.routed(exchange, message)
        if copies:
            queues = self.vhost.router.route_copies(exchange, message, queues, copies)
        if not queues:
            self.vhost.unrouted += 1
            if mandatory or immediate:
                self.listener.returned(message, Condition.NO_ROUTE, "NO_ROUTE")
            return 0
        if immediate:
            queues = deliver_now(queues, message, self.origin)
            if not queues:
                self.listener.returned(message, Condition.NO_CONSUMERS, "NO_CONSUMERS")
                return 0
        expiry = message.essentials.expiry
        if expiry is not None and expiry <= self.state.now:
            for queue in queues:
                self.vhost.dead_letters.publish(queue, message, "expired")
            return 0
        fate = 0
        for queue in queues:
            fate = max(fate, queue.put(message, self.origin))
        return fate if self.recorder is None else self.recorded(message, fate)

    def recorded(self, message: Message, fate: int) -> int:
        """Put a message that was accepted into the journal. A durable one is kept then; the entry
        of a transient one is as transient as the message, until its batch is written."""
        assert self.recorder is not None
        if fate == REFUSED or not self.recorder.record(message, self.origin):
            return fate
        return KEPT if message.essentials.durable else fate

    def enqueue_for_all(self, exchange: Exchange, message: Message) -> int:
        queues = exchange.everywhere(message)
        if not queues:
            self.vhost.unrouted += 1
            return 0
        fate = max(queue.put(message, self.origin) for queue in queues)
        return fate if self.recorder is None else self.recorded(message, fate)

    def publish_refused(self) -> None:
        """A publish was refused and the channel goes on: count it, and confirm it as not
        accepted."""
        if self.confirms is not None:
            self.confirms.add(SAFE, False)
            self.confirming[self] = None

    @property
    def sequence(self) -> int:
        """The number of the publish at hand, 0 if they are not confirmed."""
        if self.returning:
            return self.returning
        return 0 if self.confirms is None else self.confirms.sequence + 1

    def select_confirms(self) -> None:
        """Publishes are numbered and confirmed from now on."""
        if self.transaction is not None:
            raise Refusal(Condition.PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
        if self.confirms is None:
            self.confirms = Confirms()

    def open_replies(self, no_ack: bool, answers: Answers | None) -> Queue:
        """The queue for direct replies. Refuses (406) a second one. May raise
        ``AwaitsUpstream``."""
        self.replies = open_replies(self.vhost, self.replies, no_ack, answers)
        return self.replies

    def begin_transaction(self, transaction: Transaction) -> None:
        """Publishes wait in it from now on."""
        if self.confirms is not None:
            raise Refusal(Condition.PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
        self.work_in(transaction)

    def work_in(self, transaction: Transaction | None) -> None:
        """Publishes wait in this transaction, or in none."""
        self.transaction = transaction
        self.outbound = self.direct if transaction is None else None
        self.plain = transaction is None and self.unchecked

    # --- checks and routes ----------------------------------------------------------------------

    def checked(self, message: Message) -> Exchange:
        """The exchange of a message, if this user may publish it there. Refuses with 403, 404 or
        406."""
        exchange = self.writable.get(message.exchange)
        if exchange is None:
            exchange = self.find_writable(message.exchange)
            self.check_topics(exchange, message)
        if message.essentials.user_id is not None:
            self.permissions.check_user(message.essentials.user_id)
        most = self.state.limits.max_message
        if most is not None and len(message.body) > most:
            raise Refusal(
                Condition.PRECONDITION_FAILED,
                f"message size {len(message.body)} is larger than configured max size {most}",
            )
        return exchange

    def find_writable(self, name: str) -> Exchange:
        """Refuses with 403 or 404."""
        self.permissions.need("write", "exchange", name)
        exchange = self.vhost.exchange(name)
        if exchange.internal:
            raise Refusal(
                Condition.ACCESS_REFUSED,
                f"cannot publish to internal {self.vhost.title('exchange', name)}",
            )
        # One whose routing keys matter is looked at for each message.
        if not (exchange.type == Topic.type and self.permissions.is_narrowed(name)):
            self.writable[name] = exchange
        return exchange

    def check_topics(self, exchange: Exchange, message: Message) -> None:
        """Refuses (403) routing keys that the user may not publish to a topic exchange."""
        if exchange.type != Topic.type:
            return
        keys = [message.key]
        if message.essentials.has_headers and message.header.find(COPIES) >= 0:
            keys += read_copies(message)[1]
        for key in keys:
            self.permissions.need_topic("write", exchange.name, key)

    def routed(self, exchange: Exchange, message: Message) -> tuple[Queue, ...]:
        """The queues of a message that is published. Refuses a routing key that is too long; one
        whose route is remembered has been looked at."""
        check_key(message.key)
        return self.vhost.router.route(exchange, message)
