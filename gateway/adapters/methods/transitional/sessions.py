"""Class session, which a client may use in place of class channel. No program of July 2007 did.

A session is the work of one channel. Its methods open, flow and close stand for those of class
channel, and a server answers with their counterparts. One that is opened for some seconds may
outlive its channel (``resumption``); any other ends when it is suspended.
"""

from typing import Any
from uuid import uuid4

from gateway.adapters.methods import states
from gateway.adapters.methods.geometry import Method, Version
from gateway.adapters.methods.transitional.channel import Channel
from gateway.adapters.methods.transitional.received import Received
from gateway.adapters.methods.transitional.types import SERIALS
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.errors import Condition, PeerError
from gateway.operations import Operation

STANDS_FOR = {
    "session.open": "channel.open",
    "session.resume": "channel.open",
    "session.flow": "channel.flow",
    "session.flow-ok": "channel.flow-ok",
    "session.close": "channel.close",
    "session.suspend": "channel.close",
    "session.closed": "channel.close-ok",
    "session.attached": "channel.open-ok",
}
LIFE = frozenset((20, 21))
"""Classes session and channel."""
OPENING = frozenset(name for name, other in STANDS_FOR.items() if other == "channel.open") | {
    "channel.open"
}
REPLY_SUCCESS = 200


def in_class_channel(
    table: Version, method: Method, channel: Channel | None, server: bool
) -> Method:
    """The method of class channel that stands for one of class session; any other one itself. A
    server closes a session by ``session.closed``, too."""
    other = STANDS_FOR.get(method.name)
    if other == "channel.close-ok" and not server and channel is not None:
        other = other if channel.state is states.CLOSING else None
    return method if other is None else table.by_name[other]


def check_class(channel: Channel | None, method: Method) -> None:
    """Each class is used on channels that were opened with it. Raises ``PeerError`` (503)."""
    group = method.name.partition(".")[0]
    if channel is not None and group == ("channel" if channel.session else "session"):
        other = "session" if channel.session else "channel"
        text = f"{method.name} on channel {channel.number}, opened with class {other}"
        raise PeerError(Condition.COMMAND_INVALID, text)


def begun(m: Any) -> bytes:
    """The identifier of the session that this method opens; empty if it opens a channel."""
    return b"" if isinstance(m, w.ChannelOpen) else uuid4().bytes


def outlives(m: Any) -> bytes:
    """The identifier of a session that this method opens for some seconds, or resumes; else
    empty."""
    if isinstance(m, w.SessionResume):
        return m.session_id or bytes(1)
    return uuid4().bytes if isinstance(m, w.SessionOpen) and m.detached_lifetime else b""


def counterpart(server: bool, channel: Channel, record: Any, asked: Any = None) -> Any:
    """Our method on a channel of a session, instead of this one of class channel; ``None`` if
    nothing. ``asked``: the method that it answers."""
    if not channel.session:
        return record
    if not server:
        return w.SessionClose() if isinstance(record, w.ChannelClose) else None
    if isinstance(record, w.ChannelOpenOk):
        return w.SessionAttached(channel.session, 0)
    if isinstance(record, w.ChannelFlow):
        return w.SessionFlow(record.active)
    if isinstance(record, w.ChannelFlowOk):
        return w.SessionFlowOk(record.active)
    if isinstance(record, w.ChannelClose):
        return w.SessionClosed(record.reply_code, record.reply_text)
    if isinstance(record, w.ChannelCloseOk):
        if channel.state is states.CLOSING:  # its session was closed, and the client was told
            return None
        if isinstance(asked, w.SessionSuspend):
            return w.SessionDetached()
        return w.SessionClosed(REPLY_SUCCESS, "ok")
    return record


def _pong(r: Received) -> list[Operation]:
    """A request of its own, and not a reply (session.pong)."""
    r.engine.send_method(r.number, w.SessionPong())
    return []


def _acknowledge(r: Received) -> list[Operation]:
    """No document says which numbers frames have: those of the commands are taken."""
    r.engine.send_method(r.number, w.SessionAck(r.channel.numbering.received % SERIALS))
    return []


def _ignore(r: Received) -> list[Operation]:
    return []


SERVE = {
    "session.ping": _pong,
    "session.pong": _ignore,
    "session.ack": _ignore,
    "session.high-water-mark": _acknowledge,
    "session.solicit-ack": _acknowledge,
}
