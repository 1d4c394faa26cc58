"""Channel 0: start, secure, tune, open, close, blocked, and the clock of the heartbeats.

Written for both roles: the server's steps and the client's answers stand in one file, and which may
be received is said by the tables (who sends a method) and by ``states.CONNECTION``.
"""

from functools import partial
from typing import Any, Protocol

from gateway.adapters.contract import Authority, Role
from gateway.adapters.core.heartbeat import Heartbeat
from gateway.adapters.core.output import OutputBuffer
from gateway.adapters.core.sasl import (
    Challenge,
    ClientExchange,
    ServerExchange,
    Step,
    Success,
    Waiting,
)
from gateway.adapters.methods import states
from gateway.adapters.methods import types as fields
from gateway.adapters.methods.channel import PendingReply
from gateway.adapters.methods.codes import ReplyCodes
from gateway.adapters.methods.essentials import count_arguments
from gateway.adapters.methods.frames import Frames
from gateway.adapters.methods.geometry import Method, Version
from gateway.adapters.methods.lifecycle import Ended, Lifecycle
from gateway.adapters.methods.method_writer import MethodWriter
from gateway.adapters.methods.wire import layouts as w
from gateway.adapters.options import Credentials, Limits, Product
from gateway.errors import Condition, LocalError, PeerError
from gateway.message import Table
from gateway.operations import (
    Blocked,
    Closed,
    Done,
    Open,
    Operation,
    Peer,
    Token,
    Unblocked,
    UpdateSecret,
)
from gateway.operations.rules import PUBLISHED, RABBITMQ

SERVER_CAPABILITIES: Table = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "consumer_priorities": True,
    "authentication_failure_close": True,
    "per_consumer_qos": True,
    "direct_reply_to": True,
}
CLIENT_CAPABILITIES: Table = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


class ConnectionEngine(Protocol):
    """What this part needs of the engine."""

    table: Version
    frames: Frames
    tags: fields.Tags
    body_max: int
    channel_max: int
    heartbeat: Heartbeat
    buffer: OutputBuffer
    writer: MethodWriter
    life: Lifecycle
    codes: ReplyCodes


