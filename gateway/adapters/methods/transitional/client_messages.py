"""Class message in the client role: it always understands it, and uses it where that is asked for.

A server of 24 July answers each transfer: ``message.ok`` confirms it, ``message.reject`` returns
it. A delivery is settled by such a response of ours, or with plain methods (27 July) by
``execution.complete``. Neither can give a single delivery back to its queue.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from gateway.adapters.methods.codes import ReplyCodes
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.transitional import content as messages
from gateway.adapters.methods.transitional import types
from gateway.adapters.methods.transitional.channel import Channel
from gateway.adapters.methods.transitional.versions import Carried
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.bodies import Body
from gateway.errors import Condition, LocalError, PeerError
from gateway.message import Message
from gateway.operations import (
    Confirm,
    Deliver,
    Done,
    Fetch,
    Fetched,
    Operation,
    Outcome,
    Prefetch,
    Publish,
    Recover,
    Returned,
    Settle,
    Subscribe,
    Unsubscribe,
)

IN_PARTS = frozenset(
    f"message.{name}" for name in ("open", "append", "close", "checkpoint", "resume")
)
ANSWERS = frozenset(["message.ok", "message.reject", "message.empty"])
GENERIC = 0
"""The code of a rejection (domain reject-code)."""


class MessagesEngine(Protocol):
    """The engine, as far as this class needs it."""

    requests: bool
    codes: ReplyCodes

    def send_method(self, channel: int, record: Any, request: int = 0, batch: int = 0) -> int: ...


class Transferred(NamedTuple):
    """A publish of ours that the server has not answered. ``sequence``: its number among those that
    are to be confirmed, or 0."""

    publish: Publish
    sequence: int


# --- requests ------------------------------------------------------------------------------------


def named(channel: Channel, op: Any) -> Any:
    """A request with the destination that the server does not choose."""
    if isinstance(op, Subscribe) and not op.tag:
        return replace(op, tag=channel.new_destination())
    return op


def _consume(op: Subscribe) -> w.MessageConsume:
    return w.MessageConsume(
        queue=op.queue,
        destination=op.tag,
        no_local=op.no_local,
        no_ack=op.no_ack,
        exclusive=op.exclusive,
        filter=types.write_table(op.arguments) if op.arguments else b"",
    )


RANGES = 256
"""Ranges of deliveries in one ``execution.complete``."""
FETCHED = "amqp-gateway-fetched"
"""Destination of fetched messages."""

ASK: dict[type[Operation], Callable[[Any], Any]] = {
    Prefetch: lambda op: w.MessageQos(op.size, op.count, op.shared),
    Subscribe: _consume,
    Unsubscribe: lambda op: w.MessageCancel(op.tag),
    Fetch: lambda op: w.MessageGet(queue=op.queue, destination=FETCHED, no_ack=op.no_ack),
    Recover: lambda op: w.MessageRecover(op.requeue),
}
"""Instead of the requests of class basic."""


def result(channel: Channel, op: Any) -> Any:
    """Of a request that was complete without a reply."""
    if isinstance(op, Unsubscribe):
        channel.consumers.pop(op.tag, None)
    if isinstance(op, Subscribe | Unsubscribe):
        return op.tag
    if isinstance(op, Fetch):
        fetched, channel.fetched_message = channel.fetched_message, None
        return fetched
    return None


def publish(engine: MessagesEngine, channel: Channel, op: Publish) -> None:
    """Raises ``ValueError`` before anything is written."""
    name = channel.publish_transfer(op.message, op.mandatory, op.immediate)
    sequence = channel.published + 1 if channel.confirming else 0
    if engine.requests and (sequence or op.mandatory or op.immediate):
        channel.transferred[name] = Transferred(op, sequence)


def settle(engine: MessagesEngine, op: Settle, channel: Channel, names: list[int]) -> None:
    """Settle these deliveries, which ``check_settlement`` allows."""
    if op.outcome.returns:
        engine.send_method(op.channel, w.MessageRecover(requeue=True))
    elif engine.requests:
        accepted = op.outcome is Outcome.ACCEPT
        for first, last in runs(names):
            if accepted:
                engine.send_method(op.channel, w.MessageOk(), first, last - first)
                continue
            for name in range(first, last + 1):
                engine.send_method(op.channel, w.MessageReject(GENERIC, "rejected"), name)
    else:
        found = [(first % types.SERIALS, last % types.SERIALS) for first, last in runs(names)]
        for at in range(0, len(found), RANGES):
            done = types.write_set(found[at : at + RANGES])
            engine.send_method(op.channel, w.ExecutionComplete(0, done))


def check_settlement(engine: MessagesEngine, op: Settle, channel: Channel) -> None:
    """Raises ``LocalError`` if there is no way to say it."""
    if op.outcome.returns:
        newest = channel.deliveries.newest()
        if op.multiple:
            whole = not op.delivery or newest is None or op.delivery >= newest
        else:
            whole = len(channel.deliveries) == 1 and op.delivery == newest
        if not whole:
            raise LocalError("class message cannot give single deliveries back")
    elif op.outcome is not Outcome.ACCEPT and not engine.requests:
        raise LocalError("class message of 27 July cannot reject")


def runs(names: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of the numbers that follow each other; the names ascend."""
    first = last = names[0] if names else 0
    for name in names:
        if name > last + 1:
            yield first, last
            first = name
        last = name
    if names:
        yield first, last


