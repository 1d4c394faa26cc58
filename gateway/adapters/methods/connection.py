"""Channel 0: start, secure, tune, open, close, blocked, and the clock of the heartbeats.

Written for both roles: the server's steps and the client's answers stand in one file, and which may
be received is said by the tables (who sends a method) and by ``states.CONNECTION``.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Protocol

from gateway.adapters.contract import Authority
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
from gateway.adapters.methods.contents.published import CONTENTS
from gateway.adapters.methods.dispatch import DispatchEngine
from gateway.adapters.methods.essentials import count_arguments
from gateway.adapters.methods.frames import Frames
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.lifecycle import Ended
from gateway.adapters.methods.method_writer import MethodWriter
from gateway.adapters.methods.negotiation import check_server_version, smaller
from gateway.adapters.methods.pending import PendingReply
from gateway.adapters.methods.wire import layouts as w
from gateway.adapters.options import EXTENSIONS, Credentials, Limits, Product
from gateway.errors import Condition, LocalError, PeerError
from gateway.message import Table
from gateway.operations import (
    Blocked,
    Done,
    Open,
    Operation,
    Peer,
    Token,
    Unblocked,
    UpdateSecret,
)
from gateway.operations.rules import PUBLISHED, RABBITMQ
from gateway.partial_bodies import Key

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


class ConnectionEngine(DispatchEngine, Protocol):
    """The engine, as far as this part needs it."""

    frames: Frames
    tags: fields.Tags
    body_max: int
    channel_max: int
    writer: MethodWriter
    owner: Key
    content_classes: frozenset[str]


class Connection:
    """The connection itself, as opposed to its channels."""

    steps: ClassVar[Mapping[str, Callable[[Any, Any, list[Operation]], None]]] = {}

    def __init__(
        self,
        engine: ConnectionEngine,
        authority: Authority | None,
        limits: Limits,
        credentials: Credentials | None,
        product: Product,
        external_subject: str | None,
        mechanisms: tuple[str, ...],
    ) -> None:
        self.peer = Peer(version=engine.table.name)
        self.capabilities: Table = {}
        self._engine = engine
        self._limits = limits
        self._product = product
        self._exchange = ServerExchange(authority, external_subject, mechanisms)
        self._login = ClientExchange(credentials or Credentials())
        self._user = ""
        self._login_method = ""
        """The client's last method of the login."""
        self._open: Open | None = None
        self._secrets: list[Token] = []

    def capable(self, name: str) -> bool:
        """Has the peer announced this?"""
        return self.capabilities.get(name) is True

    @property
    def qpid(self) -> bool:
        """Whether the peer is a client or broker of Qpid."""
        return "qpid" in self.peer.product.removesuffix(EXTENSIONS).lower()

    def answerable(self, method: Method) -> bool:
        """Is a method answered? On 0-8 only Qpid's clients expect an answer to recover."""
        if method.name == "basic.recover" and self._engine.table.name == "0-8":
            return self.qpid
        return bool(method.replies)

    # --- methods of the class --------------------------------------------------------------------

    def on_protocol_header(self) -> None:
        """The client has chosen the version: introduce ourselves."""
        product = self._product
        table = self._engine.table
        properties: Table = {}
        if table.name != "0-8":
            # They came with 0-9-1; clients of 0-8 do not know the booleans in them.
            properties["capabilities"] = dict(SERVER_CAPABILITIES)
        properties["product"] = product.product + EXTENSIONS
        properties["version"] = product.version
        properties["platform"] = product.platform
        others = CONTENTS.get(table.name)
        if others is not None:
            # A client of ours publishes them in their own classes only if the server has those.
            names = ["basic", *(dialect.group for dialect in others.values())]
            properties["content_classes"] = " ".join(names)
        if product.information:
            properties["information"] = product.information
        self._engine.life.state = states.START
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

    # server side

    def _on_start_ok(self, m: w.ConnectionStartOk, found: list[Operation]) -> None:
        self._introduced(m.client_properties)
        self.peer.mechanism = m.mechanism
        self._login_method = m.NAME
        self._step(self._exchange.start(m.mechanism, m.response), found)

    def _on_secure_ok(self, m: w.ConnectionSecureOk, found: list[Operation]) -> None:
        self._login_method = m.NAME
        self._step(self._exchange.next(m.response), found)

    def _step(self, step: Step, found: list[Operation]) -> None:
        if isinstance(step, Challenge):
            self._engine.writer.write(0, w.ConnectionSecure(step.data))
        elif isinstance(step, Waiting):
            self._engine.frames.waiting = True
            self._exchange.later = self._later
        elif isinstance(step, Success):
            self._user = step.user
            self._engine.life.state = states.TUNE
            limits = self._limits
            self._engine.writer.write(
                0, w.ConnectionTune(limits.channel_max, limits.frame_max, limits.heartbeat)
            )
        else:
            self._refuse_login(found)

    def _later(self, step: Step) -> None:
        self._engine.life.resume(partial(self._step, step))

    def _refuse_login(self, found: list[Operation]) -> None:
        """A client with the capability to read a close gets one; to the others the end of the
        stream is all that 0-9-1 §2.2.4 allows."""
        number = self._engine.table.by_name[self._login_method].number
        text = (
            f"Login was refused using authentication mechanism {self.peer.mechanism}. "
            "For details see the broker logfile."
        )
        if self.capable("authentication_failure_close"):
            raise PeerError(Condition.ACCESS_REFUSED, text, method=number)
        found += self._engine.life.ended(Condition.ACCESS_REFUSED, text)
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
        """Apply the smaller of both limits."""
        engine, limits = self._engine, self._limits
        frame_max = smaller(frame_max, limits.frame_max)
        engine.channel_max = smaller(channel_max, limits.channel_max) or 0xFFFF
        engine.heartbeat.interval, engine.heartbeat.patience = heartbeat, 2 * heartbeat
        overhead = engine.frames.overhead
        engine.frames.limit = (frame_max or limits.max_message_octets + overhead) - overhead
        engine.body_max = (frame_max or 1 << 31) - overhead

    def _on_open(self, m: w.ConnectionOpen, found: list[Operation]) -> None:
        self._engine.owner = (self._engine.table.name, m.virtual_host, self._user)
        method = self._engine.table.by_name["connection.open"]
        rules = RABBITMQ if self._engine.table.name == "0-9-1" else PUBLISHED
        if self.qpid:
            rules = rules._replace(lasting_exclusive=True)
        token = PendingReply(method)
        found.append(Open(token, m.virtual_host, self._user, self.peer, rules=rules))

    def opened(self, m: Any) -> None:
        """Server: the virtual host is there."""
        life = self._engine.life
        if life.state is states.OPENING:
            life.state = states.OPEN
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
        self._engine.owner = (self._engine.table.name, operation.vhost, "")
        self._send_open()

    def _send_open(self) -> None:
        life = self._engine.life
        if self._open is not None and life.state is states.UNOPENED:
            life.state = states.OPENING
            self._engine.writer.write(0, w.ConnectionOpen(self._open.vhost))

    def _on_start(self, m: w.ConnectionStart, found: list[Operation]) -> None:
        check_server_version(m, self._engine.table)
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
        self._engine.life.state = states.SECURE
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
        channel_max = smaller(m.channel_max, limits.channel_max)
        frame_max = smaller(m.frame_max, limits.frame_max)
        heartbeat = smaller(m.heartbeat, limits.heartbeat)
        self._engine.writer.write(0, w.ConnectionTuneOk(channel_max, frame_max, heartbeat))
        self._tuned(channel_max, frame_max, heartbeat)
        self._engine.life.state = states.UNOPENED
        self._send_open()

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
        self._engine.content_classes = frozenset(str(properties.get("content_classes", "")).split())
        peer = self.peer
        peer.product = str(properties.get("product", ""))
        peer.product_version = str(properties.get("version", ""))
        peer.platform = str(properties.get("platform", ""))
        peer.name = str(properties.get("connection_name", ""))
        peer.properties = properties
        if self.qpid:
            self._engine.tags = fields.QPID


Connection.steps = {
    "connection.start": Connection._on_start,
    "connection.start-ok": Connection._on_start_ok,
    "connection.secure": Connection._on_secure,
    "connection.secure-ok": Connection._on_secure_ok,
    "connection.tune": Connection._on_tune,
    "connection.tune-ok": Connection._on_tune_ok,
    "connection.open": Connection._on_open,
    "connection.open-ok": Connection._on_open_ok,
    "connection.redirect": Connection._on_redirect,
    "connection.blocked": Connection._on_blocked,
    "connection.unblocked": Connection._on_unblocked,
    "connection.update-secret": Connection._on_update_secret,
    "connection.update-secret-ok": Connection._on_update_secret_ok,
}
