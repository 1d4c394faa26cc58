"""Requests of our client to a server of 0-9a6."""

from typing import Any

from gateway.adapters.methods.branches import identifier_of
from gateway.adapters.methods.contents.methods import ContentMethod
from gateway.adapters.methods.drafts import shared_methods
from gateway.adapters.methods.drafts import types as tables
from gateway.adapters.methods.drafts.channel import Channel, Consumer
from gateway.adapters.methods.drafts.shared_methods import read_count, read_state
from gateway.adapters.methods.drafts.v0_9a6.messages import delivered
from gateway.adapters.methods.drafts.v0_9a6.names import NAMES, THEIRS
from gateway.adapters.methods.drafts.v0_9a6.server import file_opened, open_file
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.pending import PendingReply
from gateway.adapters.methods.wire import layouts_0_9a6 as w
from gateway.adapters.record import Record
from gateway.errors import LocalError
from gateway.operations import (
    BeginSession,
    Bind,
    BranchStatus,
    Commit,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Fetch,
    Flow,
    Operation,
    Prefetch,
    PurgeQueue,
    Rollback,
    Select,
    SelectBranches,
    StartBranch,
    Subscribe,
    Unsubscribe,
)


def _ask_open(channel: Channel, op: BeginSession) -> list[Record]:
    return [w.ChannelOpen(channel.engine.vhost or "/")]


def _ask_exchange(channel: Channel, op: DeclareExchange) -> list[Record]:
    kind = NAMES.get(op.type, op.type)
    if op.type not in NAMES and not op.type.startswith("x-") and not op.passive:
        raise LocalError(f"no exchange class for the type '{op.type}'")
    return [
        w.ExchangeDeclare(
            0,
            THEIRS.get(op.name, op.name),
            kind,
            op.passive,
            op.durable,
            op.auto_delete,
            op.internal,
        )
    ]


def _ask_bind(channel: Channel, op: Bind) -> list[Record]:
    arguments = dict(op.arguments)
    if op.key or not arguments:
        arguments["destination"] = op.key
    entries = tables.write_table(arguments, False)
    source = THEIRS.get(op.source, op.source)
    if op.to_exchange:
        target = THEIRS.get(op.destination, op.destination)
        return [w.ExchangeBind(0, "", target, source, entries)]
    return [w.QueueBind(0, "", op.destination, source, entries)]


def _ask_queue(channel: Channel, op: DeclareQueue) -> list[Record]:
    return [
        w.QueueDeclare(0, "", op.name, "", op.passive, op.durable, op.exclusive, op.auto_delete)
    ]


def _ask_prefetch(channel: Channel, op: Prefetch) -> list[Record]:
    """It goes with the next consumer."""
    channel.prefetch = (op.count, op.size)
    return []


def _ask_consume(channel: Channel, op: Subscribe) -> list[Record]:
    count, size = channel.prefetch
    return [w.JmsConsume(0, "", op.queue, size, count, op.no_local, op.no_ack, op.exclusive)]


def _ask_cancel(channel: Channel, op: Unsubscribe) -> list[Record]:
    consumer = channel.consumers.get(op.tag)
    if consumer is None:
        raise LocalError(f"no consumer '{op.tag}'")
    return [w.JmsCancel(consumer.number)]


REQUEST_ENCODERS: dict[type[Operation], Any] = {
    BeginSession: _ask_open,
    **shared_methods.REQUEST_ENCODERS,
    DeclareExchange: _ask_exchange,
    DeleteExchange: lambda channel, op: [
        w.ExchangeDelete(0, THEIRS.get(op.name, op.name), op.if_unused)
    ],
    DeclareQueue: _ask_queue,
    DeleteQueue: lambda channel, op: [w.QueueDelete(0, "", op.name, op.if_unused, op.if_empty)],
    PurgeQueue: lambda channel, op: [w.QueuePurge(0, "", op.name)],
    Bind: _ask_bind,
    Prefetch: _ask_prefetch,
    Subscribe: _ask_consume,
    Unsubscribe: _ask_cancel,
    Fetch: lambda channel, op: [w.JmsBrowse(0, "", op.queue, op.no_ack)],
    Select: lambda channel, op: [w.TxSelect()],
    Commit: lambda channel, op: [w.TxCommit()],
    Rollback: lambda channel, op: [w.TxRollback()],
    SelectBranches: lambda channel, op: [w.DtxSelect()],
    StartBranch: lambda channel, op: [w.DtxStart(identifier_of(op))],
}


def _result_consume(channel: Channel, op: Subscribe, m: w.JmsConsumeOk) -> str:
    tag = op.tag or str(m.consumer_tag)
    channel.consumers[tag] = Consumer("jms", op.queue, m.consumer_tag, tag)
    return tag


def _result_cancel(channel: Channel, op: Unsubscribe, m: Any) -> str:
    channel.consumers.pop(op.tag, None)
    return op.tag


REPLY_READERS: dict[str, Any] = {
    "queue.declare-ok": read_state("queue"),
    "queue.purge-ok": read_count,
    "queue.delete-ok": read_count,
    "jms.consume-ok": _result_consume,
    "jms.cancel-ok": _result_cancel,
    "dtx.start-ok": lambda channel, op, m: BranchStatus.OK,
}


def unsolicited(channel: Channel, method: Method, m: Any) -> list[Operation] | None:
    pending = PendingReply(method, m)
    if method.name == "channel.flow":
        return [Flow(channel.number, None, not m.flow_pause)]
    if method.name == "file.open":
        return open_file(channel, m, pending)
    if method.name == "file.open-ok":
        return file_opened(channel, m, pending)
    if method.name == "file.deliver":
        staged = channel.files.taken(m.identifier)
        dialect = channel.dialect("file")
        known = dialect.known(staged.header)
        published = ContentMethod(method, m, dialect, None)
        return [delivered(channel, published, m.delivery_tag, m.redelivered, known, staged.body)]
    return None
