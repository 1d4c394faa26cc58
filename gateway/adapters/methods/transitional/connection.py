"""Channel 0 of the transitional 0-10: start, secure, tune, open.

The Python clients of July 2007 log in with AMQPLAIN even if it is not offered, and close the
connection when a table holds other values than text and numbers; the C++ ones open the virtual
host "".
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Protocol

from gateway.adapters.contract import Authority
from gateway.adapters.core.heartbeat import Heartbeat
from gateway.adapters.core.sasl import (
    Challenge,
    ClientExchange,
    ServerExchange,
    Step,
    Success,
    Waiting,
)
from gateway.adapters.methods import states
from gateway.adapters.methods.geometry import Version
from gateway.adapters.methods.lifecycle import Ended, Lifecycle
from gateway.adapters.methods.negotiation import check_server_version, smaller
from gateway.adapters.methods.pending import PendingReply
from gateway.adapters.methods.transitional import types
from gateway.adapters.methods.transitional.frames import Frames
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.adapters.options import Credentials, Limits, Product
from gateway.errors import Condition, LocalError, PeerError
from gateway.operations import Closed, Done, Open, Operation, Peer
from gateway.operations.rules import TRANSITIONAL
from gateway.partial_bodies import Key

PLAIN, AMQPLAIN = "PLAIN", "AMQPLAIN"
PROTOCOL = "0-10-07"
"""Both revisions, in names of states that outlive a connection."""
ARGUMENTS = 1 << 16
"""Octets of a frame besides the body of its message; and of any frame before the login."""


class ConnectionEngine(Protocol):
    """The engine, as far as its connection needs it."""

    table: Version
    frames: Frames
    channel_max: int
    frame_max: int
    heartbeat: Heartbeat
    life: Lifecycle
    owner: Key

    def send_method(self, channel: int, record: Any) -> int: ...


def plain_response(response: bytes) -> bytes:
    """An AMQPLAIN response as PLAIN has it. Raises ``ValueError``."""
    table = types.read_table(response)
    user, password = table.get("LOGIN"), table.get("PASSWORD")
    if not isinstance(user, str) or not isinstance(password, str):
        raise ValueError("an AMQPLAIN response without LOGIN and PASSWORD")
    text = f"\0{user}\0{password}"
    return text.encode("utf-8", "surrogateescape")


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
        self._engine = engine
        self._limits = limits
        self._product = product
        self._exchange = ServerExchange(authority, external_subject, mechanisms)
        self._login = ClientExchange(credentials or Credentials())
        self._open: Open | None = None
        self._user = ""

    # --- server ----------------------------------------------------------------------------------

    def on_protocol_header(self) -> None:
        """The client has opened: introduce ourselves, in text alone."""
        table = self._engine.table
        offered = " ".join(self._exchange.mechanisms()).encode()
        self._engine.life.state = states.START
        start = w.ConnectionStart(table.major, table.minor, self._properties(), offered, b"en_US")
        self._engine.send_method(0, start)

    def _on_start_ok(self, m: w.ConnectionStartOk, found: list[Operation]) -> None:
        self._introduced(m.client_properties)
        self.peer.mechanism = mechanism = m.mechanism
        response = m.response
        if mechanism == AMQPLAIN and AMQPLAIN not in self._exchange.mechanisms():
            mechanism, response = PLAIN, plain_response(response)
        self._step(self._exchange.start(mechanism, response), found)

    def _on_secure_ok(self, m: w.ConnectionSecureOk, found: list[Operation]) -> None:
        self._step(self._exchange.next(m.response), found)

    def _step(self, step: Step, found: list[Operation]) -> None:
        engine, limits = self._engine, self._limits
        if isinstance(step, Challenge):
            engine.send_method(0, w.ConnectionSecure(step.data))
        elif isinstance(step, Waiting):
            engine.frames.waiting = True
            self._exchange.later = self._later
        elif isinstance(step, Success):
            self._user = step.user
            engine.life.state = states.TUNE
            engine.send_method(
                0, w.ConnectionTune(limits.channel_max, limits.frame_max, limits.heartbeat)
            )
        else:
            found += engine.life.abandon()
            text = f"login of '{step.user}' by {self.peer.mechanism} was refused"
            found.append(Closed(Condition.ACCESS_REFUSED, text))
            raise Ended

    def _later(self, step: Step) -> None:
        self._engine.life.resume(partial(self._step, step))

    def _on_tune_ok(self, m: w.ConnectionTuneOk, found: list[Operation]) -> None:
        """0 accepts our limit. The frame size binds our frames; a client does not split its
        messages, so its frames are bounded by the largest message."""
        least = self._engine.table.constants["frame-min-size"]
        if m.frame_max and m.frame_max < least:
            raise PeerError(Condition.NOT_ALLOWED, f"frame-max {m.frame_max} is below {least}")
        self._tuned(m.channel_max, m.frame_max, m.heartbeat)

    def _on_open(self, m: w.ConnectionOpen, found: list[Operation]) -> None:
        token = PendingReply(self._engine.table.by_name["connection.open"])
        where = m.virtual_host or "/"
        self._engine.owner = (PROTOCOL, where, self._user)
        found.append(Open(token, where, self._user, self.peer, rules=TRANSITIONAL))

    def opened(self, asked: Any) -> None:
        """The virtual host is there."""
        life = self._engine.life
        if life.state is states.OPENING:
            life.state = states.OPEN
        self._engine.send_method(0, w.ConnectionOpenOk())

    # --- client ----------------------------------------------------------------------------------

    def open(self, operation: Open) -> None:
        """Use this virtual host after the tuning."""
        if self._open is not None:
            raise LocalError("the connection is already being opened")
        self._open = operation
        self._send_open()

    def _send_open(self) -> None:
        life = self._engine.life
        if self._open is not None and life.state is states.UNOPENED:
            life.state = states.OPENING
            self._engine.send_method(0, w.ConnectionOpen(self._open.vhost))

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
        self._engine.life.state = states.SECURE
        start_ok = w.ConnectionStartOk(self._properties(), mechanism, self._login.first(), "en_US")
        self._engine.send_method(0, start_ok)

    def _on_secure(self, m: w.ConnectionSecure, found: list[Operation]) -> None:
        try:
            answer = self._login.answer(m.challenge)
        except ValueError as error:
            raise PeerError(Condition.ACCESS_REFUSED, str(error)) from error
        self._engine.send_method(0, w.ConnectionSecureOk(answer))

    def _on_tune(self, m: w.ConnectionTune, found: list[Operation]) -> None:
        limits = self._limits
        channel_max = smaller(m.channel_max, limits.channel_max)
        frame_max = smaller(m.frame_max, limits.frame_max)
        heartbeat = smaller(m.heartbeat, limits.heartbeat)
        self._engine.send_method(0, w.ConnectionTuneOk(channel_max, frame_max, heartbeat))
        self._tuned(channel_max, frame_max, heartbeat)
        self._engine.life.state = states.UNOPENED
        self._send_open()

    def _on_open_ok(self, m: w.ConnectionOpenOk, found: list[Operation]) -> None:
        found.append(Done(0, None if self._open is None else self._open.token, self.peer))

    def _on_redirect(self, m: w.ConnectionRedirect, found: list[Operation]) -> None:
        raise PeerError(Condition.CONNECTION_FORCED, f"redirected to {m.host}")

    # --- both ------------------------------------------------------------------------------------

    def _properties(self) -> bytes:
        """Our product, in text alone."""
        product = self._product
        return types.write_table(
            {
                "product": product.product,
                "version": product.version,
                "platform": product.platform,
            }
        )

    def _introduced(self, entries: bytes) -> None:
        properties = types.read_arguments(entries)
        peer = self.peer
        peer.product = str(properties.get("product", ""))
        peer.product_version = str(properties.get("version", ""))
        peer.platform = str(properties.get("platform", ""))
        peer.properties = properties

    def _tuned(self, channel_max: int, frame_max: int, heartbeat: int) -> None:
        engine, limits = self._engine, self._limits
        engine.frame_max = smaller(frame_max, limits.frame_max)
        engine.channel_max = smaller(channel_max, limits.channel_max) or 0xFFFF
        engine.heartbeat.interval, engine.heartbeat.patience = heartbeat, 2 * heartbeat
        engine.frames.limit = limits.max_message_octets + ARGUMENTS


Connection.steps = {
    "connection.start": Connection._on_start,
    "connection.secure": Connection._on_secure,
    "connection.tune": Connection._on_tune,
    "connection.open-ok": Connection._on_open_ok,
    "connection.redirect": Connection._on_redirect,
    "connection.start-ok": Connection._on_start_ok,
    "connection.secure-ok": Connection._on_secure_ok,
    "connection.tune-ok": Connection._on_tune_ok,
    "connection.open": Connection._on_open,
}
