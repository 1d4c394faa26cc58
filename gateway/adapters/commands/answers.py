"""What the server says: answers, closes, and what nobody asked for."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.adapters.commands.negotiation import Opening
from gateway.adapters.commands.server_channel import Handle, Waiting
from gateway.adapters.commands.states import OPEN
from gateway.adapters.commands.violation import code_of
from gateway.adapters.commands.wire import layouts as w
from gateway.adapters.commands.wire.tables import REPLIES, SUCCESS
from gateway.errors import Condition, LocalError, Lost
from gateway.operations import (
    Blocked,
    Cancelled,
    Confirm,
    Deliver,
    Done,
    Index,
    Looked,
    Operation,
    Refused,
    Returned,
    SessionLost,
    Stolen,
    Unblocked,
)

if TYPE_CHECKING:
    from gateway.adapters.commands.server import Serving


class PendingReply(NamedTuple):
    """The token of a request: the command, its handle (0: none), the confirm tag (0: none)."""

    name: str
    handle: int
    tag: int
    consumer: str = ""


def say(serving: "Serving", operation: Operation) -> None:
    """Raises ``LocalError`` for what is not a server's to say."""
    speak = SPEECH.get(type(operation))
    if speak is None:
        raise LocalError(f"{type(operation).__name__} cannot be said by a server of 0.8a2")
    speak(serving, operation)


# --- answers ------------------------------------------------------------------------------------


def done(serving: "Serving", op: Done) -> None:
    token = op.token
    if isinstance(token, Opening):
        serving.engine.greeting.opened(token)
        return
    if token is None:
        return
    if not isinstance(token, PendingReply):
        raise LocalError("this is not a token of ours")
    if token.name == "connection.close":
        serving.engine.part()
        return
    channel = serving.channels.get(op.channel)
    if channel is None or (channel.state is not OPEN and token.name != "channel.close"):
        return
    if token.name == "channel.close":
        serving.engine.write(w.ChannelClose(op.channel, SUCCESS))
        serving.vanish(channel)
    elif token.handle == 0:
        if token.tag:
            serving.engine.write(w.ChannelReply(op.channel, token.tag, SUCCESS))
    else:
        handle = serving.handles.get(token.handle)
        if handle is not None and handle.state is OPEN:
            ANSWERS.get(token.name, reply)(serving, handle, token, op.result)


def reply(serving: "Serving", handle: Handle, token: PendingReply, result: Any) -> None:
    if token.tag:
        serving.engine.write(w.HandleReply(handle.number, token.tag, SUCCESS))


def opened(serving: "Serving", handle: Handle, token: PendingReply, result: str) -> None:
    """The name of a temporary destination comes first (§3.5.2.2)."""
    if result:
        handle.name = result
        serving.engine.write(w.HandleCreated(handle.number, result))
    reply(serving, handle, token, result)


def consuming(serving: "Serving", handle: Handle, token: PendingReply, result: str) -> None:
    handle.names[token.consumer] = result
    reply(serving, handle, token, result)


def given_back(serving: "Serving", handle: Handle, token: PendingReply, result: bool) -> None:
    if result:
        reply(serving, handle, token, result)
        return
    code = REPLIES["message-not-found"]
    serving.lose_handle(handle, code, "no such message", serving.engine.found_now())


def index(serving: "Serving", handle: Handle, token: PendingReply, result: Index) -> None:
    """The list, as far as it fits a frame of the peer (§3.5.12)."""
    room = min(serving.engine.frame_out, 0x10000) - 16
    text, last = listed(result.numbers, room)
    more = result.more if last is None else last
    serving.engine.write(w.HandleIndex(handle.number, more, text.encode()))


def listed(numbers: list[int], room: int) -> tuple[str, int | None]:
    """Numbers as text with ranges, and the last one in it if not all of them have room."""
    pieces: list[str] = []
    size, at = 0, 0
    while at < len(numbers):
        first = last = numbers[at]
        while at + 1 < len(numbers) and numbers[at + 1] == last + 1:
            at += 1
            last = numbers[at]
        piece = str(first) if first == last else f"{first}-{last}"
        if size + len(piece) + 1 > room:
            return " ".join(pieces), first - 1
        pieces.append(piece)
        size += len(piece) + 1
        at += 1
    return " ".join(pieces), None


