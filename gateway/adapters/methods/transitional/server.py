"""Methods of a client as operations, and the replies to them.

Methods without a declared reply are not answered; a client that wants to know sends
``execution.flush`` and waits for ``execution.complete``. With requests and responses (24 July) each
transfer is answered, and the client's ``message.ok`` settles a delivery; with plain methods
(27 July) its ``execution.complete`` does.
"""

import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.adapters.core.qpid_queues import queue_arguments
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.contents import classes
from gateway.adapters.methods.pending import PendingReply
from gateway.adapters.methods.tags import TooManyValues
from gateway.adapters.methods.transitional import branches, sessions, types
from gateway.adapters.methods.transitional import content as messages
from gateway.adapters.methods.transitional.channel import Channel, Consumer
from gateway.adapters.methods.transitional.received import (
    Asked,
    Received,
    ServerEngine,
    table,
)
from gateway.adapters.methods.transitional.resumption import suspend
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.bodies import Body, Spool, incoming_body
from gateway.errors import Condition, Lost, PeerError
from gateway.message import Message
from gateway.operations import (
    Bind,
    Commit,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
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
    Recover,
    Rollback,
    Select,
    Subscribe,
    Synchronize,
    Unbind,
    Unsent,
    Unsubscribe,
)

TICKET = 1
"""Grants everything."""

# --- topology ------------------------------------------------------------------------------------


def _declare_exchange(r: Received) -> list[Operation]:
    m: w.ExchangeDeclare = r.m
    arguments = table(m.arguments)
    if m.alternate_exchange:
        arguments["alternate-exchange"] = m.alternate_exchange
    return [
        DeclareExchange(
            r.number,
            r.token,
            m.exchange,
            m.type,
            m.passive,
            m.durable,
            m.auto_delete,
            arguments=arguments,
        )
    ]


def _declare_queue(r: Received) -> list[Operation]:
    m: w.QueueDeclare = r.m
    arguments = queue_arguments(table(m.arguments))
    if m.alternate_exchange:
        arguments = {
            **arguments,
            "x-dead-letter-exchange": m.alternate_exchange,
            "x-dead-letter-on-delete": True,
        }
    # Auto-delete had no effect on an exclusive queue: it is deleted with its connection.
    flags = m.passive, m.durable, m.exclusive, m.auto_delete and not m.exclusive
    return [DeclareQueue(r.number, r.token, m.queue, *flags, arguments)]


def _bind(kind: type[Bind | Unbind]) -> Callable[[Received], list[Operation]]:
    def build(r: Received) -> list[Operation]:
        m = r.m
        return [kind(r.number, r.token, m.queue, m.exchange, m.routing_key, table(m.arguments))]

    return build


def _delete_queue(r: Received) -> list[Operation]:
    return [DeleteQueue(r.number, r.token, r.m.queue, r.m.if_unused, r.m.if_empty)]


def _query_bindings(r: Received) -> list[Operation]:
    """Empty names and arguments leave the question open."""
    m: w.BindingQuery = r.m
    queue, key, arguments = m.queue or None, m.routing_key or None, table(m.arguments) or None
    return [FindBindings(r.number, r.token, m.exchange, queue, key, arguments)]


# --- consuming -----------------------------------------------------------------------------------


def _consume(r: Received) -> list[Operation]:
    m, is_basic = r.m, r.method.name == "basic.consume"
    tag = m.consumer_tag if is_basic else m.destination
    arguments = table(m.arguments if is_basic else m.filter)
    if not is_basic or tag:
        if tag in r.channel.consumers:
            raise PeerError(Condition.NOT_ALLOWED, f"consumer {tag!r} exists already")
        r.channel.consumers[tag] = Consumer(is_basic, m.no_ack)
    return [
        Subscribe(r.number, r.token, m.queue, tag, m.no_ack, m.exclusive, m.no_local, arguments)
    ]


def _cancel(r: Received) -> list[Operation]:
    tag = r.m.consumer_tag if r.method.name == "basic.cancel" else r.m.destination
    return [Unsubscribe(r.number, r.token, tag)]


def _qos(r: Received) -> list[Operation]:
    m = r.m
    return [Prefetch(r.number, r.token, m.prefetch_count, m.prefetch_size, m.global_)]


def _ack(r: Received) -> list[Operation]:
    m: w.BasicAck = r.m
    if not m.multiple:
        return [r.channel.deliveries.settle(m.delivery_tag)]
    return _settled_up_to(r.channel, m.delivery_tag)


