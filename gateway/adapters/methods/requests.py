"""Requests and their replies: each a method of the table on one side, an operation on the other.

A row of ``VERBS`` holds both directions, so the server's reading and the client's writing cannot
drift apart. A version's own table of methods tells which of them it has.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

from gateway.adapters.core.qpid_arguments import binding_arguments, read_consumer_arguments
from gateway.adapters.core.qpid_queues import queue_arguments
from gateway.adapters.methods import types as fields
from gateway.adapters.methods.branches import identifier_of, xid_of
from gateway.adapters.methods.wire import layouts as w
from gateway.errors import Condition, Lost, PeerError, Unwritable
from gateway.message import Table
from gateway.operations import (
    BeginSession,
    Bind,
    BranchStatus,
    Commit,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    EndSession,
    Fetch,
    FindBindings,
    Flow,
    FoundBindings,
    Operation,
    Prefetch,
    PurgeQueue,
    QueueState,
    Recover,
    Rollback,
    Select,
    SelectBranches,
    SelectConfirms,
    StartBranch,
    Subscribe,
    Token,
    Unbind,
    Unsubscribe,
)


class RequestChannel(Protocol):
    """The side of a channel that requests need."""

    number: int
    tags: fields.Tags

    def read_arguments(self, entries: bytes) -> Table: ...


class Verb(NamedTuple):
    """One request: ``read`` makes the operation of a method from the client, and ``write`` the
    record of an operation of ours. Both raise ``FieldError``. ``answer`` makes the reply of a
    result and ``result`` the inverse; ``None`` if the reply carries nothing."""

    method: str
    operation: Callable[..., Operation]
    read: Callable[[RequestChannel, Any, Token], Operation]
    write: Callable[[RequestChannel, Any], Any]
    answer: Callable[[Any], Any] | None
    result: Callable[[Any], Any] | None


def _table(channel: RequestChannel, entries: bytes) -> Table:
    return channel.read_arguments(entries) if entries else {}


def _verb(
    method: str,
    operation: Callable[..., Operation],
    record: Callable[..., Any],
    names: str = "",
    answer: Callable[[Any], Any] | None = None,
    result: Callable[[Any], Any] | None = None,
    table: Callable[[RequestChannel, bytes], Table] = _table,
    **constants: Any,
) -> Verb:
    """``names``: arguments as ``operation=record``, or one name where they agree. ``table`` reads
    the argument "arguments"; ``constants`` are those that the method does not have."""
    parts = [name.partition("=") for name in names.split()]
    pairs = [(ours, theirs or ours) for ours, _, theirs in parts]

    def read(channel: RequestChannel, m: Any, token: Token) -> Operation:
        given = {name: getattr(m, field) for name, field in pairs}
        if "arguments" in given:
            given["arguments"] = table(channel, m.arguments)
        return operation(channel.number, token, **given, **constants)

    def write(channel: RequestChannel, op: Any) -> Any:
        given = {field: getattr(op, name) for name, field in pairs}
        if "arguments" in given:
            arguments = op.arguments
            given["arguments"] = fields.write_table(arguments, channel.tags) if arguments else b""
        return record(**given)

    return Verb(method, operation, read, write, answer, result)


def _queue_table(channel: RequestChannel, entries: bytes) -> Table:
    return queue_arguments(_table(channel, entries))


def _binding_table(channel: RequestChannel, entries: bytes) -> Table:
    return binding_arguments(_table(channel, entries))


def _read_consume(channel: RequestChannel, m: w.BasicConsume, token: Token) -> Operation:
    arguments = _table(channel, m.arguments)
    read = read_consumer_arguments(arguments)
    return Subscribe(
        channel.number,
        token,
        m.queue,
        m.consumer_tag,
        m.no_ack,
        m.exclusive,
        m.no_local or read.no_local,
        arguments,
        None if read.selector is None else read.selector.matches,
        read.copy,
        ends=read.ends,
    )


(
    BOUND, NO_EXCHANGE, NO_QUEUE, NO_BINDINGS, QUEUE_NOT_BOUND, KEY_NOT_BOUND,
    QUEUE_NOT_BOUND_BY_KEY,
) = range(7)  # fmt: skip
"""Reply codes of exchange.bound-ok, as Qpid numbers them."""

BOUND_TEXTS = (
    "", "exchange not found", "queue not found", "the exchange has no bindings",
    "the queue is not bound to the exchange", "no queue is bound by this key",
    "the queue is not bound by this key",
)  # fmt: skip


def _read_bound(channel: RequestChannel, m: w.ExchangeBound, token: Token) -> Operation:
    """Empty names leave the question open (Qpid)."""
    return FindBindings(channel.number, token, m.exchange, m.queue or None, m.routing_key or None)


def _write_bound(channel: RequestChannel, op: FindBindings) -> w.ExchangeBound:
    if op.arguments is not None:
        raise Unwritable("exchange.bound of Qpid has no arguments")
    return w.ExchangeBound(op.exchange, op.key or "", op.queue or "")


def _bound_ok(found: FoundBindings) -> w.ExchangeBoundOk:
    """The first obstacle."""
    code = BOUND
    if found.exchange_not_found:
        code = NO_EXCHANGE
    elif found.queue_not_found:
        code = NO_QUEUE
    elif found.key_not_matched or (found.queue_not_matched and found.key is not None):
        code = KEY_NOT_BOUND if found.queue is None else QUEUE_NOT_BOUND_BY_KEY
    elif found.queue_not_matched:
        code = QUEUE_NOT_BOUND
    elif not found.bindings:
        code = NO_BINDINGS
    return w.ExchangeBoundOk(code, BOUND_TEXTS[code])


def _found_bindings(ok: w.ExchangeBoundOk) -> FoundBindings:
    code = ok.reply_code
    return FoundBindings(
        exchange_not_found=code == NO_EXCHANGE,
        queue_not_found=code == NO_QUEUE,
        queue_not_matched=code == QUEUE_NOT_BOUND,
        key_not_matched=code in (KEY_NOT_BOUND, QUEUE_NOT_BOUND_BY_KEY),
        bindings=code not in (NO_EXCHANGE, NO_BINDINGS),
    )


def _read_start(channel: RequestChannel, m: w.DtxStart, token: Token) -> Operation:
    if not m.dtx_identifier:
        text = "dtx.start: the identifier of the transaction is empty"
        raise PeerError(Condition.SYNTAX_ERROR, text, Lost.SESSION)
    return StartBranch(channel.number, token, xid_of(m.dtx_identifier))


def _write_start(channel: RequestChannel, op: StartBranch) -> w.DtxStart:
    return w.DtxStart(identifier_of(op))


RECOVER_ASYNC = "basic.recover-async"
BINDING = "source=exchange destination=queue key=routing_key arguments"
EXCHANGE_BINDING = "source destination key=routing_key arguments"

VERBS: tuple[Verb, ...] = (
    _verb("channel.open", BeginSession, w.ChannelOpen),
    _verb("channel.close", EndSession, partial(w.ChannelClose, 200, "Normal shutdown")),
    _verb(
        "channel.flow",
        Flow,
        w.ChannelFlow,
        "active",
        lambda active: w.ChannelFlowOk(bool(active)),
        lambda ok: ok.active,
    ),
    _verb(
        "exchange.declare",
        DeclareExchange,
        w.ExchangeDeclare,
        "name=exchange type passive durable auto_delete internal arguments",
    ),
    _verb("exchange.delete", DeleteExchange, w.ExchangeDelete, "name=exchange if_unused"),
    _verb(
        "queue.declare",
        DeclareQueue,
        w.QueueDeclare,
        "name=queue passive durable exclusive auto_delete arguments",
        lambda state: w.QueueDeclareOk(state.name, state.messages, state.consumers),
        lambda ok: QueueState(ok.queue, ok.message_count, ok.consumer_count),
        table=_queue_table,
    ),
    _verb("queue.bind", Bind, w.QueueBind, BINDING, table=_binding_table),
    _verb("queue.unbind", Unbind, w.QueueUnbind, BINDING, table=_binding_table),
    _verb("exchange.bind", Bind, w.ExchangeBind, EXCHANGE_BINDING, to_exchange=True),
    _verb("exchange.unbind", Unbind, w.ExchangeUnbind, EXCHANGE_BINDING, to_exchange=True),
    Verb("exchange.bound", FindBindings, _read_bound, _write_bound, _bound_ok, _found_bindings),
    _verb(
        "queue.purge",
        PurgeQueue,
        w.QueuePurge,
        "name=queue",
        lambda count: w.QueuePurgeOk(count or 0),
        lambda ok: ok.message_count,
    ),
    _verb(
        "queue.delete",
        DeleteQueue,
        w.QueueDelete,
        "name=queue if_unused if_empty",
        lambda count: w.QueueDeleteOk(count or 0),
        lambda ok: ok.message_count,
    ),
    _verb(
        "basic.qos", Prefetch, w.BasicQos, "count=prefetch_count size=prefetch_size shared=global_"
    ),
    _verb(
        "basic.consume",
        Subscribe,
        w.BasicConsume,
        "queue tag=consumer_tag no_ack exclusive no_local arguments",
        w.BasicConsumeOk,
        lambda ok: ok.consumer_tag,
    )._replace(read=_read_consume),
    _verb(
        "basic.cancel",
        Unsubscribe,
        w.BasicCancel,
        "tag=consumer_tag",
        w.BasicCancelOk,
        lambda ok: ok.consumer_tag,
    ),
    Verb(
        "basic.get",
        Fetch,
        lambda channel, m, token: Fetch(channel.number, token, m.queue, m.no_ack),
        lambda channel, op: w.BasicGet(queue=op.queue, no_ack=op.no_ack),
        None,
        None,
    ),
    _verb("basic.recover", Recover, w.BasicRecover, "requeue"),
    _verb("basic.recover-sync", Recover, w.BasicRecoverSync, "requeue"),
    _verb(RECOVER_ASYNC, Recover, w.BasicRecoverAsync, "requeue"),
    _verb("tx.select", Select, w.TxSelect),
    _verb("tx.commit", Commit, w.TxCommit),
    _verb("tx.rollback", Rollback, w.TxRollback),
    _verb("dtx.select", SelectBranches, w.DtxSelect),
    Verb("dtx.start", StartBranch, _read_start, _write_start, None, lambda ok: BranchStatus.OK),
    _verb("confirm.select", SelectConfirms, w.ConfirmSelect),
)

BY_METHOD: dict[str, Verb] = {verb.method: verb for verb in VERBS}

METHODS: dict[Any, str] = {verb.operation: verb.method for verb in reversed(VERBS)}
"""The method of each operation, the first of several."""


def method_of(operation: Operation, known: dict[str, Any]) -> str:
    """The method of a request, in a version that has the methods ``known``."""
    if isinstance(operation, Bind | Unbind) and operation.to_exchange:
        return "exchange.bind" if isinstance(operation, Bind) else "exchange.unbind"
    if isinstance(operation, Recover) and operation.token is None and RECOVER_ASYNC in known:
        return RECOVER_ASYNC
    return METHODS[type(operation)]
