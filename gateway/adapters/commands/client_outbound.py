"""What a client says. Words of handles become commands as they are; the common words of queues,
publishing and consuming become handles of their own, so that 0.8a2 can be spoken like the others.
"""

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any

from gateway.adapters.commands import states
from gateway.adapters.commands.client_channel import (
    MOST_TAG,
    AwaitedReply,
    ClientChannel,
    ClientHandle,
)
from gateway.adapters.commands.content import COMMAND
from gateway.adapters.commands.fragments import cut_fragments, octets_of
from gateway.adapters.commands.frames import frame
from gateway.adapters.commands.states import CLOSING, OPEN
from gateway.adapters.commands.wire import layouts as w
from gateway.adapters.commands.wire.tables import SERVICES, SUCCESS
from gateway.bodies import Body
from gateway.errors import LocalError
from gateway.message import Message
from gateway.operations import (
    Acknowledge,
    BeginSession,
    Browse,
    CloseDestination,
    Commit,
    Continue,
    DeclareQueue,
    Done,
    EndSession,
    EndSubscription,
    Flow,
    GiveBack,
    Listen,
    OpenDestination,
    Operation,
    PauseHandle,
    Prefetch,
    Prepare,
    Publish,
    Query,
    QueueState,
    Rollback,
    SelectConfirms,
    SendTo,
    Service,
    Settle,
    Subscribe,
    Unsubscribe,
)

if TYPE_CHECKING:
    from gateway.adapters.commands.client import Client

TOPICS = "amq.topic"

VARYING_AT, VARYING = 5, Struct(">HIB")
"""Behind size, type and handle: confirm tag, octets of the fragment, bits (§3.5.3)."""


def encode(client: "Client", operation: Operation) -> None:
    """Raises ``LocalError`` for what 0.8a2 has no word for."""
    encoder = ENCODERS.get(type(operation))
    if encoder is None:
        raise LocalError(f"{type(operation).__name__} cannot be sent by a client of 0.8a2")
    if client.engine.state is not states.OPEN:
        raise LocalError("the connection is not open")
    encoder(client, operation)


def confirm_tag(client: "Client", awaited: dict[int, AwaitedReply], reply: AwaitedReply) -> int:
    """A confirm tag, 0 if nobody wants to know."""
    if reply.token is None:
        return 0
    tag = client.tag()
    if tag in awaited:
        raise LocalError("too many requests are under way")
    awaited[tag] = reply
    return tag


def find_handle(client: "Client", op: Any) -> ClientHandle:
    handle = client.handles.get(int(op.link)) if op.link.isdigit() else None
    if handle is None or handle.state is not OPEN or handle.channel.number != op.channel:
        raise LocalError(f"handle {op.link} is not open")
    return handle


# --- channels -----------------------------------------------------------------------------------


def begin(client: "Client", op: BeginSession) -> None:
    number = op.channel
    if number in client.channels or not 0 < number <= MOST_TAG:
        raise LocalError(f"channel {number} cannot be opened")
    if len(client.channels) >= client.channel_max:
        raise LocalError(f"the server lets {client.channel_max} channels be opened")
    channel = ClientChannel(number, client, op.transacted, op.restartable)
    tag = confirm_tag(client, channel.awaited, AwaitedReply("channel", op.token))
    client.engine.write(w.ChannelOpen(number, tag, op.transacted, op.restartable))
    client.channels[number] = channel


def end(client: "Client", op: EndSession) -> None:
    channel = client.channel(op.channel)
    channel.state = CLOSING
    channel.closing = op.token
    client.engine.write(w.ChannelClose(op.channel, SUCCESS))


def acknowledge(client: "Client", op: Acknowledge) -> None:
    channel = client.channel(op.channel)
    tag = confirm_tag(client, channel.awaited, AwaitedReply("ack", op.token))
    channel.settled(op.up_to, True)
    client.engine.write(w.ChannelAck(op.channel, tag, op.up_to))


def commit(client: "Client", op: Commit | Rollback) -> None:
    channel = client.channel(op.channel)
    if not channel.transacted:
        raise LocalError(f"channel {op.channel} is not transacted")
    tag = confirm_tag(client, channel.awaited, AwaitedReply("tx", op.token))
    record = w.ChannelCommit if isinstance(op, Commit) else w.ChannelRollback
    client.engine.write(record(op.channel, tag))


def done_locally(client: "Client", op: Any, result: object = None) -> None:
    """What needs no word to the server."""
    if op.token is not None:
        client.engine.found_now().append(Done(op.channel, op.token, result))


def prefetch(client: "Client", op: Prefetch) -> None:
    client.channel(op.channel).prefetch = min(op.count, MOST_TAG) or MOST_TAG
    done_locally(client, op)


def select_confirms(client: "Client", op: SelectConfirms) -> None:
    client.channel(op.channel).counting = True
    done_locally(client, op)


def flow(client: "Client", op: Flow) -> None:
    for handle in list(client.channel(op.channel).handles.values()):
        if handle.tag != handle.link:
            client.engine.write(w.HandleFlow(handle.number, 0, not op.active))
    done_locally(client, op, op.active)


