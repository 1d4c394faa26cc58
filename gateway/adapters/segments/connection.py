"""Controls of a client: the handshake of the connection, then those of sessions.

The Python clients send tune-ok and open without any field, and no locale; no field is
required. A response that is absent is asked for with an empty challenge; one that is empty is
a response.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from gateway.adapters.contract import Authority
from gateway.adapters.core.heartbeat import Heartbeat
from gateway.adapters.core.sasl import Challenge, ServerExchange, Step, Success, Waiting
from gateway.adapters.options import EXTENSIONS, Limits, Product
from gateway.adapters.segments.decoding import read_map
from gateway.adapters.segments.encoding import write_map, write_texts
from gateway.adapters.segments.frames import LARGEST_FRAME, Frames
from gateway.adapters.segments.lifecycle import Lifecycle, State
from gateway.adapters.segments.operations import read_fields
from gateway.adapters.segments.types import ALLOWANCE, FieldError
from gateway.adapters.segments.violation import framing_error
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import MIN_MAX_FRAME_SIZE, OPERATIONS
from gateway.errors import Condition
from gateway.operations import Done, Open, Operation, Peer, Refused
from gateway.operations.rules import FINAL_0_10

MOST_CHANNELS = 65534
HEARTBEAT = 120
"""Seconds between heartbeats at most, if the configuration names no number."""
SESSION_CLASS = 2

Handle = Callable[[Any, Any, list[Operation]], None]


class ConnectionEngine(Protocol):
    """The engine, as far as this part needs it."""

    frames: Frames
    heartbeat: Heartbeat
    life: Lifecycle
    frame_limit: int

    def write_control(self, channel: int, record: Any) -> None: ...


class SessionControls(Protocol):
    """The receiver of the controls of sessions."""

    def on_control(self, channel: int, m: Any, found: list[Operation]) -> None: ...


class OpeningToken:
    """The token of ``Open``."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    def done(self, op: Done) -> None:
        self._connection.opened()

    def refused(self, op: Refused) -> None:
        self._connection.refused(op)


