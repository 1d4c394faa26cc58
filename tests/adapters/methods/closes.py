"""What a test asserts when the adapter has closed something because of the peer."""

from typing import Any

from gateway.adapters.methods.wire import layouts as w
from gateway.adapters.methods.wire.tables import VERSIONS as TABLES
from gateway.errors import Condition
from gateway.operations import BeginSession, Closed, SessionLost
from tests.talk import Talk, body, header

PUBLISH = w.BasicPublish(0, "x", "k")


def connection_dies(talk: Talk, words: list[Any], code: int, condition: Condition) -> Any:
    """The connection is closed with this code, and that is the end."""
    closed = words[-1]
    assert isinstance(closed, Closed), words
    assert (closed.condition, closed.theirs) == (condition, True)
    said = talk.hears()
    channel, close = said[-1]
    assert channel == 0 and type(close) is w.ConnectionClose, said
    assert close.reply_code == code
    name = TABLES[talk.version].codes[condition.value][1]
    assert close.reply_text == f"{name} - {closed.text}"
    assert talk.adapter.closing
    assert talk.sends(b"anything") == []
    return close


def channel_dies(talk: Talk, words: list[Any], code: int, condition: Condition) -> Any:
    """Channel 1 is closed with this code; everything on it is discarded until close-ok."""
    lost = words[-1]
    assert isinstance(lost, SessionLost) and lost.condition is condition, words
    close = talk.heard(w.ChannelClose)
    assert close.reply_code == code
    assert talk.says(1, w.QueueDeclare(queue="q"), PUBLISH) == []
    assert talk.sends(header(1, 5) + body(1, b"12345")) == []
    assert talk.hears() == []
    assert talk.says(1, w.ChannelClose(200, "ok")) == []  # both at once
    assert talk.heard(w.ChannelCloseOk)
    assert talk.says(1, w.ChannelCloseOk()) == []
    (begun,) = talk.says(1, w.ChannelOpen())
    assert isinstance(begun, BeginSession)
    return close