# --- handles ------------------------------------------------------------------------------------


def new_handle(
    client: "Client", channel: ClientChannel, service: Service, number: int = 0
) -> ClientHandle:
    if len(client.handles) >= client.handle_max:
        raise LocalError(f"the server lets {client.handle_max} handles be opened")
    if not number:
        number = next(n for n in range(1, MOST_TAG + 1) if n not in client.handles)
    handle = ClientHandle(number, channel, service)
    client.handles[number] = channel.handles[number] = handle
    return handle


def open_destination(client: "Client", op: OpenDestination) -> None:
    channel = client.channel(op.channel)
    number = int(op.link) if op.link.isdigit() else 0
    if not 0 < number <= MOST_TAG or number in client.handles:
        raise LocalError(f"handle {op.link} cannot be opened")
    handle = new_handle(client, channel, op.service, number)
    peer = op.service is Service.PEER
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
    record.confirm_tag = confirm_tag(client, handle.awaited, AwaitedReply(kind, op.token))
    client.engine.write(record)


def close_destination(client: "Client", op: CloseDestination) -> None:
    close_handle(client, find_handle(client, op), AwaitedReply("close", op.token))


def close_handle(client: "Client", handle: ClientHandle, reply: AwaitedReply) -> None:
    handle.state = CLOSING
    handle.awaited[0] = reply
    client.engine.write(w.HandleClose(handle.number, SUCCESS))


