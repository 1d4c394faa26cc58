"""The server role of links over which we receive: publishes, and their outcomes.

Every publish of a session has a number, from 1, by which it is confirmed. Headers repeat: their
essentials and addresses are cached.
"""

from itertools import islice
from typing import Any

from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.core.templates import Templates, template
from gateway.adapters.performatives import termini
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.coordinator import REJECTED, Coordinator
from gateway.adapters.performatives.credit_window import MOST, near_window
from gateway.adapters.performatives.decoding import FieldError, TooManyValues
from gateway.adapters.performatives.deliveries import IncomingDelivery
from gateway.adapters.performatives.delivery_runs import DeliveryRun, enter, remove
from gateway.adapters.performatives.large_messages import NotStored, SpooledMessage
from gateway.adapters.performatives.link_recovery import written_map
from gateway.adapters.performatives.links import LinkHandler
from gateway.adapters.performatives.outcomes import ACCEPTED, is_transactional, outcome_of, rejected
from gateway.adapters.performatives.pending import PendingReply
from gateway.adapters.performatives.receiving_link import ReceivingLink
from gateway.adapters.performatives.sections import (
    DATA_BEGIN,
    PROPERTIES,
    data_prefix,
    part,
    read_header,
)
from gateway.adapters.performatives.server_links import detach_link, known_outcomes, paired, refuser
from gateway.adapters.performatives.session import Session
from gateway.adapters.performatives.transfer_template import Run
from gateway.adapters.performatives.value_places import value_places
from gateway.adapters.performatives.violation import error
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import AmqpError, ReceiverSettleMode
from gateway.bodies import Body
from gateway.errors import Condition, Refusal
from gateway.message import Essentials, Message
from gateway.operations import Attached, AttachTarget, Manage, Operation, Publish, PublishMany

Address = tuple[str | None, str | None]

_HEADERS: BoundedCache[bytes, tuple[bytes, Essentials]] = BoundedCache()
"""One shared copy of each header, and its essentials. All connections share the caches."""

_ADDRESSES: BoundedCache[bytes, Address] = BoundedCache()
"""To and subject of each header."""

_ESSENTIALS_OF: Templates[Essentials] = Templates()
_ADDRESS_OF: Templates[Address] = Templates()
"""The same of headers that differ in their ids, times and application properties."""

MANAGEMENT = "management"

NOT_DURABLE = "the queue is not durable, and the message is"

TOO_MUCH = w.Rejected(error(AmqpError.RESOURCE_LIMIT_EXCEEDED, "the broker did not take it"))


