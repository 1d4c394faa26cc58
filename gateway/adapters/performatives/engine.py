"""The adapter of the performative family: 1.0, server or client.

``Engine`` puts the connection together and encodes operations: those on the connection itself here,
those of sessions and links by ``server`` or ``client``.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.adapters.contract import Authority, Capability, Outlet, Role
from gateway.adapters.core.output import no_op
from gateway.adapters.core.release import release
from gateway.adapters.options import MECHANISMS, Credentials, Limits, Product
from gateway.adapters.performatives import client, server
from gateway.adapters.performatives.composites import symbol_for
from gateway.adapters.performatives.connection import CLOSE_TOKEN, OPEN_TOKEN, Connection
from gateway.adapters.performatives.links import SessionHandler
from gateway.adapters.performatives.session import Session
from gateway.adapters.performatives.violation import error
from gateway.bodies import Spool
from gateway.errors import LocalError, Lost
from gateway.operations import Blocked, Close, Done, Open, Operation, Refused, Unblocked


class Engine:
    """One connection of 1.0; an ``Adapter``.

    Methods of the contract that the connection does alone are bound to the instance, which saves a
    call for each read and each write."""

    capabilities = Capability.LINKS | Capability.SASL_LAYER | Capability.COMPAT

    def __init__(
        self,
        version: str,
        role: Role,
        *,
        authority: Authority | None = None,
        limits: Limits = Limits(),  # noqa: B008
        credentials: Credentials | None = None,
        product: Product = Product(),  # noqa: B008
        external_subject: str | None = None,
        mechanisms: tuple[str, ...] = MECHANISMS,
        wake: Callable[[], None] = no_op,
        spool: Spool | None = None,
        addresses: str = "",
        annotates: bool = False,
        near: bool = False,
        write_now: Callable[[], None] = no_op,
    ) -> None:
        """``spool``: store of messages that are too large for memory; ``None``: they stay in
        memory. ``addresses``: the form in which a client writes them (``addresses.FORMS``), "" for
        the form that the peer takes. ``annotates``: deliveries carry the exchange and routing key
        of their message, as RabbitMQ's do. ``near``: a round trip to the peer takes less than a few
        milliseconds. ``write_now`` is called within ``receive`` when it helps the peer to get the
        output so far before the operations found are performed."""
        self.version = version
        self.role = role
        self.server = role is Role.SERVER
        self.closing = False
        self.wake = wake
        self.output_congested: Callable[[], None] = no_op
        self._encoders = SERVER if self.server else CLIENT
        self.connection = connection = Connection(
            self,
            version,
            self.server,
            self._new_handler,
            limits,
            product,
            spool,
            addresses,
            annotates,
            near,
            write_now,
            authority,
            credentials,
            external_subject,
            mechanisms,
        )
        self.receive, self.tick, self.lost = connection.receive, connection.tick, connection.lost
        self.frames, self.read_on = connection.frames, connection.read_on
        self.found, self.output = connection.found, connection.output
        self.outlet: Callable[[int], Outlet] = connection.channels.open
        self.excuse_silence = connection.heartbeat.excuse_silence
        self.pending, self.refill = connection.buffer.pending, connection.portions.refill
        if not self.server:
            connection.negotiation.begin()

    def _new_handler(self, session: Session) -> SessionHandler:
        if self.server:
            return server.ServerSession(session)
        return client.ClientSession(session, self.connection, self.send)

    def send(self, operation: Operation) -> None:
        """Write this operation. Raises ``LocalError`` before any octet is written."""
        if self.closing:
            return
        token = getattr(operation, "token", None)
        encode = self._encoders.get(type(operation))
        if token is OPEN_TOKEN:
            encode = _opened if isinstance(operation, Done) else _refused
        elif token is CLOSE_TOKEN:
            encode = _finish_close
        elif isinstance(operation, Refused) and operation.lost is Lost.CONNECTION:
            encode = _refused
        if encode is None:
            raise LocalError(f"{type(operation).__name__} has no form in {self.version}")
        if self.connection.close_sent and encode is not _finish_close:
            return
        try:
            encode(self.connection, operation)
        except ValueError as wrong:
            raise LocalError(str(wrong)) from wrong

    @property
    def more(self) -> int:
        """1 if large messages wait for the socket to take the output before them."""
        return 1 if self.connection.portions.stalled else 0

    def release(self) -> None:
        """Let go of everything, as the connection is over."""
        connection = self.connection
        release(self, connection.negotiation, connection)


# --- operations on the connection -----------------------------------------------------------------


def _opened(connection: Connection, op: Done) -> None:
    """The virtual host is open."""
    connection.write_open()


def _finish_close(connection: Connection, op: Done) -> None:
    """The requests before the peer's close are answered: answer the close."""
    connection.finish_close()


def _refused(connection: Connection, op: Refused) -> None:
    """The virtual host is refused, or another error costs the connection. An open precedes the
    close (§2.4.1), for a refused client too."""
    connection.refused = True
    symbol = symbol_for(op.condition, Lost.CONNECTION)
    connection.write_close(op.condition, op.text, error(symbol, op.text), True)


def _close(connection: Connection, op: Close) -> None:
    record = None
    if op.condition is not None:
        record = error(symbol_for(op.condition, Lost.CONNECTION), op.text)
    connection.write_close(op.condition, op.text, record, False)


def _close_when_sent(connection: Connection, op: Close) -> None:
    """Client: close without an error when all publishes are sent."""
    sessions = connection.sessions.values()
    if op.condition is None and any(client.of(session).senders.holding for session in sessions):
        connection.defer_write(partial(_close_when_sent, connection, op))
    else:
        _close(connection, op)


def _blocked(connection: Connection, op: Blocked) -> None:
    connection.blocked = True


def _unblocked(connection: Connection, op: Unblocked) -> None:
    connection.blocked = False
    for session in list(connection.sessions.values()):
        session.unblocked()


Encoder = Callable[[Connection, Any], None]

SERVER: dict[type[Operation], Encoder] = {
    **server.ENCODERS,
    Close: _close,
    Blocked: _blocked,
    Unblocked: _unblocked,
}
CLIENT: dict[type[Operation], Encoder] = {
    **client.ENCODERS,
    Open: Connection.request_open,
    Close: _close_when_sent,
}