def listen(client: "Client", op: Listen) -> None:
    handle = find_handle(client, op)
    handle.settled = op.no_ack
    tag = confirm_tag(client, handle.awaited, AwaitedReply("consume", op.token, lambda _: op.name))
    client.engine.write(
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


def end_subscription(client: "Client", op: EndSubscription) -> None:
    handle = find_handle(client, op)
    tag = confirm_tag(client, handle.awaited, AwaitedReply("cancel", op.token))
    client.engine.write(w.HandleCancel(handle.number, tag, op.name, op.identifier))


def pause(client: "Client", op: PauseHandle) -> None:
    handle = find_handle(client, op)
    tag = confirm_tag(client, handle.awaited, AwaitedReply("flow", op.token))
    client.engine.write(w.HandleFlow(handle.number, tag, op.paused))


def give_back(client: "Client", op: GiveBack) -> None:
    handle = find_handle(client, op)
    tag = confirm_tag(client, handle.awaited, AwaitedReply("unget", op.token, lambda _: True))
    handle.channel.unsettled.pop(op.delivery, None)
    client.engine.write(w.HandleUnget(handle.number, tag, op.delivery))


def query(client: "Client", op: Query) -> None:
    handle = find_handle(client, op)
    handle.queries.append(op.token)
    selector = op.selector.encode()
    client.engine.write(w.HandleQuery(handle.number, op.start, op.name, selector, op.selector_type))


def browse(client: "Client", op: Browse) -> None:
    handle = find_handle(client, op)
    tag = client.tag()
    handle.browses.append((tag, op.token))
    client.engine.write(w.HandleBrowse(handle.number, tag, op.number))


# --- messages -----------------------------------------------------------------------------------


def send_to(client: "Client", op: SendTo) -> None:
    handle = find_handle(client, op)
    tag = confirm_tag(client, handle.awaited, AwaitedReply("send", op.token)) if op.answered else 0
    write_publish(client, handle, tag, op.name, op.message)


def write_publish(
    client: "Client", handle: ClientHandle, tag: int, name: str, message: Message
) -> None:
    """A message in as many fragments as it needs; the name is on the last (§3.5.3). Hot."""
    engine = client.engine
    head, body = engine.headers.for_peer(message, engine.frame_out)
    size = len(head) + len(body)
    if size > engine.frame_out:
        write_send(client, handle, w.HandleSend(handle.number, tag), name, head, body)
        return
    template = client.templates.get((handle.number, name))
    if template is None:
        octets = frame(w.HandleSend(handle.number, dest_name=name))
        template = octets[:VARYING_AT], octets[VARYING_AT + VARYING.size :]
        client.templates.keep((handle.number, name), template)
    octets = b"".join((template[0], VARYING.pack(tag, size, 0), template[1], head, octets_of(body)))
    engine.put_message(handle.channel.number, octets)


def write_send(
    client: "Client", handle: ClientHandle, record: w.HandleSend, name: str, head: bytes, body: Body
) -> None:
    def make(fragment: bytes, more: bool) -> bytes:
        record.fragment_size = len(fragment)
        record.partial = more
        record.dest_name = "" if more else name
        return frame(record) + fragment

    client.engine.write_message(handle.channel, head, body, make)


def prepare(client: "Client", op: Prepare) -> None:
    handle = find_handle(client, op)
    if not handle.channel.restartable:
        raise LocalError(f"channel {op.channel} is not restartable")
    size = op.size.to_bytes(4, "big")
    header, body = op.message.form_for(COMMAND)
    if len(size) + len(header) + len(body) > client.engine.frame_out:
        raise LocalError("what is prepared does not fit a fragment")
    first = size + header + octets_of(body)
    handle.prepares.append(op.token)
    record = w.HandlePrepare(handle.number, len(first), op.digest)
    client.engine.put_message(op.channel, frame(record) + first)


def continue_(client: "Client", op: Continue) -> None:
    handle = find_handle(client, op)
    tag = 0
    if op.last and op.answered:
        tag = confirm_tag(client, handle.awaited, AwaitedReply("send", op.token))
    if op.last:
        record = w.HandleSend(handle.number, tag, recovery=True)
        write_send(client, handle, record, op.name, b"", op.octets)
        return
    record = w.HandleSend(handle.number, partial=True, recovery=True)
    for fragment, _ in cut_fragments(op.octets, client.engine.frame_out):
        record.fragment_size = len(fragment)
        client.engine.put_message(op.channel, frame(record) + fragment)


# --- as in other versions -----------------------------------------------------------------------


def publish(client: "Client", op: Publish) -> None:
    """To a queue (default exchange) or a topic; other exchanges there are none."""
    channel, message = client.channel(op.channel), op.message
    if message.exchange not in ("", TOPICS):
        raise LocalError(f"0.8a2 has no exchange '{message.exchange}'")
    service = Service.TOPIC if message.exchange else Service.QUEUE
    handle = channel.producers.get(service)
    if handle is None:
        handle = channel.producers[service] = new_handle(client, channel, service)
        record = w.HandleOpen(channel.number, handle.number, SERVICES[service.value], producer=True)
        client.engine.write(record)
    tag = 0
    if channel.counting:
        channel.confirms += 1
        tag = confirm_tag(client, handle.awaited, AwaitedReply("confirm", channel.confirms))
    write_publish(client, handle, tag, message.key, message)


def subscribe(client: "Client", op: Subscribe) -> None:
    """A handle for each consumer; its tag is ours to keep."""
    if op.filter is not None or op.copy or op.credit is not None:
        raise LocalError("0.8a2 has no consumer like that")
    channel = client.channel(op.channel)
    handle = new_handle(client, channel, Service.QUEUE)
    handle.tag = tag = op.tag or f"consumer-{handle.number}"
    handle.settled = op.no_ack
    engine = client.engine
    engine.write(w.HandleOpen(channel.number, handle.number, SERVICES["queue"], consumer=True))
    confirm = confirm_tag(client, handle.awaited, AwaitedReply("consume", op.token, lambda _: tag))
    engine.write(
        w.HandleConsume(handle.number, confirm, channel.prefetch, op.no_local, op.no_ack, op.queue)
    )


def unsubscribe(client: "Client", op: Unsubscribe) -> None:
    channel = client.channel(op.channel)
    handle = next((handle for handle in channel.handles.values() if handle.tag == op.tag), None)
    if handle is None or handle.state is not OPEN:
        raise LocalError(f"there is no consumer '{op.tag}'")
    tag = op.tag
    close_handle(client, handle, AwaitedReply("close", op.token, lambda _: tag))


def declare_queue(client: "Client", op: DeclareQueue) -> None:
    """Whether a queue is there, or a temporary one; others are made by other means."""
    channel = client.channel(op.channel)
    if not op.passive and not op.exclusive:
        raise LocalError("0.8a2 makes temporary queues only")
    handle = new_handle(client, channel, Service.QUEUE)
    name = op.name
    kind = "open" if op.passive else "temporary"
    tag = confirm_tag(
        client, handle.awaited, AwaitedReply(kind, op.token, lambda made: state(made or name))
    )
    client.engine.write(
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


def state(name: object) -> QueueState:
    return QueueState(str(name), 0, 0)


def settle(client: "Client", op: Settle) -> None:
    """What is rejected is taken, and thrown away: there is no other word."""
    channel = client.channel(op.channel)
    if not op.outcome.returns:
        last = channel.settled(op.delivery, op.multiple)
        if last:
            client.engine.write(w.ChannelAck(op.channel, 0, last))
        return
    for number in list(channel.unsettled):
        if number == op.delivery or (op.multiple and (not op.delivery or number < op.delivery)):
            handle = channel.handle_of.pop(number, None)
            del channel.unsettled[number]
            if handle is not None and handle.state is OPEN:
                client.engine.write(w.HandleUnget(handle.number, 0, number))


ENCODERS: dict[type[Operation], Callable[["Client", Any], None]] = {
    BeginSession: begin,
    EndSession: end,
    Acknowledge: acknowledge,
    Commit: commit,
    Rollback: commit,
    Prefetch: prefetch,
    SelectConfirms: select_confirms,
    Flow: flow,
    OpenDestination: open_destination,
    CloseDestination: close_destination,
    Listen: listen,
    EndSubscription: end_subscription,
    PauseHandle: pause,
    GiveBack: give_back,
    Query: query,
    Browse: browse,
    SendTo: send_to,
    Prepare: prepare,
    Continue: continue_,
    Publish: publish,
    Subscribe: subscribe,
    Unsubscribe: unsubscribe,
    DeclareQueue: declare_queue,
    Settle: settle,
}
