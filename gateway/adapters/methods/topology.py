"""Requests and their answers: each a method of the table on one side, an operation on the other.

A ``Verb`` holds both directions, so the server's reading and the client's writing stand side by
side and cannot drift apart. What a version does not have is simply not in its table of methods.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from gateway.adapters.methods import types as fields
from gateway.adapters.methods.essentials import count_arguments
from gateway.adapters.methods.qpid_arguments import binding_arguments, read_consumer_arguments
from gateway.adapters.methods.wire import layouts as w
from gateway.errors import Unwritable
from gateway.message import Table
from gateway.operations import (
    BeginSession,
    Bind,
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
    SelectConfirms,
    Subscribe,
    Token,
    Unbind,
    Unsubscribe,
)


class RequestChannel(Protocol):
    """What the verbs need of a channel."""

    number: int
    tags: fields.Tags


class Verb(NamedTuple):
    """One request. ``answer`` and ``result`` are ``None`` if the answer carries nothing."""

    method: str
    read: Callable[[RequestChannel, Any, Token], Operation]
    write: Callable[[RequestChannel, Any], Any]
    answer: Callable[[Any], Any] | None = None
    result: Callable[[Any], Any] | None = None


def _table(channel: RequestChannel, entries: bytes) -> Table:
    if not entries:
        return {}
    count_arguments(entries)
    return fields.read_table(entries, channel.tags)


def _entries(channel: RequestChannel, table: Table) -> bytes:
    return fields.write_table(table, channel.tags) if table else b""


# --- exchanges -----------------------------------------------------------------------------------


def _read_declare_exchange(
    channel: RequestChannel, m: w.ExchangeDeclare, token: Token
) -> Operation:
    return DeclareExchange(
        channel.number,
        token,
        m.exchange,
        m.type,
        m.passive,
        m.durable,
        m.auto_delete,
        m.internal,
        _table(channel, m.arguments),
    )


def _write_declare_exchange(channel: RequestChannel, op: DeclareExchange) -> w.ExchangeDeclare:
    return w.ExchangeDeclare(
        exchange=op.name,
        type=op.type,
        passive=op.passive,
        durable=op.durable,
        auto_delete=op.auto_delete,
        internal=op.internal,
        arguments=_entries(channel, op.arguments),
    )


def _read_bind_exchange(
    kind: type[Bind | Unbind],
) -> Callable[[RequestChannel, Any, Token], Operation]:
    def read(channel: RequestChannel, m: Any, token: Token) -> Operation:
        arguments = _table(channel, m.arguments)
        return kind(channel.number, token, m.destination, m.source, m.routing_key, arguments, True)

    return read


def _write_bind_exchange(record: Callable[..., Any]) -> Callable[[RequestChannel, Any], Any]:
    def write(channel: RequestChannel, op: Bind | Unbind) -> Any:
        return record(
            destination=op.destination,
            source=op.source,
            routing_key=op.key,
            arguments=_entries(channel, op.arguments),
        )

    return write


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
    """The first obstacle. What was asked for shows in what was not found."""
    code = BOUND
    if found.exchange_not_found:
        code = NO_EXCHANGE
    elif found.queue_not_found:
        code = NO_QUEUE
    elif found.key_not_matched:
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


# --- queues --------------------------------------------------------------------------------------


def _read_declare_queue(channel: RequestChannel, m: w.QueueDeclare, token: Token) -> Operation:
    arguments = _table(channel, m.arguments)
    return DeclareQueue(
        channel.number, token, m.queue, m.passive, m.durable, m.exclusive, m.auto_delete, arguments
    )


def _write_declare_queue(channel: RequestChannel, op: DeclareQueue) -> w.QueueDeclare:
    return w.QueueDeclare(
        queue=op.name,
        passive=op.passive,
        durable=op.durable,
        exclusive=op.exclusive,
        auto_delete=op.auto_delete,
        arguments=_entries(channel, op.arguments),
    )


def _read_bind_queue(
    kind: type[Bind | Unbind],
) -> Callable[[RequestChannel, Any, Token], Operation]:
    def read(channel: RequestChannel, m: Any, token: Token) -> Operation:
        arguments = binding_arguments(_table(channel, m.arguments))
        return kind(channel.number, token, m.queue, m.exchange, m.routing_key, arguments)

    return read


def _write_bind_queue(record: Callable[..., Any]) -> Callable[[RequestChannel, Any], Any]:
    def write(channel: RequestChannel, op: Bind | Unbind) -> Any:
        return record(
            queue=op.destination,
            exchange=op.source,
            routing_key=op.key,
            arguments=_entries(channel, op.arguments),
        )

    return write


def _read_purge(channel: RequestChannel, m: w.QueuePurge, token: Token) -> Operation:
    return PurgeQueue(channel.number, token, m.queue)


def _read_delete_queue(channel: RequestChannel, m: w.QueueDelete, token: Token) -> Operation:
    return DeleteQueue(channel.number, token, m.queue, m.if_unused, m.if_empty)


# --- consuming -----------------------------------------------------------------------------------


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


def _write_consume(channel: RequestChannel, op: Subscribe) -> w.BasicConsume:
    return w.BasicConsume(
        queue=op.queue,
        consumer_tag=op.tag,
        no_ack=op.no_ack,
        exclusive=op.exclusive,
        no_local=op.no_local,
        arguments=_entries(channel, op.arguments),
    )


def _read_get(channel: RequestChannel, m: w.BasicGet, token: Token) -> Operation:
    return Fetch(channel.number, token, m.queue, m.no_ack)


def _recover(method: str, record: Callable[..., Any]) -> Verb:
    return Verb(
        method,
        lambda channel, m, token: Recover(channel.number, token, m.requeue),
        lambda channel, op: record(requeue=op.requeue),
    )


def _plain(method: str, kind: Callable[[int, Token], Operation], record: Callable[[], Any]) -> Verb:
    """A request without arguments."""
    return Verb(
        method, lambda channel, m, token: kind(channel.number, token), lambda channel, op: record()
    )


VERBS: tuple[Verb, ...] = (
    _plain("channel.open", BeginSession, w.ChannelOpen),
    Verb(
        "channel.close",
        lambda channel, m, token: EndSession(channel.number, token),
        lambda channel, op: w.ChannelClose(200, "Normal shutdown"),
    ),
    Verb(
        "channel.flow",
        lambda channel, m, token: Flow(channel.number, token, m.active),
        lambda channel, op: w.ChannelFlow(op.active),
        lambda active: w.ChannelFlowOk(bool(active)),
        lambda ok: ok.active,
    ),
    Verb("exchange.declare", _read_declare_exchange, _write_declare_exchange),
    Verb(
        "exchange.delete",
        lambda channel, m, token: DeleteExchange(channel.number, token, m.exchange, m.if_unused),
        lambda channel, op: w.ExchangeDelete(exchange=op.name, if_unused=op.if_unused),
    ),
    Verb("exchange.bind", _read_bind_exchange(Bind), _write_bind_exchange(w.ExchangeBind)),
    Verb("exchange.unbind", _read_bind_exchange(Unbind), _write_bind_exchange(w.ExchangeUnbind)),
    Verb("exchange.bound", _read_bound, _write_bound, _bound_ok, _found_bindings),
    Verb(
        "queue.declare",
        _read_declare_queue,
        _write_declare_queue,
        lambda state: w.QueueDeclareOk(state.name, state.messages, state.consumers),
        lambda ok: QueueState(ok.queue, ok.message_count, ok.consumer_count),
    ),
    Verb("queue.bind", _read_bind_queue(Bind), _write_bind_queue(w.QueueBind)),
    Verb("queue.unbind", _read_bind_queue(Unbind), _write_bind_queue(w.QueueUnbind)),
    Verb(
        "queue.purge",
        _read_purge,
        lambda channel, op: w.QueuePurge(queue=op.name),
        lambda count: w.QueuePurgeOk(count or 0),
        lambda ok: ok.message_count,
    ),
    Verb(
        "queue.delete",
        _read_delete_queue,
        lambda channel, op: w.QueueDelete(
            queue=op.name, if_unused=op.if_unused, if_empty=op.if_empty
        ),
        lambda count: w.QueueDeleteOk(count or 0),
        lambda ok: ok.message_count,
    ),
    Verb(
        "basic.qos",
        lambda channel, m, token: Prefetch(
            channel.number, token, m.prefetch_count, m.prefetch_size, m.global_
        ),
        lambda channel, op: w.BasicQos(op.size, op.count, op.shared),
    ),
    Verb(
        "basic.consume",
        _read_consume,
        _write_consume,
        lambda tag: w.BasicConsumeOk(tag),
        lambda ok: ok.consumer_tag,
    ),
    Verb(
        "basic.cancel",
        lambda channel, m, token: Unsubscribe(channel.number, token, m.consumer_tag),
        lambda channel, op: w.BasicCancel(op.tag),
        lambda tag: w.BasicCancelOk(tag),
        lambda ok: ok.consumer_tag,
    ),
    Verb("basic.get", _read_get, lambda channel, op: w.BasicGet(queue=op.queue, no_ack=op.no_ack)),
    _recover("basic.recover", w.BasicRecover),
    _recover("basic.recover-sync", w.BasicRecoverSync),
    _recover("basic.recover-async", w.BasicRecoverAsync),
    _plain("tx.select", Select, w.TxSelect),
    _plain("tx.commit", Commit, w.TxCommit),
    _plain("tx.rollback", Rollback, w.TxRollback),
    _plain("confirm.select", SelectConfirms, w.ConfirmSelect),
)

BY_METHOD: dict[str, Verb] = {verb.method: verb for verb in VERBS}

METHODS: dict[type[Any], str] = {
    BeginSession: "channel.open",
    EndSession: "channel.close",
    Flow: "channel.flow",
    DeclareExchange: "exchange.declare",
    DeleteExchange: "exchange.delete",
    Bind: "queue.bind",
    Unbind: "queue.unbind",
    FindBindings: "exchange.bound",
    DeclareQueue: "queue.declare",
    PurgeQueue: "queue.purge",
    DeleteQueue: "queue.delete",
    Prefetch: "basic.qos",
    Subscribe: "basic.consume",
    Unsubscribe: "basic.cancel",
    Fetch: "basic.get",
    Recover: "basic.recover",
    Select: "tx.select",
    Commit: "tx.commit",
    Rollback: "tx.rollback",
    SelectConfirms: "confirm.select",
}


def method_of(operation: Operation, known: dict[str, Any]) -> str:
    """The method that says this request, in a version that knows these methods."""
    if isinstance(operation, Bind | Unbind) and operation.to_exchange:
        return "exchange.bind" if isinstance(operation, Bind) else "exchange.unbind"
    method = METHODS[type(operation)]
    if isinstance(operation, Recover) and operation.token is None:
        return "basic.recover-async" if "basic.recover-async" in known else method
    return method
