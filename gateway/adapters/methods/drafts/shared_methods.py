"""Methods that mean the same in both drafts. Records are those of the channel's own draft."""

from typing import Any

from gateway.adapters.methods.branches import xid_of
from gateway.adapters.methods.contents.methods import Content
from gateway.adapters.methods.drafts.channel import Channel
from gateway.adapters.methods.pending import PendingReply
from gateway.adapters.record import Record
from gateway.errors import Condition
from gateway.message import Message
from gateway.operations import (
    Commit,
    EndBranch,
    EndSession,
    EnterRealm,
    Flow,
    Operation,
    Outcome,
    QueueState,
    SelectBranches,
    Settle,
    StartBranch,
)

ACKNOWLEDGED = ("jms", "file")
"""Classes whose deliveries are acknowledged."""


def content_of(channel: Channel, group: str, message: Message) -> Content:
    """A message as a content of a class. Raises ``ValueError``."""
    dialect = channel.dialect(group)
    return Content(dialect.number, *dialect.form_of(message))


# --- server --------------------------------------------------------------------------------------


def check_in_band(channel: Channel, out_of_band: str) -> None:
    """Refuse to open a channel with another transport."""
    if out_of_band:
        raise channel.error(Condition.NOT_IMPLEMENTED, "out-of-band transport is not implemented")


def enter_realm(
    channel: Channel, m: Any, pending: PendingReply, rights: tuple[str, ...], reply: Any
) -> list[Operation]:
    """A ticket for a realm; ``reply`` is the class of the answer."""
    granted = reply(channel.grant(*(name for name in rights if getattr(m, name))))

    def then(_: None) -> list[Operation]:
        channel.send(granted)
        return []

    return [EnterRealm(channel.number, pending._replace(then=then), m.realm, m.exclusive)]


def _ack(channel: Channel, m: Any, pending: PendingReply) -> list[Operation]:
    return [Settle(channel.number, m.delivery_tag, m.multiple, Outcome.ACCEPT)]


def _reject(channel: Channel, m: Any, pending: PendingReply) -> list[Operation]:
    """A requeued message is for others: this channel does not get it again (0-9a0 §4.7.10)."""
    outcome = Outcome.REFUSE if m.requeue else Outcome.REJECT
    return [Settle(channel.number, m.delivery_tag, False, outcome)]


def select_branches(channel: Channel, pending: PendingReply | None) -> list[Operation]:
    """The channel is going to use distributed transactions."""
    channel.transacted = True
    return [SelectBranches(channel.number, pending)]


def _start_branch(channel: Channel, m: Any, pending: PendingReply) -> list[Operation]:
    if not m.dtx_identifier:
        text = "the identifier of the transaction is empty"
        raise channel.error(Condition.COMMAND_INVALID, text)
    channel.branch = xid_of(m.dtx_identifier)
    return [StartBranch(channel.number, pending, channel.branch)]


def end_session(channel: Channel, pending: PendingReply) -> list[Operation]:
    """The client closes the channel. Class dtx has no method that ends the work in a branch, so
    that this does, and its coordinator may complete it."""
    found: list[Operation] = []
    if channel.branch is not None:
        found.append(EndBranch(channel.number, None, channel.branch))
    return [*found, EndSession(channel.number, pending)]


REQUEST_HANDLERS: dict[str, Any] = {
    "channel.flow": lambda channel, m, pending: [Flow(channel.number, None, not m.flow_pause)],
    **{f"{group}.ack": _ack for group in ACKNOWLEDGED},
    **{f"{group}.reject": _reject for group in ACKNOWLEDGED},
    "tx.commit": lambda channel, m, pending: [Commit(channel.number, pending)],
    "dtx.start": _start_branch,
}


def consume_ok(channel: Channel, m: Any, tag: Any) -> Record:
    """The reply to a consume method."""
    consumer = channel.consumers[str(tag)]
    return layout(channel, consumer.group, "ConsumeOk")(consumer.number)  # type: ignore[no-any-return]


def layout(channel: Channel, group: str, name: str) -> Any:
    """The record of a method that several classes have."""
    return getattr(channel.engine.mapping.layouts, group.capitalize() + name)


# --- client --------------------------------------------------------------------------------------


def settle(channel: Channel, op: Settle) -> list[Record]:
    """The methods of a settlement."""
    tags = channel.covered(op.delivery, op.multiple)
    layouts = channel.engine.mapping.layouts
    if op.outcome is Outcome.ACCEPT:
        return [layouts.JmsAck(op.delivery, op.multiple)]
    requeue = op.outcome.returns
    return [layouts.JmsReject(tag, requeue) for tag in tags]


def _close(channel: Channel, op: EndSession) -> list[Record]:
    return [channel.engine.mapping.layouts.ChannelClose(200, "Normal shutdown")]


def _flow(channel: Channel, op: Flow) -> list[Record]:
    return [channel.engine.mapping.layouts.ChannelFlow(not op.active)]


REQUEST_ENCODERS: dict[type[Operation], Any] = {EndSession: _close, Flow: _flow}


def read_count(channel: Channel, op: Any, m: Any) -> int:
    """The result of a purge or a deletion."""
    count: int = m.message_count
    return count


def read_state(name: str) -> Any:
    """Reads the result of a declaration, whose reply has the queue's name in the field ``name``."""

    def read(channel: Channel, op: Any, m: Any) -> QueueState:
        return QueueState(getattr(m, name), m.message_count, m.consumer_count)

    return read
