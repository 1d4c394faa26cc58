"""Channels and handles, client role: what a server says becomes operations (document §3.3.9,
§3.5.17). What we ask is in ``requests``.

A close may come at any level, whatever the document says about it, and answers may come in any
order: original servers do both.
"""

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any

from gateway.adapters.commands import outbound as requests
from gateway.adapters.commands.client_channel import MOST_TAG, Ask, Channel, Found, Line
from gateway.adapters.commands.command import Command
from gateway.adapters.commands.content import COMMAND, SIZE_OCTETS
from gateway.adapters.commands.fragments import Arriving, loaded
from gateway.adapters.commands.states import CLOSING, OPEN
from gateway.adapters.commands.violation import Violation, brief, condition_of
from gateway.adapters.commands.wire import layouts as w
from gateway.adapters.commands.wire.tables import END, REPLIES, SUCCESS
from gateway.adapters.contract import Outlet
from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.errors import Condition, LocalError, Lost
from gateway.message import Message
from gateway.operations import (
    Cancelled,
    Confirm,
    Deliver,
    Done,
    Index,
    Looked,
    Operation,
    Refused,
    Service,
    SessionLost,
    Token,
)

if TYPE_CHECKING:
    from gateway.adapters.commands.engine import Engine

TOPICS = "amq.topic"

NOTIFY = Struct(">HIIBB")
"""Handle, number of the message, octets of the fragment, bits, octets of the name (§3.5.11)."""
LEAST = NOTIFY.size + 2
"""Octets of the command with its type and its end, without a name."""
DELIVERED, REDELIVERED = 8, 16

ENDS = 1024
"""Encoded commands kept by a connection."""

MOST_NUMBERS = 1 << 16
"""Numbers of one index."""