def completed(engine: MessagesEngine, channel: Channel) -> w.ExecutionComplete:
    """How far we are, when the server asks. With plain methods this settles deliveries, so that it
    ends before the first that is not settled."""
    mark = channel.numbering.received
    oldest = None if engine.requests else channel.deliveries.oldest()
    if oldest is not None:
        mark = oldest - 1
    return w.ExecutionComplete(mark % types.SERIALS)


# --- methods of the server -----------------------------------------------------------------------


def take(
    engine: MessagesEngine,
    channel: Channel,
    name: str,
    m: Any,
    carried: Carried | None,
    found: list[Operation],
) -> bool:
    """One method of class message; whether it was understood. Raises ``PeerError``,
    ``ValueError``."""
    if name == "message.transfer":
        number = channel.numbering.received if carried is None else carried.identifier
        body = types.read_body(m.body)
        if body.is_reference:
            channel.references.transfer(body.octets, (number, m))
        else:
            _arrived(channel, number, m, body.octets, found)
    elif name in IN_PARTS:
        closed = channel.take_part(m, 0 if carried is None else carried.identifier)
        if closed is not None:
            for number, transfer in closed[1]:
                _arrived(channel, number, transfer, closed[0], found)
    elif name in ANSWERS:
        _answered(engine, channel, name, m, carried, found)
    else:
        return False
    return True


def _arrived(
    channel: Channel, name: int, m: w.MessageTransfer, body: Body, found: list[Operation]
) -> None:
    header, essentials = messages.header_of(m)
    message = Message(BASIC, header, body, m.exchange, m.routing_key, essentials)
    if m.destination == FETCHED:
        asked = next((one for one in channel.awaited if isinstance(one.operation, Fetch)), None)
        if asked is None or channel.fetched_message is not None:
            raise PeerError(Condition.COMMAND_INVALID, "a message that was not asked for")
        no_ack = asked.operation.no_ack
        channel.fetched_message = Fetched(name, m.redelivered, message, 0)
    else:
        consumer = channel.consumers.get(m.destination)
        no_ack = consumer is not None and consumer.no_ack
        found.append(Deliver(channel.number, m.destination, name, m.redelivered, message))
    if not no_ack:
        channel.deliveries.add(name, name)


def _answered(
    engine: MessagesEngine,
    channel: Channel,
    name: str,
    m: Any,
    carried: Carried | None,
    found: list[Operation],
) -> None:
    """A response to transfers of ours, or to a get."""
    if carried is None or not carried.is_response:
        raise PeerError(Condition.COMMAND_INVALID, f"{name} answers nothing")
    first, awaited = carried.other, channel.awaited
    asked: Any = awaited[0] if awaited else None
    if asked is not None and isinstance(asked.operation, Fetch) and asked.request == first:
        awaited.popleft()
        if asked.token is not None:
            found.append(Done(channel.number, asked.token, result(channel, asked.operation)))
        return
    waiting = channel.transferred
    if carried.batch < len(waiting):
        names = range(first, first + carried.batch + 1)
        answered = [waiting.pop(one) for one in names if one in waiting]
    else:
        last = first + carried.batch
        answered = [waiting.pop(one) for one in list(waiting) if first <= one <= last]
    for op, sequence in answered:
        rejected = name == "message.reject"
        if rejected and (op.mandatory or op.immediate):
            condition = engine.codes.condition(m.code)
            found.append(Returned(channel.number, op.message, condition, m.text, sequence))
            rejected = False
        if sequence:
            found.append(Confirm(channel.number, sequence, False, not rejected))
