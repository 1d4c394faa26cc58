"""Commands of a client as operations, and their results."""

from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.adapters.core.qpid_arguments import binding_arguments, read_consumer_arguments
from gateway.adapters.core.qpid_queues import queue_arguments
from gateway.adapters.segments import branches
from gateway.adapters.segments.completion import (
    BrowsedTransfers,
    SentCommands,
    ranges_of,
    unwrapped,
)
from gateway.adapters.segments.content import cost
from gateway.adapters.segments.decoding import read_map
from gateway.adapters.segments.encoding import write_map
from gateway.adapters.segments.fields import MOST_RANGES
from gateway.adapters.segments.session import Answer, Request, Serve, Session
from gateway.adapters.segments.subscriptions import UNLIMITED, Subscription
from gateway.adapters.segments.types import Unacceptable
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import (
    OPERATIONS,
    AcceptMode,
    AcquireMode,
    CreditUnit,
    ErrorCode,
    FlowMode,
)
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
    FindBindings,
    FindExchange,
    FindQueue,
    FoundBindings,
    FoundExchange,
    FoundQueue,
    Operation,
    Outcome,
    PurgeQueue,
    Rollback,
    Select,
    Settle,
    SettleMany,
    Subscribe,
    Synchronize,
    Unbind,
    Unsubscribe,
)

ALTERNATE = "alternate-exchange"
DEAD_LETTER = "x-dead-letter-exchange"
ON_DELETE = "x-dead-letter-on-delete"
REJECT_CODE, REJECT_TEXT = "x-reject-code", "x-reject-text"
"""Headers of the dead letters of rejected messages."""
MOST_BEHIND = 256
"""Commands for a subscription that wait for its message.flush."""
MOST_ACQUIRED = 1 << 18
"""Messages that acquires may name while earlier ones are not answered: to look them up takes time,
and the next command may name the same ones."""
MOST_BROWSED = 1 << 16
"""Messages of a session that were browsed with accept-mode none, are not completed by the client,
and may still be acquired."""


def _table(octets: bytes | None) -> Table:
    return read_map(octets) if octets else {}


def _named(name: str | None, what: str) -> str:
    """A name that must not be empty."""
    if not name:
        raise Unacceptable(ErrorCode.INVALID_ARGUMENT, f"{what} has no name")
    return name


# --- topology ------------------------------------------------------------------------------------


def _declare_exchange(r: Request) -> list[Operation]:
    m: w.ExchangeDeclare = r.record
    arguments = _table(m.arguments)
    if m.alternate_exchange:
        arguments[ALTERNATE] = m.alternate_exchange
    name = _named(m.exchange, "the exchange")
    flags = m.passive, m.durable, m.auto_delete
    return [DeclareExchange(r.session.number, r, name, m.type or "", *flags, arguments=arguments)]


def _delete_exchange(r: Request) -> list[Operation]:
    name = _named(r.record.exchange, "the exchange")
    return [DeleteExchange(r.session.number, r, name, r.record.if_unused)]


def _bind(r: Request) -> list[Operation]:
    m: w.ExchangeBind = r.record
    queue, exchange = _named(m.queue, "the queue"), _named(m.exchange, "the exchange")
    arguments = binding_arguments(_table(m.arguments))
    return [Bind(r.session.number, r, queue, exchange, m.binding_key or "", arguments)]


def _unbind(r: Request) -> list[Operation]:
    m: w.ExchangeUnbind = r.record
    queue, exchange = _named(m.queue, "the queue"), _named(m.exchange, "the exchange")
    return [Unbind(r.session.number, r, queue, exchange, m.binding_key or "")]


def _bound(r: Request) -> list[Operation]:
    m: w.ExchangeBound = r.record
    arguments = binding_arguments(_table(m.arguments)) or None
    queue = m.queue or None
    return [FindBindings(r.session.number, r, m.exchange or "", queue, m.binding_key, arguments)]


def _declare_queue(r: Request) -> list[Operation]:
    m: w.QueueDeclare = r.record
    arguments = queue_arguments(_table(m.arguments))
    if m.alternate_exchange:
        arguments = {**arguments, DEAD_LETTER: m.alternate_exchange, ON_DELETE: True}
    name = _named(m.queue, "the queue")
    flags = m.passive, m.durable, m.exclusive, m.auto_delete
    return [DeclareQueue(r.session.number, r, name, *flags, arguments)]


def _delete_queue(r: Request) -> list[Operation]:
    m: w.QueueDelete = r.record
    name = _named(m.queue, "the queue")
    return [DeleteQueue(r.session.number, r, name, m.if_unused, m.if_empty)]


