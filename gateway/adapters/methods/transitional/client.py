"""The client role: operations as methods, and methods of a server as operations.

Messages go and come with the class ``basic``, whose acknowledgements name single deliveries and
can return them, unless class message is asked for (``client_messages``). A request without a reply
is done when ``execution.complete`` reaches its number, and so is a publish that is to be confirmed.
One ``execution.flush`` is under way at a time.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.dispatch import closed_by_server, take_awaited
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.incoming_content import IncomingContent
from gateway.adapters.methods.outbound import request_channel
from gateway.adapters.methods.transitional import branches, types
from gateway.adapters.methods.transitional import client_messages as messages
from gateway.adapters.methods.transitional import client_sessions as sessions
from gateway.adapters.methods.transitional.channel import Channel, Consumer
from gateway.adapters.methods.transitional.versions import Carried
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.bodies import Body
from gateway.errors import Condition, LocalError, PeerError
from gateway.message import Message, Table
from gateway.operations import (
    BeginSession,
    Bind,
    Commit,
    Confirm,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Deliver,
    Done,
    EndSession,
    Fetch,
    Fetched,
    FindBindings,
    FindExchange,
    Flow,
    FoundBindings,
    FoundExchange,
    Operation,
    Outcome,
    Prefetch,
    Publish,
    PurgeQueue,
    QueueState,
    Recover,
    Rollback,
    Select,
    SelectConfirms,
    Settle,
    Subscribe,
    Synchronize,
    Token,
    Unbind,
    Unsubscribe,
)


class AwaitedCommand(NamedTuple):
    """A request of ours; done by its reply, or when its ``command`` is complete."""

    method: Method
    operation: Any
    command: int
    request: int
    """Its identifier on 24 July."""

    @property
    def token(self) -> Token:
        token: Token = self.operation.token
        return token


# --- requests ------------------------------------------------------------------------------------


def _entries(table: Table) -> bytes:
    return types.write_table(table) if table else b""


def _declare_exchange(op: DeclareExchange) -> w.ExchangeDeclare:
    if op.internal:
        raise LocalError("an internal exchange cannot be declared in this version")
    arguments = dict(op.arguments)
    alternate = arguments.pop("alternate-exchange", "")
    return w.ExchangeDeclare(
        exchange=op.name,
        type=op.type,
        alternate_exchange=str(alternate),
        passive=op.passive,
        durable=op.durable,
        auto_delete=op.auto_delete,
        arguments=_entries(arguments),
    )


def _declare_queue(op: DeclareQueue) -> w.QueueDeclare:
    arguments = dict(op.arguments)
    alternate = arguments.get("x-dead-letter-exchange")
    if alternate:  # the default exchange has no name to say there
        del arguments["x-dead-letter-exchange"]
        arguments.pop("x-dead-letter-on-delete", None)  # goes without saying
    return w.QueueDeclare(
        queue=op.name,
        alternate_exchange=str(alternate or ""),
        passive=op.passive,
        durable=op.durable,
        exclusive=op.exclusive,
        auto_delete=op.auto_delete,
        arguments=_entries(arguments),
    )


def _bind(record: Callable[..., Any]) -> Callable[[Any], Any]:
    def build(op: Bind | Unbind) -> Any:
        if op.to_exchange:
            raise LocalError("exchanges are not bound to exchanges in this version")
        return record(
            queue=op.destination,
            exchange=op.source,
            routing_key=op.key,
            arguments=_entries(op.arguments),
        )

    return build


def _subscribe(op: Subscribe) -> w.BasicConsume:
    return w.BasicConsume(
        queue=op.queue,
        consumer_tag=op.tag,
        no_local=op.no_local,
        no_ack=op.no_ack,
        exclusive=op.exclusive,
        arguments=_entries(op.arguments),
    )


def _find_bindings(op: FindBindings) -> w.BindingQuery:
    return w.BindingQuery(
        exchange=op.exchange,
        queue=op.queue or "",
        routing_key=op.key or "",
        arguments=_entries(op.arguments or {}),
    )


ASK: dict[type[Operation], Callable[[Any], Any]] = {
    BeginSession: lambda op: w.ChannelOpen(),
    EndSession: lambda op: w.ChannelClose(200, "Normal shutdown"),
    Flow: lambda op: w.ChannelFlow(op.active),
    DeclareExchange: _declare_exchange,
    DeleteExchange: lambda op: w.ExchangeDelete(exchange=op.name, if_unused=op.if_unused),
    FindExchange: lambda op: w.ExchangeQuery(name=op.name),
    FindBindings: _find_bindings,
    DeclareQueue: _declare_queue,
    Bind: _bind(w.QueueBind),
    Unbind: _bind(w.QueueUnbind),
    PurgeQueue: lambda op: w.QueuePurge(queue=op.name),
    DeleteQueue: lambda op: w.QueueDelete(
        queue=op.name, if_unused=op.if_unused, if_empty=op.if_empty
    ),
    Prefetch: lambda op: w.BasicQos(op.size, op.count, op.shared),
    Subscribe: _subscribe,
    Unsubscribe: lambda op: w.BasicCancel(op.tag),
    Fetch: lambda op: w.BasicGet(queue=op.queue, no_ack=op.no_ack),
    Recover: lambda op: w.BasicRecover(op.requeue),
    Select: lambda op: w.TxSelect(),
    Commit: lambda op: w.TxCommit(),
    Rollback: lambda op: w.TxRollback(),
    Synchronize: lambda op: w.ExecutionFlush(),
    **branches.ASK,
}


def request(engine: Any, op: Any) -> None:
    """Send a request."""
    if engine.server:
        raise LocalError(f"a server does not ask for {type(op).__name__}")
    channel: Channel = request_channel(engine, op, Channel)
    if engine.class_message:
        op = messages.named(channel, op)
    kind = type(op)
    build = messages.ASK.get(kind) if engine.class_message else None
    if engine.class_session:
        build = sessions.ASK.get(kind, build)
    record: Any = (build or ASK[kind])(op)
    method: Method = engine.table.by_record[type(record)]
    no_wait = op.token is None and hasattr(record, "no_wait")
    if no_wait:
        record.no_wait = True
    if isinstance(op, BeginSession):
        engine.channels[op.channel] = channel
        channel.session = sessions.OPENING if engine.class_session else b""
    elif isinstance(op, Subscribe) and op.tag:
        channel.consumers[op.tag] = Consumer(not engine.class_message, op.no_ack)
    if isinstance(op, Recover) and op.requeue:
        channel.deliveries.clear()
    if not isinstance(op, Synchronize):
        engine.send_method(channel.number, record)
    if not no_wait:
        sent = channel.numbering.sent, channel.numbering.requests
        channel.awaited.append(AwaitedCommand(method, op, *sent))  # type: ignore[arg-type]
        if not method.replies:
            flush(engine, channel)
    if isinstance(op, EndSession):
        channel.mark_closing()


def flush(engine: Any, channel: Channel) -> None:
    """Ask how far the server has come, unless that is asked already."""
    if not channel.flushing:
        channel.flushing = True
        engine.send_method(channel.number, w.ExecutionFlush())


def select_confirms(engine: Any, op: SelectConfirms) -> None:
    """Publishes are counted and confirmed by completion; the server is not told."""
    channel: Channel = request_channel(engine, op, Channel)
    channel.confirming = True
    if op.token is not None:
        engine.life.later.append(Done(op.channel, op.token))


def publish(engine: Any, op: Publish) -> None:
    """Send a message. Raises ``ValueError`` if it has no form for the server."""
    if engine.server:
        raise LocalError("a server does not publish")
    channel: Channel = engine.channel(op.channel)
    if engine.class_message:
        messages.publish(engine, channel, op)
    else:
        channel.publish(op.message, op.immediate)
    if channel.confirming:
        channel.published += 1
        if engine.class_message and engine.requests:
            return  # it is answered
        channel.unconfirmed.append((channel.numbering.sent, channel.published))
        flush(engine, channel)


def settle(engine: Any, op: Settle) -> None:
    """Acknowledge deliveries, or give them back."""
    if engine.server:
        raise LocalError("a server does not settle")
    channel: Channel = engine.channel(op.channel)
    if engine.class_message:
        messages.check_settlement(engine, op, channel)
    tags = channel.deliveries.up_to(op.delivery) if op.multiple else [op.delivery]
    if engine.class_message:
        messages.settle(engine, op, channel, tags)
    for tag in tags:
        channel.deliveries.discard(tag)
    if engine.class_message:
        return
    if op.outcome is Outcome.ACCEPT:
        engine.send_method(op.channel, w.BasicAck(op.delivery, op.multiple))
        return
    for tag in tags:
        engine.send_method(op.channel, w.BasicReject(tag, op.outcome.returns))


# --- methods of the server ------------------------------------------------------------------------


def take(
    engine: Any,
    channel: Channel,
    method: Method,
    m: Any,
    carried: Carried | None,
    found: list[Operation],
) -> None:
    """One method of the server on a channel. Raises ``PeerError``."""
    name, number = method.name, channel.number
    if name == "execution.complete":
        complete(engine, channel, m.cumulative_execution_mark, found)
    elif name == "execution.flush":
        engine.send_method(number, messages.completed(engine, channel))
    elif name == "channel.close":
        closed_by_server(engine, channel, m, found)
    elif name == "channel.flow":
        request = 0 if carried is None else carried.identifier
        engine.send_method(number, w.ChannelFlowOk(m.active), request)
    elif name in RESULTS:
        awaited = take_awaited(channel, name)
        if name == "channel.open-ok":
            channel.opened()
        if isinstance(awaited.operation, Subscribe):
            channel.consumers[m.consumer_tag] = Consumer(True, awaited.operation.no_ack)
        elif isinstance(awaited.operation, Unsubscribe):
            channel.consumers.pop(m.consumer_tag, None)
        if awaited.token is not None:
            found.append(Done(number, awaited.token, RESULTS[name](awaited.operation, m)))
    elif name.startswith("session."):
        if not sessions.take(engine, channel, name, m, carried, found):
            raise PeerError(Condition.COMMAND_INVALID, f"{name} answers nothing that was asked")
    elif not messages.take(engine, channel, name, m, carried, found):
        raise PeerError(Condition.NOT_IMPLEMENTED, f"{name} is not implemented")


def complete(engine: Any, channel: Channel, mark: int, found: list[Operation]) -> None:
    """Requests without a reply, and publishes, are done up to this command."""
    channel.flushing = False
    command = channel.numbering.named(mark)
    awaited: Any = channel.awaited
    while awaited and not awaited[0].method.replies and awaited[0].command <= command:
        done = awaited.popleft()
        if done.token is not None:
            result = messages.result(channel, done.operation)
            found.append(Done(channel.number, done.token, result))
    unconfirmed, sequence = channel.unconfirmed, 0
    while unconfirmed and unconfirmed[0][0] <= command:
        _, sequence = unconfirmed.popleft()
    if sequence:
        found.append(Confirm(channel.number, sequence, True, True))
    if unconfirmed or any(not one.method.replies for one in awaited):
        flush(engine, channel)


def _found_exchange(op: FindExchange, ok: w.ExchangeQueryOk) -> FoundExchange | None:
    if ok.not_found:
        return None
    return FoundExchange(op.name, ok.type, ok.durable, types.read_arguments(ok.arguments))


def _found_bindings(op: FindBindings, ok: w.BindingQueryOk) -> FoundBindings:
    missing = ok.exchange_not_found or ok.queue_not_matched or ok.key_not_matched
    return FoundBindings(
        op.queue,
        ok.exchange_not_found,
        ok.queue_not_found,
        ok.queue_not_matched,
        ok.key_not_matched,
        ok.args_not_matched,
        bindings=not missing,
    )


def _nothing(op: Any, ok: Any) -> None:
    return None


RESULTS: dict[str, Callable[[Any, Any], Any]] = {
    "channel.open-ok": _nothing,
    "channel.flow-ok": lambda op, ok: ok.active,
    "exchange.query-ok": _found_exchange,
    "binding.query-ok": _found_bindings,
    "queue.declare-ok": lambda op, ok: QueueState(ok.queue, ok.message_count, ok.consumer_count),
    "queue.purge-ok": lambda op, ok: ok.message_count,
    "queue.delete-ok": lambda op, ok: ok.message_count,
    "basic.consume-ok": lambda op, ok: ok.consumer_tag,
    "basic.cancel-ok": lambda op, ok: ok.consumer_tag,
    "basic.get-empty": _nothing,
    "access.request-ok": _nothing,
    "message.offset": _nothing,
    **branches.RESULTS,
}
"""Results of requests, by the names of the replies."""


def received(
    channel: Channel, content: IncomingContent, body: Body, found: list[Operation]
) -> None:
    """A message of the server is complete. Raises ``PeerError``."""
    m, number = content.record, channel.number
    header, essentials = content.known
    message = Message(BASIC, header, body, m.exchange, m.routing_key, essentials)
    if content.method.name == "basic.deliver":
        consumer = channel.consumers.get(m.consumer_tag)
        if consumer is None or not consumer.no_ack:
            channel.deliveries.add(m.delivery_tag, m.delivery_tag)
        found.append(Deliver(number, m.consumer_tag, m.delivery_tag, m.redelivered, message))
        return
    awaited = take_awaited(channel, content.method.name)
    if not awaited.operation.no_ack:
        channel.deliveries.add(m.delivery_tag, m.delivery_tag)
    fetched = Fetched(m.delivery_tag, m.redelivered, message, m.message_count)
    found.append(Done(number, awaited.token, fetched))
