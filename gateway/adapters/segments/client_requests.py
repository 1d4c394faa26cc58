"""Client role: operations as commands, by the kind of the operation.

What 0-10 does not have is expressed by what it has: a fetch is a subscription with credit for one
message, and numbers of messages are those of queue.query just before. An empty name of a queue is
the last one declared, and the server names no queues: we do.
"""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from gateway.adapters.core.qpid_arguments import NO_LOCAL
from gateway.adapters.core.qpid_queues import qpid_arguments
from gateway.adapters.segments import client_branches
from gateway.adapters.segments.client_consumers import Consumer
from gateway.adapters.segments.client_session import ClientSession
from gateway.adapters.segments.completion import ranges_of, unwrapped
from gateway.adapters.segments.decoding import read_map
from gateway.adapters.segments.encoding import write_map
from gateway.adapters.segments.operations import struct_of
from gateway.adapters.segments.server import ALTERNATE, DEAD_LETTER, ON_DELETE
from gateway.adapters.segments.wire import layouts as w
from gateway.errors import LocalError
from gateway.message import Table
from gateway.operations import (
    Acquire,
    Bind,
    Commit,
    Credit,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Fetch,
    Fetched,
    FindBindings,
    FindExchange,
    FindQueue,
    Flow,
    FoundBindings,
    FoundExchange,
    FoundQueue,
    Operation,
    Outcome,
    Prefetch,
    PurgeQueue,
    QueueState,
    Recover,
    Rollback,
    Select,
    SelectConfirms,
    Settle,
    SettleMany,
    Subscribe,
    Synchronize,
    Unbind,
    Unsubscribe,
)


def _map(table: Table | None) -> bytes | None:
    return write_map(table) if table else None


def _table(octets: bytes | None) -> Table:
    return read_map(octets) if octets else {}


def _queue(session: ClientSession, name: str) -> str:
    return name or session.last_queue


# --- topology ------------------------------------------------------------------------------------


def _declare_exchange(session: ClientSession, op: DeclareExchange) -> None:
    if op.internal:
        raise LocalError("an internal exchange cannot be declared in 0-10")
    arguments = dict(op.arguments)
    alternate = arguments.pop(ALTERNATE, None)
    record = w.ExchangeDeclare(
        op.name,
        None if op.passive else op.type,
        None if alternate is None else str(alternate),
        op.passive,
        op.durable,
        op.auto_delete,
        _map(arguments),
    )
    session.ask(op, record)


def _found_exchange(session: ClientSession, op: FindExchange, value: Any) -> FoundExchange | None:
    found: w.ExchangeQueryResult = struct_of(value, w.ExchangeQueryResult)
    if found.not_found:
        return None
    return FoundExchange(op.name, found.type or "", found.durable, _table(found.arguments))


def _bind(session: ClientSession, op: Bind) -> None:
    if op.to_exchange:
        raise LocalError("exchanges are not bound to exchanges in 0-10")
    queue = _queue(session, op.destination)
    session.ask(op, w.ExchangeBind(queue, op.source, op.key, _map(op.arguments)))


def _unbind(session: ClientSession, op: Unbind) -> None:
    """A binding is named by its key alone."""
    if op.to_exchange:
        raise LocalError("exchanges are not bound to exchanges in 0-10")
    session.ask(op, w.ExchangeUnbind(_queue(session, op.destination), op.source, op.key))


def _find_bindings(session: ClientSession, op: FindBindings) -> None:
    record = w.ExchangeBound(op.exchange, op.queue, op.key, _map(op.arguments))
    session.ask(op, record, result=_found_bindings)


def _found_bindings(session: ClientSession, op: FindBindings, value: Any) -> FoundBindings:
    found: w.ExchangeBoundResult = struct_of(value, w.ExchangeBoundResult)
    missing = found.exchange_not_found or found.queue_not_matched or found.key_not_matched
    return FoundBindings(
        op.queue,
        found.exchange_not_found,
        found.queue_not_found,
        found.queue_not_matched,
        found.key_not_matched,
        found.args_not_matched,
        bindings=not missing,
    )


def _declare_queue(session: ClientSession, op: DeclareQueue) -> None:
    name = op.name or (session.last_queue if op.passive else f"gen-{uuid4()}")
    arguments = qpid_arguments(op.arguments)
    alternate = None
    if arguments.get(DEAD_LETTER):  # an empty name, the default exchange, is no alternate one
        alternate = str(arguments.pop(DEAD_LETTER))
        arguments.pop(ON_DELETE, None)  # goes without saying
    declare = w.QueueDeclare(
        name,
        alternate,
        op.passive,
        op.durable,
        op.exclusive,
        op.auto_delete,
        _map(arguments),
    )
    session.last_queue = name
    if op.token is None:
        session.ask(op, declare)
    else:
        session.ask(op, declare, w.QueueQuery(name), result=_declared)