class Connection:
    """The connection itself, as opposed to its sessions."""

    def __init__(
        self,
        engine: ConnectionEngine,
        sessions: SessionControls,
        authority: Authority | None,
        limits: Limits,
        product: Product,
        external_subject: str | None,
        mechanisms: tuple[str, ...],
    ) -> None:
        self.peer = Peer(version="0-10")
        self._engine = engine
        self._sessions = sessions
        self._product = product
        self._exchange = ServerExchange(authority, external_subject, mechanisms)
        self._started = True
        """The client has sent its first response."""
        self._user = ""
        self._channel_max = min(limits.channel_max or MOST_CHANNELS, MOST_CHANNELS)
        largest = min(limits.frame_max or LARGEST_FRAME, LARGEST_FRAME)
        self._max_frame_size = max(largest, MIN_MAX_FRAME_SIZE)
        self._heartbeat_max = limits.heartbeat or HEARTBEAT
        self._handlers: dict[str, tuple[State, Handle]] = {
            "connection.start-ok": (State.START, Connection._on_start_ok),
            "connection.secure-ok": (State.SECURE, Connection._on_secure_ok),
            "connection.tune-ok": (State.TUNE, Connection._on_tune_ok),
            "connection.open": (State.UNOPENED, Connection._on_open),
        }

    # --- controls --------------------------------------------------------------------------------

    def on_control(
        self, channel: int, code: int, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None:
        """A control of either class."""
        life = self._engine.life
        kind = OPERATIONS.get(code)
        if kind is None or not kind.control or not kind.from_client:
            self.violated(f"control {code >> 8}.{code & 0xFF} of a client is unknown", found)
            return
        name = kind.name
        try:
            with ALLOWANCE.within():
                record = read_fields(kind, buf, at, end)
            if life.state is State.CLOSING:
                if name == "connection.close":
                    life.on_close(record, found)
                elif name == "connection.close-ok":
                    life.on_close_ok(found)
            elif name == "connection.close":
                life.on_close(record, found)
            elif name == "connection.heartbeat":
                pass
            elif code >> 8 == SESSION_CLASS and life.state is State.OPEN:
                self._sessions.on_control(channel, record, found)
            elif name in self._handlers and self._handlers[name][0] is life.state:
                self._handlers[name][1](self, record, found)
            else:
                self.violated(f"{name} where the state is '{life.state.value}'", found)
        except FieldError as error:
            self.violated(str(error), found)

    def violated(self, text: str, found: list[Operation]) -> None:
        engine = self._engine
        engine.frames.stop()
        engine.life.violated(framing_error(text), found)

    # --- the handshake ---------------------------------------------------------------------------

    def greet(self) -> None:
        """The client has sent the header: introduce ourselves."""
        product = self._product
        properties = {
            "product": product.product + EXTENSIONS,
            "version": product.version,
            "platform": product.platform,
        }
        if product.information:
            properties["information"] = product.information
        start = w.ConnectionStart(
            write_map(properties),
            write_texts(self._exchange.mechanisms()),
            write_texts(["en_US"]),
        )
        self._engine.write_control(0, start)

    def _on_start_ok(self, m: w.ConnectionStartOk, found: list[Operation]) -> None:
        properties = {}
        if m.client_properties is not None:
            with ALLOWANCE.within():
                properties = read_map(m.client_properties)
        peer = self.peer
        peer.product = str(properties.get("product", ""))
        peer.product_version = str(properties.get("version", ""))
        peer.platform = str(properties.get("platform", ""))
        peer.name = str(properties.get("clientName", ""))
        peer.properties = properties
        peer.mechanism = m.mechanism or ""
        if m.response is None and peer.mechanism in self._exchange.mechanisms():
            self._started = False
            self._step(Challenge(b""), found)
            return
        self._step(self._exchange.start(peer.mechanism, m.response or b""), found)

    def _on_secure_ok(self, m: w.ConnectionSecureOk, found: list[Operation]) -> None:
        response = m.response or b""
        if self._started:
            step = self._exchange.next(response)
        else:
            self._started = True
            step = self._exchange.start(self.peer.mechanism, response)
        self._step(step, found)

    def _step(self, step: Step, found: list[Operation]) -> None:
        engine = self._engine
        if isinstance(step, Challenge):
            engine.life.state = State.SECURE
            engine.write_control(0, w.ConnectionSecure(step.data))
        elif isinstance(step, Waiting):
            engine.frames.waiting = True
            self._exchange.later = self._later
        elif isinstance(step, Success):
            self._user = step.user
            engine.life.state = State.TUNE
            engine.write_control(
                0,
                w.ConnectionTune(self._channel_max, self._max_frame_size, 0, self._heartbeat_max),
            )
        else:
            text = f"login of '{step.user}' by {self.peer.mechanism} was refused"
            engine.life.send_close(Condition.ACCESS_REFUSED, text, theirs=True)
            found += engine.life.ended(Condition.ACCESS_REFUSED, text)

    def _later(self, step: Step) -> None:
        self._engine.life.resume(partial(self._step, step))

    def _on_tune_ok(self, m: w.ConnectionTuneOk, found: list[Operation]) -> None:
        """An absent field accepts our offer."""
        engine = self._engine
        largest = m.max_frame_size or self._max_frame_size
        channels = m.channel_max or self._channel_max
        if not MIN_MAX_FRAME_SIZE <= largest <= self._max_frame_size:
            self.violated(
                f"max-frame-size {largest} is not between {MIN_MAX_FRAME_SIZE} and "
                f"{self._max_frame_size}",
                found,
            )
            return
        engine.frame_limit = largest
        engine.frames.limit = largest
        engine.frames.channels = min(channels, self._channel_max)
        interval = m.heartbeat or 0
        engine.heartbeat.interval, engine.heartbeat.patience = interval, 2 * interval
        engine.life.state = State.UNOPENED

    def _on_open(self, m: w.ConnectionOpen, found: list[Operation]) -> None:
        self._engine.life.state = State.OPENING
        vhost = m.virtual_host or "/"
        found.append(Open(OpeningToken(self), vhost, self._user, self.peer, rules=FINAL_0_10))

    def opened(self) -> None:
        """The virtual host is there."""
        life = self._engine.life
        if life.state is State.OPENING:
            life.state = State.OPEN
        self._engine.write_control(0, w.ConnectionOpenOk(b""))

    def refused(self, op: Refused) -> None:
        """The virtual host is not to be had."""
        self._engine.life.send_close(op.condition, op.text, theirs=True)
