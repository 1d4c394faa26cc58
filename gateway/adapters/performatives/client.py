"""The client role of sessions and links: our operations as sessions, links and dispositions.

Each session has one ``ClientSession``. Senders, receivers, transactions and management have a
module each; this one has the operations of the session itself and the table of all encoders.
"""

from collections.abc import Callable, Iterable
from typing import Any

from gateway.adapters.performatives.client_context import ClientContext
from gateway.adapters.performatives.client_management import ClientManagement
from gateway.adapters.performatives.client_receivers import ClientReceivers
from gateway.adapters.performatives.client_senders import ClientSenders
from gateway.adapters.performatives.client_transactions import ClientTransactions
from gateway.adapters.performatives.connection import Connection
from gateway.adapters.performatives.links import Link, SessionHandler
from gateway.adapters.performatives.session import Session
from gateway.adapters.performatives.violation import reason
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import AmqpError
from gateway.errors import Condition, LocalError
from gateway.operations import (
    AttachSource,
    AttachTarget,
    BeginSession,
    Bind,
    Commit,
    Credit,
    DeclareExchange,
    DeclareQueue,
    DeclareTransaction,
    DeleteExchange,
    DeleteQueue,
    DetachLink,
    Discharge,
    Done,
    EndSession,
    Fetch,
    Flow,
    Modify,
    Operation,
    Post,
    Prefetch,
    Publish,
    PurgeQueue,
    Recover,
    Refused,
    Retire,
    Rollback,
    Select,
    SelectConfirms,
    SessionLost,
    Settle,
    Subscribe,
    Token,
    Unbind,
    Unsubscribe,
    UpdateSecret,
)


class ClientSession(SessionHandler):
    """The handler of one session in the client role, and its operations. ``send`` performs an
    operation that was deferred."""

    def __init__(
        self, session: Session, connection: Connection, send: Callable[[Operation], None]
    ) -> None:
        self.session = session
        self.context = context = ClientContext(session, connection)
        self.beginning: Token = None
        self.ending: Token = None
        self.leaving = False
        """It ends as soon as all is sent."""
        self.foreign = False
        """The peer has begun it, and was refused."""
        self.transactions = ClientTransactions(context, send)
        self.senders = ClientSenders(context, self.transactions)
        self.receivers = ClientReceivers(context, self.transactions)
        self.management = ClientManagement(context)

    # --- events of the session --------------------------------------------------------------------

    def on_begin(self, record: w.Begin, found: list[Operation]) -> None:
        session = self.session
        if not session.begun:
            self.foreign = True
            session.begin()
            session.fail(AmqpError.NOT_IMPLEMENTED, "a client takes no sessions", found)
        elif self.beginning is not None:
            found.append(Done(session.number, self.beginning))
            self.beginning = None

    def on_attach(self, record: w.Attach, found: list[Operation]) -> None:
        link = self.session.accept(record, self.management, found)
        link.source, link.target = record.source, record.target
        link.refuse(AmqpError.NOT_IMPLEMENTED, "a client takes no links")

    def on_end(
        self, record: w.End | None, fault: w.Error | None, lost: bool, found: list[Operation]
    ) -> None:
        session = self.session
        answered = record is not None and session.output_closed
        for token in (self.beginning, self.ending):
            if token is not None:
                done = answered and token is self.ending
                found.append(
                    Done(session.number, token) if done else self.context.refused(token, lost)
                )
        self.beginning = self.ending = None
        self.transactions.drop_waiting(found, lost)
        if lost or answered or self.foreign:
            return
        error = fault if record is None else record.error
        condition, text = reason(error, "the peer ended the session")
        found.append(SessionLost(session.number, condition, text))
        if record is not None:
            session.end(found)

    def on_acquire(self, link: Link, work: Any) -> None:
        """Refused: a client offers no transactional acquisition."""
        raise link.violated(AmqpError.NOT_IMPLEMENTED, "transactional acquisition")

    def on_settlement_awaited(
        self, runs: Iterable[tuple[int, int]], state: Any, before: int, found: list[Operation]
    ) -> None:
        """Settle at once: a client stores no deliveries."""
        for first, last in runs:
            self.session.unsettled.settle_sent(first, last, state)

    # --- operations -------------------------------------------------------------------------------

    def leave(self) -> None:
        """End the session when the messages that wait for credit are sent: in every other version,
        messages published before a close arrive."""
        if self.session.output_closed:
            return
        if self.senders.holding:
            self.context.connection.defer_write(self.leave)
        else:
            self.session.end()

    def detach(self, op: DetachLink) -> None:
        """A link of ``AttachSource`` or ``AttachTarget``; for good, or to be resumed."""
        receiver, sender = self.receivers.links.get(op.link), self.senders.named.get(op.link)
        if receiver is not None:
            receiver.detach(op.closed)
        elif sender is not None:
            self.senders.detach(sender, op.closed)
        self.context.answer(op.token)

    def select_confirms(self, op: SelectConfirms) -> None:
        self.senders.confirming = True
        self.context.answer(op.token)