def _declared(session: ClientSession, op: DeclareQueue, value: Any) -> QueueState:
    found: w.QueueQueryResult = struct_of(value, w.QueueQueryResult)
    name = found.queue or op.name
    return QueueState(name, found.message_count or 0, found.subscriber_count or 0)


def _found_queue(session: ClientSession, op: FindQueue, value: Any) -> FoundQueue | None:
    """Of an unknown queue the result has no field."""
    found: w.QueueQueryResult = struct_of(value, w.QueueQueryResult)
    if not found.queue:
        return None
    arguments = _table(found.arguments)
    if found.alternate_exchange:
        arguments[DEAD_LETTER] = found.alternate_exchange
    return FoundQueue(
        found.queue,
        found.message_count or 0,
        found.subscriber_count or 0,
        arguments,
        (),
        found.durable,
        found.exclusive,
        found.auto_delete,
    )


def _emptied(record: Callable[[str, Any], Any]) -> Callable[[ClientSession, Any], None]:
    """A command that removes the messages of a queue; it does not say how many."""

    def ask(session: ClientSession, op: Any) -> None:
        name = _queue(session, op.name)
        if op.token is None:
            session.ask(op, record(name, op))
        else:
            session.ask(op, w.QueueQuery(name), record(name, op), result=_count)

    return ask


def _count(session: ClientSession, op: Any, value: Any) -> int:
    found: w.QueueQueryResult = struct_of(value, w.QueueQueryResult)
    return found.message_count or 0


# --- consumers -----------------------------------------------------------------------------------


def _subscribe(session: ClientSession, op: Subscribe) -> None:
    tag = op.tag or session.new_name("consumer")
    arguments = dict(op.arguments)
    if op.no_local:
        arguments[NO_LOCAL[0]] = True
    if op.credit is not None:
        consumer = Consumer(tag, op.no_ack, op.copy, False, op.credit)
    elif op.no_ack:
        consumer = Consumer(tag, True, op.copy, True, None)
    else:
        consumer = Consumer(tag, False, op.copy, True, *session.prefetch)
    subscribe = consumer.subscribe(_queue(session, op.queue), op.exclusive, _map(arguments))
    session.ask(op, subscribe, result=lambda session, op, value: _subscribed(session, consumer))
    session.consumers[tag] = consumer
    if op.token is None:
        _grant(session, consumer)


def _subscribed(session: ClientSession, consumer: Consumer) -> str:
    """Its credit comes now, so that no delivery overtakes the answer."""
    _grant(session, consumer)
    return consumer.tag


def _grant(session: ClientSession, consumer: Consumer) -> None:
    if session.flowing and not consumer.granted and not consumer.leaving:
        consumer.granted = True
        for record in consumer.grant():
            session.say(record)


def _unsubscribe(session: ClientSession, op: Unsubscribe) -> None:
    consumer = session.consumers.get(op.tag)
    if consumer is None or consumer.leaving:
        session.answer(op, op.tag)
        return
    session.ask(op, w.MessageCancel(op.tag), result=_unsubscribed)
    consumer.leaving = True


def _unsubscribed(session: ClientSession, op: Unsubscribe, value: Any) -> str:
    session.consumers.pop(op.tag, None)
    return op.tag


def _credit(session: ClientSession, op: Credit) -> None:
    """Credit that is left is dropped first (message.stop), because message.flow adds to it."""
    consumer = session.consumers.get(op.tag)
    if consumer is None:
        raise LocalError(f"there is no consumer {op.tag!r}")
    if consumer.leaving:
        session.answer(op, 0)
        return
    consumer.window, consumer.count, consumer.octets = False, op.count, op.octets
    records = [w.MessageStop(op.tag), *(consumer.grant() if session.flowing else ())]
    consumer.granted = session.flowing
    if op.drain:
        session.ask(op, *records, w.MessageFlush(op.tag), result=_drained)
    else:
        session.ask(op, *records, result=lambda session, op, value: 0)


def _drained(session: ClientSession, op: Credit, value: Any) -> int:
    """The credit that was not used, which is none any more."""
    consumer = session.consumers.get(op.tag)
    left = 0 if consumer is None or consumer.count is None else consumer.count
    if consumer is not None:
        consumer.count = 0
    return left