def _settled_up_to(channel: Channel, name: int) -> list[Operation]:
    """All up to a delivery. Files are named when they are staged, not in the order of the broker's
    numbers, so where there are any, each delivery is settled by itself."""
    deliveries = channel.deliveries
    if channel.classes is None:
        return list(deliveries.settle_up_to(name))
    return [deliveries.settle(each) for each in deliveries.up_to(name)]


def _reject(r: Received) -> list[Operation]:
    outcome = Outcome.RELEASE if r.m.requeue else Outcome.REJECT
    return [r.channel.deliveries.settle(r.m.delivery_tag, outcome)]


def _recover(r: Received) -> list[Operation]:
    if r.m.requeue:
        r.channel.deliveries.clear()
    return [Recover(r.number, r.token, r.m.requeue)]


def _settled(outcome: Outcome) -> Callable[[Received], list[Operation]]:
    """Responses to our transfers."""

    def build(r: Received) -> list[Operation]:
        carried = r.carried
        if carried is None or not carried.is_response:
            raise PeerError(Condition.COMMAND_INVALID, f"{r.method.name} answers nothing")
        first = carried.other
        return list(r.channel.deliveries.settle_range(first, first + carried.batch, outcome))

    return build


def _complete(r: Received) -> list[Operation]:
    """The client has received so much (27 July). On 24 July ``message.ok`` says it."""
    m: w.ExecutionComplete = r.m
    if r.engine.requests:
        return []
    deliveries, named = r.channel.deliveries, r.channel.numbering.named
    mark = named(m.cumulative_execution_mark)
    found = _settled_up_to(r.channel, mark) if mark > 0 else []
    try:
        ranges = types.read_set(m.ranged_execution_set)
    except ValueError as error:
        raise PeerError(Condition.NOT_ALLOWED, str(error)) from error
    for first, last in ranges:
        if first == last:
            found.append(deliveries.settle(named(first), lost=Lost.CONNECTION))
            continue
        low, high = named(first), named(last)
        if low >= 0:
            high = high if high >= 0 else r.channel.numbering.sent
            found += deliveries.settle_range(low, high, Outcome.ACCEPT)
    return found


# --- files and streams ---------------------------------------------------------------------------


def class_method(r: Received) -> list[Operation]:
    """A method of the classes file and stream, in either role. Raises ``PeerError``."""
    own = OF_DELIVERIES.get(r.method.name)
    if own is not None:
        return own(r)
    request = 0 if r.carried is None or r.carried.is_response else r.request
    reply = partial(r.engine.send_method, r.number, request=request)
    return r.channel.other_classes().take(classes.Asked(r.method, r.m, reply))


def _reject_file(r: Received) -> list[Operation]:
    """A requeued file is for others."""
    outcome = Outcome.REFUSE if r.m.requeue else Outcome.REJECT
    return [r.channel.deliveries.settle(r.m.delivery_tag, outcome)]


OF_DELIVERIES: dict[str, Callable[[Received], list[Operation]]] = {
    "file.ack": _ack,
    "file.reject": _reject_file,
}
"""Deliveries of files have names, as those of the class basic."""


# --- publishing ----------------------------------------------------------------------------------


def _transfer(r: Received) -> list[Operation]:
    m: w.MessageTransfer = r.m
    try:
        body = types.read_body(m.body)
    except ValueError as error:
        raise PeerError(Condition.SYNTAX_ERROR, str(error)) from error
    if body.is_reference:
        r.channel.references.transfer(body.octets, r)
        return []
    octets, spool = body.octets, r.engine.spool
    large = spool is not None and len(octets) >= spool.threshold
    return _publish(r, _kept(spool, octets) if large else octets)


def _kept(spool: Spool, octets: bytes) -> Body:
    """A large body that came inline goes to a file. Raises ``PeerError`` (311)."""
    try:
        sink = incoming_body(spool, len(octets))
        sink.add(octets)
        return sink.finish()
    except OSError as error:
        text = f"there is no room for a message of {len(octets)} octets: {error.strerror}"
        raise PeerError(Condition.CONTENT_TOO_LARGE, text, Lost.SESSION) from error


