"""Unsettled deliveries of one session, both ways, and the dispositions about them (§2.6.12,
§2.7.6). A delivery lives longer than its handle: until it is settled, or its link is closed, failed
or attached again, or the session ends.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Any, Protocol, TypeVar

from gateway.adapters.performatives.composites import write
from gateway.adapters.performatives.delivery_runs import DeliveryRun, remove
from gateway.adapters.performatives.links import MASK, Link, SessionHandler, ahead
from gateway.adapters.performatives.outcomes import (
    ACCEPTED,
    OUTCOMES,
    TERMINAL,
    bare,
    is_transactional,
)
from gateway.adapters.performatives.violation import Violation
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import AmqpError
from gateway.errors import Lost
from gateway.operations import Operation

MOST_RETURNED = 1000
"""Runs of deliveries that have gone back, which a session remembers."""

FEW = 64
"""Up to this many deliveries of one disposition are handled one by one; more of them together."""

T = TypeVar("T")

_Q = Struct(">Q")


@dataclass(slots=True, eq=False)
class IncomingDelivery:
    """A delivery of the peer's. ``settled``: no disposition may follow. ``second``: we wait for the
    sender to settle (§2.8.3). ``state`` is the sender's state, ``reported`` ours."""

    link: Link
    id: int
    tag: bytes
    settled: bool
    second: bool
    state: Any
    reported: Any = None


@dataclass(slots=True, eq=False)
class OutgoingDelivery:
    """An unsettled delivery of ours. ``number`` is the delivery's number in operations; ``state``
    the receiver's last state that was not final; ``txn_id`` the transaction that its outcome is
    part of, ``retired`` that outcome."""

    link: Link
    id: int
    number: int
    _tag: int | bytes
    state: Any = None
    txn_id: bytes | None = None
    retired: Any = None

    @property
    def is_open(self) -> bool:
        """Its outcome is part of no transaction."""
        return self.txn_id is None

    @property
    def tag(self) -> bytes:
        tag = self._tag
        return _Q.pack(tag) if isinstance(tag, int) else tag


class AcquiredDelivery(OutgoingDelivery):
    """A delivery that was acquired within the transaction ``txn_id`` (§4.4.3). ``has_outcome``: the
    receiver has given its outcome, in the same transaction."""

    __slots__ = ("has_outcome",)

    def __init__(self, link: Link, id_: int, number: int, tag: int | bytes, txn_id: bytes) -> None:
        super().__init__(link, id_, number, tag)
        self.txn_id = txn_id
        self.has_outcome = False

    @property
    def is_open(self) -> bool:
        return not self.has_outcome


class DispositionSession(Protocol):
    """A session as its unsettled deliveries need it."""

    number: int

    @property
    def handler(self) -> SessionHandler: ...

    def write(self, record: Any) -> None: ...