def _purge_queue(r: Request) -> list[Operation]:
    return [PurgeQueue(r.session.number, r, _named(r.record.queue, "the queue"))]


# --- subscriptions -------------------------------------------------------------------------------


def _subscribe(r: Request) -> list[Operation]:
    m: w.MessageSubscribe = r.record
    session, name = r.session, m.destination or ""
    known = session.subscriptions.get(name)
    if known is not None and not known.deleted:
        raise Unacceptable(ErrorCode.NOT_ALLOWED, f"the destination {name!r} is in use")
    queue = _named(m.queue, "the queue")
    arguments = _table(m.arguments)
    read = read_consumer_arguments(arguments)
    accept, acquire = m.accept_mode or AcceptMode.EXPLICIT, m.acquire_mode or 0
    if accept > AcceptMode.NONE or acquire > AcquireMode.NOT_ACQUIRED:
        raise Unacceptable(ErrorCode.INVALID_ARGUMENT, f"there are no modes {accept}, {acquire}")
    unsettled: SentCommands[int] = session.unsettled
    if accept == AcceptMode.NONE and acquire == AcquireMode.NOT_ACQUIRED:
        unsettled = session.browsed = session.browsed or BrowsedTransfers(
            partial(_settle_later, session, outcome=Outcome.UNDO), MOST_BROWSED
        )
    subscription = Subscription(session.number, name, accept, acquire, unsettled)
    session.subscriptions[name] = subscription
    return [
        Subscribe(
            session.number,
            r,
            queue,
            name,
            subscription.settled,
            m.exclusive,
            read.no_local,
            arguments,
            None if read.selector is None else read.selector.matches,
            read.copy or acquire == AcquireMode.NOT_ACQUIRED,
            0,
            remaining_ttl=True,
            measure=cost,
        )
    ]


def _on_subscription(
    serve: Callable[[Request, Subscription], list[Operation]],
) -> Serve:
    """A command for a subscription: refused if there is none, and behind a flush of it."""

    def in_turn(r: Request) -> list[Operation]:
        name = r.record.destination or ""
        subscription = r.session.subscriptions.get(name)
        if subscription is None:
            raise Unacceptable(ErrorCode.NOT_FOUND, f"there is no subscription {name!r}")
        if subscription.deleted:
            return _on_deleted(r, subscription)
        if not subscription.flushing:
            return serve(r, subscription)
        if len(subscription.behind) >= MOST_BEHIND:
            text = f"more than {MOST_BEHIND} commands behind a flush of {name!r}"
            raise Unacceptable(ErrorCode.RESOURCE_LIMIT_EXCEEDED, text)
        subscription.behind.append(partial(r.session.serve_later, r, in_turn))
        return []

    return in_turn


def _on_deleted(r: Request, subscription: Subscription) -> list[Operation]:
    """A command for a subscription whose queue is deleted: only credit needs the queue."""
    if isinstance(r.record, w.MessageFlow):
        raise Unacceptable(ErrorCode.RESOURCE_DELETED, subscription.deleted)
    if isinstance(r.record, w.MessageCancel):
        del r.session.subscriptions[subscription.name]
    r.session.complete(r.number)
    return []


def _cancel(r: Request, subscription: Subscription) -> list[Operation]:
    subscription.drop()
    return [Unsubscribe(r.session.number, r, subscription.name)]


def _set_flow_mode(r: Request, subscription: Subscription) -> list[Operation]:
    mode = r.record.flow_mode or FlowMode.CREDIT
    if mode > FlowMode.WINDOW:
        raise Unacceptable(ErrorCode.INVALID_ARGUMENT, f"there is no flow mode {mode}")
    if not subscription.idle:
        raise Unacceptable(ErrorCode.ILLEGAL_STATE, "a flow mode is set where no credit is left")
    subscription.window = mode == FlowMode.WINDOW
    r.session.complete(r.number)
    return []


def _flow(r: Request, subscription: Subscription) -> list[Operation]:
    m: w.MessageFlow = r.record
    unit = m.unit or CreditUnit.MESSAGE
    if unit > CreditUnit.BYTE:
        raise Unacceptable(ErrorCode.INVALID_ARGUMENT, f"there is no credit unit {unit}")
    subscription.add(unit, UNLIMITED if m.value is None else m.value)
    r.session.complete(r.number)
    return [subscription.tell()]


def _stop(r: Request, subscription: Subscription) -> list[Operation]:
    subscription.drop()
    return [subscription.tell(r)]


def _flush(r: Request, subscription: Subscription) -> list[Operation]:
    credit: Credit = subscription.tell(r, drain=True)
    subscription.drop()
    subscription.flushing = True
    return [credit]


