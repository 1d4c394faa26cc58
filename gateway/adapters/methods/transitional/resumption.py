"""Sessions that outlive their channel: opened for so many seconds, suspended or lost, and resumed.

The owner of the adapter keeps a session that no channel has, with its consumers, its unsettled
deliveries and its transaction. Identifiers and numbers of commands go on when it is resumed, so
that deliveries have the same names; what was on its way is not sent again, but for
``message.recover``.
"""

from functools import partial
from typing import Any, NamedTuple

from gateway.adapters.methods import states
from gateway.adapters.methods.dispatch import fail_channel
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.transitional.channel import Channel
from gateway.adapters.methods.transitional.versions import Carried
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.errors import Condition, Lost, PeerError
from gateway.operations import (
    AttachSession,
    DetachSession,
    Done,
    KeepSession,
    Operation,
    Refused,
    RequestTimeout,
)

UNBOUNDED = (1 << 32) - 1
"""A lifetime as long as is allowed."""
NAMES = b"0-10-07:"
"""Before the identifiers of sessions, among the names that 0-10 has too."""


class Attaching(NamedTuple):
    """The token of ``AttachSession``: the method that opens or resumes a session."""

    engine: Any
    number: int
    session: bytes
    method: Method
    m: Any
    carried: Carried | None

    def done(self, op: Done) -> None:
        self.engine.life.resume(partial(self._attached, op.result))

    def refused(self, op: Refused) -> None:
        self.engine.life.resume(partial(self._busy, op))

    @property
    def request(self) -> int:
        return 0 if self.carried is None else self.carried.identifier

    def _attached(self, kept: Any, found: list[Operation]) -> None:
        engine, number = self.engine, self.number
        resumes = isinstance(self.m, w.SessionResume)
        if resumes and isinstance(kept, Channel):
            engine.channels[number] = kept
            kept.rejoin(engine, number)
            kept.numbering.receive(self.method, self.carried)
            attached = w.SessionAttached(kept.session, kept.lifetime)
            engine.send_method(number, attached, self.request)
            kept.allow_deliveries(True)
            return
        channel = self._channel()
        channel.opened()
        if resumes:
            text = f"there is no session {self.session.hex()[:32]}"
            error = PeerError(Condition.NOT_FOUND, text, Lost.SESSION, self.method.number)
            fail_channel(engine, number, error, found)
            return
        seconds = self.m.detached_lifetime
        granting = Granting(channel, engine, self.request)
        found.append(RequestTimeout(number, granting, None if seconds == UNBOUNDED else seconds))

    def _busy(self, op: Refused, found: list[Operation]) -> None:
        """Another connection has it: it may be resumed later."""
        self._channel().opened()
        self.engine.life.close_channel(self.number, op.condition, op.text, self.method.number)

    def _channel(self) -> Channel:
        channel: Channel = self.engine.new_channel(self.number)
        channel.session = self.session
        channel.numbering.receive(self.method, self.carried)
        return channel


class Granting(NamedTuple):
    """The token of ``RequestTimeout``."""

    channel: Channel
    engine: Any
    request: int

    def done(self, op: Done) -> None:
        channel = self.channel
        channel.lifetime = op.result.seconds
        if channel.state is states.OPEN:
            attached = w.SessionAttached(channel.session, channel.lifetime)
            self.engine.send_method(channel.number, attached, self.request)

    def refused(self, op: Refused) -> None:
        """It has no channel any more."""


class Keeping(NamedTuple):
    """The token of ``KeepSession``; ``request``: of a client that has suspended it."""

    channel: Channel
    engine: Any
    number: int
    request: int | None

    def done(self, op: Done) -> None:
        engine, number = self.engine, self.number
        if engine.channels.get(number) is not self.channel:
            return
        if self.request is not None:
            engine.send_method(number, w.SessionDetached(), self.request)
        del engine.channels[number]

    def refused(self, op: Refused) -> None:
        self.done(Done(op.channel, op.token))


TOKENS = (Attaching, Granting, Keeping)


def attach(
    engine: Any, number: int, session: bytes, method: Method, m: Any, carried: Carried | None
) -> list[Operation]:
    """Open or resume a session that is to be kept. Nothing is read until that is answered."""
    engine.frames.waiting = True
    token = Attaching(engine, number, session, method, m, carried)
    return [AttachSession(number, token, NAMES + session)]


def suspend(channel: Channel, engine: Any, request: int | None) -> list[Operation]:
    """Let go of the channel; empty if the session is not to be kept."""
    if not channel.lifetime or channel.state is not states.OPEN:
        return []
    number = channel.number
    channel.leave()
    return [KeepSession(number, Keeping(channel, engine, number, request), channel)]


def leave(engine: Any) -> list[Operation]:
    """The connection ends: its sessions are kept."""
    found: list[Operation] = []
    for channel in list(engine.channels.values()):
        found += suspend(channel, engine, None)
    return found


def give_up(engine: Any, op: DetachSession) -> None:
    """Another connection takes the session over."""
    channel = engine.channels.get(op.channel)
    if channel is not None:
        engine.life.follow(suspend(channel, engine, 0))
