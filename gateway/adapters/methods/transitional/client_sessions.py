"""Class session in the client role: used in place of class channel where that is asked for.

Our sessions are opened without a lifetime, and end with their channels.
"""

from collections.abc import Callable
from typing import Any

from gateway.adapters.methods.dispatch import end_channel, take_awaited
from gateway.adapters.methods.transitional.channel import Channel
from gateway.adapters.methods.transitional.types import SERIALS
from gateway.adapters.methods.transitional.versions import Carried
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.errors import Condition
from gateway.operations import BeginSession, Done, EndSession, Flow, Operation, SessionLost

OPENING = b"?"
"""The session of a channel before the server has named it."""
ANSWERS = frozenset(["session.attached", "session.flow-ok"])
IGNORED = frozenset(["session.pong", "session.ack"])
ACKNOWLEDGED = frozenset(["session.high-water-mark", "session.solicit-ack"])

ASK: dict[type[Operation], Callable[[Any], Any]] = {
    BeginSession: lambda op: w.SessionOpen(),
    EndSession: lambda op: w.SessionClose(),
    Flow: lambda op: w.SessionFlow(op.active),
}
"""Instead of the requests of class channel."""


def take(
    engine: Any,
    channel: Channel,
    name: str,
    m: Any,
    carried: Carried | None,
    found: list[Operation],
) -> bool:
    """One method of class session; whether it was understood. Raises ``PeerError``."""
    number = channel.number
    if name in ANSWERS:
        awaited = take_awaited(channel, name)
        if name == "session.attached":
            channel.opened()
            channel.session = m.session_id or OPENING
        if awaited.token is not None:
            result = m.active if name == "session.flow-ok" else None
            found.append(Done(number, awaited.token, result))
    elif name == "session.flow":
        request = 0 if carried is None else carried.identifier
        engine.send_method(number, w.SessionFlowOk(m.active), request)
    elif name == "session.ping":
        engine.send_method(number, w.SessionPong())
    elif name in ACKNOWLEDGED:
        engine.send_method(number, w.SessionAck(channel.numbering.received % SERIALS))
    elif name in ("session.close", "session.closed"):
        condition, text = Condition.CONNECTION_FORCED, "the server has closed the session"
        if name == "session.close":
            request = 0 if carried is None else carried.identifier
            engine.send_method(number, w.SessionClosed(200, "ok"), request)
        else:
            condition, text = engine.codes.condition(m.reply_code), m.reply_text
        end_channel(engine, channel, condition, text, found)
        found.append(SessionLost(number, condition, text))
    else:
        return name in IGNORED
    return True
