"""The server role of messages that come in: publishes, and what becomes of each.

Every publish of a session has a number, from 1, by which it is confirmed. Headers repeat: what the
broker must know of one is kept by its octets, as is where it is addressed to.
"""

from typing import Any

from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.coordinator import REJECTED, Coordinator
from gateway.adapters.performatives.decoding import FieldError, TooManyValues
from gateway.adapters.performatives.large_messages import Parted, Unkept
from gateway.adapters.performatives.outcomes import ACCEPTED, is_transactional, rejected
from gateway.adapters.performatives.pending import PendingReply
from gateway.adapters.performatives.receiving_link import IncomingDelivery, ReceivingLink
from gateway.adapters.performatives.sections import PROPERTIES, part, read_header
from gateway.adapters.performatives.session import Session
from gateway.adapters.performatives.violation import error
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import AmqpError
from gateway.bodies import Body
from gateway.errors import Condition, Refusal
from gateway.message import Essentials, Message
from gateway.operations import Attached, Manage, Operation, Publish

_HEADERS: BoundedCache[bytes, tuple[bytes, Essentials]] = BoundedCache()
"""One shared copy of each header, and its essentials. All connections share the caches."""

_ADDRESSES: BoundedCache[bytes, tuple[str | None, str | None]] = BoundedCache()
"""To and subject of each header."""

MANAGEMENT = "management"

NOT_DURABLE = "the queue is not durable, and the message is"

TOO_MUCH = w.Rejected(error(AmqpError.RESOURCE_LIMIT_EXCEEDED, "the broker did not take it"))


class IncomingPublishes:
    """Messages of one session."""

    def __init__(self, session: Session, coordinator: Coordinator) -> None:
        self.session = session
        self.coordinator = coordinator
        self.returned: dict[int, Any] = {}
        """States of publishes that came back, by number, until they are confirmed."""
        self._published = 0
        self._confirmed = 0
        """All publishes up to this number are confirmed."""
        self._awaiting: dict[int, IncomingDelivery] = {}

    def on_message(
        self,
        link: ReceivingLink,
        arrival: IncomingDelivery,
        octets: bytes | Parted,
        found: list[Operation],
    ) -> None:
        """Hot."""
        attached: Attached = link.data
        body: Body
        try:
            header, body = part(octets) if isinstance(octets, bytes) else octets.parts()
            header, essentials = _HEADERS.get(header) or known(header)
            exchange = attached.exchange
            key = attached.key
            if exchange is None and attached.place is not None:
                to, subject = _ADDRESSES.get(header) or address(header)
                exchange, key = attached.place(to, subject, essentials[0])
            elif attached.transient and essentials[0]:
                self._refuse(arrival, AmqpError.PRECONDITION_FAILED, NOT_DURABLE)
                return
        except (Unkept, TooManyValues) as bad:
            self._refuse(arrival, AmqpError.RESOURCE_LIMIT_EXCEEDED, str(bad))
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
            self.coordinator.post(link, arrival, message, attached.mandatory, found)
        elif attached.node == MANAGEMENT:
            found.append(Manage(channel, self._answer(arrival), link.number, message))
        else:
            self._published = number = self._published + 1
            if not arrival.settled:
                self._awaiting[number] = arrival
            found.append(Publish(channel, message, attached.mandatory, False))

    def _answer(self, arrival: IncomingDelivery) -> PendingReply:
        """A request whose success is accepted."""
        session = self.session

        def refused(condition: Condition, text: str) -> None:
            session.settle([arrival], rejected(condition, text))

        return PendingReply(lambda result: session.settle([arrival], ACCEPTED), refused)

    def _refuse(self, arrival: IncomingDelivery, symbol: str, text: str) -> None:
        """A message that cannot be: rejected, or if nobody asks for its outcome or its source has
        no such outcome, the end of its link (§3.2.1)."""
        outcomes = getattr(arrival.link.source, "outcomes", None)
        if arrival.settled or (outcomes and REJECTED not in outcomes):
            raise arrival.link.violated(symbol, text)
        self._reject(arrival, w.Rejected(error(symbol, text)))

    def _reject(self, arrival: IncomingDelivery, state: Any) -> None:
        work = arrival.state
        if is_transactional(work):
            self.coordinator.unposted(arrival, state)
        else:
            self.session.settle([arrival], state)

    def confirm(self, sequence: int, multiple: bool, accepted: bool) -> None:
        """Hot."""
        awaiting = self._awaiting
        first = self._confirmed + 1 if multiple else sequence
        if first == self._confirmed + 1:
            self._confirmed = max(sequence, self._confirmed)
        if self.returned or not accepted:
            self._confirm_each(first, sequence, accepted)
            return
        if first == sequence:
            arrival = awaiting.pop(sequence, None)
            if arrival is not None:
                self.session.settle((arrival,), ACCEPTED)
            return
        numbers = range(first, sequence + 1)
        arrivals = [awaiting.pop(number) for number in numbers if number in awaiting]
        if arrivals:
            self.session.settle(arrivals, ACCEPTED)

    def _confirm_each(self, first: int, last: int, accepted: bool) -> None:
        """Some came back, or were not taken: neighbours with the same state are told together."""
        state = ACCEPTED if accepted else TOO_MUCH
        together: list[IncomingDelivery] = []
        for number in range(first, last + 1):
            came_back = self.returned.pop(number, None)
            arrival = self._awaiting.pop(number, None)
            if arrival is None:
                continue
            each = came_back or (ACCEPTED if accepted else TOO_MUCH)
            if each is not state and together:
                self.session.settle(together, state)
                together = []
            state = each
            together.append(arrival)
        if together:
            self.session.settle(together, state)


def known(raw: bytes) -> tuple[bytes, Essentials]:
    """One shared copy of this header, and its essentials. Raises ``FieldError``."""
    return _HEADERS.keep(raw, (raw, SECTIONS.essentials(raw)))


def address(header: bytes) -> tuple[str | None, str | None]:
    """To and subject of a message (§3.2.4). Raises ``FieldError``."""
    properties = read_header(header)[0].get(PROPERTIES)
    entry: tuple[str | None, str | None] = (None, None)
    if properties is not None:
        to = properties.to
        entry = to if isinstance(to, str) else None, properties.subject
    return _ADDRESSES.keep(header, entry)
