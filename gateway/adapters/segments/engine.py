"""The adapter of final 0-10.

``Engine`` puts its parts together: the frame loop, the life of the connection, the handshake, the
controls of sessions, and the sessions with their commands. Handshake, controls and sessions have
one part for each role.
"""

from collections.abc import Callable
from typing import Any

from gateway.adapters.contract import Authority, Capability, Outlet, Role
from gateway.adapters.core.heartbeat import Heartbeat
from gateway.adapters.core.output import OutputBuffer, no_op
from gateway.adapters.core.release import release
from gateway.adapters.options import MECHANISMS, Credentials, Limits, Product
from gateway.adapters.segments.attachments import Attachments
from gateway.adapters.segments.client import CLIENT_ENCODERS
from gateway.adapters.segments.client_attachments import ClientAttachments
from gateway.adapters.segments.client_handshake import ClientHandshake
from gateway.adapters.segments.connection import Connection
from gateway.adapters.segments.frames import Frames, control
from gateway.adapters.segments.lifecycle import Lifecycle, State
from gateway.adapters.segments.operations import write_control
from gateway.adapters.segments.server_handshake import ServerHandshake
from gateway.adapters.segments.session_state import ATTACHED
from gateway.adapters.segments.session_state import State as SessionState
from gateway.adapters.segments.violation import session_code
from gateway.adapters.segments.wire.tables import MIN_MAX_FRAME_SIZE, ErrorCode
from gateway.bodies import Spool
from gateway.errors import Condition, LocalError
from gateway.operations import (
    Blocked,
    Cancelled,
    Close,
    Deliver,
    DetachSession,
    Done,
    Operation,
    Refused,
    Returned,
    SessionLost,
    Unblocked,
)


class Engine:
    """One connection; an ``Adapter``.

    Methods of the contract that one part does alone are bound to the instance, which saves a call
    for each read and each write."""

    capabilities = Capability.SESSIONS

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
    ) -> None:
        """``spool``: where bodies go that are too large for memory; ``None``: they stay there."""
        self.version = version
        self.role: Role = role
        self.server = role is Role.SERVER
        self.closing = False
        self.wake = wake
        self.output_congested: Callable[[], None] = no_op
        self.sessions: dict[int, Any] = {}
        """By channel."""
        self.frame_limit = MIN_MAX_FRAME_SIZE
        """Octets of the largest frame that the peer takes."""
        self.heartbeat = Heartbeat(limits)
        self.buffer = buffer = OutputBuffer(self, self.heartbeat, self.sessions)
        self._due: dict[Any, None] = {}
        """Sessions that have something to say when the output is taken."""
        self.life = life = Lifecycle(self)
        if self.server:
            self.attachments: Any = Attachments(self)
            self.handshake: Any = ServerHandshake(
                self, authority, limits, product, external_subject, mechanisms
            )
        else:
            self.attachments = ClientAttachments(self)
            self.handshake = ClientHandshake(self, limits, credentials, product)
        self._encoders = ENCODERS if self.server else CLIENT_ENCODERS
        self.connection = Connection(self, self.handshake, self.attachments)
        self.on_control = self.connection.on_control
        self.frames = Frames(self, self.sessions, max_body=limits.max_message_octets, spool=spool)
        self.receive, self.tick, self.lost = life.receive, life.tick, life.lost
        self.found, self.read_on = life.found, life.read_on
        self.refill = buffer.large.refill
        if not self.server:
            life.begin()

    # --- in --------------------------------------------------------------------------------------

    def greet(self) -> None:
        """The client has sent the header."""
        self.handshake.greet()

    def on_unattached(self, channel: int, found: list[Operation]) -> None:
        """A command on a channel without a session."""
        if self.life.state is State.OPEN:
            self.attachments.not_attached(channel)
        elif self.life.state is not State.CLOSING:
            self.connection.violated("a command before the connection is open", found)

    def leave_sessions(self) -> list[Operation]:
        """The peer closes the connection: the last operations of its sessions."""
        found: list[Operation] = []
        for session in self.sessions.values():
            found += self.attachments.leave(session)
            session.flush_unsafe(found)
        return found

    def forget_sessions(self) -> list[Operation]:
        """The connection ends: the operations that keep sessions, and refusals of the requests
        that are still open in the others."""
        found: list[Operation] = []
        for session in self.sessions.values():
            if kept := self.attachments.leave(session):
                found += kept
            elif session.state is not SessionState.LEFT:
                found += session.mark_ended()
        self.sessions.clear()
        self._due.clear()
        return found

    # --- out -------------------------------------------------------------------------------------

    def send(self, operation: Operation) -> None:
        """Write an operation. Raises ``LocalError`` before any octet is written."""
        if self.closing:
            session = getattr(getattr(operation, "token", None), "session", None)
            if session is None or session.state is not SessionState.LEFT:
                return  # only answers to sessions that are kept still matter
        encode = self._encoders.get(type(operation))
        if encode is None:
            raise LocalError(f"{type(operation).__name__} has no form in {self.version}")
        try:
            encode(self, operation)
        except ValueError as error:
            raise LocalError(str(error)) from error

    def outlet(self, channel: int) -> Outlet:
        """The hot way out for a session."""
        outlet: Outlet = self.session(channel)
        return outlet

    def session(self, channel: int) -> Any:
        session = self.sessions.get(channel)
        if session is None:
            raise LocalError(f"channel {channel} has no session")
        return session

    def write_control(self, channel: int, record: Any) -> None:
        """A control, behind everything that has no large body before it."""
        self.buffer.put(control(channel, write_control(record), self.frame_limit))

    def tell_soon(self, session: Any) -> None:
        """A session has something to say, once in this turn."""
        if session not in self._due:
            self._due[session] = None
            if not self.buffer.pending:
                self.buffer.waken()

    def output(self) -> list[bytes]:
        """Take the octets to write, or raise ``OSError`` as ``contract`` says."""
        if self._due:
            self.tell_due()
        return self.buffer.take()

    def tell_due(self) -> None:
        """Have the sessions send what they put off."""
        due, self._due = self._due, {}
        for session in due:
            session.tell_due()

    @property
    def more(self) -> int:
        return self.buffer.more

    def excuse_silence(self) -> None:
        """We did not read: the peer counts as heard."""
        self.heartbeat.heard = True

    def release(self) -> None:
        """Let go of everything, as the connection is over. Sessions that are kept have its
        buffer."""
        self.buffer.pending.clear()
        release(self, self.connection, self.handshake, self.life, self.attachments)