class Connection:
    """The connection itself, as opposed to its channels."""

    def __init__(
        self,
        engine: ConnectionEngine,
        role: Role,
        authority: Authority | None,
        limits: Limits,
        credentials: Credentials | None,
        product: Product,
        external_subject: str | None,
        mechanisms: tuple[str, ...],
    ) -> None:
        self.state = states.HEADER
        self.peer = Peer(version=engine.table.name)
        self.capabilities: Table = {}
        self.said: tuple[Condition | None, str] = (None, "")
        """Why we closed, while we wait for the answer."""
        self.caused_by_them = False
        self._engine = engine
        self._server = role is Role.SERVER
        self._limits = limits
        self._product = product
        self._exchange = ServerExchange(authority, external_subject, mechanisms)
        self._login = ClientExchange(credentials or Credentials())
        self._user = ""
        self._method = 0
        """The last one received."""
        self._open: Open | None = None
        self._secrets: list[Token] = []

    def capable(self, name: str) -> bool:
        """Has the peer announced this?"""
        return self.capabilities.get(name) is True

    def answerable(self, method: Method) -> bool:
        """Is a method answered? On 0-8 only Qpid's clients expect an answer to recover."""
        if method.name == "basic.recover" and self._engine.table.name == "0-8":
            return "qpid" in self.peer.product.lower()
        return bool(method.replies)

    # --- methods of the class --------------------------------------------------------------------

    def on(self, method: Method, m: Any, found: list[Operation]) -> None:
        """One method on channel 0."""
        name = method.name
        if name == "connection.close":
            self._on_close(m, found)
        state = states.after(states.CONNECTION, self.state, name)
        if self.state is states.CLOSING and state is None:
            return
        step = _STEPS.get(name)
        if state is None or step is None:
            raise PeerError(
                Condition.COMMAND_INVALID,
                f"{name} in connection state '{self.state}'",
                method=method.number,
            )
        self.state = state
        self._method = method.number
        step(self, m, found)

    def on_protocol_header(self) -> None:
        """The client has said which version: introduce ourselves."""
        product = self._product
        table = self._engine.table
        properties: Table = {}
        if table.name != "0-8":
            # They came with 0-9-1; clients of 0-8 do not know the booleans in them.
            properties["capabilities"] = dict(SERVER_CAPABILITIES)
        properties["product"] = product.product
        properties["version"] = product.version
        properties["platform"] = product.platform
        if product.information:
            properties["information"] = product.information
        self.state = states.START
        self._engine.writer.write(
            0,
            w.ConnectionStart(
                table.major,
                table.minor,
                fields.write_table(properties),
                " ".join(self._exchange.mechanisms()).encode(),
                b"en_US",
            ),
        )

    def begin(self) -> None:
        """Client: open the conversation."""
        self.state = states.START
        self._engine.buffer.put(self._engine.table.header)

    # server side

    def _on_start_ok(self, m: w.ConnectionStartOk, found: list[Operation]) -> None:
        self._introduced(m.client_properties)
        self.peer.mechanism = m.mechanism
        self._step(self._exchange.start(m.mechanism, m.response), found)

    def _on_secure_ok(self, m: w.ConnectionSecureOk, found: list[Operation]) -> None:
        self._step(self._exchange.next(m.response), found)

    def _step(self, step: Step, found: list[Operation]) -> None:
        if isinstance(step, Challenge):
            self._engine.writer.write(0, w.ConnectionSecure(step.data))
        elif isinstance(step, Waiting):
            self._engine.frames.waiting = True
            self._exchange.later = self._later
        elif isinstance(step, Success):
            self._user = step.user
            self.state = states.TUNE
            limits = self._limits
            self._engine.writer.write(
                0, w.ConnectionTune(limits.channel_max, limits.frame_max, limits.heartbeat)
            )
        else:
            self._refuse_login(found)

    def _later(self, step: Step) -> None:
        self._engine.life.go_on(partial(self._step, step))

    def _refuse_login(self, found: list[Operation]) -> None:
        """A client that says it can read a close gets one; to the others the end of the stream is
        all that 0-9-1 §2.2.4 allows."""
        text = (
            f"Login was refused using authentication mechanism {self.peer.mechanism}. "
            "For details see the broker logfile."
        )
        if self.capable("authentication_failure_close"):
            raise PeerError(Condition.ACCESS_REFUSED, text, method=self._method)
        found += self._engine.life.give_up()
        found.append(Closed(Condition.ACCESS_REFUSED, text))
        raise Ended

    def _on_tune_ok(self, m: w.ConnectionTuneOk, found: list[Operation]) -> None:
        """0 accepts our limit. As RabbitMQ: more than we offered is refused for frames; for
        channels it is ours that counts."""
        ours = self._limits.frame_max
        least = self._engine.table.constants["frame-min-size"]
        if m.frame_max and m.frame_max < least:
            raise PeerError(
                Condition.NOT_ALLOWED,
                f"negotiated frame_max = {m.frame_max} is lower than the minimum allowed "
                f"value ({least})",
            )
        if ours and m.frame_max > ours:
            raise PeerError(
                Condition.NOT_ALLOWED,
                f"negotiated frame_max = {m.frame_max} is higher than the maximum allowed "
                f"value ({ours})",
            )
        self._tuned(m.channel_max, m.frame_max, m.heartbeat)

    def _tuned(self, channel_max: int, frame_max: int, heartbeat: int) -> None:
        """The smaller of both wishes, where 0 wishes for nothing."""
        engine, limits = self._engine, self._limits
        frame_max = _smaller(frame_max, limits.frame_max)
        engine.channel_max = _smaller(channel_max, limits.channel_max) or 0xFFFF
        engine.heartbeat.interval, engine.heartbeat.patience = heartbeat, 2 * heartbeat
        overhead = engine.frames.overhead
        engine.frames.limit = (frame_max or limits.max_message_octets + overhead) - overhead
        engine.body_max = (frame_max or 1 << 31) - overhead

    def _on_open(self, m: w.ConnectionOpen, found: list[Operation]) -> None:
        method = self._engine.table.by_name["connection.open"]
        rules = RABBITMQ if self._engine.table.name == "0-9-1" else PUBLISHED
        token = PendingReply(method)
        found.append(Open(token, m.virtual_host, self._user, self.peer, rules=rules))

    def opened(self) -> None:
        """Server: the virtual host is there."""
        if self.state is states.OPENING:
            self.state = states.OPEN
        self._engine.writer.write(0, w.ConnectionOpenOk())

    def _on_update_secret(self, m: w.ConnectionUpdateSecret, found: list[Operation]) -> None:
        method = self._engine.table.by_name["connection.update-secret"]
        found.append(UpdateSecret(PendingReply(method), m.new_secret, m.reason))

    # client side

    def open(self, operation: Open) -> None:
        """Use this virtual host as soon as we are tuned."""
        if self._open is not None:
            raise LocalError("the connection is already being opened")
        self._open = operation
        self._say_open()

    def _say_open(self) -> None:
        if self._open is not None and self.state is states.UNOPENED:
            self.state = states.OPENING
            self._engine.writer.write(0, w.ConnectionOpen(self._open.vhost))

    def _on_start(self, m: w.ConnectionStart, found: list[Operation]) -> None:
        table = self._engine.table
        if (m.version_major, m.version_minor) != (table.major, table.minor):
            raise PeerError(
                Condition.NOT_IMPLEMENTED,
                f"the server speaks {m.version_major}-{m.version_minor}, not {table.name}",
            )
        self._introduced(m.server_properties)
        offered = m.mechanisms.decode("ascii", "replace").split()
        mechanism = self._login.choose(offered)
        if mechanism is None:
            raise PeerError(
                Condition.NOT_ALLOWED, f"the server offers {' '.join(offered)}, which is not ours"
            )
        self.peer.mechanism = mechanism
        product = self._product
        properties: Table = {
            "capabilities": dict(CLIENT_CAPABILITIES),
            "product": product.product,
            "version": product.version,
            "platform": product.platform,
        }
        if product.name:
            properties["connection_name"] = product.name
        self.state = states.SECURE
        self._engine.writer.write(
            0,
            w.ConnectionStartOk(
                fields.write_table(properties), mechanism, self._login.first(), "en_US"
            ),
        )

    def _on_secure(self, m: w.ConnectionSecure, found: list[Operation]) -> None:
        try:
            answer = self._login.answer(m.challenge)
        except ValueError as error:
            raise PeerError(Condition.ACCESS_REFUSED, str(error)) from error
        self._engine.writer.write(0, w.ConnectionSecureOk(answer))

    def _on_tune(self, m: w.ConnectionTune, found: list[Operation]) -> None:
        limits = self._limits
        channel_max = _smaller(m.channel_max, limits.channel_max)
        frame_max = _smaller(m.frame_max, limits.frame_max)
        heartbeat = _smaller(m.heartbeat, limits.heartbeat)
        self._engine.writer.write(0, w.ConnectionTuneOk(channel_max, frame_max, heartbeat))
        self._tuned(channel_max, frame_max, heartbeat)
        self.state = states.UNOPENED
        self._say_open()

    def _on_open_ok(self, m: w.ConnectionOpenOk, found: list[Operation]) -> None:
        token = None if self._open is None else self._open.token
        found.append(Done(0, token, self.peer))

    def _on_redirect(self, m: w.ConnectionRedirect, found: list[Operation]) -> None:
        raise PeerError(Condition.CONNECTION_FORCED, f"redirected to {m.host}")

    def update_secret(self, operation: UpdateSecret) -> None:
        self._secrets.append(operation.token)
        self._engine.writer.write(0, w.ConnectionUpdateSecret(operation.secret, operation.reason))

    def _on_update_secret_ok(self, m: Any, found: list[Operation]) -> None:
        if not self._secrets:
            raise PeerError(Condition.COMMAND_INVALID, "update-secret-ok answers nothing")
        found.append(Done(0, self._secrets.pop(0)))

    def _on_blocked(self, m: w.ConnectionBlocked, found: list[Operation]) -> None:
        found.append(Blocked(m.reason))

    def _on_unblocked(self, m: Any, found: list[Operation]) -> None:
        found.append(Unblocked())

    # both

    def _introduced(self, entries: bytes) -> None:
        count_arguments(entries)
        properties = fields.read_table(entries)
        capabilities = properties.get("capabilities")
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        peer = self.peer
        peer.product = str(properties.get("product", ""))
        peer.product_version = str(properties.get("version", ""))
        peer.platform = str(properties.get("platform", ""))
        peer.name = str(properties.get("connection_name", ""))
        peer.properties = properties
        if "qpid" in peer.product.lower():
            self._engine.tags = fields.QPID

    def _on_close(self, m: w.ConnectionClose, found: list[Operation]) -> None:
        """Theirs. If ours is under way too, both sides answer and that is that. A server answers
        behind its answers to what was asked before."""
        if self.state is states.CLOSING:
            closed = Closed(*self.said, theirs=self.caused_by_them)
        elif m.reply_code <= self._engine.table.constants["reply-success"]:
            closed = Closed(None, m.reply_text)  # py-amqp and aioamqp say 0
        else:
            closed = Closed(self._engine.codes.condition(m.reply_code), m.reply_text)
        if self._server and self.state in (states.OPENING, states.OPEN):
            closed = self.leave(closed.condition, closed.text)
        else:
            self.say_close_ok()
            found += self._engine.life.give_up()
        found.append(closed)
        raise Ended

    def leave(self, condition: Condition | None, text: str, fault: bool = False) -> Closed:
        """Server: the connection ends behind our answers to what was asked before. ``fault``: they
        broke a rule."""
        self.state = states.LEAVING
        self.said = condition, text
        self.caused_by_them = True
        token = PendingReply(self._engine.table.by_name["connection.close"])
        return Closed(condition, text, token=token, fault=fault)

    def say_close_ok(self) -> None:
        """The last word to a peer that closes."""
        self._engine.writer.write(0, w.ConnectionCloseOk())

    def _on_close_ok(self, m: Any, found: list[Operation]) -> None:
        found += self._engine.life.give_up()
        found.append(Closed(*self.said, theirs=self.caused_by_them))
        raise Ended

    def blocked(self, record: Any) -> None:
        """Server: tell those who asked to be told."""
        if self.state is states.OPEN and self.capable("connection.blocked"):
            self._engine.writer.write(0, record)


def _smaller(one: int, other: int) -> int:
    """The smaller limit, where 0 is none."""
    return min(one, other) if one and other else one or other


_STEPS: dict[str, Any] = {
    "connection.start": Connection._on_start,
    "connection.start-ok": Connection._on_start_ok,
    "connection.secure": Connection._on_secure,
    "connection.secure-ok": Connection._on_secure_ok,
    "connection.tune": Connection._on_tune,
    "connection.tune-ok": Connection._on_tune_ok,
    "connection.open": Connection._on_open,
    "connection.open-ok": Connection._on_open_ok,
    "connection.redirect": Connection._on_redirect,
    "connection.close-ok": Connection._on_close_ok,
    "connection.blocked": Connection._on_blocked,
    "connection.unblocked": Connection._on_unblocked,
    "connection.update-secret": Connection._on_update_secret,
    "connection.update-secret-ok": Connection._on_update_secret_ok,
}