class IncomingPublishes(LinkHandler):
    """The handler of the links of one session over which we receive, and of their messages."""

    def __init__(self, session: Session, coordinator: Coordinator) -> None:
        self.session = session
        self.coordinator = coordinator
        self.returned: dict[int, Any] = {}
        """States of returned publishes, by number, until they are confirmed."""
        self._published = 0
        self._confirmed = 0
        """All publishes up to this number are confirmed."""
        self._awaiting: dict[int, IncomingDelivery | DeliveryRun] = {}
        self._header = b""
        self._essentials: Essentials | None = None
        """Of the last message that was read."""

    def attach(
        self,
        link: ReceivingLink,
        record: w.Attach,
        unsettled: dict[bytes, Any] | None,
        found: list[Operation],
    ) -> None:
        """Attach the target of a link."""
        session = self.session
        found.append(
            AttachTarget(
                session.number,
                PendingReply(lambda result: self._attached(link, result), refuser(link)),
                link.number,
                record.name,
                session.connection.container,
                termini.read(record.target),
                known_outcomes(link, unsettled),
            )
        )

    def _attached(self, link: ReceivingLink, result: Attached) -> None:
        record = link.record
        assert record is not None
        link.target = termini.target(result.terminus)
        link.data = result
        link.max_message = self.session.connection.limits.max_message_octets
        link.spools = result.node != MANAGEMENT
        link.known = written_map(result.resumed)
        link.window = MOST
        link.attach(
            max_message_size=link.max_message or None,
            unsettled=None if record.unsettled is None else dict(link.known),
            properties=paired(record),
        )

    def window(self, link: ReceivingLink) -> int:
        """Small for transient messages of a sender that is near, unless another broker confirms
        them. A sender that settles last may gather deliveries before it does."""
        last = self._essentials
        if (
            last is None
            or last.durable
            or link.data.forwarded
            or not self.session.connection.near
            or link.rcv_mode == ReceiverSettleMode.SECOND
        ):
            return MOST
        if not link.messages:
            return link.window
        return near_window(link.messages, link.octets, link.settled)

    def on_detached(
        self, link: Any, record: w.Detach | None, closed: bool, lost: bool, found: list[Operation]
    ) -> None:
        """Tell the broker, with the outcomes that the peer has not settled."""
        operation = detach_link(link, record, closed, lost)
        channel = self.session.number
        for arrival in link.unsettled.values():
            outcome = outcome_of(arrival.reported, channel, 0)
            if outcome is not None:
                operation.outcomes[arrival.tag] = outcome
        for tag, state in link.known.items():
            operation.outcomes[tag] = outcome_of(state, channel, 0)
        found.append(operation)

    # --- publishes ------------------------------------------------------------------------------

    def on_message(
        self, arrival: IncomingDelivery, octets: bytes | SpooledMessage, found: list[Operation]
    ) -> None:
        body: Body
        try:
            header, body = part(octets) if isinstance(octets, bytes) else octets.parts()
            header, essentials = _HEADERS.get(header) or known(header)
        except (NotStored, TooManyValues) as bad:
            self._refuse(arrival, AmqpError.RESOURCE_LIMIT_EXCEEDED, str(bad))
        except FieldError as bad:
            self._refuse(arrival, AmqpError.DECODE_ERROR, str(bad))
        else:
            self._header, self._essentials = header, essentials
            self._take(arrival, header, essentials, body, found)

    def on_whole(
        self, arrival: IncomingDelivery, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None:
        """Hot: its header may be like the one before, which had as many octets."""
        middle = at + len(self._header)
        prefix = prefix_of(end - middle)
        if prefix and buf.startswith(prefix, middle):
            header = buf[at:middle]
            if header == self._header:
                header, essentials = self._header, self._essentials
            else:
                essentials = _ESSENTIALS_OF.find(header)
            if essentials is not None:
                self._take(arrival, header, essentials, buf[middle + len(prefix) : end], found)
                return
        self.on_message(arrival, buf[at:end], found)

    def on_run(
        self,
        link: ReceivingLink,
        run: Run,
        settled: bool,
        index: int,
        buf: bytes,
        found: list[Operation],
    ) -> int:
        """Those whose header is the one before, or like one before, are published together. Hot."""
        attached: Attached = link.data
        exchange, key, transient = attached.exchange, attached.key, attached.transient
        last, of_last = self._header, self._essentials
        if exchange is None or attached.node == MANAGEMENT or of_last is None:
            return index
        octets = len(last)
        like = _ESSENTIALS_OF.get(octets)
        messages: list[Message] = []
        size, prefix = -1, b""
        for begin, end in islice(run.spans, index, None):
            if end - begin != size:
                size = end - begin
                prefix = prefix_of(size - octets)
            middle = begin + octets
            if not prefix or not buf.startswith(prefix, middle):
                # Its header may have another size. If it is like one of that size, the body begins
                # where it seems to.
                middle = buf.find(DATA_BEGIN, begin, end)
                octets = middle - begin
                prefix = prefix_of(end - middle)
                like = _ESSENTIALS_OF.get(octets)
                if middle < 0 or not prefix or not buf.startswith(prefix, middle):
                    break
            header = buf[begin:middle]
            if header == last:
                header, essentials = last, of_last
            elif like is not None and like.split(header) is not None:
                essentials = like.found
            else:
                break
            if transient and essentials.durable:
                break
            body = buf[middle + len(prefix) : end]
            messages.append(Message(SECTIONS, header, body, exchange, key, essentials))
        count = len(messages)
        if count:
            self._header, self._essentials = messages[-1].header, messages[-1].essentials
            number = self._published + 1
            self._published += count
            if not settled:
                first = run.first + index
                tags = run.tags[index : index + count]
                awaiting = self._awaiting
                arrivals = DeliveryRun(link, first, number, tags, awaiting)
                enter(self.session.unsettled.received, first, arrivals)
                enter(link.unsettled, first, arrivals)
                enter(awaiting, number, arrivals)
            channel, mandatory = self.session.number, attached.mandatory
            before = found[-1] if found else None
            if (
                before.__class__ is PublishMany
                and before.channel == channel
                and before.mandatory == mandatory
            ):  # behind one that a read had cut, or a header that is like none before
                before.messages += messages
            else:
                found.append(PublishMany(channel, messages, mandatory))
        return index + count

    def _take(
        self,
        arrival: IncomingDelivery,
        header: bytes,
        essentials: Essentials,
        body: Body,
        found: list[Operation],
    ) -> None:
        """Publish a message, or do what its link is for. Hot."""
        link = arrival.link
        attached: Attached = link.data
        try:
            exchange = attached.exchange
            key = attached.key
            if exchange is None and attached.place is not None:
                to, subject = _ADDRESSES.get(header) or address(header)
                exchange, key = attached.place(to, subject, essentials[0])
            elif attached.transient and essentials[0]:
                self._refuse(arrival, AmqpError.PRECONDITION_FAILED, NOT_DURABLE)
                return
        except FieldError as bad:
            self._refuse(arrival, AmqpError.DECODE_ERROR, str(bad))
            return
        except Refusal as refusal:
            if refusal.condition is Condition.PRECONDITION_FAILED:
                self._refuse(arrival, AmqpError.PRECONDITION_FAILED, refusal.text)
            else:
                self._reject(arrival, rejected(refusal.condition, refusal.text))
            return
        channel = self.session.number
        message = Message(SECTIONS, header, body, exchange or "", key, essentials)
        if arrival.state is not None and is_transactional(arrival.state):
            self.coordinator.post(arrival, message, attached.mandatory, found)
        elif attached.node == MANAGEMENT:
            found.append(Manage(channel, self._answer(arrival), link.number, message))
        else:
            self._published = number = self._published + 1
            if not arrival.settled:
                self._awaiting[number] = arrival
            found.append(Publish(channel, message, attached.mandatory, False))

    def _answer(self, arrival: IncomingDelivery) -> PendingReply:
        """A request whose success is accepted."""
        settle = self.session.unsettled.settle_received
        return PendingReply(
            lambda result: settle([arrival], ACCEPTED),
            lambda condition, text: settle([arrival], rejected(condition, text)),
        )

    def _refuse(self, arrival: IncomingDelivery, symbol: str, text: str) -> None:
        """Refuse a message: reject it, or if it is settled or its source has no such outcome,
        detach its link with an error (§3.2.1)."""
        outcomes = getattr(arrival.link.source, "outcomes", None)
        if arrival.settled or (outcomes and REJECTED not in outcomes):
            raise arrival.link.violated(symbol, text)
        self._reject(arrival, w.Rejected(error(symbol, text)))

    def _reject(self, arrival: IncomingDelivery, state: Any) -> None:
        work = arrival.state
        if is_transactional(work):
            self.coordinator.unposted(arrival, state)
        else:
            self.session.unsettled.settle_received([arrival], state)

    def on_confirm(self, sequence: int, multiple: bool, accepted: bool) -> None:
        """Hot."""
        awaiting = self._awaiting
        first = self._confirmed + 1 if multiple else sequence
        if first == self._confirmed + 1:
            self._confirmed = max(sequence, self._confirmed)
        if self.returned or not accepted:
            self._confirm_each(first, sequence, accepted)
            return
        if not awaiting:
            return
        arrivals: list[IncomingDelivery | DeliveryRun] = []
        number = first
        while number <= sequence:
            arrival = awaiting.get(number)
            count = 1
            if isinstance(arrival, DeliveryRun) and arrival.number == number:
                arrival = arrival.front(sequence - number + 1)
                count = len(arrival.tags)
                remove(awaiting, number, count)
            elif arrival is not None:
                arrival = self._arrival(number)
            if arrival is not None:
                arrivals.append(arrival)
            number += count
        if arrivals:
            self.session.unsettled.settle_received(arrivals, ACCEPTED)

    def _arrival(self, number: int) -> IncomingDelivery | None:
        """Take the delivery with this number, if it is unsettled."""
        arrival = self._awaiting.pop(number, None)
        if isinstance(arrival, DeliveryRun):
            self.session.unsettled.expand(arrival)
            return self._arrival(number)
        return arrival

    def _confirm_each(self, first: int, last: int, accepted: bool) -> None:
        """Some messages were returned or not taken: settle runs with the same state together."""
        state = usual = ACCEPTED if accepted else TOO_MUCH
        together: list[IncomingDelivery] = []
        for number in range(first, last + 1):
            came_back = self.returned.pop(number, None)
            arrival = self._arrival(number)
            if arrival is None:
                continue
            each = came_back or usual
            if each is not state and together:
                self.session.unsettled.settle_received(together, state)
                together = []
            state = each
            together.append(arrival)
        if together:
            self.session.unsettled.settle_received(together, state)


def prefix_of(octets: int) -> bytes:
    """The octets before the payload of one data section of so many octets, in its smallest
    encoding; none, if there is no such section."""
    payload = octets - 5
    if payload > 255:
        payload = octets - 8
        return data_prefix(payload) if payload > 255 else b""
    return data_prefix(payload) if payload >= 0 else b""


def known(raw: bytes) -> tuple[bytes, Essentials]:
    """One shared copy of this header, and its essentials. Raises ``FieldError``."""
    essentials = _ESSENTIALS_OF.find(raw)
    if essentials is not None:
        return raw, essentials
    essentials = SECTIONS.essentials(raw)
    _ESSENTIALS_OF.keep(raw, lambda: template(raw, value_places(raw), essentials))
    return _HEADERS.keep(raw, (raw, essentials))


def address(header: bytes) -> Address:
    """To and subject of a message (§3.2.4). Raises ``FieldError``."""
    found = _ADDRESS_OF.find(header)
    if found is not None:
        return found
    properties = read_header(header)[0].get(PROPERTIES)
    entry: Address = (None, None)
    if properties is not None:
        to = properties.to
        entry = to if isinstance(to, str) else None, properties.subject
    _ADDRESS_OF.keep(header, lambda: template(header, value_places(header), entry))
    return _ADDRESSES.keep(header, entry)