def _fetch(session: ClientSession, op: Fetch) -> None:
    consumer = Consumer(session.new_name("fetch"), op.no_ack, False, False, 1, fetching=True)
    session.ask(
        op,
        consumer.subscribe(_queue(session, op.queue), False, None),
        *consumer.grant(),
        w.MessageFlush(consumer.tag),
        w.MessageCancel(consumer.tag),
        result=lambda session, op, value: _fetched(session, consumer),
    )
    session.consumers[consumer.tag] = consumer


def _fetched(session: ClientSession, consumer: Consumer) -> Fetched | None:
    del session.consumers[consumer.tag]
    return consumer.fetched


def _set_prefetch(session: ClientSession, op: Prefetch) -> None:
    """Of later consumers, each of them: 0-10 has no credit of a whole session."""
    session.prefetch = op.count or None, op.size or None
    session.answer(op)


def _flow(session: ClientSession, op: Flow) -> None:
    """Stop the credit of all consumers, or give it to them again."""
    records: list[Any] = []
    for consumer in session.consumers.values():
        if consumer.granted is not op.active and not (consumer.fetching or consumer.leaving):
            records += consumer.grant() if op.active else [w.MessageStop(consumer.tag)]
            consumer.granted = op.active
    session.flowing = op.active
    if records:
        session.ask(op, *records, result=lambda session, op, value: op.active)
    else:
        session.answer(op, op.active)


# --- settlement and transactions -----------------------------------------------------------------


def _settle(session: ClientSession, op: Settle) -> None:
    deliveries = session.deliveries.up_to(op.delivery) if op.multiple else [op.delivery]
    session.settle(deliveries, op.outcome)


def _settle_many(session: ClientSession, op: SettleMany) -> None:
    outcome = op.outcome if isinstance(op.outcome, Outcome) else Outcome.RELEASE
    session.settle(op.deliveries, outcome)


def _recover(session: ClientSession, op: Recover) -> None:
    """Release all: 0-10 cannot ask for redelivery to the same consumers."""
    session.settle(session.deliveries.up_to(0), Outcome.RELEASE)
    if op.token is not None:
        session.ask(op, w.ExecutionSync())


def _acquire(session: ClientSession, op: Acquire) -> None:
    unsettled = session.deliveries.unsettled
    numbers = sorted(unsettled[each].number for each in op.deliveries if each in unsettled)
    if numbers:
        session.ask(op, w.MessageAcquire(ranges_of(numbers)), result=_acquired)
    else:
        session.answer(op, [])


def _acquired(session: ClientSession, op: Acquire, value: Any) -> list[int]:
    ranges = unwrapped(struct_of(value, w.Acquired).transfers, session.received.following)
    return session.deliveries.acquired(ranges, op.deliveries)


def _select(session: ClientSession, op: Select) -> None:
    session.ask(op, w.TxSelect())
    session.transactional = True


def _commit(session: ClientSession, op: Commit) -> None:
    session.ask(op, w.TxCommit())
    session.accepted = {}


def _rollback(session: ClientSession, op: Rollback) -> None:
    """We still hold the messages that we had accepted."""
    session.ask(op, w.TxRollback())
    session.deliveries.restore(session.accepted)
    session.accepted = {}


def _select_confirms(session: ClientSession, op: SelectConfirms) -> None:
    """The server is not told: publishes are confirmed when they are complete."""
    session.publishes.confirming = True
    session.answer(op)


REQUESTS: dict[type[Operation], Callable[[ClientSession, Any], None]] = {
    DeclareExchange: _declare_exchange,
    DeleteExchange: lambda session, op: session.ask(op, w.ExchangeDelete(op.name, op.if_unused)),
    FindExchange: lambda session, op: session.ask(
        op, w.ExchangeQuery(op.name), result=_found_exchange
    ),
    Bind: _bind,
    Unbind: _unbind,
    FindBindings: _find_bindings,
    DeclareQueue: _declare_queue,
    FindQueue: lambda session, op: session.ask(
        op, w.QueueQuery(_queue(session, op.name)), result=_found_queue
    ),
    PurgeQueue: _emptied(lambda name, op: w.QueuePurge(name)),
    DeleteQueue: _emptied(lambda name, op: w.QueueDelete(name, op.if_unused, op.if_empty)),
    Subscribe: _subscribe,
    Unsubscribe: _unsubscribe,
    Credit: _credit,
    Fetch: _fetch,
    Prefetch: _set_prefetch,
    Flow: _flow,
    Settle: _settle,
    SettleMany: _settle_many,
    Recover: _recover,
    Acquire: _acquire,
    Select: _select,
    Commit: _commit,
    Rollback: _rollback,
    SelectConfirms: _select_confirms,
    **client_branches.REQUESTS,
    Synchronize: lambda session, op: session.ask(op, w.ExecutionSync()),
}
"""Commands of each operation on a session."""