Encoder = Callable[[Engine, Any], None]


def _done(engine: Engine, op: Done) -> None:
    if op.token is not None:
        op.token.done(op)


def _refused(engine: Engine, op: Refused) -> None:
    """A refused command costs its session, and never the connection."""
    if op.token is not None:
        op.token.refused(op)
        return
    session = engine.sessions.get(op.channel)
    if session is not None:
        session.refused_transfer(op)


def _session_lost(engine: Engine, op: SessionLost) -> None:
    engine.session(op.channel).tell_exception(session_code(op.condition), op.text)


def _returned(engine: Engine, op: Returned) -> None:
    session = engine.sessions.get(op.channel)
    if session is not None:
        session.returned(op)


def _cancelled(engine: Engine, op: Cancelled) -> None:
    """The queue of a subscription is deleted: that costs the session (queue-deletion), unless it
    ends already. One without credit is told when it asks for some, as by Qpid's broker: clients
    delete queues before they cancel their subscriptions."""
    session = engine.sessions.get(op.channel)
    subscription = None if session is None else session.subscriptions.pop(op.tag, None)
    if session is None or subscription is None or op.ended or session.state is not ATTACHED:
        return
    text = f"the queue of the subscription {op.tag!r} was deleted"
    if subscription.starved:
        subscription.deleted = text
        session.subscriptions[op.tag] = subscription
        return
    session.tell_exception(ErrorCode.RESOURCE_DELETED, text)
    engine.life.follow(SessionLost(op.channel, Condition.NOT_FOUND, text))


def _close(engine: Engine, op: Close) -> None:
    engine.life.send_close(op.condition, op.text)


def _deliver(engine: Engine, op: Deliver) -> None:
    engine.session(op.channel).deliver(op.consumer, op.delivery, op.redelivered, op.message)


def _detach(engine: Engine, op: DetachSession) -> None:
    session = engine.sessions.get(op.channel)
    if session is not None:
        engine.attachments.give_up(session)


def _unsaid(engine: Engine, op: Operation) -> None:
    """Publishers are not told; they wait because nothing is read from them."""


ENCODERS: dict[type[Operation], Encoder] = {
    Blocked: _unsaid,
    Cancelled: _cancelled,
    Close: _close,
    Deliver: _deliver,
    DetachSession: _detach,
    Done: _done,
    Refused: _refused,
    Returned: _returned,
    SessionLost: _session_lost,
    Unblocked: _unsaid,
}
