"""The server role of sessions and links: performatives of the peer as operations, and their
answers.

Requests carry a ``PendingReply`` as their token, which handles the answer. Each session has one
``ServerSession``; ``IncomingPublishes`` handles its receiving links, ``Coordinator`` its control
links.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, cast

from gateway.adapters.performatives import termini
from gateway.adapters.performatives.composites import condition_for, symbol_for
from gateway.adapters.performatives.connection import Connection
from gateway.adapters.performatives.coordinator import Coordinator
from gateway.adapters.performatives.deliveries import FEW, OutgoingDelivery
from gateway.adapters.performatives.incoming_publishes import IncomingPublishes
from gateway.adapters.performatives.link_recovery import (
    BadMap,
    highest,
    plan,
    read_map,
    written_map,
)
from gateway.adapters.performatives.links import Link, LinkHandler, SessionHandler
from gateway.adapters.performatives.outcomes import (
    OUTCOMES,
    default_outcome,
    is_transactional,
    outcome_of,
    returned,
    settle,
)
from gateway.adapters.performatives.pending import PendingReply
from gateway.adapters.performatives.sending_link import SendingLink
from gateway.adapters.performatives.server_links import (
    detach_link,
    known_outcomes,
    paired,
    refuser,
    take_settle_modes,
)
from gateway.adapters.performatives.session import Session
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import (
    AmqpError,
    LinkError,
    SenderSettleMode,
)
from gateway.errors import Condition, Lost
from gateway.message import Message
from gateway.operations import (
    Assure,
    Attached,
    AttachSource,
    BeginSession,
    Cancelled,
    Confirm,
    Credit,
    Deliver,
    Done,
    EndSession,
    Modify,
    Operation,
    Outcome,
    Refused,
    Returned,
    SelectConfirms,
    SessionLost,
    Settle,
    SettleMany,
    Stolen,
    Unsent,
)


class DelayedSettlement:
    """Deliveries that have an outcome of the receiver, which waits for us to settle (§2.6.12, mode
    "second" of §2.8.3). We settle when the store has the outcome: a settled delivery must not come
    again after a crash. Outcomes of one read are settled together, if they are the same."""

    __slots__ = ("session", "runs", "assure")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.runs: list[tuple[int, int, Any]] = []
        """First, last and state of each."""
        self.assure = Assure(session.number, PendingReply(self.safe))

    def add(self, first: int, last: int, state: Any) -> None:
        runs = self.runs
        if runs and runs[-1][1] + 1 == first and runs[-1][2] == state:
            first = runs.pop()[0]
        runs.append((first, last, state))

    def safe(self, result: Any) -> None:
        for run in self.runs:
            self.session.unsettled.settle_sent(*run)
        self.runs.clear()


class ServerSession(SessionHandler, LinkHandler):
    """The handler of one session and of its links over which we send."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.delayed_settlement: DelayedSettlement | None = None
        self.coordinator = Coordinator(session)
        self.publishes = IncomingPublishes(session, self.coordinator)
        self.on_confirm = self.publishes.on_confirm  # type: ignore[method-assign]

    # --- session --------------------------------------------------------------------------------

    def on_begin(self, record: w.Begin, found: list[Operation]) -> None:
        number = self.session.number
        token = PendingReply(lambda result: self.session.begin(), self._not_begun, True)
        found.append(BeginSession(number, token))
        found.append(SelectConfirms(number, None))

    def _not_begun(self, condition: Condition, text: str) -> None:
        self.session.begin()
        lose(self.session, condition, text)

    def on_end(
        self, record: w.End | None, fault: w.Error | None, lost: bool, found: list[Operation]
    ) -> None:
        session = self.session
        if fault is not None:
            found.append(
                SessionLost(session.number, condition_for(fault.condition), fault.description or "")
            )
        elif record is not None and not session.output_closed:
            found.append(EndSession(session.number, PendingReply(lambda result: session.end())))

    # --- attach ---------------------------------------------------------------------------------

    def on_attach(self, record: w.Attach, found: list[Operation]) -> None:
        session = self.session
        self._steal(record, found)
        if type(record.target) is w.Coordinator and not record.role:
            self.coordinator.attach(record, found)
            return
        link = session.accept(record, self if record.role else self.publishes, found)
        link.source, link.target = record.source, record.target
        try:
            take_settle_modes(link, record)
            unsettled = read_map(record.unsettled)
            if record.role:
                self._attach_source(link, record, unsettled, found)
            else:
                self.publishes.attach(link, record, unsettled, found)
        except (termini.BadTerminus, BadMap) as bad:
            link.refuse(AmqpError.INVALID_FIELD, str(bad))

    def _steal(self, record: w.Attach, found: list[Operation]) -> None:
        """A link is in one place only: it is taken from where it was (§2.6.1)."""
        key = record.name, not record.role
        for session in list(self.session.channels.sessions.values()):
            live = session.names.get(key)
            if live is not None and not live.over:
                live.fail(LinkError.STOLEN, "the link was attached again", found, keep=True)
            old = session.suspended.pop(key, None)
            if old is not None:
                session.unsettled.drop(old)

    def _attach_source(
        self,
        link: SendingLink,
        record: w.Attach,
        unsettled: dict[bytes, Any] | None,
        found: list[Operation],
    ) -> None:
        session, theirs = self.session, unsettled or {}
        found.append(
            AttachSource(
                session.number,
                PendingReply(lambda result: self._attached(link, result, theirs), refuser(link)),
                link.number,
                record.name,
                session.connection.container,
                termini.read(record.source),
                link.snd_mode == SenderSettleMode.SETTLED,
                known_outcomes(link, unsettled),
            )
        )

    def _attached(self, link: SendingLink, result: Attached, theirs: dict[bytes, Any]) -> None:
        """Attach with the source that the broker grants, then resume deliveries, then send the
        rest."""
        record = link.record
        assert record is not None
        link.source = termini.source(result.terminus, record.source)
        link.settles = link.snd_mode == SenderSettleMode.SETTLED
        link.last_tag = highest([*theirs, *[each.tag for each in result.resumed]])

        def resume() -> None:
            planned = plan(link, result.resumed, theirs, not link.incomplete)
            link.data = planned.left
            link.held.extendleft(reversed(planned.queued))
            self.session.connection.later.extend(planned.operations)

        link.attach(
            resume,
            unsettled=None if record.unsettled is None else written_map(result.resumed),
            properties=paired(record),
        )

    # --- links ----------------------------------------------------------------------------------

    def on_credit(self, link: SendingLink, record: w.Flow, found: list[Operation]) -> None:
        if record.link_credit is not None and not link.incomplete:
            count = max(0, link.credit - link.waiting)
            granted = Credit(self.session.number, None, link.number, count, link.drain)
            if link.drain:
                granted.token = PendingReply(partial(self._drained, link, granted))
            link.granted = granted
            found.append(granted)

    def _drained(self, link: SendingLink, asked: Credit, dropped: int) -> None:
        """A receiver that has given credit again meanwhile is answered about that credit only."""
        if link.granted is asked:
            link.drained(dropped)

    def on_unsent(self, link: SendingLink, number: int, message: Message, text: str) -> None:
        """Return a message that this receiver cannot take, for another receiver or a dead-letter
        queue. The credit that the broker used for it is granted again."""
        later, channel = self.session.connection.later, self.session.number
        if number:
            later.append(Unsent(channel, link.number, number, message))
            count = max(0, link.credit - link.waiting)
            later.append(Credit(channel, None, link.number, count))

    def on_detached(
        self, link: Any, record: w.Detach | None, closed: bool, lost: bool, found: list[Operation]
    ) -> None:
        operation = detach_link(link, record, closed, lost)
        operation.unsettled = {} if closed else self._unsettled(link)
        found.append(operation)

    def _unsettled(self, link: SendingLink) -> dict[int, bytes]:
        """Tags by delivery number: of sent deliveries, and of those that were to be resumed."""
        unsettled: dict[int, bytes] = dict(link.data or {})
        self.session.unsettled.expand_all(link)
        for sent in link.unsettled.values():
            if sent.number:
                unsettled[sent.number] = sent.tag
        for queued in link.held:
            if queued.tag is not None and queued.number and not queued.settled:
                unsettled[queued.number] = queued.tag
        return unsettled

    # --- outcomes in ----------------------------------------------------------------------------

    def on_outcome(
        self, sent: OutgoingDelivery, state: Any, settled: bool, found: list[Operation]
    ) -> None:
        """Hot."""
        number = sent.number
        if not number:  # an answer of the management node, or settled before the link was resumed
            return
        if sent.txn_id is not None or is_transactional(state):
            self.coordinator.retire(sent, state, settled, found)
            return
        simple = OUTCOMES.get(type(state))
        if simple is not None:
            found.append(Settle(self.session.number, number, False, simple))
            return
        outcome = outcome_of(state, self.session.number, number)
        if outcome is None:
            outcome = default_outcome(sent.link.source, self.session.number, number)
        found.append(settle(outcome, self.session.number, number))

    def on_outcomes(
        self, deliveries: list[OutgoingDelivery], state: Any, settled: bool, found: list[Operation]
    ) -> list[OutgoingDelivery]:
        """One operation for all that is plain and goes over one link."""
        link = deliveries[0].link
        if link.handler is not self or link.over:
            return deliveries
        if is_transactional(state):
            return self.coordinator.retire_range(link, deliveries, state, settled, found)
        number = self.session.number
        outcome = outcome_of(state, number, 0)
        if outcome is None:
            outcome = default_outcome(link.source, number, 0)
        if isinstance(outcome, Modify) and outcome.elsewhere:
            return deliveries  # how many of these a link may have is counted
        plain = [s.number for s in deliveries if s.link is link and s.number and s.txn_id is None]
        if not plain:
            return deliveries
        found.append(SettleMany(number, plain, outcome))
        if len(plain) == len(deliveries):
            return []
        return [s for s in deliveries if s.link is not link or not s.number or s.txn_id is not None]

    def on_runs_settled(self, numbers: list[int], outcome: Outcome, found: list[Operation]) -> None:
        channel = self.session.number
        if len(numbers) > FEW:
            found.append(SettleMany(channel, numbers, outcome))
        else:
            found += [Settle(channel, number, False, outcome) for number in numbers]

    def on_acquire(self, link: SendingLink, txn_id: Any) -> None:
        self.coordinator.acquire(link, txn_id)

    def on_late_outcome(self, state: Any) -> None:
        self.coordinator.missed(state)

    def on_settlement_awaited(
        self, runs: Iterable[tuple[int, int]], state: Any, before: int, found: list[Operation]
    ) -> None:
        delayed = self.delayed_settlement
        if delayed is not None and before and found[before - 1] is delayed.assure:
            del found[before - 1]  # settled together
        else:
            delayed = self.delayed_settlement = DelayedSettlement(self.session)
        for run in runs:
            delayed.add(*run, state)
        found.append(delayed.assure)


