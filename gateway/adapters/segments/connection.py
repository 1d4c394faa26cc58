"""Controls of the peer, given to the part that takes them: the life of the connection, its
handshake, its sessions. No field of a control is required.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from gateway.adapters.core.heartbeat import Heartbeat
from gateway.adapters.options import EXTENSIONS, Limits, Product
from gateway.adapters.segments.decoding import read_map
from gateway.adapters.segments.encoding import write_map
from gateway.adapters.segments.frame_format import LARGEST_FRAME
from gateway.adapters.segments.frames import Frames
from gateway.adapters.segments.lifecycle import Lifecycle, State
from gateway.adapters.segments.operations import read_fields
from gateway.adapters.segments.types import ALLOWANCE, FieldError
from gateway.adapters.segments.violation import Violation, framing_error
from gateway.adapters.segments.wire.tables import MIN_MAX_FRAME_SIZE, OPERATIONS
from gateway.errors import Condition
from gateway.operations import Operation, Peer

MOST_CHANNELS = 65534
SESSION_CLASS = 2

Step = Callable[[Any, list[Operation]], None]


class ConnectionEngine(Protocol):
    """The engine, as far as this part needs it."""

    server: bool
    frames: Frames
    life: Lifecycle


class HandshakeEngine(ConnectionEngine, Protocol):
    """The engine, as far as a handshake needs it."""

    heartbeat: Heartbeat
    frame_limit: int

    def write_control(self, channel: int, record: Any) -> None: ...


class Handshake(Protocol):
    """The controls from connection.start to connection.open-ok that one role receives."""

    @property
    def steps(self) -> Mapping[str, tuple[State, Step]]:
        """By name: the state in which each may come, and the method that takes it."""
        ...


class SessionControls(Protocol):
    """The receiver of the controls of sessions."""

    def on_control(self, channel: int, m: Any, found: list[Operation]) -> None: ...


class Connection:
    """The connection itself, as opposed to its sessions."""

    def __init__(
        self, engine: ConnectionEngine, handshake: Handshake, sessions: SessionControls
    ) -> None:
        self._engine = engine
        self._sessions = sessions
        self._steps = handshake.steps

    def on_control(
        self, channel: int, code: int, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None:
        """A control of either class."""
        engine = self._engine
        life = engine.life
        kind = OPERATIONS.get(code)
        if (
            kind is None
            or not kind.control
            or not (kind.from_client if engine.server else kind.from_server)
        ):
            side = "client" if engine.server else "server"
            self.violated(f"control {code >> 8}.{code & 0xFF} of a {side} is unknown", found)
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
            elif name in self._steps and life.state is self._steps[name][0]:
                self._steps[name][1](record, found)
            else:
                self.violated(f"{name} where the state is '{life.state.value}'", found)
        except FieldError as error:
            self.violated(str(error), found)

    def violated(self, text: str, found: list[Operation]) -> None:
        """The peer has broken a rule, which costs the connection."""
        fail(self._engine, framing_error(text), found)


def fail(engine: ConnectionEngine, violation: Violation, found: list[Operation]) -> None:
    """Something costs the connection: nothing more is read."""
    engine.frames.stop()
    engine.life.violated(violation, found)


def refuse(
    engine: ConnectionEngine, condition: Condition, text: str, found: list[Operation]
) -> None:
    """The same for anything but a violation of the framing."""
    fail(engine, Violation(condition, text), found)


# --- parts of both handshakes ---------------------------------------------------------------------


def most_channels(limits: Limits) -> int:
    """Channels that we take."""
    return min(limits.channel_max or MOST_CHANNELS, MOST_CHANNELS)


def largest_frame(limits: Limits) -> int:
    """Octets of the largest frame that we take."""
    return max(min(limits.frame_max or LARGEST_FRAME, LARGEST_FRAME), MIN_MAX_FRAME_SIZE)


def tuned(engine: HandshakeEngine, channels: int, frame_size: int, heartbeat: int) -> None:
    """Both sides keep to these numbers from now on. ``heartbeat``: seconds, 0 is none."""
    engine.frame_limit = engine.frames.limit = frame_size
    engine.frames.channels = channels
    engine.heartbeat.interval, engine.heartbeat.patience = heartbeat, 2 * heartbeat
    engine.life.state = State.UNOPENED


def write_properties(product: Product) -> bytes:
    """How we introduce ourselves."""
    properties = {
        "product": product.product + EXTENSIONS,
        "version": product.version,
        "platform": product.platform,
    }
    if product.information:
        properties["information"] = product.information
    if product.name:
        properties["clientName"] = product.name
    return write_map(properties)


def introduced(peer: Peer, octets: bytes | None) -> None:
    """The peer has introduced itself. Raises ``FieldError``."""
    properties = {}
    if octets is not None:
        with ALLOWANCE.within():
            properties = read_map(octets)
    peer.product = str(properties.get("product", ""))
    peer.product_version = str(properties.get("version", ""))
    peer.platform = str(properties.get("platform", ""))
    peer.name = str(properties.get("clientName", ""))
    peer.properties = properties
