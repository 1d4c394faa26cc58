"""Client role: the receiver links of one session, one for each consumer.

A consumer's credit is a window: its prefetch, topped up as it settles, or ``WINDOW`` without one. A
link of ``AttachSource`` gets credit only by ``Credit``. ``Fetch`` has a link of its own for each
queue: one credit, and drain.
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from gateway.adapters.performatives import addresses, termini
from gateway.adapters.performatives.client_context import ClientContext
from gateway.adapters.performatives.client_messages import received
from gateway.adapters.performatives.client_transactions import ClientTransactions
from gateway.adapters.performatives.decoding import FieldError
from gateway.adapters.performatives.deliveries import IncomingDelivery
from gateway.adapters.performatives.link_recovery import BadMap, resumed, written
from gateway.adapters.performatives.links import Link, LinkHandler
from gateway.adapters.performatives.outcomes import ACCEPTED, RELEASED, SYMBOLS, rejected, state_of
from gateway.adapters.performatives.receiving_link import ReceivingLink
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import AmqpError, SenderSettleMode
from gateway.errors import Condition, LocalError
from gateway.message import Message
from gateway.operations import (
    Attached,
    AttachSource,
    Cancelled,
    Credit,
    Deliver,
    Done,
    Fetch,
    Fetched,
    Modify,
    Operation,
    Outcome,
    Prefetch,
    Recover,
    Retire,
    Settle,
    Subscribe,
    Terminus,
    Token,
    Unsubscribe,
)
from gateway.values import Symbol

WINDOW = 1000
"""Credit of a consumer without prefetch."""

SLACK = 1000
"""Deliveries beyond its credit that a peer may send us. RabbitMQ 3 does, if credit is granted while
some are on their way."""

MOST_FETCHED = 64
"""Queues that keep a link for ``Fetch``."""

MODIFIED = "amqp:modified:list"
NO_LOCAL = "apache.org:no-local-filter:list"
ROUTING_KEY, EXCHANGE = "x-routing-key", "x-exchange"
"""Annotations of brokers with the exchange and routing key of a message."""
_ROUTED = ROUTING_KEY.encode()


@dataclass(slots=True, eq=False)
class Consumer:
    """State of a receiver link. ``asked`` is the request that its attach answers."""

    tag: str
    key: str
    """The routing key of messages without one."""
    asked: Any
    token: Token
    credit: int = 0
    """Credit to grant when it is attached; a consumer with a window gets it otherwise."""
    leaving: Any = None
    """The ``Unsubscribe`` that ends it; True once it is answered."""
    drain: Token = None
    left: int = 0
    """Credit before the flow that answers ``drain``."""
    fetches: deque[Token] | None = None
    fetching: bool = False
    owed: bool = False
    """A message took the credit that was to be drained, and the peer may still answer the drain.
    Artemis does, and drops the next credit with it, even if the queue has messages."""
    spare: deque[Fetched] = field(default_factory=deque)
    """Messages that arrived beyond the fetches."""


class ClientReceivers(LinkHandler):
    """The receiver links of one session."""

    def __init__(self, context: ClientContext, transactions: ClientTransactions) -> None:
        self.context = context
        self.transactions = transactions
        self.session = context.session
        self.prefetch = 0
        self.links: dict[str, ReceivingLink] = {}
        """By tag."""
        self._fetchers: dict[tuple[str, bool], ReceivingLink] = {}
        self._drains = context.form != "v1"
        """Whether the peer can drain. RabbitMQ 3.10 loses the session when a classic queue is
        drained; it answers every grant with a flow that has ``available`` instead."""
        self._delivery = 0
        self._unsettled: dict[int, IncomingDelivery] = {}
        """By the number of the delivery, in order."""
        self._accepted: list[IncomingDelivery] = []
        """Accepted deliveries without a disposition yet."""

    # --- links ----------------------------------------------------------------------------------

    def _offer(
        self, consumer: Consumer, terminus: Terminus, name: str, settled: bool, **fields: Any
    ) -> ReceivingLink:
        link: ReceivingLink = self.session.offer(name, True, self)
        link.data = consumer
        link.slack = SLACK
        link.source = termini.source(terminus)
        if self.context.form == "v1":
            link.source.outcomes = tuple(name for name in SYMBOLS if name != MODIFIED)
        link.target = w.Target()
        link.snd_mode = SenderSettleMode.SETTLED if settled else SenderSettleMode.UNSETTLED
        link.attach(**fields)
        return link

    def subscribe(self, op: Subscribe) -> None:
        """A consumer of a queue. Arguments become link properties."""
        if op.exclusive:
            self.context.refuse(
                op.token, Condition.NOT_IMPLEMENTED, "1.0 has no exclusive consumers"
            )
            return
        tag = op.tag or self.context.link_name("ctag")
        if tag in self.links:
            self.context.refuse(
                op.token, Condition.NOT_ALLOWED, f"consumer '{tag}' is there already"
            )
            return
        filters: dict[str, tuple[Any, Any]] = {}
        if op.no_local:
            filters["no-local"] = (Symbol(NO_LOCAL), [])
        address = addresses.queue(self.context.form, op.queue)
        terminus = Terminus(address, copy=op.copy, filters=filters)
        properties = {Symbol(name): value for name, value in op.arguments.items()} or None
        consumer = Consumer(tag, op.queue, op, op.token)
        name = self.context.link_name(tag)
        link = self._offer(consumer, terminus, name, op.no_ack, properties=properties)
        if op.credit is None:
            link.window = WINDOW if op.no_ack else self.prefetch or WINDOW
            link.ignores_unsettled = op.no_ack or not self.prefetch
        consumer.credit = op.credit or 0
        self.links[tag] = link

    def attach(self, op: AttachSource) -> None:
        """Attach a link by name, new or to be resumed: then with our states of its deliveries."""
        consumer = Consumer(op.link, "", op, op.token)
        known = written(op.unsettled)
        link = self._offer(consumer, op.terminus, op.name, op.settled, unsettled=known)
        link.known = dict(known or {})
        self.links[op.link] = link

    def credit(self, op: Credit) -> None:
        link = self.links.get(op.tag)
        if link is None:
            raise LocalError(f"no link {op.tag!r}")
        consumer: Consumer = link.data
        if consumer.drain is not None:
            self._drained(consumer, self.session.connection.later)
        if op.count is None:
            link.window, link.ignores_unsettled = WINDOW, True
            link.grant(WINDOW)
        else:
            link.window = 0
            link.grant(op.count, op.drain)
        if op.drain and op.count:
            consumer.drain, consumer.left = (op.token,), op.count
        else:
            self.context.answer(op.token, 0)

    def set_prefetch(self, op: Prefetch) -> None:
        """For consumers started from now on. Octets cannot be limited here."""
        if op.size:
            self.context.refuse(op.token, Condition.NOT_IMPLEMENTED, "1.0 has credit in messages")
            return
        self.prefetch = op.count
        self.context.answer(op.token)

    def unsubscribe(self, op: Unsubscribe) -> None:
        """Cancel a consumer: receive the deliveries that are under way, then answer. Its link lives
        as long as it has unsettled deliveries."""
        link = self.links.get(op.tag)
        if link is None or link.data.leaving is not None:
            self.context.answer(op.token, op.tag)
            return
        link.data.leaving = op
        link.window = 0
        if not link.attach_received:
            return  # with the answer to its attach
        if link.credit > 0 and self._drains:
            link.grant(link.credit, True)
            return
        if link.credit > 0:
            link.grant(0)
        self._left(link, self.session.connection.later)

    def _left(self, link: ReceivingLink, found: list[Operation]) -> None:
        """Nothing more comes from this consumer."""
        consumer: Consumer = link.data
        if consumer.leaving is True:
            return
        op, consumer.leaving = consumer.leaving, True
        self.links.pop(consumer.tag, None)
        self.context.answer(op.token, op.tag, found)
        self._leave(link)

    def _leave(self, link: Link) -> None:
        if link.data.leaving is True and not link.unsettled and not link.over:
            link.detach(True)

    def fetch(self, op: Fetch) -> None:
        link = self._fetchers.get((op.queue, op.no_ack))
        if link is None:
            self._make_room()
            consumer = Consumer("", op.queue, None, None)
            consumer.fetches = deque()
            terminus = Terminus(addresses.queue(self.context.form, op.queue))
            link = self._offer(consumer, terminus, self.context.link_name("fetch"), op.no_ack)
            self._fetchers[op.queue, op.no_ack] = link
        assert link.data.fetches is not None
        link.data.fetches.append(op.token)
        if link.data.spare:
            self._fetched(link, self.session.connection.later)
        else:
            self._fetch_next(link)

    def _make_room(self) -> None:
        if len(self._fetchers) < MOST_FETCHED:
            return
        for place, link in self._fetchers.items():
            if link.attach_received and not (
                link.data.fetches or link.data.spare or link.unsettled
            ):
                del self._fetchers[place]
                link.detach(True)
                return

    def _fetched(self, link: ReceivingLink, found: list[Operation]) -> None:
        """A message has come, or more than one was there: answer, and go on."""
        consumer: Consumer = link.data
        consumer.fetching = False
        while consumer.fetches and consumer.spare:
            token = consumer.fetches.popleft()
            found.append(Done(self.session.number, token, consumer.spare.popleft()))
        self._fetch_next(link)

    def _fetch_next(self, link: ReceivingLink) -> None:
        consumer: Consumer = link.data
        if link.attach_received and consumer.fetches and not consumer.fetching and not link.over:
            consumer.fetching = True
            link.grant(1, self._drains)

    # --- events of links --------------------------------------------------------------------------

    def on_attached(self, link: ReceivingLink, record: w.Attach, found: list[Operation]) -> None:
        consumer: Consumer = link.data
        if record.source is None:
            return  # refused: its detach says why
        if consumer.token is not None:
            result: Any = consumer.tag
            if isinstance(consumer.asked, AttachSource):
                try:
                    result = Attached(termini.read(record.source), resumed=resumed(record))
                except (termini.BadTerminus, BadMap) as bad:
                    link.fail(AmqpError.INVALID_FIELD, str(bad), found)
                    return
            found.append(Done(self.session.number, consumer.token, result))
            consumer.token = None
        if consumer.fetches is not None:
            self._fetch_next(link)
        elif consumer.leaving is not None:
            self._left(link, found)
        elif consumer.credit:
            link.grant(consumer.credit)

    def on_message(self, arrival: IncomingDelivery, octets: bytes, found: list[Operation]) -> None:
        """Hot."""
        link: Any = arrival.link
        consumer: Consumer = link.data
        try:
            message, redelivered = received(octets, "", consumer.key)
            if _ROUTED in message.header:
                routed(message)
        except FieldError as error:
            if not arrival.settled:
                state = rejected(Condition.SYNTAX_ERROR, str(error))
                self.session.unsettled.settle_received([arrival], state)
            return
        if consumer.leaving is True and not arrival.settled:
            self.session.unsettled.settle_received(
                [arrival], RELEASED
            )  # it was under way when the consumer left
            return
        self._delivery = number = self._delivery + 1
        if not arrival.settled:
            self._unsettled[number] = arrival
        if consumer.fetches is not None:
            consumer.owed = self._drains
            consumer.spare.append(Fetched(number, redelivered, message, 0))
            self._fetched(link, found)
            return
        found.append(Deliver(self.session.number, consumer.tag, number, redelivered, message))
        if consumer.drain is not None:
            consumer.left = link.credit
            if link.credit <= 0:
                self._drained(consumer, found)
        elif consumer.leaving is not None and link.credit <= 0:
            self._left(link, found)

    def on_credit(self, link: ReceivingLink, record: w.Flow, found: list[Operation]) -> None:
        consumer: Consumer = link.data
        if consumer.fetching and not self._drains and record.available == 0 and link.credit > 0:
            link.grant(0)
        if link.credit > 0:
            return
        if consumer.drain is not None:
            self._drained(consumer, found)
        elif consumer.fetching and consumer.fetches:
            consumer.fetching = False
            if not consumer.owed:
                found.append(Done(self.session.number, consumer.fetches.popleft(), None))
            consumer.owed = False
            self._fetch_next(link)
        elif consumer.leaving is not None:
            self._left(link, found)

    def _drained(self, consumer: Consumer, found: list[Operation]) -> None:
        (token,) = consumer.drain
        consumer.drain = None
        self.context.answer(token, consumer.left, found)

    def on_detached(
        self, link: Any, record: w.Detach | None, closed: bool, lost: bool, found: list[Operation]
    ) -> None:
        consumer: Consumer = link.data
        for number in [n for n, arrival in self._unsettled.items() if arrival.link is link]:
            del self._unsettled[number]
        if self.links.get(consumer.tag) is link:
            del self.links[consumer.tag]
        for place in [place for place, there in self._fetchers.items() if there is link]:
            del self._fetchers[place]
        waiting = [consumer.token, *(consumer.drain or ()), *(consumer.fetches or ())]
        leaving = consumer.leaving
        found += self.context.refusals(waiting, link, record, lost)
        if leaving is not None and leaving is not True and leaving.token is not None:
            found.append(Done(self.session.number, leaving.token, leaving.tag))
        elif (record or link.fault) and leaving is None and consumer.tag and not consumer.token:
            found.append(Cancelled(self.session.number, consumer.tag))
        if record is not None:
            link.detach(closed, found)

    # --- outcomes -------------------------------------------------------------------------------

    def settle(self, op: Settle) -> None:
        """Accepted deliveries are collected until output is taken, for one disposition of many.
        Hot."""
        if op.outcome is Outcome.ACCEPT and not op.multiple and self.transactions.current is None:
            arrival = self._unsettled.pop(op.delivery, None)
            if arrival is not None:
                if not self._accepted:
                    self.context.connection.defer_write(self._accept)
                self._accepted.append(arrival)
            return
        if self._accepted:
            self._accept()
        if op.multiple:
            arrivals = self._up_to(op.delivery)
        else:
            arrival = self._unsettled.pop(op.delivery, None)
            if arrival is None:
                return  # its link is gone, and it goes back anyway
            arrivals = [arrival]
        self._write_state(arrivals, state_of(op.outcome))

    def _accept(self) -> None:
        accepted, self._accepted = self._accepted, []
        if accepted:
            self._write_state(accepted, ACCEPTED)

    def modify(self, op: Modify) -> None:
        """Where the source does not offer this outcome (§3.5.3), the nearest."""
        arrival = self._unsettled.pop(op.delivery, None)
        if arrival is None:
            return
        record = arrival.link.record
        offered = None if record is None or record.source is None else record.source.outcomes
        if offered and MODIFIED not in offered:
            # Not rejected, even if it has failed: a reject may discard the message.
            self._write_state([arrival], RELEASED)
        else:
            self._write_state([arrival], state_of(op))

    def retire(self, op: Retire) -> None:
        """An outcome within a transaction (§4.4.2)."""
        arrival = self._unsettled.get(op.delivery)
        if arrival is None:
            return
        state = w.TransactionalState(op.transaction, state_of(op.outcome))
        if op.settled:
            del self._unsettled[op.delivery]
            self.session.unsettled.settle_received([arrival], state)
        else:
            self.session.write(w.Disposition(True, arrival.id, None, None, state))

    def recover(self, op: Recover) -> None:
        """Release all. This version cannot ask for redelivery to the same consumers."""
        self._write_state(self._up_to(0), RELEASED)
        self.context.answer(op.token)

    def _up_to(self, delivery: int) -> list[IncomingDelivery]:
        unsettled = self._unsettled
        if not delivery:
            found = list(unsettled.values())
            unsettled.clear()
            return found
        numbers = list(takewhile(lambda number: number <= delivery, unsettled))
        return [unsettled.pop(number) for number in numbers]

    def _write_state(self, arrivals: list[IncomingDelivery], state: Any) -> None:
        work = self.transactions.current
        if work is not None:
            state = w.TransactionalState(work, state)
        self.session.unsettled.settle_received(arrivals, state)
        for arrival in arrivals:
            if arrival.link.data.leaving is True:
                self._leave(arrival.link)


def routed(message: Message) -> None:
    """Exchange and key as the broker has annotated them."""
    annotations = message.properties.annotations or {}
    key, exchange = annotations.get(ROUTING_KEY), annotations.get(EXCHANGE)
    message.forget_properties()
    if isinstance(key, str):
        message.key = str(key)
        message.exchange = str(exchange) if isinstance(exchange, str) else ""