# --- operations of the broker ---------------------------------------------------------------------


def lose(session: Session, condition: Condition, text: str) -> None:
    """The broker ends a session."""
    session.fail(symbol_for(condition, Lost.SESSION), text, session.connection.later)


def _done(connection: Connection, op: Done) -> None:
    if isinstance(op.token, PendingReply):
        op.token.done(op.result)


def _refused(connection: Connection, op: Refused) -> None:
    """A link, or with the channel the session, pays for it."""
    session = connection.sessions.get(op.channel)
    if isinstance(op.token, PendingReply) and (op.lost <= Lost.LINK or op.token.always):
        op.token.refused(op.condition, op.text)
    elif session is not None and op.lost is Lost.SESSION:
        lose(session, op.condition, op.text)


def _cancelled(connection: Connection, op: Cancelled) -> None:
    link = _link(connection, op.channel, op.tag)
    if link is not None:
        end = "target" if link.receiver else "source"
        link.fail(AmqpError.RESOURCE_DELETED, f"the {end} was deleted", connection.later)


def _stolen(connection: Connection, op: Stolen) -> None:
    link = _link(connection, op.channel, op.link)
    if link is not None:
        text = "the link was attached over another connection"
        link.fail(LinkError.STOLEN, text, connection.later, keep=True)


def _link(connection: Connection, channel: int, number: str) -> Link | None:
    session = connection.sessions.get(channel)
    return None if session is None else session.links.get(number)


def _session_lost(connection: Connection, op: SessionLost) -> None:
    session = connection.sessions.get(op.channel)
    if session is not None:
        lose(session, op.condition, op.text)


def _returned(connection: Connection, op: Returned) -> None:
    session = connection.sessions.get(op.channel)
    if session is not None and op.sequence:
        cast(ServerSession, session.handler).publishes.returned[op.sequence] = returned(
            op.condition, op.text
        )


def _deliver(connection: Connection, op: Deliver) -> None:
    connection.channels.open(op.channel).deliver(
        op.consumer, op.delivery, op.redelivered, op.message
    )


def _confirm(connection: Connection, op: Confirm) -> None:
    connection.channels.open(op.channel).confirm(op.sequence, op.multiple, op.accepted)


ENCODERS: dict[type[Operation], Callable[[Connection, Any], None]] = {
    Done: _done,
    Refused: _refused,
    Cancelled: _cancelled,
    Stolen: _stolen,
    SessionLost: _session_lost,
    Returned: _returned,
    Deliver: _deliver,
    Confirm: _confirm,
}