class UnsettledDeliveries:
    """The unsettled deliveries of one session."""

    def __init__(self, session: DispositionSession, room: int) -> None:
        self._session: DispositionSession | None = session
        """``None`` when its output is closed: then there is nothing more to settle."""
        self._room = room
        """Octets of the largest performative that the peer takes."""
        self.sent: dict[int, OutgoingDelivery | DeliveryRun] = {}
        """Our deliveries by id, in the order of their sending."""
        self.received: dict[int, IncomingDelivery | DeliveryRun] = {}
        """The peer's deliveries by id."""
        self._returned: deque[tuple[int, int]] = deque(maxlen=MOST_RETURNED)
        """Our deliveries that went back without an outcome because their link was closed: first and
        last id of each of the latest runs."""

    def close(self) -> None:
        """The session has ended, or its connection. It is let go, so that the two leave nothing for
        the collector."""
        self._session = None
        self.sent.clear()
        self.received.clear()

    def on_disposition(self, record: w.Disposition, found: list[Operation]) -> None:
        """The peer's view of a range of deliveries: ours if it is the receiver. Hot."""
        session = self._session
        if session is None:
            return
        first, last = record.first, record.last
        reach = 0 if last is None else ahead(last, first)
        if reach < 0:
            text = "a disposition ends before it begins"
            raise Violation(AmqpError.INVALID_FIELD, text, Lost.SESSION, session.number)
        if record.role:
            if record.settled and self._on_runs(session, record, found):
                return
            deliveries = self._each(self.sent, first, reach)
            if self._returned and is_transactional(record.state) and self._missed(first, reach):
                session.handler.on_late_outcome(record.state)
            if deliveries:
                self._on_outcome(session, deliveries, record.state, bool(record.settled), found)
        elif record.settled:
            self.forget_received(self._each(self.received, first, reach))

    def _on_runs(
        self, session: DispositionSession, record: w.Disposition, found: list[Operation]
    ) -> bool:
        """An outcome with which the receiver has settled all of a range of one link: runs from
        their begin on, and single deliveries among them. False for anything else: then nothing is
        done. Hot."""
        outcome = OUTCOMES.get(type(record.state))
        first = record.first
        last = first if record.last is None else record.last
        begin = self.sent.get(first)
        if outcome is None or begin is None or last < first:
            return False
        link, together = begin.link, session.handler
        each: object = link.handler
        if each is not together:
            return False  # it hears of each delivery
        if first == last:
            if not isinstance(begin, DeliveryRun) or begin.id != first:
                return False
            del self.sent[first], link.unsettled[first]
            together.on_runs_settled([begin.number], outcome, found)
            begin.shorten(1)
            return True
        touched: list[OutgoingDelivery | DeliveryRun] = []
        at = first
        while at <= last:
            one = self.sent.get(at)
            if one is None or one.link is not link:
                return False
            if isinstance(one, DeliveryRun):
                if one.id != at:
                    return False
                at += len(one.tags)
            elif one.number and one.txn_id is None and not link.over:
                at += 1
            else:
                return False
            touched.append(one)
        numbers: list[int] = []
        for one in touched:
            if isinstance(one, DeliveryRun):
                count = min(len(one.tags), last - one.id + 1)
                numbers += range(one.number, one.number + count)
                one.shorten(count)
            else:
                numbers.append(one.number)
        remove(self.sent, first, len(numbers))
        remove(link.unsettled, first, len(numbers))
        together.on_runs_settled(numbers, outcome, found)
        return True

    def _each(self, table: dict[int, Any], first: int, reach: int) -> list[Any]:
        """The deliveries of a range, to be handled one by one."""
        some = within(table, first, reach)
        together = {one for one in some if one.__class__ is DeliveryRun}
        if not together:
            return some
        for run in together:
            self.expand(run)
        return within(table, first, reach)

    def expand(self, run: DeliveryRun) -> None:
        """Each delivery of a run stands in the tables by itself."""
        link = run.link
        for n, tag in enumerate(run.tags):
            id_, number = run.id + n, run.number + n
            if run.numbered is None:
                sent = OutgoingDelivery(link, id_, number, tag)
                self.sent[id_] = link.unsettled[id_] = sent
                continue
            arrival = IncomingDelivery(link, id_, tag, run.settled, False, None)
            run.numbered[number] = arrival
            if not run.settled:
                self.received[id_] = link.unsettled[id_] = arrival

    def expand_all(self, link: Link) -> None:
        """Each delivery of a link stands in the tables by itself."""
        for run in {one for one in link.unsettled.values() if isinstance(one, DeliveryRun)}:
            self.expand(run)

    def _on_outcome(
        self,
        session: DispositionSession,
        deliveries: list[OutgoingDelivery],
        state: Any,
        settled: bool,
        found: list[Operation],
    ) -> None:
        """The receiver's state: kept until it is final or the receiver has settled. Then we settle
        too, and the handler tells the receiver if that waits for it (§2.6.12)."""
        final = settled or type(state) in TERMINAL
        if not final and not is_transactional(state):
            for sent in deliveries:
                sent.state = state
            return
        before = len(found)
        left = deliveries
        if len(deliveries) > FEW:
            if final:
                self._forget_sent(deliveries)
            left = session.handler.on_outcomes(deliveries, state, settled, found)
        elif final:
            for sent in deliveries:
                number = sent.id
                del self.sent[number], sent.link.unsettled[number]
        for sent in left:
            link = sent.link
            try:
                link.handler.on_outcome(sent, state, settled, found)
            except Violation as violated:
                link.on_violation(violated, found)
        if final and not settled:
            ids = runs(sent.id for sent in deliveries)
            session.handler.on_settlement_awaited(ids, state, before, found)

    def _forget_sent(self, deliveries: list[OutgoingDelivery]) -> None:
        """These many are settled."""
        if len(deliveries) == len(self.sent):
            for link in {sent.link for sent in deliveries}:
                link.unsettled.clear()
            self.sent.clear()
            return
        for sent in deliveries:
            number = sent.id
            del self.sent[number], sent.link.unsettled[number]

    def _missed(self, first: int, reach: int) -> bool:
        """Whether some of these deliveries have gone back."""
        return any(
            ahead(end, first) >= 0 and ahead(begin, first) <= reach for begin, end in self._returned
        )

    def settle_sent(self, first: int, last: int, state: Any) -> None:
        """Settle these deliveries of ours with this state."""
        self._write_disposition(False, first, last, True, state)

    def settle_received(
        self, arrivals: Iterable[IncomingDelivery | DeliveryRun], state: Any
    ) -> None:
        """Write our state of these deliveries. Those of mode "first" are settled by it, those of
        "second" when the sender has settled them (§2.8.3). One disposition for each run of
        consecutive ids. Hot."""
        if self._session is None:
            return
        begin = last = -2
        mode = False
        touched: Link | None = None
        for arrival in arrivals:
            if arrival.settled:
                continue
            if arrival.link is not touched:
                if touched is not None:
                    touched.top_up()
                touched = arrival.link
            number, second, count = arrival.id, arrival.second, 1
            if second:
                arrival.reported = state
            else:
                arrival.settled = True
                if isinstance(arrival, DeliveryRun):
                    count = len(arrival.tags)
                    remove(self.received, number, count)
                    remove(touched.unsettled, number, count)
                else:
                    del self.received[number]
                    touched.unsettled.pop(number, None)
            if number != last + 1 or second is not mode:
                if last >= 0:
                    self._write_disposition(True, begin, last, not mode, state)
                begin, mode = number, second
            last = number + count - 1
        if touched is not None:
            self._write_disposition(True, begin, last, not mode, state)
            touched.top_up()

    def _write_disposition(
        self, role: bool, first: int, last: int, settled: bool, state: Any
    ) -> None:
        if self._session is None:
            return
        record = w.Disposition(role, first, None if last == first else last, settled or None, state)
        if state is not ACCEPTED and len(write(record)) > self._room:
            record.state = bare(state)
        self._session.write(record)

    def forget_received(self, arrivals: Iterable[IncomingDelivery]) -> None:
        """The sender has settled these deliveries: settle them too, without a disposition."""
        for arrival in arrivals:
            arrival.settled = True
            self.received.pop(arrival.id, None)
            arrival.link.unsettled.pop(arrival.id, None)
            arrival.link.top_up()

    def drop(self, link: Link) -> None:
        """Forget the deliveries of this link, without a disposition."""
        if not link.receiver:
            self._returned.extend(runs(n for n, sent in link.unsettled.items() if sent.is_open))
            for number in link.unsettled:
                self.sent.pop(number, None)
            link.unsettled.clear()
        else:
            for number, arrival in link.unsettled.items():
                arrival.settled = True
                self.received.pop(number, None)
            link.unsettled.clear()


def within(book: dict[int, T], first: int, reach: int) -> list[T]:
    """Entries from ``first`` on for ``reach`` more, in order; takes no longer than the book or the
    range is long."""
    if not reach:
        entry = book.get(first)
        return [] if entry is None else [entry]
    if reach < 2 * len(book):
        numbers: Iterable[int] = range(first, first + reach + 1)
        if first + reach > MASK:
            numbers = [number & MASK for number in numbers]
        return [book[number] for number in numbers if number in book]
    return [entry for number, entry in book.items() if (number - first) & MASK <= reach]


def runs(numbers: Iterable[int]) -> Iterable[tuple[int, int]]:
    """Runs of consecutive numbers: first and last of each."""
    first = last = -1
    for number in numbers:
        if last >= 0 and number == last + 1:
            last = number
            continue
        if last >= 0:
            yield first, last
        first = last = number
    if last >= 0:
        yield first, last
