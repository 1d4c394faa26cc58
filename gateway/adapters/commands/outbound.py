"""What a client says. Words of handles become commands as they are; the common words of queues,
publishing and consuming become handles of their own, so that 0.8a2 can be spoken like the others.
"""

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any

from gateway.adapters.commands import states
from gateway.adapters.commands.client_channel import MOST_TAG, Ask, Channel, Line
from gateway.adapters.commands.content import COMMAND
from gateway.adapters.commands.fragments import loaded, pieces
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
    from gateway.adapters.commands.client import Asking

TOPICS = "amq.topic"

VARYING_AT, VARYING = 5, Struct(">HIB")
"""Behind size, type and handle: confirm tag, octets of the fragment, bits (§3.5.3)."""


def say(asking: "Asking", operation: Operation) -> None:
    """Raises ``LocalError`` for what 0.8a2 has no word for."""
    speak = SPEECH.get(type(operation))
    if speak is None:
        raise LocalError(f"{type(operation).__name__} cannot be said by a client of 0.8a2")
    if asking.engine.state is not states.OPEN:
        raise LocalError("the connection is not open")
    speak(asking, operation)


def wanted(asking: "Asking", asked: dict[int, Ask], ask: Ask) -> int:
    """A confirm tag, 0 if nobody wants to know."""
    if ask.token is None:
        return 0
    tag = asking.tag()
    if tag in asked:
        raise LocalError("too many requests are under way")
    asked[tag] = ask
    return tag


def line_of(asking: "Asking", op: Any) -> Line:
    line = asking.lines.get(int(op.link)) if op.link.isdigit() else None
    if line is None or line.state is not OPEN or line.channel.number != op.channel:
        raise LocalError(f"handle {op.link} is not open")
    return line


# --- channels -----------------------------------------------------------------------------------


def begin(asking: "Asking", op: BeginSession) -> None:
    number = op.channel
    if number in asking.channels or not 0 < number <= MOST_TAG:
        raise LocalError(f"channel {number} cannot be opened")
    if len(asking.channels) >= asking.channel_max:
        raise LocalError(f"the server lets {asking.channel_max} channels be opened")
    channel = Channel(number, asking, op.transacted, op.restartable)
    tag = wanted(asking, channel.asked, Ask("channel", op.token))
    asking.engine.write(w.ChannelOpen(number, tag, op.transacted, op.restartable))
    asking.channels[number] = channel


def end(asking: "Asking", op: EndSession) -> None:
    channel = asking.channel(op.channel)
    channel.state = CLOSING
    channel.closing = op.token
    asking.engine.write(w.ChannelClose(op.channel, SUCCESS))


def acknowledge(asking: "Asking", op: Acknowledge) -> None:
    channel = asking.channel(op.channel)
    tag = wanted(asking, channel.asked, Ask("ack", op.token))
    channel.settled(op.up_to, True)
    asking.engine.write(w.ChannelAck(op.channel, tag, op.up_to))


def commit(asking: "Asking", op: Commit | Rollback) -> None:
    channel = asking.channel(op.channel)
    if not channel.transacted:
        raise LocalError(f"channel {op.channel} is not transacted")
    tag = wanted(asking, channel.asked, Ask("tx", op.token))
    record = w.ChannelCommit if isinstance(op, Commit) else w.ChannelRollback
    asking.engine.write(record(op.channel, tag))


def told(asking: "Asking", op: Any, result: object = None) -> None:
    """What needs no word to the server."""
    if op.token is not None:
        asking.engine.found_now().append(Done(op.channel, op.token, result))


def prefetch(asking: "Asking", op: Prefetch) -> None:
    asking.channel(op.channel).prefetch = min(op.count, MOST_TAG) or MOST_TAG
    told(asking, op)


def select_confirms(asking: "Asking", op: SelectConfirms) -> None:
    asking.channel(op.channel).counting = True
    told(asking, op)


def flow(asking: "Asking", op: Flow) -> None:
    for line in list(asking.channel(op.channel).lines.values()):
        if line.tag != line.link:
            asking.engine.write(w.HandleFlow(line.number, 0, not op.active))
    told(asking, op, op.active)


# --- handles ------------------------------------------------------------------------------------


def new_line(asking: "Asking", channel: Channel, service: Service, number: int = 0) -> Line:
    if len(asking.lines) >= asking.handle_max:
        raise LocalError(f"the server lets {asking.handle_max} handles be opened")
    if not number:
        number = next(n for n in range(1, MOST_TAG + 1) if n not in asking.lines)
    line = Line(number, channel, service)
    asking.lines[number] = channel.lines[number] = line
    return line


