"""Client role: the sender links of one session, one for each exchange and routing key.

A link is attached at the first publish for its exchange and key; messages without credit wait in
it, in order. With confirms every message is sent unsettled, and its outcome becomes the ``Confirm``
of its number, in order; without, messages are sent settled.
"""

from dataclasses import dataclass
from typing import Any

from gateway.adapters.performatives import addresses, termini
from gateway.adapters.performatives.client_context import DETACHED, ClientContext
from gateway.adapters.performatives.client_transactions import ClientTransactions
from gateway.adapters.performatives.composites import condition_for
from gateway.adapters.performatives.deliveries import OutgoingDelivery
from gateway.adapters.performatives.link_recovery import BadMap, highest, resumed, written
from gateway.adapters.performatives.links import LinkHandler
from gateway.adapters.performatives.sending_link import QueuedDelivery, SendingLink
from gateway.adapters.performatives.violation import reason
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import AmqpError
from gateway.errors import Condition
from gateway.message import Message
from gateway.operations import (
    Attached,
    AttachTarget,
    Confirm,
    Done,
    Flow,
    Operation,
    Post,
    Publish,
    Returned,
    Terminus,
    Token,
)

MOST_LINKS = 256
"""Sender links of one session. Beyond that the one that has been idle longest is closed."""

MOST_WAITING = 1000
"""Messages waiting for credit in one link at which we ask the owner to pause (``Flow``)."""


@dataclass(slots=True, eq=False)
class Sender:
    """State of a sender link."""

    destination: tuple[str, str]
    token: Token
    paused: bool = False


