"""The handshake of a connection, server role.

The Python clients send tune-ok and open without any field, and no locale. A response that is absent
is asked for with an empty challenge; one that is empty is a response.
"""

from functools import partial

from gateway.adapters.contract import Authority
from gateway.adapters.core.sasl import Challenge, ServerExchange, Success, Waiting
from gateway.adapters.core.sasl import Step as LoginStep
from gateway.adapters.options import Limits, Product
from gateway.adapters.segments.connection import (
    HandshakeEngine,
    Step,
    fail,
    introduced,
    largest_frame,
    most_channels,
    tuned,
    write_properties,
)
from gateway.adapters.segments.encoding import write_texts
from gateway.adapters.segments.lifecycle import State
from gateway.adapters.segments.violation import framing_error
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import MIN_MAX_FRAME_SIZE
from gateway.errors import Condition
from gateway.operations import Done, Open, Operation, Peer, Refused
from gateway.operations.rules import FINAL_0_10

HEARTBEAT = 120
"""Seconds between heartbeats at most, if the configuration names no number."""


class OpeningToken:
    """The token of ``Open``."""

    def __init__(self, handshake: "ServerHandshake") -> None:
        self._handshake = handshake

    def done(self, op: Done) -> None:
        self._handshake.opened()

    def refused(self, op: Refused) -> None:
        self._handshake.refused(op)


class ServerHandshake:
    """The handshake of one connection, server role."""

    def __init__(
        self,
        engine: HandshakeEngine,
        authority: Authority | None,
        limits: Limits,
        product: Product,
        external_subject: str | None,
        mechanisms: tuple[str, ...],
    ) -> None:
        self.peer = Peer(version="0-10")
        self._engine = engine
        self._product = product
        self._exchange = ServerExchange(authority, external_subject, mechanisms)
        self._started = True
        """The client has sent its first response."""
        self._user = ""
        self._channel_max = most_channels(limits)
        self._max_frame_size = largest_frame(limits)
        self._heartbeat_max = limits.heartbeat or HEARTBEAT
        self.steps: dict[str, tuple[State, Step]] = {
            "connection.start-ok": (State.START, self._on_start_ok),
            "connection.secure-ok": (State.SECURE, self._on_secure_ok),
            "connection.tune-ok": (State.TUNE, self._on_tune_ok),
            "connection.open": (State.UNOPENED, self._on_open),
        }

    def greet(self) -> None:
        """The client has sent the header: introduce ourselves."""
        start = w.ConnectionStart(
            write_properties(self._product),
            write_texts(self._exchange.mechanisms()),
            write_texts(["en_US"]),
        )
        self._engine.write_control(0, start)

    def _on_start_ok(self, m: w.ConnectionStartOk, found: list[Operation]) -> None:
        peer = self.peer
        introduced(peer, m.client_properties)
        peer.mechanism = m.mechanism or ""
        if m.response is None and peer.mechanism in self._exchange.mechanisms():
            self._started = False
            self._login(Challenge(b""), found)
            return
        self._login(self._exchange.start(peer.mechanism, m.response or b""), found)

    def _on_secure_ok(self, m: w.ConnectionSecureOk, found: list[Operation]) -> None:
        response = m.response or b""
        if self._started:
            step = self._exchange.next(response)
        else:
            self._started = True
            step = self._exchange.start(self.peer.mechanism, response)
        self._login(step, found)

    def _login(self, step: LoginStep, found: list[Operation]) -> None:
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

    def _later(self, step: LoginStep) -> None:
        self._engine.life.resume(partial(self._login, step))

    def _on_tune_ok(self, m: w.ConnectionTuneOk, found: list[Operation]) -> None:
        """An absent field accepts our offer."""
        engine = self._engine
        largest = m.max_frame_size or self._max_frame_size
        channels = m.channel_max or self._channel_max
        if not MIN_MAX_FRAME_SIZE <= largest <= self._max_frame_size:
            text = f"max-frame-size {largest} is not between {MIN_MAX_FRAME_SIZE} and "
            fail(engine, framing_error(f"{text}{self._max_frame_size}"), found)
            return
        tuned(engine, min(channels, self._channel_max), largest, m.heartbeat or 0)

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