def open_destination(asking: "Asking", op: OpenDestination) -> None:
    channel = asking.channel(op.channel)
    number = int(op.link) if op.link.isdigit() else 0
    if not 0 < number <= MOST_TAG or number in asking.lines:
        raise LocalError(f"handle {op.link} cannot be opened")
    line = new_line(asking, channel, op.service, number)
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
    record.confirm_tag = wanted(asking, line.asked, Ask(kind, op.token))
    asking.engine.write(record)


def close_destination(asking: "Asking", op: CloseDestination) -> None:
    close_line(asking, line_of(asking, op), Ask("close", op.token))


def close_line(asking: "Asking", line: Line, ask: Ask) -> None:
    line.state = CLOSING
    line.asked[0] = ask
    asking.engine.write(w.HandleClose(line.number, SUCCESS))


def listen(asking: "Asking", op: Listen) -> None:
    line = line_of(asking, op)
    line.settled = op.no_ack
    tag = wanted(asking, line.asked, Ask("consume", op.token, lambda _: op.name))
    asking.engine.write(
        w.HandleConsume(
            line.number,
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


def end_subscription(asking: "Asking", op: EndSubscription) -> None:
    line = line_of(asking, op)
    tag = wanted(asking, line.asked, Ask("cancel", op.token))
    asking.engine.write(w.HandleCancel(line.number, tag, op.name, op.identifier))


def pause(asking: "Asking", op: PauseHandle) -> None:
    line = line_of(asking, op)
    tag = wanted(asking, line.asked, Ask("flow", op.token))
    asking.engine.write(w.HandleFlow(line.number, tag, op.paused))


def give_back(asking: "Asking", op: GiveBack) -> None:
    line = line_of(asking, op)
    tag = wanted(asking, line.asked, Ask("unget", op.token, lambda _: True))
    line.channel.unsettled.pop(op.delivery, None)
    asking.engine.write(w.HandleUnget(line.number, tag, op.delivery))


def query(asking: "Asking", op: Query) -> None:
    line = line_of(asking, op)
    line.queries.append(op.token)
    selector = op.selector.encode()
    asking.engine.write(w.HandleQuery(line.number, op.start, op.name, selector, op.selector_type))


def browse(asking: "Asking", op: Browse) -> None:
    line = line_of(asking, op)
    tag = asking.tag()
    line.browses.append((tag, op.token))
    asking.engine.write(w.HandleBrowse(line.number, tag, op.number))


# --- messages -----------------------------------------------------------------------------------


def send_to(asking: "Asking", op: SendTo) -> None:
    line = line_of(asking, op)
    tag = wanted(asking, line.asked, Ask("send", op.token)) if op.answered else 0
    post(asking, line, tag, op.name, op.message)


def post(asking: "Asking", line: Line, tag: int, name: str, message: Message) -> None:
    """A message in as many fragments as it needs; the name is on the last (§3.5.3). Hot."""
    engine = asking.engine
    head, body = engine.headers.leaving(message, engine.frame_out)
    size = len(head) + len(body)
    if size > engine.frame_out:
        send(asking, line, w.HandleSend(line.number, tag), name, head, body)
        return
    ends = asking.ends.get((line.number, name))
    if ends is None:
        octets = frame(w.HandleSend(line.number, dest_name=name))
        ends = octets[:VARYING_AT], octets[VARYING_AT + VARYING.size :]
        asking.ends.keep((line.number, name), ends)
    octets = b"".join((ends[0], VARYING.pack(tag, size, 0), ends[1], head, loaded(body)))
    engine.put_message(line.channel.number, octets)


def send(
    asking: "Asking", line: Line, record: w.HandleSend, name: str, head: bytes, body: Body
) -> None:
    def make(fragment: bytes, more: bool) -> bytes:
        record.fragment_size = len(fragment)
        record.partial = more
        record.dest_name = "" if more else name
        return frame(record) + fragment

    asking.engine.write_message(line.channel, head, body, make)


def prepare(asking: "Asking", op: Prepare) -> None:
    line = line_of(asking, op)
    if not line.channel.restartable:
        raise LocalError(f"channel {op.channel} is not restartable")
    size = op.size.to_bytes(4, "big")
    header, body = op.message.form_for(COMMAND)
    if len(size) + len(header) + len(body) > asking.engine.frame_out:
        raise LocalError("what is prepared does not fit a fragment")
    first = size + header + loaded(body)
    line.prepares.append(op.token)
    record = w.HandlePrepare(line.number, len(first), op.digest)
    asking.engine.put_message(op.channel, frame(record) + first)


def go_on(asking: "Asking", op: Continue) -> None:
    line = line_of(asking, op)
    tag = 0
    if op.last and op.answered:
        tag = wanted(asking, line.asked, Ask("send", op.token))
    if op.last:
        record = w.HandleSend(line.number, tag, recovery=True)
        send(asking, line, record, op.name, b"", op.octets)
        return
    record = w.HandleSend(line.number, partial=True, recovery=True)
    for fragment, _ in pieces(op.octets, asking.engine.frame_out):
        record.fragment_size = len(fragment)
        asking.engine.put_message(op.channel, frame(record) + fragment)


# --- as in other versions -----------------------------------------------------------------------


def publish(asking: "Asking", op: Publish) -> None:
    """To a queue (default exchange) or a topic; other exchanges there are none."""
    channel, message = asking.channel(op.channel), op.message
    if message.exchange not in ("", TOPICS):
        raise LocalError(f"0.8a2 has no exchange '{message.exchange}'")
    service = Service.TOPIC if message.exchange else Service.QUEUE
    line = channel.producers.get(service)
    if line is None:
        line = channel.producers[service] = new_line(asking, channel, service)
        record = w.HandleOpen(channel.number, line.number, SERVICES[service.value], producer=True)
        asking.engine.write(record)
    tag = 0
    if channel.counting:
        channel.confirms += 1
        tag = wanted(asking, line.asked, Ask("confirm", channel.confirms))
    post(asking, line, tag, message.key, message)


def subscribe(asking: "Asking", op: Subscribe) -> None:
    """A handle for each consumer; its tag is ours to keep."""
    if op.filter is not None or op.copy or op.credit is not None:
        raise LocalError("0.8a2 has no consumer like that")
    channel = asking.channel(op.channel)
    line = new_line(asking, channel, Service.QUEUE)
    line.tag = tag = op.tag or f"consumer-{line.number}"
    line.settled = op.no_ack
    engine = asking.engine
    engine.write(w.HandleOpen(channel.number, line.number, SERVICES["queue"], consumer=True))
    confirm = wanted(asking, line.asked, Ask("consume", op.token, lambda _: tag))
    engine.write(
        w.HandleConsume(line.number, confirm, channel.prefetch, op.no_local, op.no_ack, op.queue)
    )


def unsubscribe(asking: "Asking", op: Unsubscribe) -> None:
    channel = asking.channel(op.channel)
    line = next((line for line in channel.lines.values() if line.tag == op.tag), None)
    if line is None or line.state is not OPEN:
        raise LocalError(f"there is no consumer '{op.tag}'")
    tag = op.tag
    close_line(asking, line, Ask("close", op.token, lambda _: tag))


def declare_queue(asking: "Asking", op: DeclareQueue) -> None:
    """Whether a queue is there, or a temporary one; others are made by other means."""
    channel = asking.channel(op.channel)
    if not op.passive and not op.exclusive:
        raise LocalError("0.8a2 makes temporary queues only")
    line = new_line(asking, channel, Service.QUEUE)
    name = op.name
    kind = "open" if op.passive else "temporary"
    tag = wanted(asking, line.asked, Ask(kind, op.token, lambda made: state(made or name)))
    asking.engine.write(
        w.HandleOpen(
            channel.number,
            line.number,
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


def settle(asking: "Asking", op: Settle) -> None:
    """What is rejected is taken, and thrown away: there is no other word."""
    channel = asking.channel(op.channel)
    if not op.outcome.returns:
        last = channel.settled(op.delivery, op.multiple)
        if last:
            asking.engine.write(w.ChannelAck(op.channel, 0, last))
        return
    for number in list(channel.unsettled):
        if number == op.delivery or (op.multiple and (not op.delivery or number < op.delivery)):
            line = channel.over.pop(number, None)
            del channel.unsettled[number]
            if line is not None and line.state is OPEN:
                asking.engine.write(w.HandleUnget(line.number, 0, number))


SPEECH: dict[type[Operation], Callable[["Asking", Any], None]] = {
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
    Continue: go_on,
    Publish: publish,
    Subscribe: subscribe,
    Unsubscribe: unsubscribe,
    DeclareQueue: declare_queue,
    Settle: settle,
}