# --- settlement ----------------------------------------------------------------------------------


def _accept(r: Request) -> list[Operation]:
    session = r.session
    taken = session.unsettled.take(unwrapped(r.record.transfers, session.sent))
    session.batches.numbers[r.number] = None
    if session.transactional:
        session.accepted.update(taken)
    return _settled(session.number, list(taken.values()), Outcome.ACCEPT)


def _release(r: Request) -> list[Operation]:
    """Back to their places; redelivered from then on only if the client says so."""
    return _given_up(r, Outcome.RELEASE if r.record.set_redelivered else Outcome.UNDO)


def _reject(r: Request) -> list[Operation]:
    """To the alternate exchange of their queue, with code and text if they say anything."""
    m: w.MessageReject = r.record
    reason: Table = {}
    if m.code:
        reason[REJECT_CODE] = int(m.code)
    if m.text:
        reason[REJECT_TEXT] = m.text
    return _given_up(r, Outcome.REJECT, reason or None)


def _given_up(r: Request, outcome: Outcome, reason: Table | None = None) -> list[Operation]:
    """Release and reject, which no transaction covers. What was accepted in the transaction before
    is given up if that is rolled back, as the Python client does it just before tx.rollback."""
    session = r.session
    ranges = unwrapped(r.record.transfers, session.sent)
    taken = session.unsettled.take(ranges)
    if session.accepted:
        session.given_up.append((ranges, outcome, reason))
    session.batches.numbers[r.number] = None
    if not taken:
        return []
    return [SettleMany(session.number, list(taken.values()), outcome, reason)]


def _settled(channel: int, deliveries: list[int], outcome: Outcome) -> list[Operation]:
    if len(deliveries) == 1:
        return [Settle(channel, deliveries[0], False, outcome)]
    return [SettleMany(channel, deliveries, outcome)] if deliveries else []


def _acquire(r: Request) -> list[Operation]:
    """Take messages that were browsed."""
    session = r.session
    if session.acquiring > MOST_ACQUIRED:
        text = f"more than {MOST_ACQUIRED} messages are being acquired already"
        raise Unacceptable(ErrorCode.RESOURCE_LIMIT_EXCEEDED, text)
    ranges = unwrapped(r.record.transfers, session.sent)
    named = list(session.unsettled.look(ranges).values())
    if session.browsed is not None:
        named += session.browsed.look(ranges).values()
    session.acquiring += len(named)
    return [Acquire(session.number, r, named)]


def _resume(r: Request) -> list[Operation]:
    """Answered with the offset 0: no part of an interrupted transfer is kept, so that no resume-id
    is known (rule "unknown-resume-id"). The destination has to be there."""
    number, exchange = r.session.number, r.record.destination
    if not exchange:
        return [Synchronize(number, r)]
    return [DeclareExchange(number, r, exchange, "", passive=True)]


# --- transactions --------------------------------------------------------------------------------


def _select(r: Request) -> list[Operation]:
    if r.session.transactional:
        raise Unacceptable(ErrorCode.ILLEGAL_STATE, "the session is transactional already")
    if r.session.branching:
        raise Unacceptable(ErrorCode.ILLEGAL_STATE, "the session has selected class dtx")
    r.session.transactional = True
    return [Select(r.session.number, r)]


def _end_transaction(operation: Callable[[int, Any], Operation]) -> Serve:
    def serve(r: Request) -> list[Operation]:
        if not r.session.transactional:
            raise Unacceptable(ErrorCode.ILLEGAL_STATE, "the session is not transactional")
        return [operation(r.session.number, r)]

    return serve


def _sync(r: Request) -> list[Operation]:
    return [Synchronize(r.session.number, r)]


def _ignore(r: Request) -> list[Operation]:
    """A result or an exception of the client: nothing follows from it."""
    r.session.complete(r.number)
    return []


_SERVE: dict[str, Serve] = {
    "execution.sync": _sync,
    "execution.result": _ignore,
    "execution.exception": _ignore,
    "message.accept": _accept,
    "message.reject": _reject,
    "message.release": _release,
    "message.acquire": _acquire,
    "message.resume": _resume,
    "message.subscribe": _subscribe,
    "message.cancel": _on_subscription(_cancel),
    "message.set-flow-mode": _on_subscription(_set_flow_mode),
    "message.flow": _on_subscription(_flow),
    "message.flush": _on_subscription(_flush),
    "message.stop": _on_subscription(_stop),
    "tx.select": _select,
    "tx.commit": _end_transaction(Commit),
    "tx.rollback": _end_transaction(Rollback),
    **branches.SERVE,
    "exchange.declare": _declare_exchange,
    "exchange.delete": _delete_exchange,
    "exchange.query": lambda r: [FindExchange(r.session.number, r, r.record.name or "")],
    "exchange.bind": _bind,
    "exchange.unbind": _unbind,
    "exchange.bound": _bound,
    "queue.declare": _declare_queue,
    "queue.delete": _delete_queue,
    "queue.purge": _purge_queue,
    "queue.query": lambda r: [FindQueue(r.session.number, r, r.record.queue or "")],
}

