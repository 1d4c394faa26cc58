"""Channels of 0-9a0 as a client opens and closes them, and the tickets it gets there."""

from typing import Any

from gateway.adapters.methods import states
from gateway.adapters.methods.drafts.channel import Channel
from gateway.adapters.methods.drafts.methods import PendingReply, Spoken
from gateway.adapters.methods.drafts.v0_9a0.names import DISTRIBUTED, RIGHTS, STANDARD
from gateway.adapters.methods.wire import layouts_0_9a0 as w
from gateway.errors import Condition
from gateway.operations import BeginSession, EndSession, EnterRealm, Operation, Prefetch, Select


def say(place: Channel, record: Any) -> list[Operation]:
    place.speak(Spoken(record))
    return []


def open_channel(place: Channel, m: w.ChannelOpen, asked: PendingReply) -> list[Operation]:
    if m.out_of_band:
        raise place.fail(Condition.NOT_IMPLEMENTED, "out-of-band transport is not implemented")
    if m.tx_mode == DISTRIBUTED:
        raise place.fail(Condition.NOT_IMPLEMENTED, "distributed transactions are not implemented")
    if m.tx_mode > DISTRIBUTED:
        raise place.fail(Condition.COMMAND_INVALID, f"transaction mode {m.tx_mode} is unknown")
    found: list[Operation] = [BeginSession(place.number, asked)]
    place.prefetch_max = m.prefetch_max
    found += _windows(place)
    if m.tx_mode == STANDARD:
        place.transacted = True
        found.append(Select(place.number, None))
    return found


def _windows(place: Channel, leaving: bool = False) -> list[Operation]:
    """How much may be under way on each channel: what it said, and its share of what the client
    said for the connection. Shares are of a power of two, so that they seldom change."""
    connection, channels = place.owner.connection, place.owner.channels
    whole: int = connection.prefetch_max
    count, shares = len(channels) - leaving, connection.shares
    while connection.shares < count:
        connection.shares *= 2
    while connection.shares > max(1, 4 * count):
        connection.shares //= 2
    changed = [] if leaving else [place]
    if whole and connection.shares != shares:
        changed += [c for c in channels.values() if c is not place and c.state is states.OPEN]
    share = max(1, whole // connection.shares) if whole else 0
    found: list[Operation] = []
    for channel in changed:
        limits = [limit for limit in (channel.prefetch_max, share) if limit]
        if limits:
            found.append(Prefetch(channel.number, None, 0, min(limits), True))
    return found


def close_channel(place: Channel, m: w.ChannelClose, asked: PendingReply) -> list[Operation]:
    return [*_windows(place, leaving=True), EndSession(place.number, asked)]


def grant(place: Channel, m: w.AccessGrant, asked: PendingReply) -> list[Operation]:
    rights = [name for name in RIGHTS if getattr(m, name)]
    granted = w.AccessGrantOk(place.grant(*rights))
    asked = asked._replace(then=lambda _: say(place, granted))
    return [EnterRealm(place.number, asked, m.realm, m.exclusive)]
