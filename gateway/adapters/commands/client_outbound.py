"""Encodes the operations of a client.

Operations on handles become commands directly. The operations that other versions have (declare,
publish, subscribe) open handles of their own, so that 0.8a2 can be used like the others.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any

from gateway import operations as ops
from gateway.adapters.commands import states
from gateway.adapters.commands.client_channel import (
    MOST_TAG,
    AwaitedReply,
    ClientChannel,
    ClientChannels,
    ClientHandle,
)
from gateway.adapters.commands.connection import split_around
from gateway.adapters.commands.content import COMMAND
from gateway.adapters.commands.fragments import octets_of
from gateway.adapters.commands.frames import frame
from gateway.adapters.commands.states import CLOSING, OPEN
from gateway.adapters.commands.wire import layouts as w
from gateway.adapters.commands.wire.tables import SERVICES, SUCCESS
from gateway.errors import LocalError
from gateway.message import Message

TOPICS = "amq.topic"

VARYING = Struct(">HIB")
"""The fields that vary: confirm tag, octets of the fragment, bits (§3.5.3)."""


def send(table: ClientChannels, operation: ops.Operation) -> None:
    """Encode an operation. Raises ``LocalError`` if 0.8a2 has no command for it."""
    if table.connection.state is not states.OPEN:
        raise LocalError("the connection is not open")
    op: Any = operation
    if (over_channel := CHANNEL_ENCODERS.get(type(op))) is not None:
        over_channel(table, table.channel(op.channel), op)
    elif (over_handle := HANDLE_ENCODERS.get(type(op))) is not None:
        over_handle(table, find_handle(table, op), op)
    elif isinstance(op, ops.BeginSession):
        begin(table, op)
    else:
        raise LocalError(f"{type(op).__name__} cannot be sent by a client of 0.8a2")


def confirm_tag(
    table: ClientChannels,
    scope: ClientChannel | ClientHandle,
    kind: str,
    token: ops.Token,
    make: Callable[[object], object] | None = None,
) -> int:
    """A confirm tag for a request over a channel or handle, 0 if its result is not wanted. ``kind``
    and ``make`` as in ``AwaitedReply``."""
    if token is None:
        return 0
    tag = table.tag()
    if tag in scope.awaited:
        raise LocalError("too many requests are under way")
    scope.awaited[tag] = AwaitedReply(kind, token, make)
    return tag


def find_handle(table: ClientChannels, op: Any) -> ClientHandle:
    handle = table.handles.get(int(op.link)) if op.link.isdigit() else None
    if handle is None or handle.state is not OPEN or handle.channel.number != op.channel:
        raise LocalError(f"handle {op.link} is not open")
    return handle


# --- channels -----------------------------------------------------------------------------------


def begin(table: ClientChannels, op: ops.BeginSession) -> None:
    number = op.channel
    if number in table.channels or not 0 < number <= MOST_TAG:
        raise LocalError(f"channel {number} cannot be opened")
    if len(table.channels) >= table.channel_max:
        raise LocalError(f"the server lets {table.channel_max} channels be opened")
    channel = ClientChannel(number, op.transacted, op.restartable)
    tag = confirm_tag(table, channel, "channel", op.token)
    table.write(w.ChannelOpen(number, tag, op.transacted, op.restartable))
    table.channels[number] = channel


def end(table: ClientChannels, channel: ClientChannel, op: ops.EndSession) -> None:
    channel.state = CLOSING
    channel.closing = op.token
    table.write(w.ChannelClose(op.channel, SUCCESS))


def acknowledge(table: ClientChannels, channel: ClientChannel, op: ops.Acknowledge) -> None:
    tag = confirm_tag(table, channel, "ack", op.token)
    channel.settled(op.up_to, True)
    table.write(w.ChannelAck(op.channel, tag, op.up_to))


def commit(table: ClientChannels, channel: ClientChannel, op: ops.Commit | ops.Rollback) -> None:
    if not channel.transacted:
        raise LocalError(f"channel {op.channel} is not transacted")
    tag = confirm_tag(table, channel, "tx", op.token)
    record = w.ChannelCommit if isinstance(op, ops.Commit) else w.ChannelRollback
    table.write(record(op.channel, tag))


def done_locally(table: ClientChannels, op: Any, result: object = None) -> None:
    """Report an operation as done that sends nothing to the server."""
    if op.token is not None:
        table.connection.found_now().append(ops.Done(op.channel, op.token, result))


def prefetch(table: ClientChannels, channel: ClientChannel, op: ops.Prefetch) -> None:
    channel.prefetch = min(op.count, MOST_TAG) or MOST_TAG
    done_locally(table, op)


def select_confirms(table: ClientChannels, channel: ClientChannel, op: ops.SelectConfirms) -> None:
    channel.counting = True
    done_locally(table, op)


def flow(table: ClientChannels, channel: ClientChannel, op: ops.Flow) -> None:
    for handle in list(channel.handles.values()):
        if handle.tag != handle.link:
            table.write(w.HandleFlow(handle.number, 0, not op.active))
    done_locally(table, op, op.active)


# --- handles ------------------------------------------------------------------------------------


def new_handle(
    table: ClientChannels, channel: ClientChannel, service: ops.Service, number: int = 0
) -> ClientHandle:
    if len(table.handles) >= table.handle_max:
        raise LocalError(f"the server lets {table.handle_max} handles be opened")
    if not number:
        number = next(n for n in range(1, MOST_TAG + 1) if n not in table.handles)
    handle = ClientHandle(number, channel, service)
    table.handles[number] = channel.handles[number] = handle
    return handle


def open_destination(
    table: ClientChannels, channel: ClientChannel, op: ops.OpenDestination
) -> None:
    number = int(op.link) if op.link.isdigit() else 0
    if not 0 < number <= MOST_TAG or number in table.handles:
        raise LocalError(f"handle {op.link} cannot be opened")
    handle = new_handle(table, channel, op.service, number)
    peer = op.service is ops.Service.PEER
    record = w.HandleOpen(
        channel.number,
        number,
        SERVICES[op.service.value],
        0,
        op.produce,
        op.consume and not peer,
        op.browse and not peer,
        op.temporary,
        op.name,
        op.content_type,
        op.content_encoding,
    )
    kind = "temporary" if op.temporary else "open"
    record.confirm_tag = confirm_tag(table, handle, kind, op.token)
    table.write(record)


def close_destination(
    table: ClientChannels, handle: ClientHandle, op: ops.CloseDestination
) -> None:
    close_handle(table, handle, AwaitedReply("close", op.token))


def close_handle(table: ClientChannels, handle: ClientHandle, reply: AwaitedReply) -> None:
    handle.state = CLOSING
    handle.awaited[0] = reply
    table.write(w.HandleClose(handle.number, SUCCESS))


def listen(table: ClientChannels, handle: ClientHandle, op: ops.Listen) -> None:
    handle.settled = op.no_ack
    tag = confirm_tag(table, handle, "consume", op.token, lambda _: op.name)
    table.write(
        w.HandleConsume(
            handle.number,
            tag,
            op.window,
            op.no_local,
            op.no_ack,
            op.name,
            op.identifier,
            op.selector.encode(),
            op.selector_type,
        )
    )


def end_subscription(table: ClientChannels, handle: ClientHandle, op: ops.EndSubscription) -> None:
    tag = confirm_tag(table, handle, "cancel", op.token)
    table.write(w.HandleCancel(handle.number, tag, op.name, op.identifier))


def pause(table: ClientChannels, handle: ClientHandle, op: ops.PauseHandle) -> None:
    tag = confirm_tag(table, handle, "flow", op.token)
    table.write(w.HandleFlow(handle.number, tag, op.paused))


def give_back(table: ClientChannels, handle: ClientHandle, op: ops.GiveBack) -> None:
    tag = confirm_tag(table, handle, "unget", op.token, lambda _: True)
    handle.channel.unsettled.pop(op.delivery, None)
    table.write(w.HandleUnget(handle.number, tag, op.delivery))


def query(table: ClientChannels, handle: ClientHandle, op: ops.Query) -> None:
    handle.queries.append(op.token)
    selector = op.selector.encode()
    table.write(w.HandleQuery(handle.number, op.start, op.name, selector, op.selector_type))


def browse(table: ClientChannels, handle: ClientHandle, op: ops.Browse) -> None:
    tag = table.tag()
    handle.browses.append((tag, op.token))
    table.write(w.HandleBrowse(handle.number, tag, op.number))


# --- messages -----------------------------------------------------------------------------------


def send_to(table: ClientChannels, handle: ClientHandle, op: ops.SendTo) -> None:
    tag = confirm_tag(table, handle, "send", op.token) if op.answered else 0
    write_publish(table, handle, tag, op.name, op.message)


def write_publish(
    table: ClientChannels, handle: ClientHandle, tag: int, name: str, message: Message
) -> None:
    """Send a message in as many fragments as it needs. Hot."""
    connection = table.connection
    head, body = connection.headers.for_peer(message, connection.frame_out)
    size = len(head) + len(body)
    if size > connection.frame_out:
        record = w.HandleSend(handle.number, tag)
        connection.write_message(handle.channel, record, name, head, body)
        return
    template = table.templates.get((handle.number, name))
    if template is None:
        octets = frame(w.HandleSend(handle.number, dest_name=name))
        template = split_around(octets, VARYING)
        table.templates.keep((handle.number, name), template)
    octets = b"".join((template[0], VARYING.pack(tag, size, 0), template[1], head, octets_of(body)))
    connection.put_message(handle.channel.number, octets)


def prepare(table: ClientChannels, handle: ClientHandle, op: ops.Prepare) -> None:
    if not handle.channel.restartable:
        raise LocalError(f"channel {op.channel} is not restartable")
    size = op.size.to_bytes(4, "big")
    header, body = op.message.form_for(COMMAND)
    if len(size) + len(header) + len(body) > table.connection.frame_out:
        raise LocalError("the prepared part does not fit a fragment")
    first = size + header + octets_of(body)
    handle.prepares.append(op.token)
    record = w.HandlePrepare(handle.number, len(first), op.digest)
    table.connection.put_message(op.channel, frame(record) + first)


def continue_(table: ClientChannels, handle: ClientHandle, op: ops.Continue) -> None:
    tag = 0
    if op.last and op.answered:
        tag = confirm_tag(table, handle, "send", op.token)
    if op.last:
        record = w.HandleSend(handle.number, tag, recovery=True)
        table.connection.write_message(handle.channel, record, op.name, b"", op.octets)
        return
    record = w.HandleSend(handle.number, partial=True, recovery=True)
    table.connection.write_parts(op.channel, record, op.octets)


# --- as in other versions -----------------------------------------------------------------------


def publish(table: ClientChannels, channel: ClientChannel, op: ops.Publish) -> None:
    """Publish to a queue (default exchange) or a topic; there are no other exchanges."""
    message = op.message
    if message.exchange not in ("", TOPICS):
        raise LocalError(f"0.8a2 has no exchange '{message.exchange}'")
    service = ops.Service.TOPIC if message.exchange else ops.Service.QUEUE
    handle = channel.producers.get(service)
    if handle is None:
        handle = channel.producers[service] = new_handle(table, channel, service)
        record = w.HandleOpen(channel.number, handle.number, SERVICES[service.value], producer=True)
        table.write(record)
    tag = 0
    if channel.counting:
        channel.confirms += 1
        tag = confirm_tag(table, handle, "confirm", channel.confirms)
    write_publish(table, handle, tag, message.key, message)


def subscribe(table: ClientChannels, channel: ClientChannel, op: ops.Subscribe) -> None:
    """Each consumer has a handle; the server does not learn the consumer tag."""
    if op.filter is not None or op.copy or op.credit is not None:
        raise LocalError("0.8a2 has no consumer like that")
    handle = new_handle(table, channel, ops.Service.QUEUE)
    handle.tag = tag = op.tag or f"consumer-{handle.number}"
    handle.settled = op.no_ack
    connection = table.connection
    connection.write(w.HandleOpen(channel.number, handle.number, SERVICES["queue"], consumer=True))
    confirm = confirm_tag(table, handle, "consume", op.token, lambda _: tag)
    connection.write(
        w.HandleConsume(handle.number, confirm, channel.prefetch, op.no_local, op.no_ack, op.queue)
    )


def unsubscribe(table: ClientChannels, channel: ClientChannel, op: ops.Unsubscribe) -> None:
    handle = next((handle for handle in channel.handles.values() if handle.tag == op.tag), None)
    if handle is None or handle.state is not OPEN:
        raise LocalError(f"there is no consumer '{op.tag}'")
    tag = op.tag
    close_handle(table, handle, AwaitedReply("close", op.token, lambda _: tag))


def declare_queue(table: ClientChannels, channel: ClientChannel, op: ops.DeclareQueue) -> None:
    """Check that a queue exists, or make a temporary one; 0.8a2 declares no others."""
    if not op.passive and not op.exclusive:
        raise LocalError("0.8a2 makes temporary queues only")
    handle = new_handle(table, channel, ops.Service.QUEUE)
    name = op.name
    kind = "open" if op.passive else "temporary"
    tag = confirm_tag(table, handle, kind, op.token, lambda made: state(made or name))
    table.write(
        w.HandleOpen(
            channel.number,
            handle.number,
            SERVICES["queue"],
            tag,
            producer=True,
            consumer=True,
            temporary=not op.passive,
            dest_name=name,
        )
    )


def state(name: object) -> ops.QueueState:
    return ops.QueueState(str(name), 0, 0)


def settle(table: ClientChannels, channel: ClientChannel, op: ops.Settle) -> None:
    """Rejected deliveries are acknowledged, which discards them: there is no reject command."""
    if not op.outcome.returns:
        last = channel.settled(op.delivery, op.multiple)
        if last:
            table.write(w.ChannelAck(op.channel, 0, last))
        return
    for number in list(channel.unsettled):
        if number == op.delivery or (op.multiple and (not op.delivery or number < op.delivery)):
            handle = channel.handle_of.pop(number, None)
            del channel.unsettled[number]
            if handle is not None and handle.state is OPEN:
                table.write(w.HandleUnget(handle.number, 0, number))


CHANNEL_ENCODERS: dict[
    type[ops.Operation], Callable[[ClientChannels, ClientChannel, Any], None]
] = {
    ops.EndSession: end,
    ops.Acknowledge: acknowledge,
    ops.Commit: commit,
    ops.Rollback: commit,
    ops.Prefetch: prefetch,
    ops.SelectConfirms: select_confirms,
    ops.Flow: flow,
    ops.OpenDestination: open_destination,
    ops.Publish: publish,
    ops.Subscribe: subscribe,
    ops.Unsubscribe: unsubscribe,
    ops.DeclareQueue: declare_queue,
    ops.Settle: settle,
}
HANDLE_ENCODERS: dict[type[ops.Operation], Callable[[ClientChannels, ClientHandle, Any], None]] = {
    ops.CloseDestination: close_destination,
    ops.Listen: listen,
    ops.EndSubscription: end_subscription,
    ops.PauseHandle: pause,
    ops.GiveBack: give_back,
    ops.Query: query,
    ops.Browse: browse,
    ops.SendTo: send_to,
    ops.Prepare: prepare,
    ops.Continue: continue_,
}