def _publish(r: Received, body: Body) -> list[Operation]:
    """A transfer is published, and answered when that is safe."""
    m: w.MessageTransfer = r.m
    if len(body) > r.engine.max_message_octets:
        raise PeerError(
            Condition.CONTENT_TOO_LARGE,
            f"{len(body)} octets are more than {r.engine.max_message_octets}",
            Lost.SESSION,
        )
    try:
        header, essentials = messages.header_of(m)
    except TooManyValues as error:
        raise PeerError(Condition.CONTENT_TOO_LARGE, str(error), Lost.SESSION) from error
    except (ValueError, struct.error, IndexError) as error:
        raise PeerError(Condition.SYNTAX_ERROR, str(error)) from error
    message = Message(BASIC, header, body, m.destination, m.routing_key, essentials)
    answered = r.carried is not None
    publish = Publish(r.number, message, answered and m.reject_unroutable, m.immediate)
    if not answered:
        return [publish]
    r.channel.transfers[id(message)] = None
    return [publish, Synchronize(r.number, r.answering(message))]


def _in_parts(r: Received) -> list[Operation]:
    """A body that comes in parts; when it is closed, its transfers are published."""
    closed = r.channel.take_part(r.m, r.request)
    if closed is None:
        return []
    body, transfers = closed
    return [operation for transfer in transfers for operation in _publish(transfer, body)]


def _ignore(r: Received) -> list[Operation]:
    return []


# --- all -----------------------------------------------------------------------------------------


def _end(r: Received) -> list[Operation]:
    if isinstance(r.m, w.SessionSuspend):
        found = suspend(r.channel, r.engine, r.request)
        if found:
            return found
    r.channel.move("channel.close")
    return [EndSession(r.number, r.token)]


def _grant(r: Received) -> list[Operation]:
    """Any realm and all rights: tickets are not looked at."""
    r.engine.send_method(r.number, w.AccessRequestOk(TICKET), r.request)
    return []


def _unasked(r: Received) -> list[Operation]:
    raise PeerError(Condition.COMMAND_INVALID, f"{r.method.name} answers nothing")


IN_PARTS = tuple(f"message.{name}" for name in ("open", "append", "close", "checkpoint", "resume"))

SERVE: dict[str, Callable[[Received], list[Operation]]] = {
    "channel.flow": lambda r: [Flow(r.number, r.token, r.m.active)],
    "channel.flow-ok": _ignore,
    "channel.close": _end,
    "exchange.declare": _declare_exchange,
    "exchange.delete": lambda r: [DeleteExchange(r.number, r.token, r.m.exchange, r.m.if_unused)],
    "exchange.query": lambda r: [FindExchange(r.number, r.token, r.m.name)],
    "binding.query": _query_bindings,
    "queue.declare": _declare_queue,
    "queue.bind": _bind(Bind),
    "queue.unbind": _bind(Unbind),
    "queue.purge": lambda r: [PurgeQueue(r.number, r.token, r.m.queue)],
    "queue.delete": _delete_queue,
    "basic.qos": _qos,
    "basic.consume": _consume,
    "basic.cancel": _cancel,
    "basic.get": lambda r: [Fetch(r.number, r.token, r.m.queue, r.m.no_ack)],
    "basic.ack": _ack,
    "basic.reject": _reject,
    "basic.recover": _recover,
    **branches.SERVE,
    **sessions.SERVE,
    "access.request": _grant,
    "tx.select": lambda r: [Select(r.number, r.token)],
    "tx.commit": lambda r: [Commit(r.number, r.token)],
    "tx.rollback": lambda r: [Rollback(r.number, r.token)],
    "message.transfer": _transfer,
    "message.consume": _consume,
    "message.cancel": _cancel,
    "message.get": lambda r: [Fetch(r.number, r.token, r.m.queue, r.m.no_ack)],
    "message.recover": _recover,
    "message.qos": _qos,
    **dict.fromkeys(IN_PARTS, _in_parts),
    "message.offset": _unasked,
    "message.empty": _unasked,
    "message.ok": _settled(Outcome.ACCEPT),
    "message.reject": _settled(Outcome.REJECT),
    "execution.flush": lambda r: [Synchronize(r.number, r.token)],
    "execution.complete": _complete,
}
"""Other methods are answered with not-implemented."""


# --- replies -------------------------------------------------------------------------------------


def reply(engine: ServerEngine, channel: Channel, token: PendingReply, op: Done) -> None:
    """The reply to a request, if it has one."""
    asked = token.record
    name = token.method.name
    if token.then is not None:
        engine.life.follow(token.then(op.result))
        return
    if not isinstance(asked, Asked):
        if name == "channel.close":  # of a channel that was closed meanwhile
            engine.write(channel.number, w.ChannelCloseOk())
        return
    answer = ANSWER.get(name)
    if answer is not None and not getattr(asked.m, "no_wait", False):
        answer(engine, channel, asked, op.result)
    if name == "basic.cancel" or name == "message.cancel":
        channel.consumers.pop(op.result, None)
        if channel.classes is not None:
            channel.classes.forget(op.result)


