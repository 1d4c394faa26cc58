"""Channels of 0-9a0 as a client opens and closes them, and the tickets it gets there."""

from typing import Any

from gateway.adapters.methods import states
from gateway.adapters.methods.drafts.channel import Channel
from gateway.adapters.methods.drafts.methods import OutgoingMethod
from gateway.adapters.methods.drafts.v0_9a0.names import DISTRIBUTED, RIGHTS, STANDARD
from gateway.adapters.methods.pending import PendingReply
from gateway.adapters.methods.wire import layouts_0_9a0 as w
from gateway.errors import Condition
from gateway.operations import BeginSession, EndSession, EnterRealm, Operation, Prefetch, Select


def say(channel: Channel, record: Any) -> list[Operation]:
    channel.send_method(OutgoingMethod(record))
    return []


def open_channel(channel: Channel, m: w.ChannelOpen, pending: PendingReply) -> list[Operation]:
    if m.out_of_band:
        raise channel.error(Condition.NOT_IMPLEMENTED, "out-of-band transport is not implemented")
    if m.tx_mode == DISTRIBUTED:
        raise channel.error(
            Condition.NOT_IMPLEMENTED, "distributed transactions are not implemented"
        )
    if m.tx_mode > DISTRIBUTED:
        raise channel.error(Condition.COMMAND_INVALID, f"transaction mode {m.tx_mode} is unknown")
    found: list[Operation] = [BeginSession(channel.number, pending)]
    channel.prefetch_max = m.prefetch_max
    found += _windows(channel)
    if m.tx_mode == STANDARD:
        channel.transacted = True
        found.append(Select(channel.number, None))
    return found


def _windows(channel: Channel, leaving: bool = False) -> list[Operation]:
    """How much may be under way on each channel: what it said, and its share of what the client
    said for the connection. Shares are of a power of two, so that they seldom change."""
    connection, channels = channel.engine.connection, channel.engine.channels
    whole: int = connection.prefetch_max
    count, shares = len(channels) - leaving, connection.shares
    while connection.shares < count:
        connection.shares *= 2
    while connection.shares > max(1, 4 * count):
        connection.shares //= 2
    changed = [] if leaving else [channel]
    if whole and connection.shares != shares:
        changed += [c for c in channels.values() if c is not channel and c.state is states.OPEN]
    share = max(1, whole // connection.shares) if whole else 0
    found: list[Operation] = []
    for one in changed:
        limits = [limit for limit in (one.prefetch_max, share) if limit]
        if limits:
            found.append(Prefetch(one.number, None, 0, min(limits), True))
    return found


def close_channel(channel: Channel, m: w.ChannelClose, pending: PendingReply) -> list[Operation]:
    return [*_windows(channel, leaving=True), EndSession(channel.number, pending)]


def grant(channel: Channel, m: w.AccessGrant, pending: PendingReply) -> list[Operation]:
    rights = [name for name in RIGHTS if getattr(m, name)]
    granted = w.AccessGrantOk(channel.grant(*rights))
    pending = pending._replace(then=lambda _: say(channel, granted))
    return [EnterRealm(channel.number, pending, m.realm, m.exclusive)]
