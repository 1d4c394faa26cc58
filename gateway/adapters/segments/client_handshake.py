"""The handshake of a connection, client role.

A server that refuses a login closes with 320 (connection-forced), as 0-10 has no code for it. The
virtual host "/" is sent as an empty name, which every broker takes for its default one.
"""

from typing import Any

from gateway.adapters.core.sasl import ClientExchange
from gateway.adapters.options import Credentials, Limits, Product
from gateway.adapters.segments.connection import (
    HandshakeEngine,
    Step,
    introduced,
    largest_frame,
    most_channels,
    refuse,
    tuned,
    write_properties,
)
from gateway.adapters.segments.decoding import read_texts
from gateway.adapters.segments.lifecycle import State
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import MIN_MAX_FRAME_SIZE
from gateway.errors import Condition, LocalError
from gateway.operations import Done, Open, Operation, Peer

LOCALE = "en_US"


class ClientHandshake:
    """The handshake of one connection, client role."""

    def __init__(
        self,
        engine: HandshakeEngine,
        limits: Limits,
        credentials: Credentials | None,
        product: Product,
    ) -> None:
        self.peer = Peer(version="0-10")
        self._engine = engine
        self._limits = limits
        self._product = product
        self._login = ClientExchange(credentials or Credentials())
        self._open: Open | None = None
        self.steps: dict[str, tuple[State, Step]] = {
            "connection.start": (State.START, self._on_start),
            "connection.secure": (State.SECURE, self._on_secure),
            "connection.tune": (State.SECURE, self._on_tune),
            "connection.open-ok": (State.OPENING, self._on_open_ok),
            "connection.redirect": (State.OPENING, self._on_redirect),
        }

    def open(self, operation: Open) -> None:
        """Use this virtual host after the tuning."""
        if self._open is not None:
            raise LocalError("the connection is already being opened")
        self._open = operation
        self._send_open()

    def _send_open(self) -> None:
        """``insist``, because we follow no redirects."""
        life = self._engine.life
        if self._open is not None and life.state is State.UNOPENED:
            life.state = State.OPENING
            vhost = "" if self._open.vhost == "/" else self._open.vhost
            self._engine.write_control(0, w.ConnectionOpen(vhost, insist=True))

    def _on_start(self, m: w.ConnectionStart, found: list[Operation]) -> None:
        introduced(self.peer, m.server_properties)
        offered = [] if m.mechanisms is None else list(read_texts(m.mechanisms))
        mechanism = self._login.choose(offered)
        if mechanism is None:
            text = f"the server offers {' '.join(offered)}, which is not ours"
            refuse(self._engine, Condition.NOT_ALLOWED, text, found)
            return
        self.peer.mechanism = mechanism
        self._respond(
            b"",
            lambda response: w.ConnectionStartOk(
                write_properties(self._product), mechanism, response, LOCALE
            ),
            found,
        )

    def _on_secure(self, m: w.ConnectionSecure, found: list[Operation]) -> None:
        self._respond(m.challenge or b"", w.ConnectionSecureOk, found)

    def _respond(self, challenge: bytes, control: Any, found: list[Operation]) -> None:
        try:
            response = self._login.answer(challenge)
        except ValueError as error:
            refuse(self._engine, Condition.ACCESS_REFUSED, str(error), found)
            return
        self._engine.life.state = State.SECURE
        self._engine.write_control(0, control(response))

    def _on_tune(self, m: w.ConnectionTune, found: list[Operation]) -> None:
        """The smaller of both limits. No heartbeat is sent to a server that supports none."""
        engine, limits = self._engine, self._limits
        if not self._login.satisfied:
            text = "the server has not proved itself"
            refuse(engine, Condition.ACCESS_REFUSED, text, found)
            return
        theirs = m.max_frame_size or largest_frame(limits)
        if theirs < MIN_MAX_FRAME_SIZE:
            text = f"max-frame-size {theirs} is below {MIN_MAX_FRAME_SIZE}"
            refuse(engine, Condition.FRAME_ERROR, text, found)
            return
        channels = min(m.channel_max or most_channels(limits), most_channels(limits))
        frame_size = min(theirs, largest_frame(limits))
        most = limits.heartbeat if m.heartbeat_max is None else m.heartbeat_max
        heartbeat = max(min(limits.heartbeat or most, most), m.heartbeat_min or 0)
        engine.write_control(0, w.ConnectionTuneOk(channels, frame_size, heartbeat))
        tuned(engine, channels, frame_size, heartbeat)
        self._send_open()

    def _on_open_ok(self, m: w.ConnectionOpenOk, found: list[Operation]) -> None:
        self._engine.life.state = State.OPEN
        found.append(Done(0, None if self._open is None else self._open.token, self.peer))

    def _on_redirect(self, m: w.ConnectionRedirect, found: list[Operation]) -> None:
        refuse(self._engine, Condition.CONNECTION_FORCED, f"redirected to {m.host or ''}", found)