class Asking:
    """All channels and handles of a connection."""

    def __init__(self, engine: "Engine") -> None:
        self.engine = engine
        self.channels: dict[int, Channel] = {}
        self.lines: dict[int, Line] = {}
        self.channel_max = MOST_TAG
        self.handle_max = MOST_TAG
        self._tag = 0
        self.ends: BoundedCache[tuple[int, str], tuple[bytes, bytes]] = BoundedCache(ENDS)
        """Commands of messages as they are written, without what varies."""
        self._on_line: dict[str, Callable[[Line, Any, bytes, Found], None]] = {
            "handle.created": self._created,
            "handle.reply": self._reply,
            "handle.index": self._index,
            "handle.notify": self._notify,
            "handle.prepare": self._prepare,
            "handle.ready": self._ready,
        }

    def tuned(self, channel_max: int, handle_max: int) -> None:
        self.channel_max = min(channel_max or MOST_TAG, MOST_TAG)
        self.handle_max = min(handle_max or MOST_TAG, MOST_TAG)

    def tag(self) -> int:
        """The next confirm tag; 0 would ask for none."""
        self._tag = self._tag % MOST_TAG + 1
        return self._tag

    # --- in -------------------------------------------------------------------------------------

    def on(self, command: Command, m: Any, fragment: bytes, found: Found) -> None:
        """One command of a channel or handle. Raises ``Violation`` if the connection dies of it."""
        name = command.name
        if name.startswith("channel."):
            channel = self.channels.get(m.channel_id)
            if channel is None and name == "channel.close":
                return  # told again, because something of ours crossed the first (§3.3.7)
            if channel is None:
                raise Violation("channel-error", f"{name}: channel {m.channel_id} is not open")
            if name == "channel.reply":
                self._channel_reply(channel, m, found)
            else:
                self._channel_close(channel, m, found)
            return
        line = self.lines.get(m.handle_id)
        if line is None and name == "handle.close":
            return
        if line is None:
            raise Violation("handle-error", f"{name}: handle {m.handle_id} is not open")
        if name == "handle.close":
            self._close(line, m, found)
        elif line.state is OPEN and line.channel.state is OPEN:
            try:
                self._on_line[name](line, m, fragment, found)
            except Violation as violation:
                if violation.lost is Lost.CONNECTION:
                    raise
                line.state = CLOSING
                self.engine.write(w.HandleClose(line.number, violation.code, brief(violation.text)))
                condition = condition_of(violation.code) or Condition.INTERNAL_ERROR
                self._over(line, condition, violation.text, found)

    def _channel_reply(self, channel: Channel, m: w.ChannelReply, found: Found) -> None:
        ask = channel.asked.pop(m.confirm_tag, None)
        if ask is None:
            raise Violation("command-invalid", f"channel.reply {m.confirm_tag} answers nothing")
        self._answer(channel.number, ask, m.reply_code, m.reply_text, None, found)

    def _channel_close(self, channel: Channel, m: w.ChannelClose, found: Found) -> None:
        """The answer to ours, or theirs: answered at the same level."""
        closing = channel.state is CLOSING
        condition = condition_of(m.reply_code)
        if not closing:
            self.engine.write(w.ChannelClose(channel.number, SUCCESS))
        self._forget(channel, condition, m.reply_text, found)
        if closing:
            if channel.closing is not None:
                found.append(Done(channel.number, channel.closing))
        else:
            why = condition or Condition.CONNECTION_FORCED
            found.append(SessionLost(channel.number, why, m.reply_text))

    def _forget(
        self, channel: Channel, condition: Condition | None, text: str, found: Found
    ) -> None:
        del self.channels[channel.number]
        why = condition or Condition.CHANNEL_ERROR
        for token in tokens_of(channel):
            found.append(Refused(channel.number, token, why, text, Lost.SESSION))
        for number in channel.lines:
            del self.lines[number]

    def _close(self, line: Line, m: w.HandleClose, found: Found) -> None:
        channel = line.channel
        ours = line.state is CLOSING
        condition = condition_of(m.reply_code)
        self.lines.pop(line.number, None)
        channel.lines.pop(line.number, None)
        if ours:
            ask = line.asked.pop(0, None)
            if ask is not None and ask.token is not None:
                found.append(Done(channel.number, ask.token, made(ask, None)))
            self._over(line, condition or Condition.CHANNEL_ERROR, m.reply_text, found)
            return
        self.engine.write(w.HandleClose(line.number, SUCCESS))
        pending = bool(line.asked)
        self._over(line, condition or Condition.CHANNEL_ERROR, m.reply_text, found)
        if not pending or line.tag != line.link:
            found.append(Cancelled(channel.number, line.tag))

    def _over(self, line: Line, condition: Condition, text: str, found: Found) -> None:
        """Nothing that was asked over it will be answered."""
        channel = line.channel
        for service in [s for s, producer in channel.producers.items() if producer is line]:
            del channel.producers[service]
        for ask in line.asked.values():
            if ask.kind == "confirm":
                found.append(Confirm(channel.number, ask.token, False, False))
            elif ask.token is not None:
                found.append(Refused(channel.number, ask.token, condition, text, Lost.LINK))
        for token in rest_of(line):
            found.append(Refused(channel.number, token, condition, text, Lost.LINK))
        line.asked.clear()
        line.queries.clear()
        line.browses.clear()
        line.prepares.clear()

    def _answer(
        self, number: int, ask: Ask, code: int, text: str, result: object, found: Found
    ) -> None:
        good = code == SUCCESS
        if ask.kind == "confirm":
            found.append(Confirm(number, ask.token, False, good))
        elif ask.token is not None and good:
            found.append(Done(number, ask.token, made(ask, result)))
        elif ask.token is not None:
            why = condition_of(code) or Condition.INTERNAL_ERROR
            found.append(Refused(number, ask.token, why, text, Lost.NOTHING))

    # --- handles --------------------------------------------------------------------------------

    def _created(self, line: Line, m: w.HandleCreated, fragment: bytes, found: Found) -> None:
        """Before the reply by the document, behind it by the original server."""
        line.created = m.dest_name
        ask = line.asked.pop(-1, None)
        if ask is not None:
            self._answer(line.channel.number, ask, SUCCESS, "", m.dest_name, found)

    def _reply(self, line: Line, m: w.HandleReply, fragment: bytes, found: Found) -> None:
        gone = m.reply_code == REPLIES["message-not-found"]
        for at, (tag, token) in enumerate(line.browses):
            if gone and tag == m.confirm_tag:
                del line.browses[at]
                found.append(Done(line.channel.number, token))
                return
        ask = line.asked.pop(m.confirm_tag, None)
        if ask is None:
            raise Violation("command-invalid", f"handle.reply {m.confirm_tag} answers nothing")
        if ask.kind == "temporary" and not line.created and m.reply_code == SUCCESS:
            line.asked[-1] = ask  # the name is still to come
            return
        number = line.channel.number
        self._answer(number, ask, m.reply_code, m.reply_text, line.created, found)

    def _index(self, line: Line, m: w.HandleIndex, fragment: bytes, found: Found) -> None:
        if not line.queries:
            raise Violation("command-invalid", "an index nobody asked for")
        token = line.queries.popleft()
        index = Index(numbers_of(m.message_list), m.message_nbr)
        found.append(Done(line.channel.number, token, index))

    def _ready(self, line: Line, m: w.HandleReady, fragment: bytes, found: Found) -> None:
        if not line.prepares:
            raise Violation("command-invalid", "nothing was prepared")
        found.append(Done(line.channel.number, line.prepares.popleft(), m.message_size))

    # --- messages -------------------------------------------------------------------------------

    def at_once(self, buf: bytes, start: int, stop: int, end: int) -> int:
        """Take a delivery that is whole in one fragment, as the server's side does a message."""
        if stop - start < LEAST:
            return 0
        number, delivery, size, bits, length = NOTIFY.unpack_from(buf, start + 1)
        behind: int = stop + size
        line = self.lines.get(number)
        octets = int.from_bytes(buf[stop : stop + SIZE_OCTETS], "big")
        body, most = behind - octets, self.engine.limits.max_message_octets
        if (
            line is None
            or bits & ~REDELIVERED != DELIVERED
            or stop - start != LEAST + length
            or buf[stop - 1] != END
            or behind > end
            or size > self.engine.frames.limit
            or body <= stop + SIZE_OCTETS
            or (most and octets > most)
            or line.state is not OPEN
            or line.channel.state is not OPEN
            or line.channel.arriving is not None
        ):
            return 0
        try:
            known = self.engine.headers.arrived(buf[stop + SIZE_OCTETS : body], "", "")
        except ValueError:
            return 0
        name = buf[start + LEAST - 1 : stop - 1].decode("utf-8", "surrogateescape")
        channel, exchange = line.channel, TOPICS if line.service is Service.TOPIC else ""
        message = Message(COMMAND, known.header, buf[body:behind], exchange, name, known.essentials)
        self._unsettled(line, delivery)
        self.engine.found_now().append(
            Deliver(channel.number, line.tag, delivery, bits & REDELIVERED != 0, message)
        )
        return behind

    def _unsettled(self, line: Line, delivery: int) -> None:
        if not line.settled and line.service is not Service.PEER:
            line.channel.unsettled[delivery] = False
            line.channel.over[delivery] = line

    def _notify(self, line: Line, m: w.HandleNotify, fragment: bytes, found: Found) -> None:
        if m.out_of_band:
            raise Violation("not-implemented", "nothing is agreed about out of band", Lost.LINK)
        channel = line.channel
        if m.streaming:
            self._streamed(line, m, fragment, found)
            return
        if m.recovery:
            arriving = line.partial
            if arriving is None:
                raise Violation("command-invalid", "nothing was prepared", Lost.LINK)
            arriving.add(fragment, not m.partial)
            if not m.partial:
                line.partial = None
                self._whole(line, m, arriving, found)
            return
        arriving = channel.arriving
        if arriving is None or arriving.handle != line.number:
            # From an original server, a message of another handle may come in between; it ends
            # the one before.
            arriving = channel.arriving = self._first(line, fragment)
        else:
            arriving.add(fragment, False)
        if not m.partial:
            channel.arriving = None
            arriving.add(b"", True)
            self._whole(line, m, arriving, found)

    def _first(self, line: Line, fragment: bytes, digest: str = "") -> Arriving:
        """The fragment with the header."""
        try:
            size, known, start = self.engine.headers.first(fragment, "", "")
        except ValueError as error:
            raise Violation("invalid-message", str(error), Lost.LINK) from None
        most = self.engine.limits.max_message_octets
        if most and size > most:
            raise Violation("message-too-large", f"{size} octets", Lost.LINK)
        arriving = Arriving(line.number, known.header, size, self.engine.spool, digest)
        arriving.add(fragment[start:], False)
        return arriving

    def _whole(self, line: Line, m: w.HandleNotify, arriving: Arriving, found: Found) -> None:
        channel, essentials = line.channel, self.engine.headers.known(arriving.header).essentials
        exchange = TOPICS if line.service is Service.TOPIC else ""
        message = Message(
            COMMAND, arriving.header, arriving.body(), exchange, m.dest_name, essentials
        )
        if not m.delivered:
            # Original servers number what is browsed 0, so the order tells which it is.
            if not line.browses:
                raise Violation("command-invalid", "a message nobody asked for", Lost.LINK)
            tag, token = line.browses.popleft()
            looked = Looked(m.message_nbr, m.dest_name, message)
            found.append(Done(channel.number, token, looked))
            return
        self._unsettled(line, m.message_nbr)
        found.append(Deliver(channel.number, line.tag, m.message_nbr, m.redelivered, message))

    def _streamed(self, line: Line, m: w.HandleNotify, fragment: bytes, found: Found) -> None:
        """Each fragment as a message, with the header of the first."""
        body = fragment
        if line.streaming is None:
            arriving = self._first(line, fragment[: len(fragment)])
            line.streaming, body = arriving.header, loaded(arriving.body())
        essentials = self.engine.headers.known(line.streaming).essentials
        message = Message(COMMAND, line.streaming, body, "", m.dest_name, essentials)
        found.append(Deliver(line.channel.number, line.tag, m.message_nbr, False, message))

    def _prepare(self, line: Line, m: w.HandlePrepare, fragment: bytes, found: Found) -> None:
        """We keep nothing over connections: ready for all but what came with it (§3.5.14)."""
        if not line.channel.restartable:
            raise Violation("command-invalid", "the channel is not restartable", Lost.LINK)
        digest = m.content_hash.strip().lower()
        line.partial = arriving = self._first(line, fragment, digest)
        self.engine.write(w.HandleReady(line.number, arriving.have))

    # --- out ------------------------------------------------------------------------------------

    def channel_of(self, handle: int) -> int:
        """The number of its channel; 0 if there is no such handle."""
        line = self.lines.get(handle)
        return 0 if line is None else line.channel.number

    def say(self, operation: Operation) -> None:
        requests.say(self, operation)

    def outlet(self, number: int) -> Outlet:
        return self.channel(number)

    def channel(self, number: int) -> Channel:
        channel = self.channels.get(number)
        if channel is None or channel.state is not OPEN:
            raise LocalError(f"channel {number} is not open")
        return channel

    def lose_handle(self, handle: Any, code: int, text: str, found: Found) -> None:
        """For the server's side."""

    def exhausted(self, channel: Any) -> None:
        """For the server's side."""

    # --- the end --------------------------------------------------------------------------------

    def silence(self) -> None:
        for channel in self.channels.values():
            channel.state = CLOSING

    def waiting(self) -> list[tuple[int, Token]]:
        """Requests that will not be answered."""
        return [
            (channel.number, token)
            for channel in self.channels.values()
            for token in tokens_of(channel)
        ]

    def forget(self) -> None:
        self.channels.clear()
        self.lines.clear()


def made(ask: Ask, result: object) -> object:
    return result if ask.make is None else ask.make(result)


def rest_of(line: Line) -> list[Token]:
    """Tokens of what is answered without a tag."""
    browses = [token for _, token in line.browses]
    found = [*line.queries, *browses, *line.prepares]
    return [token for token in found if token is not None]


def tokens_of(channel: Channel) -> list[Token]:
    """All that is under way on a channel, but confirms."""
    asks = list(channel.asked.values())
    found: list[Token] = []
    for line in channel.lines.values():
        asks += line.asked.values()
        found += rest_of(line)
    return [a.token for a in asks if a.kind != "confirm" and a.token is not None] + found


def numbers_of(text: bytes) -> list[int]:
    """The numbers of an index: "0 5 9 15-40 80", ranges with both ends (§3.5.12)."""
    found: list[int] = []
    try:
        for word in text.decode("ascii").split():
            first, dash, last = word.partition("-")
            start, stop = int(first), int(last if dash else first)
            if stop < start or stop - start + len(found) > MOST_NUMBERS:
                raise ValueError
            found.extend(range(start, stop + 1))
    except ValueError:
        raise Violation("syntax-error", "this is no list of messages", Lost.LINK) from None
    return found