def looked(serving: "Serving", handle: Handle, token: PendingReply, result: Looked | None) -> None:
    """The one failure that closes nothing; it is told without a tag too (§2.2.8.7)."""
    engine = serving.engine
    try:
        form = None
        if result is not None:
            form = engine.headers.leaving(result.message, engine.frame_out)
    except ValueError:
        form = None  # it has no form that this version can read
    if result is None or form is None:
        code = REPLIES["message-not-found"]
        record = w.HandleReply(handle.number, token.tag, code, "message not found")
        serving.engine.write(record)
        return
    due = Waiting(handle, result.name, result.number, False, result.message)
    handle.channel.notify(due, *form, False, delivered=False)


def ready(serving: "Serving", handle: Handle, token: PendingReply, result: int) -> None:
    serving.engine.write(w.HandleReady(handle.number, result))


def continued(serving: "Serving", handle: Handle, token: PendingReply, result: str) -> None:
    if not result:
        reply(serving, handle, token, result)
        return
    code = REPLIES["invalid-message"]
    serving.lose_handle(handle, code, result, serving.engine.found_now())


def closed(serving: "Serving", handle: Handle, token: PendingReply, result: Any) -> None:
    serving.engine.write(w.HandleClose(handle.number, SUCCESS))
    serving.vanish_handle(handle)


ANSWERS: dict[str, Callable[["Serving", Handle, PendingReply, Any], None]] = {
    "handle.open": opened,
    "handle.consume": consuming,
    "handle.unget": given_back,
    "handle.query": index,
    "handle.browse": looked,
    "handle.prepare": ready,
    "handle.continue": continued,
    "handle.close": closed,
}


# --- refusals -----------------------------------------------------------------------------------


def refused(serving: "Serving", op: Refused) -> None:
    token = op.token
    if isinstance(token, Opening) or op.lost is Lost.CONNECTION:
        taken = isinstance(token, Opening) and op.condition is Condition.RESOURCE_LOCKED
        code = REPLIES["client-active"] if taken else code_of(op.condition)
        serving.engine.say_close(op.condition, op.text, code, theirs=True)
        return
    channel = serving.channels.get(op.channel)
    if channel is None:
        return
    code, found = code_of(op.condition), serving.engine.found_now()
    handle = serving.handles.get(token.handle) if isinstance(token, PendingReply) else None
    large = op.condition is Condition.CONTENT_TOO_LARGE
    if op.lost is Lost.LINK and handle is not None and not large:
        serving.lose_handle(handle, code, op.text, found)
    else:
        # A message that is too large closes the channel (§3.5.14).
        serving.lose_channel(channel, code, op.text, found)


def session_lost(serving: "Serving", op: SessionLost) -> None:
    channel = serving.channels.get(op.channel)
    if channel is not None:
        found = serving.engine.found_now()
        serving.lose_channel(channel, code_of(op.condition), op.text, found)


def cancelled(serving: "Serving", op: Cancelled) -> None:
    """What a handle listened to is gone."""
    handle = serving.handles.get(int(op.tag.partition("/")[0]))
    if handle is not None:
        code = REPLIES["not-found"]
        serving.lose_handle(handle, code, "the destination is gone", serving.engine.found_now())


def deliver(serving: "Serving", op: Deliver) -> None:
    outlet = serving.outlet(op.channel)
    outlet.deliver(op.consumer, op.delivery, op.redelivered, op.message)


def unsaid(serving: "Serving", op: Operation) -> None:
    """There is no word for it."""


SPEECH: dict[type[Operation], Callable[["Serving", Any], None]] = {
    Done: done,
    Refused: refused,
    SessionLost: session_lost,
    Cancelled: cancelled,
    Deliver: deliver,
    Confirm: unsaid,
    Returned: unsaid,
    Blocked: unsaid,
    Unblocked: unsaid,
    Stolen: unsaid,
}
