"""Channel 0 of the drafts: start, secure, tune, open, close.

0-9a0 has no room for a response in start-ok, so a login takes a round of secure; 0-9a6 writes its
response as a field table without a length. Both are understood wherever a response comes, and so
is PLAIN as RFC 4616 has it.
"""

import secrets
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Protocol

from gateway.adapters.contract import Authority
from gateway.adapters.core.sasl import Challenge, ServerExchange, Step, Success, Waiting
from gateway.adapters.methods import states
from gateway.adapters.methods.dispatch import DispatchEngine
from gateway.adapters.methods.drafts import types as tables
from gateway.adapters.methods.drafts.channel import MOST_CONSUMERS
from gateway.adapters.methods.drafts.frames import DraftFrames
from gateway.adapters.methods.drafts.mapping import MethodMapping
from gateway.adapters.methods.lifecycle import Ended
from gateway.adapters.methods.method_writer import MethodWriter
from gateway.adapters.methods.negotiation import check_server_version, smaller
from gateway.adapters.methods.pending import PendingReply
from gateway.adapters.options import Credentials, Limits
from gateway.errors import Condition, LocalError, PeerError
from gateway.message import Table
from gateway.operations import Done, Open, Operation, Peer
from gateway.operations.rules import EARLY

PLAIN = "PLAIN"
MOST_TICKETS = 32 * 1024
LARGEST_FRAME = 1 << 20
"""Limit of octets in any frame but a body: 0-9a6 does not negotiate one."""
LARGEST_BODY = 64 * 1024
"""Octets in one body frame that we send: 0-9a6 does not negotiate a limit."""


class ConnectionEngine(DispatchEngine, Protocol):
    """The engine, as far as this part needs it."""

    mapping: MethodMapping
    is_0_9a0: bool
    frames: DraftFrames
    body_max: int
    channel_max: int
    vhost: str
    writer: MethodWriter


def plain_response(response: bytes, is_0_9a0: bool) -> bytes:
    """A response as RFC 4616 has it, from any of the known forms."""
    for skipped in (0, 2, 4):
        if skipped and int.from_bytes(response[:skipped], "big") != len(response) - skipped:
            continue
        try:
            table = tables.read_table(response[skipped:], is_0_9a0)
        except (ValueError, struct.error):
            continue
        entries = {name.lower(): value for name, value in table.items()}
        user, password = entries.get("login"), entries.get("password")
        if isinstance(user, str) and isinstance(password, str):
            return (
                b"\0"
                + user.encode("utf-8", "replace")
                + b"\0"
                + password.encode("utf-8", "replace")
            )
    return response


