"""From the first octet to the AMQP layer: protocol headers (§2.2) and the SASL layer (§5.3).

Written for both roles. Other protocols are answered with a header of ours, and the end of the
connection.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from gateway.adapters.contract import Authority
from gateway.adapters.core.sasl import (
    Challenge,
    ClientExchange,
    ServerExchange,
    Step,
    Success,
    Waiting,
)
from gateway.adapters.options import Credentials
from gateway.adapters.performatives.composites import write
from gateway.adapters.performatives.frames import Frames, frame
from gateway.adapters.performatives.violation import illegal_state
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import FRAME_SASL, HEADER, SASL_HEADER, SaslCode
from gateway.errors import Condition
from gateway.operations import Operation

STRENGTH = ("EXTERNAL", "SCRAM-SHA-256", "PLAIN", "AMQPLAIN", "ANONYMOUS")
"""Mechanisms in decreasing level of preference, as §5.3.3.1 wants them listed."""

FAILURES = {
    SaslCode.AUTH: Condition.ACCESS_REFUSED,
    SaslCode.SYS: Condition.INTERNAL_ERROR,
    SaslCode.SYS_PERM: Condition.NOT_ALLOWED,
    SaslCode.SYS_TEMP: Condition.CONNECTION_FORCED,
}


class Ended(Exception):
    """The connection is over; the ``Closed`` is already among the operations."""


class Connection(Protocol):
    """A connection as its negotiation needs it."""

    frames: Frames

    def put(self, octets: bytes) -> None: ...

    def finish(self, condition: Condition, text: str, found: list[Operation]) -> None:
        """End the connection without a close."""
        ...

    def resume(self, act: Callable[[list[Operation]], None]) -> None:
        """Act on an answer, then read the input that waited for it."""
        ...

    def negotiated(self) -> None:
        """Our AMQP header is written (client), or both are exchanged (server)."""
        ...


class Negotiation:
    """The layers below AMQP of one connection."""

    def __init__(
        self,
        connection: Connection,
        server: bool,
        authority: Authority | None,
        credentials: Credentials | None,
        external_subject: str | None,
        mechanisms: tuple[str, ...],
    ) -> None:
        self.header = True
        """Protocol headers are expected, not frames."""
        self.amqp = False
        """Our AMQP header is written: errors may be reported by a close."""
        self.user = ""
        self.mechanism = ""
        self._connection = connection
        self._server = server
        self._authority = authority
        self._anonymous = "ANONYMOUS" in mechanisms
        self.waiting = False
        """Input waits until the authority has answered."""
        self._exchange = ServerExchange(authority, external_subject, mechanisms)
        self._login = ClientExchange(credentials or Credentials())
        self._sasl = (credentials or Credentials()).mechanism != ""
        """Client: begin with a SASL layer."""
        self._authenticated = False
        self._asked = False
        """The client has chosen its mechanism."""
        self._head = b""

    # --- headers --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Client: speak first (§2.2)."""
        if self._sasl:
            self._connection.put(SASL_HEADER)
        else:
            self._enter()

    def _enter(self) -> None:
        self._connection.put(HEADER)
        self.amqp = True
        self._connection.negotiated()

    def on_octets(self, data: bytes, found: list[Operation]) -> bytes:
        """Take a protocol header off; returns the octets behind it."""
        data = self._head + data
        head = data[:8]
        good = self._expected()
        if len(head) < 8 and any(header.startswith(head) for header in good):
            self._head = data
            return b""
        self._head = b""
        if head not in good:
            self._mismatch(head, found)
        self.header = False
        if head == HEADER:
            self._on_header(found)
        else:
            self._on_sasl_header(found)
        return data[8:]

    def _expected(self) -> tuple[bytes, ...]:
        if self._authenticated:
            return (HEADER,)
        if self._server:
            return (SASL_HEADER, HEADER)
        return (SASL_HEADER,) if self._sasl else (HEADER,)

    def _mismatch(self, head: bytes, found: list[Operation]) -> None:
        connection = self._connection
        if self._server:
            connection.put(HEADER if self._authenticated else SASL_HEADER)
            connection.finish(Condition.NOT_IMPLEMENTED, "not a protocol header of 1.0", found)
        elif head == SASL_HEADER:
            connection.finish(Condition.ACCESS_REFUSED, "the server wants a SASL layer", found)
        else:
            text = f"the server does not speak 1.0, it answers {head!r}"
            connection.finish(Condition.NOT_IMPLEMENTED, text, found)
        raise Ended

    def _on_header(self, found: list[Operation]) -> None:
        connection = self._connection
        if self._server and not self._authenticated:
            user = self._authority.anonymous() if self._authority and self._anonymous else None
            if user is None:
                connection.put(SASL_HEADER)
                connection.finish(Condition.ACCESS_REFUSED, "the client must authenticate", found)
                raise Ended
            self.user = user
        if self._server:
            self._enter()

    def _on_sasl_header(self, found: list[Operation]) -> None:
        self._connection.frames.sasl = True
        if not self._server:
            return
        offered = self._exchange.mechanisms()
        ordered = tuple(name for name in STRENGTH if name in offered)
        self._connection.put(SASL_HEADER)
        if not ordered:
            self._write(w.SaslOutcome(SaslCode.SYS_PERM))
            self._connection.finish(Condition.NOT_ALLOWED, "no mechanism is allowed", found)
            raise Ended
        self._write(w.SaslMechanisms(ordered))

    # --- SASL -----------------------------------------------------------------------------------

    def on_sasl(self, record: Any, found: list[Operation]) -> None:
        """One frame of the SASL layer."""
        kind = type(record)
        if self._server:
            if kind is w.SaslInit and not self._asked:
                self._asked = True
                self.mechanism = record.mechanism
                step = self._exchange.start(record.mechanism, record.initial_response or b"")
                return self._answer(step, found)
            if kind is w.SaslResponse and self._asked:
                return self._answer(self._exchange.next(record.response), found)
        elif kind is w.SaslMechanisms and not self._asked:
            return self._choose(record.sasl_server_mechanisms, found)
        elif kind is w.SaslChallenge and self._asked:
            return self._respond(record.challenge, found)
        elif kind is w.SaslOutcome and self._asked:
            return self._on_outcome(record, found)
        raise illegal_state(f"{record.NAME} is out of place")

    def _write(self, record: Any) -> None:
        self._connection.put(frame(0, write(record), FRAME_SASL))

    def _answer(self, step: Step, found: list[Operation]) -> None:
        """Server: answer the client as the exchange decides."""
        if isinstance(step, Challenge):
            self._write(w.SaslChallenge(step.data))
        elif isinstance(step, Waiting):
            self.waiting = self._connection.frames.changed = True
            self._exchange.later = self._later
        elif isinstance(step, Success):
            self.user = step.user
            self._write(w.SaslOutcome(SaslCode.OK))
            self._over()
        else:
            self._write(w.SaslOutcome(SaslCode.AUTH))
            self._refused(
                f"Login was refused using authentication mechanism {self.mechanism}. "
                "For details see the broker logfile.",
                found,
            )

    def _later(self, step: Step) -> None:
        self._connection.resume(partial(self._answer, step))

    def _over(self) -> None:
        """The layer stands; the headers of the layer inside follow (§5.3.3.5)."""
        self._authenticated = True
        self._connection.frames.sasl = False
        self._connection.frames.changed = True
        self.header = True

    def _refused(self, text: str, found: list[Operation]) -> None:
        self._connection.finish(Condition.ACCESS_REFUSED, text, found)
        raise Ended

    def _choose(self, offered: tuple[str, ...], found: list[Operation]) -> None:
        """Client: the mechanism of our credentials, if it is offered."""
        mechanism = self._login.choose(list(offered))
        if mechanism is None:
            text = f"the server offers {' '.join(offered)}, which is not ours"
            self._connection.finish(Condition.NOT_ALLOWED, text, found)
            raise Ended
        self._asked = True
        self.mechanism = mechanism
        try:
            first = self._login.first()
        except ValueError as error:
            self._refused(str(error), found)
        self._write(w.SaslInit(mechanism, first))

    def _respond(self, challenge: bytes, found: list[Operation]) -> None:
        try:
            response = self._login.answer(challenge)
        except ValueError as error:
            self._refused(str(error), found)
        self._write(w.SaslResponse(response))

    def _on_outcome(self, record: w.SaslOutcome, found: list[Operation]) -> None:
        """The end of the dialog. The server's proof may come with it (RFC 4422 §3.6)."""
        if record.code != SaslCode.OK:
            text = f"Login was refused using authentication mechanism {self.mechanism}"
            condition = FAILURES.get(record.code, Condition.ACCESS_REFUSED)
            self._connection.finish(condition, f"{text} (code {record.code})", found)
            raise Ended
        if not self._login.satisfied:
            try:
                self._login.answer(record.additional_data or b"")
            except ValueError as error:
                self._refused(str(error), found)
            if not self._login.satisfied:
                self._refused("the server did not prove itself", found)
        self._over()
        self._enter()