class ClientSenders(LinkHandler):
    """The sender links of one session."""

    def __init__(self, context: ClientContext, transactions: ClientTransactions) -> None:
        self.context = context
        self.transactions = transactions
        self.session = context.session
        self.confirming = False
        self.links: dict[tuple[str, str], SendingLink] = {}
        """By exchange and key."""
        self.named: dict[str, SendingLink] = {}
        """Those asked for by ``AttachTarget``, by its name for them."""
        self._sequence = 0
        self._next = 1
        """The lowest number that is not confirmed."""
        self._unconfirmed: dict[int, Message] = {}
        self._early: dict[int, bool] = {}
        """Outcomes of later numbers."""
        self._paused = 0

    @property
    def holding(self) -> bool:
        """Messages wait to be sent: for an attach, for credit, for the window."""
        return any(link.held for link in self.links.values())

    # --- out ------------------------------------------------------------------------------------

    def publish(self, op: Publish) -> None:
        """Hot."""
        message = op.message
        link = self.links.get((message.exchange, message.key))
        if link is None:
            link = self._open(message.exchange, message.key)
        work = self.transactions.current
        if self.confirming:
            self._sequence = number = self._sequence + 1
            self._unconfirmed[number] = message
            if work is None:
                link.deliver(number, message, False, False)
        else:
            number = 0
            if work is None:
                link.deliver(0, message, False, True)
        if work is not None:
            number = self.transactions.number(number)
            link.send(QueuedDelivery(number, message, state=w.TransactionalState(work)))
        if len(link.held) > MOST_WAITING:
            self._pause(link)

    def post(self, op: Post) -> None:
        """A message within a transaction by name (§4.4.1)."""
        number = self.transactions.posted(op.token)
        state = w.TransactionalState(op.transaction)
        self._link_for(op.link, op.message).send(QueuedDelivery(number, op.message, state=state))

    def _link_for(self, name: str, message: Message) -> SendingLink:
        """The sender link of that name, else the one for where the message goes."""
        link = self.named.get(name) or self.links.get((message.exchange, message.key))
        return link or self._open(message.exchange, message.key)

    def _open(self, exchange: str, key: str) -> SendingLink:
        if len(self.links) >= MOST_LINKS:
            self._close_idle()
        address = addresses.exchange(self.context.form, exchange, key)
        return self._attach((exchange, key), Terminus(address), None, None)

    def _attach(
        self,
        destination: tuple[str, str],
        terminus: Terminus,
        name: str | None,
        token: Token,
        unsettled: dict[bytes, Any] | None = None,
    ) -> SendingLink:
        name = name or self.context.link_name("to")
        link: SendingLink = self.session.offer(name, False, self)
        link.data = Sender(destination, token)
        link.source = w.Source()
        link.target = termini.target(terminus)
        self.links[destination] = link
        link.last_tag = highest(unsettled or ())
        link.attach(unsettled=unsettled)
        return link

    def attach(self, op: AttachTarget) -> None:
        """A sender link by name. ``Publish`` with the address as its key goes over it."""
        address = op.terminus.address or ""
        known = written(op.unsettled)
        link = self._attach(("", address), op.terminus, op.name, op.token, known)
        self.named[op.link] = link

    def _close_idle(self) -> None:
        """Make room: close the first link without deliveries under way."""
        busy = {id(sent.link) for sent in self.session.unsettled.sent.values()}
        for destination, link in self.links.items():
            if (
                not link.held
                and id(link) not in busy
                and link.attach_received
                and link.data.token is None
            ):
                del self.links[destination]
                link.detach(True)
                return

    def _pause(self, link: SendingLink) -> None:
        """Ask the publisher to pause (``Flow``)."""
        if not link.data.paused:
            link.data.paused = True
            self._paused += 1
            if self._paused == 1:
                self.session.connection.later.append(Flow(self.session.number, None, False))

    def _resume(self, link: SendingLink, found: list[Operation]) -> None:
        link.data.paused = False
        self._paused -= 1
        if not self._paused:
            found.append(Flow(self.session.number, None, True))

    # --- events of links --------------------------------------------------------------------------

    def on_attached(self, link: SendingLink, record: w.Attach, found: list[Operation]) -> None:
        sender: Sender = link.data
        if record.target is None or sender.token is None:
            return  # refused: its detach says why
        try:
            granted = termini.read(record.target)
            known = resumed(record)
        except (termini.BadTerminus, BadMap) as bad:
            link.fail(AmqpError.INVALID_FIELD, str(bad), found)
            return
        if granted.address != sender.destination[1]:
            self.links.pop(sender.destination, None)
            sender.destination = ("", granted.address or "")
            self.links[sender.destination] = link
        result = Attached(granted, "", granted.address or "", resumed=known)
        found.append(Done(self.session.number, sender.token, result))
        sender.token = None

    def on_outcome(
        self, sent: OutgoingDelivery, state: Any, settled: bool, found: list[Operation]
    ) -> None:
        """Hot: most are accepted."""
        number = sent.number
        kind = type(state)
        if kind is w.TransactionalState:
            if self.transactions.on_posted(number, state, found):
                return
            state = state.outcome
            kind = type(state)
        elif self.transactions.selected:
            self.transactions.finished(number)
        if kind is w.Accepted:
            if number > 0:
                self._confirmed(number, True, found)
            return
        if kind is w.Released:
            self._returned(number, Condition.NO_ROUTE, "the message was released", found)
            self._confirmed(number, True, found)
            return
        if kind is w.Rejected and state.error is not None:
            error = state.error
            text = error.description or error.condition
            self._returned(number, condition_for(error.condition), text, found)
        self._confirmed(number, False, found)

    def on_unsent(self, link: SendingLink, number: int, message: Message, text: str) -> None:
        found = self.session.connection.later
        if self.transactions.unsent(number, text, found):
            return
        self._give_back(number, message, Condition.CONTENT_TOO_LARGE, text, found)

    def on_credit(self, link: SendingLink, record: w.Flow, found: list[Operation]) -> None:
        if link.drain:
            link.drained(link.credit - link.waiting)
        if link.data.paused and len(link.held) <= MOST_WAITING >> 1:
            self._resume(link, found)

    def on_detached(
        self, link: Any, record: w.Detach | None, closed: bool, lost: bool, found: list[Operation]
    ) -> None:
        sender: Sender = link.data
        if self.links.get(sender.destination) is link:
            del self.links[sender.destination]
        for name in [name for name, there in self.named.items() if there is link]:
            del self.named[name]
        if sender.paused:
            self._resume(link, found)
        found += self.context.refusals([sender.token], link, record, lost)
        error = link.fault if record is None else record.error
        if record is None and error is None:
            # By ``detach``, or with its session, whose messages stay unconfirmed in every version.
            return
        self._give_up(link, *reason(error, DETACHED), found)
        if record is not None:
            link.detach(True, found)

    def detach(self, link: SendingLink, closed: bool) -> None:
        """The owner of a link wants no more of it."""
        self._give_up(link, *reason(None, DETACHED), self.session.connection.later)
        link.detach(closed)

    def _give_up(
        self, link: SendingLink, condition: Condition, text: str, found: list[Operation]
    ) -> None:
        """The session goes on without this link: its messages are confirmed as not accepted, or
        later ones could not be confirmed. Those that were never sent are returned."""
        for sent in [sent for sent in self.session.unsettled.sent.values() if sent.link is link]:
            if not self.transactions.unsent(sent.number, text, found):
                self._confirmed(sent.number, False, found)
        for queued in link.held:
            message = queued.message
            if queued.id is not None or message is None:
                continue
            if not self.transactions.unsent(queued.number, text, found):
                self._give_back(queued.number, message, condition, text, found)

    # --- confirms -------------------------------------------------------------------------------

    def _returned(
        self, number: int, condition: Condition, text: str, found: list[Operation]
    ) -> None:
        message = self._unconfirmed.get(number)
        if message is not None:
            found.append(Returned(self.session.number, message, condition, text, number))

    def _give_back(
        self, number: int, message: Message, condition: Condition, text: str, found: list[Operation]
    ) -> None:
        """Return a message that was never sent."""
        found.append(Returned(self.session.number, message, condition, text, max(number, 0)))
        self._confirmed(number, False, found)

    def _confirmed(self, number: int, accepted: bool, found: list[Operation]) -> None:
        """Record one more outcome. Numbers are confirmed in order, consecutive ones with the same
        outcome by one ``Confirm``. Hot."""
        if number <= 0 or self._unconfirmed.pop(number, None) is None:
            return
        if number != self._next:
            self._early[number] = accepted
            return
        channel = self.session.number
        while True:
            last = found[-1] if found else None
            if last.__class__ is Confirm and last.channel == channel and last.accepted is accepted:
                last.sequence = number
                last.multiple = True
            else:
                found.append(Confirm(channel, number, False, accepted))
            self._next = number = number + 1
            if number not in self._early:
                return
            accepted = self._early.pop(number)