_CODES = {kind.name: kind.code for kind in OPERATIONS.values()}
SERVE = {_CODES[name]: serve for name, serve in _SERVE.items()}
"""By code. Other commands are refused with not-implemented."""

BATCHED = frozenset(
    _CODES[name]
    for name in (
        "message.accept", "message.reject", "message.release", "message.flow",
        "message.set-flow-mode",
    )
)  # fmt: skip


# --- results -------------------------------------------------------------------------------------


def _exchange_found(r: Request, found: FoundExchange | None) -> Any:
    if found is None:
        return w.ExchangeQueryResult(not_found=True)
    return w.ExchangeQueryResult(found.type, found.durable, False, write_map(found.arguments))


def _queue_found(r: Request, found: FoundQueue | None) -> Any:
    """Of an unknown queue a struct without any field."""
    if found is None:
        return w.QueueQueryResult()
    return w.QueueQueryResult(
        found.name,
        found.arguments.get(DEAD_LETTER),
        found.durable,
        found.exclusive,
        found.auto_delete,
        write_map(found.arguments),
        found.messages,
        found.consumers,
    )


def _bindings_found(r: Request, found: FoundBindings) -> Any:
    return w.ExchangeBoundResult(
        found.exchange_not_found,
        found.queue_not_found,
        found.queue_not_matched,
        found.key_not_matched,
        found.arguments_not_matched,
    )


def _acquired(r: Request, result: Any) -> Any:
    """Which messages the client has now. Those that do not fit the set are put back; those that
    need no accept are settled."""
    session, held = r.session, set(result)
    session.acquiring = 0
    named = unwrapped(r.record.transfers, session.sent)
    known, browsed = session.unsettled.look(named), session.browsed
    if browsed is not None and (seen := browsed.look(named)):
        known = dict(sorted({**known, **seen}.items())) if known else seen
    ranges = ranges_of([number for number, each in known.items() if each in held])
    if len(ranges) > MOST_RANGES:
        beyond = unwrapped(ranges[MOST_RANGES:], session.sent)
        ranges = ranges[:MOST_RANGES]
        back = session.unsettled.take(beyond)
        if browsed is not None:
            back |= browsed.take(beyond)
        _settle_later(session, list(back.values()), Outcome.UNDO)
    if browsed is not None:
        taken = browsed.take(unwrapped(ranges, session.sent))
        _settle_later(session, list(taken.values()), Outcome.ACCEPT)
    return w.Acquired(ranges)


def _settle_later(session: Session, deliveries: list[int], outcome: Outcome) -> None:
    """What follows from an answer, or from a delivery."""
    session.follow(*_settled(session.number, deliveries, outcome))


def _started_over(r: Request, result: Any) -> Any:
    return w.MessageResumeResult(0)


def _cancelled(r: Request, result: Any) -> None:
    r.session.subscriptions.pop(r.record.destination or "", None)


def _flushed(r: Request, result: Any) -> None:
    subscription = r.session.subscriptions.get(r.record.destination or "")
    if subscription is not None:
        subscription.flushing = False
        behind, subscription.behind = subscription.behind, []
        for serve in behind:
            serve()


def _committed(r: Request, result: Any) -> None:
    r.session.accepted.clear()
    r.session.given_up.clear()


def _rolled_back(r: Request, result: Any) -> None:
    """The client still holds the messages that it had accepted, but for those that it gave up."""
    session = r.session
    session.unsettled.restore(session.accepted)
    session.accepted = {}
    given_up, session.given_up = session.given_up, []
    for ranges, outcome, reason in given_up:
        taken = list(session.unsettled.take(ranges).values())
        if taken:
            session.follow(SettleMany(session.number, taken, outcome, reason))


_ANSWERS: dict[str, Answer] = {
    "exchange.query": _exchange_found,
    "queue.query": _queue_found,
    "exchange.bound": _bindings_found,
    "message.acquire": _acquired,
    "message.cancel": _cancelled,
    "message.resume": _started_over,
    "message.flush": _flushed,
    "tx.commit": _committed,
    "tx.rollback": _rolled_back,
    **branches.ANSWERS,
}
ANSWERS = {_CODES[name]: answer for name, answer in _ANSWERS.items()}
