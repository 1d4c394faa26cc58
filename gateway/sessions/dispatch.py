"""Operations on a channel, and the parts of a session that perform them.

The table is one for all sessions: as a dictionary of bound methods it would be the largest part of
a connection that does nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gateway.broker.channel import Channel
from gateway.operations import Operation, Publish, PublishMany
from gateway.sessions.channel_calls import CALLS
from gateway.sessions.consumers import CONSUMING
from gateway.sessions.long_requests import LARGE
from gateway.sessions.publishes import Publishes


class Performer(NamedTuple):
    """How an operation is performed."""

    part: str
    """Attribute of the session with the part that performs it."""
    perform: Callable[[Any, Channel, Any], object]
    """A method of that part."""


OF_PARTS: Mapping[str, Mapping[type[Any], Callable[[Any, Channel, Any], object]]] = {
    "_calls": CALLS,
    "_long_requests": LARGE,
    "_consumers": CONSUMING,
    "_publishes": {Publish: Publishes.one, PublishMany: Publishes.many},
}
"""By the attribute of the session with the part that performs them."""
ON_CHANNEL: Mapping[type[Operation], Performer] = {
    kind: Performer(part, perform)
    for part, performed in OF_PARTS.items()
    for kind, perform in performed.items()
}