class DraftConnection:
    """The connection itself, as opposed to its channels."""

    steps: ClassVar[Mapping[str, Callable[[Any, Any, list[Operation]], None]]] = {}

    def __init__(
        self,
        engine: ConnectionEngine,
        authority: Authority | None,
        limits: Limits,
        credentials: Credentials | None,
        mechanisms: tuple[str, ...],
    ) -> None:
        self.peer = Peer(version=engine.table.name)
        self.user = ""
        self.client_id = ""
        """The owner of private queues and subscriptions (0-9a0)."""
        self.prefetch_max = 0
        """Octets that may be under way over all channels (0-9a0); 0 is no limit."""
        self.shares = 1
        """Each channel has the whole divided by this."""
        self.tickets: dict[int, int] = {}
        """The channel of each ticket."""
        self._last_ticket = 0
        self._engine = engine
        self._is_0_9a0 = engine.is_0_9a0
        self._w = engine.mapping.layouts
        self._limits = limits
        allowed = tuple(name for name in mechanisms if name == PLAIN)
        self._exchange = ServerExchange(authority, None, allowed)
        self._login = credentials or Credentials()
        self._open: Open | None = None

    # --- server ----------------------------------------------------------------------------------

    def on_protocol_header(self) -> None:
        """The client has chosen the version: introduce ourselves."""
        self._engine.life.state = states.START
        offered = " ".join(self._exchange.mechanisms())
        table = self._engine.table
        if self._is_0_9a0:
            start = self._w.ConnectionStart(table.major, table.minor, offered)
        else:
            start = self._w.ConnectionStart(table.major, table.minor, offered.encode(), b"en_US")
        self._engine.writer.write(0, start)

    def _on_start_ok(self, m: Any, found: list[Operation]) -> None:
        self.peer.mechanism = m.mechanism
        response = b"" if self._is_0_9a0 else plain_response(m.response, False)
        self._step(self._exchange.start(m.mechanism, response), found)

    def _on_secure_ok(self, m: Any, found: list[Operation]) -> None:
        self._step(self._exchange.next(plain_response(m.response, self._is_0_9a0)), found)

    def _step(self, step: Step, found: list[Operation]) -> None:
        limits = self._limits
        if isinstance(step, Challenge):
            # It must not be empty (0-9a0: connection.secure); its contents are left open.
            self._engine.writer.write(0, self._w.ConnectionSecure(step.data or PLAIN.encode()))
        elif isinstance(step, Waiting):
            self._engine.frames.waiting = True
            self._exchange.later = self._later
        elif isinstance(step, Success):
            self.user = step.user
            self._engine.life.state = states.TUNE
            if self._is_0_9a0:
                tune = self._w.ConnectionTune(
                    limits.frame_max,
                    limits.channel_max,
                    MOST_TICKETS,
                    MOST_CONSUMERS,
                    heartbeat=limits.heartbeat,
                    jms_support=True,
                    file_support=True,
                    stream_support=True,
                )
            else:
                tune = self._w.ConnectionTune(limits.channel_max, limits.heartbeat)
            self._engine.writer.write(0, tune)
        else:
            text = f"login of '{step.user}' was refused"
            found += self._engine.life.ended(Condition.ACCESS_REFUSED, text)
            raise Ended

    def _later(self, step: Step) -> None:
        self._engine.life.resume(partial(self._step, step))

    def _on_tune_ok(self, m: Any, found: list[Operation]) -> None:
        ours = self._limits
        frame_max = getattr(m, "frame_max", 0)
        self.prefetch_max = getattr(m, "prefetch_max", 0)
        if self._is_0_9a0:
            self._check_tuning(m)
        elif ours.channel_max and m.channel_max > ours.channel_max:
            raise PeerError(Condition.NOT_ALLOWED, f"channel-max {m.channel_max} was not proposed")
        self._tuned(m.channel_max, frame_max, m.heartbeat, ours.heartbeat)

    def _check_tuning(self, m: Any) -> None:
        """A client may lower the proposed limits, and nothing may be 0 (0-9a0 §4.2.6)."""
        least = self._engine.table.constants["frame-min-size"]
        for name, given, lowest, proposed in (
            ("frame-max", m.frame_max, least, self._limits.frame_max),
            ("channel-max", m.channel_max, 1, self._limits.channel_max),
            ("ticket-max", m.ticket_max, 1, MOST_TICKETS),
        ):
            if given < lowest or (proposed and given > proposed):
                raise PeerError(Condition.NOT_ALLOWED, f"{name} {given} was not proposed")

    def _on_open(self, m: Any, found: list[Operation]) -> None:
        method = self._engine.table.by_name["connection.open"]
        if self._is_0_9a0:
            self.client_id = m.client_id or secrets.token_hex(16)
            where = m.virtual_path or "/"
            pending = PendingReply(method, m)
            found.append(Open(pending, where, self.user, self.peer, self.client_id, EARLY))
            return
        # The virtual host comes with the first channel. Contexts are not kept over connections.
        self._engine.life.state = states.OPEN
        self._engine.writer.write(0, self._w.ConnectionOpenOk(m.context_key))

    def new_ticket(self, channel: int) -> int:
        """A number that no other ticket of this connection has."""
        if len(self.tickets) >= MOST_TICKETS:
            raise PeerError(Condition.RESOURCE_ERROR, "too many access tickets")
        number = self._last_ticket
        while True:
            number = number % 0xFFFF + 1
            if number not in self.tickets:
                break
        self._last_ticket = number
        self.tickets[number] = channel
        return number

    def opened(self, m: Any) -> None:
        """The virtual host is there."""
        if self._is_0_9a0:
            life = self._engine.life
            if life.state is states.OPENING:
                life.state = states.OPEN
            self._engine.writer.write(0, self._w.ConnectionOpenOk(self.client_id))

    # --- client ----------------------------------------------------------------------------------

    def open(self, operation: Open) -> None:
        """Use this virtual host as soon as we are tuned."""
        if self._open is not None:
            raise LocalError("the connection is already being opened")
        self._open = operation
        self._engine.vhost = operation.vhost
        self._send_open()

    def _send_open(self) -> None:
        life = self._engine.life
        if self._open is not None and life.state is states.UNOPENED:
            life.state = states.OPENING
            given = (self._open.vhost, self._open.client) if self._is_0_9a0 else ("",)
            self._engine.writer.write(0, self._w.ConnectionOpen(*given))

    def _on_start(self, m: Any, found: list[Operation]) -> None:
        check_server_version(m, self._engine.table)
        listed = m.mechanisms if self._is_0_9a0 else m.mechanisms.decode("ascii", "replace")
        if PLAIN not in listed.split() or self._login.mechanism not in (PLAIN, "AMQPLAIN"):
            raise PeerError(Condition.NOT_ALLOWED, f"the server offers {listed}, which is not ours")
        self.peer.mechanism = PLAIN
        self._engine.life.state = states.SECURE
        if self._is_0_9a0:
            self._engine.writer.write(0, self._w.ConnectionStartOk(PLAIN))
        else:
            self._engine.writer.write(
                0, self._w.ConnectionStartOk(PLAIN, self._response(), "en_US")
            )

    def _response(self) -> bytes:
        login = self._login
        if self._is_0_9a0:
            return b"\0" + login.user.encode() + b"\0" + login.password.encode()
        table: Table = {"login": login.user, "password": login.password}
        return tables.write_table(table, False)

    def _on_secure(self, m: Any, found: list[Operation]) -> None:
        self._engine.writer.write(0, self._w.ConnectionSecureOk(self._response()))

    def _on_tune(self, m: Any, found: list[Operation]) -> None:
        limits = self._limits
        channel_max = smaller(m.channel_max, limits.channel_max)
        frame_max = smaller(getattr(m, "frame_max", 0), limits.frame_max)
        if self._is_0_9a0:
            heartbeat = limits.heartbeat
            tuned = self._w.ConnectionTuneOk(
                frame_max or 0xFFFF_FFFF,
                channel_max or 0xFFFF,
                m.access_max or MOST_TICKETS,
                heartbeat=heartbeat,
                jms_support=m.jms_support,
                file_support=m.file_support,
                stream_support=m.stream_support,
            )
        else:
            heartbeat = smaller(m.heartbeat, limits.heartbeat)
            tuned = self._w.ConnectionTuneOk(channel_max, heartbeat)
        self._engine.writer.write(0, tuned)
        if self._is_0_9a0:
            self._tuned(channel_max, frame_max, m.heartbeat, heartbeat)
        else:
            self._tuned(channel_max, 0, heartbeat, heartbeat)
        self._engine.life.state = states.UNOPENED
        self._send_open()

    def _on_open_ok(self, m: Any, found: list[Operation]) -> None:
        found.append(Done(0, None if self._open is None else self._open.token, self.peer))

    # --- both ------------------------------------------------------------------------------------

    def _tuned(
        self, channel_max: int, frame_max: int, send_interval: int, receive_interval: int
    ) -> None:
        """Apply the smaller of both limits. In 0-9a0 each side says how
        often it wants to hear from the other; in 0-9a6 the client decides."""
        engine, limits = self._engine, self._limits
        engine.channel_max = smaller(channel_max, limits.channel_max) or 0xFFFF
        engine.heartbeat.interval = send_interval
        engine.heartbeat.patience = 2 * (receive_interval if self._is_0_9a0 else send_interval)
        overhead = engine.frames.overhead
        ours = smaller(frame_max, limits.frame_max) if self._is_0_9a0 else limits.frame_max
        most = limits.max_message_octets
        engine.frames.limit = engine.frames.body_limit = (ours or most + overhead) - overhead
        if self._is_0_9a0:
            engine.body_max = (ours or 1 << 31) - overhead
        else:
            # Tune has no limit, so only that of messages counts.
            engine.frames.limit = max(engine.frames.limit, LARGEST_FRAME)
            engine.frames.body_limit = most
            engine.body_max = (smaller(frame_max, limits.frame_max) or LARGEST_BODY) - overhead


DraftConnection.steps = {
    "connection.start": DraftConnection._on_start,
    "connection.start-ok": DraftConnection._on_start_ok,
    "connection.secure": DraftConnection._on_secure,
    "connection.secure-ok": DraftConnection._on_secure_ok,
    "connection.tune": DraftConnection._on_tune,
    "connection.tune-ok": DraftConnection._on_tune_ok,
    "connection.open": DraftConnection._on_open,
    "connection.open-ok": DraftConnection._on_open_ok,
}