def _declared(engine: ServerEngine, channel: Channel, asked: Asked, state: Any) -> None:
    record = w.QueueDeclareOk(state.name, state.messages, state.consumers)
    engine.send_method(channel.number, record, asked.request)


def _counted(record: Callable[[int], Any]) -> Callable[..., None]:
    def answer(engine: ServerEngine, channel: Channel, asked: Asked, count: Any) -> None:
        engine.send_method(channel.number, record(count or 0), asked.request)

    return answer


def _consuming(engine: ServerEngine, channel: Channel, asked: Asked, tag: str) -> None:
    channel.consumers[tag] = Consumer(True, asked.m.no_ack)
    engine.send_method(channel.number, w.BasicConsumeOk(tag), asked.request)


def _life(record: Callable[[], Any]) -> Callable[..., None]:
    def answer(engine: ServerEngine, channel: Channel, asked: Asked, result: Any) -> None:
        engine.write(channel.number, record(), asked.request, asked.m)

    return answer


def _flowing(engine: ServerEngine, channel: Channel, asked: Asked, active: Any) -> None:
    engine.write(channel.number, w.ChannelFlowOk(bool(active)), asked.request)


def _completed(engine: ServerEngine, channel: Channel, asked: Asked, result: Any) -> None:
    engine.send_method(channel.number, w.ExecutionComplete(asked.mark % types.SERIALS))


def _transferred(engine: ServerEngine, channel: Channel, asked: Asked, result: Any) -> None:
    came_back = channel.transfers.pop(id(asked.message), None)
    if came_back is None:
        record: Any = w.MessageOk()
    else:
        record = w.MessageReject(*engine.codes.reply(came_back.condition, came_back.text))
    engine.send_method(channel.number, record, asked.request)


def _got(engine: ServerEngine, channel: Channel, asked: Asked, fetched: Fetched | None) -> None:
    """``message.get``: a transfer; with requests and responses also the outcome."""
    m: w.MessageGet = asked.m
    if fetched is not None:
        message = fetched.message
        try:
            name = channel.transfer(m.destination, fetched.redelivered, message)
        except ValueError:
            engine.life.unsent(Unsent(channel.number, "", fetched.delivery, message, fetched.queue))
            fetched = None
        else:
            if not m.no_ack:
                channel.deliveries.add(name, fetched.delivery)
    if asked.request:
        record = w.MessageEmpty() if fetched is None else w.MessageOk()
        engine.send_method(channel.number, record, asked.request)


def _fetched(engine: ServerEngine, channel: Channel, asked: Asked, fetched: Fetched | None) -> None:
    if fetched is not None:
        try:
            channel.fetched(fetched, asked.request, asked.m.no_ack)
            return
        except ValueError:
            message = fetched.message
            engine.life.unsent(Unsent(channel.number, "", fetched.delivery, message, fetched.queue))
    engine.send_method(channel.number, w.BasicGetEmpty(), asked.request)


def _exchange_found(
    engine: ServerEngine, channel: Channel, asked: Asked, found: FoundExchange | None
) -> None:
    if found is None:
        record = w.ExchangeQueryOk(not_found=True)
    else:
        arguments = types.write_table(found.arguments)
        record = w.ExchangeQueryOk(found.type, found.durable, False, arguments)
    engine.send_method(channel.number, record, asked.request)


def _bindings_found(
    engine: ServerEngine, channel: Channel, asked: Asked, found: FoundBindings
) -> None:
    record = w.BindingQueryOk(
        found.exchange_not_found,
        found.queue_not_found,
        found.queue_not_matched,
        found.key_not_matched,
        found.arguments_not_matched,
    )
    engine.send_method(channel.number, record, asked.request)


ANSWER: dict[str, Callable[..., None]] = {
    **branches.ANSWER,
    "channel.open": _life(w.ChannelOpenOk),
    "channel.close": _life(w.ChannelCloseOk),
    "channel.flow": _flowing,
    "exchange.query": _exchange_found,
    "binding.query": _bindings_found,
    "queue.declare": _declared,
    "queue.purge": _counted(w.QueuePurgeOk),
    "queue.delete": _counted(w.QueueDeleteOk),
    "basic.consume": _consuming,
    "basic.cancel": lambda engine, channel, asked, tag: engine.send_method(
        channel.number, w.BasicCancelOk(tag), asked.request
    ),
    "basic.get": _fetched,
    "message.transfer": _transferred,
    "message.get": _got,
    "execution.flush": _completed,
}