def _begin(connection: Connection, op: BeginSession) -> None:
    session = connection.channels.new(op.channel)
    of(session).beginning = op.token
    session.begin()


def of(session: Session) -> ClientSession:
    """The handler of a session that has not ended."""
    client: ClientSession = session.handler  # type: ignore[assignment]
    return client


def _open_session(connection: Connection, number: int) -> ClientSession:
    """The handler of an open session. Raises ``LocalError`` if it has ended, or never begun."""
    session = connection.channels.open(number)
    client = of(session)
    if session.output_closed or client.leaving:
        raise LocalError(f"channel {number} is lost")
    return client


def _end(connection: Connection, op: EndSession) -> None:
    client = _open_session(connection, op.channel)
    connection.write_deferred()
    client.ending, client.leaving = op.token, True
    client.leave()


def _no_op(connection: Connection, op: Operation) -> None:
    """No-op: 1.0 has no form for this answer."""


def _flow(connection: Connection, op: Flow) -> None:
    client = _open_session(connection, op.channel)
    client.context.refuse(op.token, Condition.NOT_IMPLEMENTED, "1.0 stops links, by their credit")


def _update_secret(connection: Connection, op: UpdateSecret) -> None:
    """Any session will do."""
    sessions = connection.sessions.values()
    session = next((each for each in sessions if each.begun and not each.output_closed), None)
    if session is None:
        raise LocalError("a new secret is sent over a session, and there is none")
    of(session).management.update_secret(op)


Encoder = Callable[[Connection, Any], None]


def _to(part: str, method: Callable[[Any, Any], None], transactional: bool = False) -> Encoder:
    """An encoder that calls a method of this part of the session's client."""
    name = method.__name__

    def encode(connection: Connection, op: Any) -> None:
        client = _open_session(connection, op.channel)
        if connection.deferred_writes:
            connection.write_deferred()
        if transactional and client.transactions.defer(op):
            return
        getattr(client if not part else getattr(client, part), name)(op)

    return encode


def _publish(connection: Connection, op: Publish) -> None:
    """Hot."""
    client = _open_session(connection, op.channel)
    if client.transactions.selected and client.transactions.defer(op):
        return
    client.senders.publish(op)


def _settle(connection: Connection, op: Settle) -> None:
    """Hot."""
    session = connection.sessions.get(op.channel)
    if session is None or session.output_closed:
        return  # deliveries of a session that has ended are requeued by the peer
    client = of(session)
    if client.transactions.selected and client.transactions.defer(op):
        return
    client.receivers.settle(op)


ENCODERS: dict[type[Operation], Encoder] = {
    BeginSession: _begin,
    EndSession: _end,
    Done: _no_op,
    Refused: _no_op,
    Flow: _flow,
    UpdateSecret: _update_secret,
    Publish: _publish,
    SelectConfirms: _to("", ClientSession.select_confirms),
    AttachTarget: _to("senders", ClientSenders.attach),
    AttachSource: _to("receivers", ClientReceivers.attach),
    DetachLink: _to("", ClientSession.detach),
    Credit: _to("receivers", ClientReceivers.credit),
    Subscribe: _to("receivers", ClientReceivers.subscribe),
    Unsubscribe: _to("receivers", ClientReceivers.unsubscribe),
    Prefetch: _to("receivers", ClientReceivers.set_prefetch),
    Fetch: _to("receivers", ClientReceivers.fetch),
    Recover: _to("receivers", ClientReceivers.recover),
    Settle: _settle,
    Modify: _to("receivers", ClientReceivers.modify, True),
    Retire: _to("receivers", ClientReceivers.retire),
    Select: _to("transactions", ClientTransactions.select),
    Commit: _to("transactions", ClientTransactions.end),
    Rollback: _to("transactions", ClientTransactions.end),
    DeclareTransaction: _to("transactions", ClientTransactions.declare),
    Discharge: _to("transactions", ClientTransactions.discharge),
    Post: _to("senders", ClientSenders.post),
    DeclareQueue: _to("management", ClientManagement.declare_queue),
    DeleteQueue: _to("management", ClientManagement.delete_queue),
    PurgeQueue: _to("management", ClientManagement.purge_queue),
    DeclareExchange: _to("management", ClientManagement.declare_exchange),
    DeleteExchange: _to("management", ClientManagement.delete_exchange),
    Bind: _to("management", ClientManagement.bind),
    Unbind: _to("management", ClientManagement.unbind),
}
