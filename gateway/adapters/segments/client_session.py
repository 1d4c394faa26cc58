"""Client role: one session, its commands and those of the server.

A request is a command, or several of which the last is awaited, with the bit sync: it is done
when that is complete. Publishes whose fate is of interest are followed by one execution.sync a
turn. Accepts, completions and that sync are written when the output is taken.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from gateway.adapters.core.output import OutputBuffer
from gateway.adapters.segments.client_consumers import Arrival, Consumer, Deliveries
from gateway.adapters.segments.completion import (
    ReceivedCommands,
    SentCommands,
    ranges_of,
    unwrapped,
)
from gateway.adapters.segments.content import published, received
from gateway.adapters.segments.essentials import (
    DISCARD_UNROUTABLE,
    IMMEDIATE,
    REDELIVERED,
    arrived,
    route,
)
from gateway.adapters.segments.frames import LargeBodyFrames, command, control, opening_frames
from gateway.adapters.segments.lifecycle import Lifecycle
from gateway.adapters.segments.operations import (
    read_fields,
    write_command,
    write_control,
)
from gateway.adapters.segments.publishes import Publishes, transfer
from gateway.adapters.segments.replay import ReplayLog
from gateway.adapters.segments.session import EMPTY_ARRAY, SYNC, TRANSFER
from gateway.adapters.segments.session_state import State
from gateway.adapters.segments.types import ALLOWANCE, FieldError
from gateway.adapters.segments.violation import (
    Violation,
    command_invalid,
    undecodable,
)
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import (
    BY_RECORD,
    OPERATIONS,
    AcceptMode,
)
from gateway.bodies import Body, LargeBody
from gateway.errors import Condition, Lost
from gateway.message import ExpiringMessage
from gateway.operations import (
    Deliver,
    Done,
    EndSession,
    Fetched,
    Operation,
    Outcome,
    Publish,
    Refused,
    SessionLost,
    Token,
)

Take = Callable[["ClientSession", Any, list[Operation]], None]
Result = Callable[["ClientSession", Any, Any], Any]
"""The result of an operation, from the session, the operation and the struct of its command."""


class ClientEngine(Protocol):
    """The engine, as far as its sessions need it."""

    buffer: OutputBuffer
    life: Lifecycle
    frame_limit: int

    def tell_soon(self, session: Any) -> None:
        """Call its ``tell_due`` when the output is taken."""
        ...


class Awaited:
    """A request that is done when the ``last`` of its commands is complete. ``value``: the struct
    that one of them has as its result."""

    __slots__ = ("operation", "result", "last", "value")

    def __init__(self, operation: Any, result: Result | None, last: int) -> None:
        self.operation = operation
        self.result = result
        self.last = last
        self.value: Any = None


def _unowned(allowed: bool) -> None:
    """No-op."""


class ClientSession:
    """One session, attached to a channel."""

    __slots__ = (
        "number", "name", "state", "opening", "ending", "allow_deliveries", "received", "pointed",
        "sent", "awaited", "publishes", "consumers", "deliveries", "transactional", "accepted",
        "prefetch", "flowing", "last_queue", "names", "_engine", "_buffer", "_accepts", "_due",
        "_sync_due", "_completed_due", "exception", "_take", "log", "linked", "known", "timeout",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        name: bytes,
        engine: ClientEngine,
        opening: Token,
        take: Mapping[int, Take],
    ) -> None:
        """``take``: handlers of commands of the server, by code."""
        self.number = number
        """Of the channel."""
        self.name = name
        self.state = State.ATTACHING
        self.opening = opening
        """The token of ``BeginSession`` or ``AttachSession``, until it is answered."""
        self.ending: EndSession | None = None
        self.allow_deliveries: Callable[[bool], None] = _unowned
        self.received = ReceivedCommands()
        self.pointed = False
        """The server has said where its numbers begin."""
        self.known = -1
        """The last of our commands that the server knows us to know as complete."""
        self.timeout = 0
        """The server keeps it for so many seconds when it is not attached."""
        self.log: ReplayLog | None = None
        """With a timeout: commands of ours that the server may not have."""
        self.linked = True
        """The server knows where the numbers of our commands begin: they may be sent."""
        self.sent = 0
        """The number of our next command."""
        self.awaited: SentCommands[Awaited] = SentCommands()
        self.publishes = Publishes(number)
        self.consumers: dict[str, Consumer] = {}
        self.deliveries = Deliveries()
        self.transactional = False
        self.accepted: dict[int, Arrival] = {}
        """Deliveries that were accepted in the transaction."""
        self.prefetch: tuple[int | None, int | None] = (None, None)
        """Messages and octets of the window of later consumers."""
        self.flowing = True
        """The server may deliver (``Flow``)."""
        self.last_queue = ""
        """The queue that an empty name stands for."""
        self.names = 0
        """Names that we have made."""
        self.exception: tuple[Condition, str] | None = None
        """Of the server, which is going to detach."""
        self._take = take
        self._engine = engine
        self._buffer = engine.buffer
        self._accepts: list[int] = []
        self._due = self._sync_due = self._completed_due = False

    # --- commands of ours ------------------------------------------------------------------------

    def ask(self, operation: Any, *records: Any, result: Result | None = None) -> None:
        """Send the commands of a request; it is done when the last of them is complete. Raises
        ``FieldError`` before any octet is written."""
        waits = operation.token is not None
        last = len(records) - 1
        segments = [
            write_command(record, waits and at == last) for at, record in enumerate(records)
        ]
        self.tell_accepted()
        awaited = Awaited(operation, result, self.sent + last)
        for record, segment in zip(records, segments, strict=True):
            if waits and (self.sent == awaited.last or BY_RECORD[type(record)].result):
                self.awaited.add(self.sent, awaited)
            self._write(segment)

    def new_name(self, kind: str) -> str:
        """A name that the session has not made before."""
        self.names += 1
        return f"{kind}-{self.names}"

    def answer(self, operation: Any, result: Any = None) -> None:
        """A request that needs no command is done."""
        if operation.token is not None:
            self._engine.life.follow(Done(self.number, operation.token, result))

    def say(self, record: Any, sync: bool = False) -> None:
        """Send a command that nothing waits for."""
        self._write(write_command(record, sync))

    def _write(self, segment: bytes) -> None:
        if self.log is not None:
            self.log.add(segment)
        if self.linked:
            octets = command(self.number, segment, limit=self._engine.frame_limit)
            self._buffer.put_on(self.number, octets)
        self.sent += 1

    def _write_content(self, segment: bytes, header: bytes, body: Body | None) -> None:
        number, limit, buffer = self.number, self._engine.frame_limit, self._buffer
        if isinstance(body, LargeBody):
            for octets in opening_frames(number, segment, header, False, limit):
                buffer.put_on(number, octets)
            buffer.large.add(self, LargeBodyFrames(number, body, limit))
        else:
            buffer.put_on(number, command(number, segment, header, body, limit))

    def repeat(self, commands: Iterator[tuple[bytes, bytes | None, Body | None]]) -> None:
        """Send commands of ours again."""
        number, limit = self.number, self._engine.frame_limit
        for segment, header, body in commands:
            if header is None:
                self._buffer.put_on(number, command(number, segment, limit=limit))
            else:
                self._write_content(segment, header, body)
        self._tell_soon()

    def send_control(self, record: Any) -> None:
        """A control, behind the frames of the session."""
        octets = control(self.number, write_control(record), self._engine.frame_limit)
        self._buffer.put_on(self.number, octets)

    def divert(self, pending: list[bytes]) -> None:
        """No-op: everything is written through the buffer, which knows where it goes."""

    def publish(self, op: Publish) -> None:
        """Raises ``ValueError`` before any octet is written. Hot."""
        if self.state is not State.ATTACHED:
            return
        message = op.message
        explicit = op.mandatory or op.immediate or self.publishes.confirming
        flags = 0
        if op.immediate:
            flags = IMMEDIATE if op.mandatory else IMMEDIATE | DISCARD_UNROUTABLE
        left = message.left if message.__class__ is ExpiringMessage else None
        header, body = published(message, left, flags)
        segment = transfer(message.exchange, explicit)
        if self.log is not None:
            self.log.add(segment, header, body)
        if self.linked:
            self._write_content(segment, header, body)
        if explicit:
            self.publishes.add(self.sent, message)
            self._sync_due = True
            self._tell_soon()
        self.sent += 1

    # --- put off to the end of the turn ----------------------------------------------------------

    def _tell_soon(self) -> None:
        if not self._due:
            self._due = True
            self._engine.tell_soon(self)

    def tell_due(self) -> None:
        """Send the commands and controls that were put off to the end of the turn."""
        self._due = False
        if self.state is not State.ATTACHED or not self.linked:
            return
        self.tell_accepted()
        if self._sync_due:
            self._sync_due = False
            self.say(w.ExecutionSync(), sync=True)
        if self._completed_due:
            self.tell_completed()

    def tell_accepted(self) -> None:
        """Send message.accept."""
        if self._accepts:
            accepts, self._accepts = sorted(self._accepts), []
            self.say(w.MessageAccept(ranges_of(accepts)))

    def tell_completed(self) -> None:
        """Send session.completed."""
        self._completed_due = False
        self.send_control(w.SessionCompleted(self.received.complete_ranges()))

    def flushed(self, confirmed: bool) -> None:
        """The server asks for the completed commands (session.flush)."""
        if confirmed:
            ranges = self.received.complete_ranges()
            self.send_control(w.SessionConfirmed(ranges, EMPTY_ARRAY))
        self.tell_completed()

    def complete(self, number: int) -> None:
        """We have dealt with a command of the server."""
        self.received.complete(number)
        self._completed_due = True
        self._tell_soon()

    # --- commands of the server ------------------------------------------------------------------

    def on_transfer(
        self,
        sync: bool,
        arguments: bytes,
        header: bytes | None,
        body: Body | None,
        found: list[Operation],
    ) -> None:
        """A message is delivered. Hot."""
        if self._discards(found):
            return
        number = self.received.next()
        try:
            destination, accept_mode, _ = route(arguments)
            known = arrived(header)
        except FieldError as error:
            self.fail(undecodable(error, self.number, TRANSFER), found)
            return
        consumer = self.consumers.get(destination)
        explicit = accept_mode == AcceptMode.EXPLICIT
        if consumer is None:
            if explicit:
                self.say(w.MessageRelease(ranges_of([number])))
            self.complete(number)
            return
        message = received(known, body, known.exchange)
        deliveries = self.deliveries
        deliveries.last = delivery = deliveries.last + 1
        complete = not (explicit and consumer.held_back)
        if explicit:
            deliveries.unsettled[delivery] = Arrival(number, complete, not consumer.copy)
        if complete:
            self.complete(number)
        if not consumer.window and consumer.count:
            consumer.count -= 1
        redelivered = known.flags & REDELIVERED != 0
        if consumer.fetching:
            consumer.fetched = Fetched(delivery, redelivered, message, 0)
        else:
            found.append(Deliver(self.number, destination, delivery, redelivered, message))

    def on_run(
        self, arguments: bytes, content: list[tuple[bytes, bytes]], found: list[Operation]
    ) -> None:
        """Messages are delivered."""
        for header, body in content:
            self.on_transfer(False, arguments, header, body, found)

    def on_command(
        self,
        code: int,
        sync: bool,
        buf: bytes,
        at: int,
        end: int,
        header: bytes | None,
        body: Body | None,
        found: list[Operation],
    ) -> None:
        """Any other command."""
        if self._discards(found):
            return
        received = self.received
        number = received.next()
        kind = OPERATIONS.get(code)
        if kind is None or kind.control or not kind.from_server:
            text = f"command {code >> 8}.{code & 0xFF} of a server is unknown"
            self.fail(command_invalid(text, self.number, code), found)
            return
        take = self._take.get(code)
        if take is None:
            text = f"{kind.name} is not implemented"
            self.fail(Violation(Condition.NOT_IMPLEMENTED, text, operation=code), found)
            return
        try:
            with ALLOWANCE.within():
                take(self, read_fields(kind, buf, at, end), found)
        except FieldError as error:
            self.fail(undecodable(error, self.number, code), found)
            return
        if code == SYNC:
            received.synchronized(number)
            self._completed_due = True
            self._tell_soon()
        else:
            self.complete(number)

    def on_violation(self, violation: Violation, found: list[Operation]) -> None:
        """A command was not valid, or its content is not taken."""
        if not self._discards(found):
            self.fail(violation, found)

    def _discards(self, found: list[Operation]) -> bool:
        """Whether a command comes when none is taken. One before the numbers of the server begin
        costs the session."""
        if self.state is not State.ATTACHED:
            return True
        if self.pointed:
            return False
        received = self.received
        if received.plain:
            self.lose(found)
            return True
        admitted = received.admit()
        self.pointed = received.plain
        return not admitted

    def flush_unsafe(self, found: list[Operation]) -> None:
        """No-op: nothing that a server sends waits for a store."""

    # --- answers ---------------------------------------------------------------------------------

    def on_completed(self, m: w.SessionCompleted, found: list[Operation]) -> None:
        """Commands of ours are complete: requests are done, publishes are confirmed. Raises
        ``FieldError``."""
        ranges = unwrapped(m.commands, self.sent)
        if self.log is not None:
            self.log.completed(ranges)
        self.publishes.completed(ranges, found)
        taken = self.awaited.take(ranges)
        for number in sorted(taken):
            awaited = taken[number]
            if number == awaited.last:
                operation, result = awaited.operation, awaited.result
                try:
                    value = None if result is None else result(self, operation, awaited.value)
                except FieldError:
                    self.awaited.restore(taken)  # they are refused, as the connection ends
                    raise
                found.append(Done(self.number, operation.token, value))
            del taken[number]

    # --- settlement ------------------------------------------------------------------------------

    def settle(self, deliveries: list[int], outcome: Outcome) -> None:
        """Give these deliveries an outcome. Unknown ones are gone with their session."""
        unsettled = self.deliveries.unsettled
        numbers = []
        for delivery in deliveries:
            arrival = unsettled.pop(delivery, None)
            if arrival is None:
                continue
            if arrival.held:
                numbers.append(arrival.number)
                if self.transactional and outcome is Outcome.ACCEPT:
                    self.accepted[delivery] = arrival._replace(complete=True)
            if not arrival.complete:
                self.complete(arrival.number)
        if not numbers or self.state is not State.ATTACHED:
            return
        if outcome is Outcome.ACCEPT:
            self._accepts += numbers
            self._tell_soon()
            return
        self.tell_accepted()
        ranges = ranges_of(sorted(numbers))
        if outcome is Outcome.REJECT:
            self.say(w.MessageReject(ranges))
        else:
            self.say(w.MessageRelease(ranges, set_redelivered=outcome is not Outcome.UNDO))

    # --- other connections -----------------------------------------------------------------------

    def granted(self, seconds: int) -> None:
        """The server keeps it so long when it is not attached."""
        self.timeout = seconds
        if not seconds and self.log is not None:
            self.log.end()
            self.log = None

    def leave(self) -> None:
        """The connection is gone; our commands wait."""
        self.state, self.opening = State.LEFT, None
        self.pointed = self.linked = self._due = False

    def rejoin(self, engine: ClientEngine, number: int, opening: Token) -> None:
        """Attach it on another connection."""
        self.state = State.ATTACHING
        self.number = self.publishes.channel = number
        self.opening = opening
        self.received.repeated = None
        self._engine, self._buffer = engine, engine.buffer

    def opened(self, result: Any, found: list[Operation]) -> None:
        """It is attached, and the commands that the server lacked are sent."""
        token, self.opening = self.opening, None
        if token is not None:
            found.append(Done(self.number, token, result))

    # --- the end ---------------------------------------------------------------------------------

    def fail(self, violation: Violation, found: list[Operation]) -> None:
        """The server's mistake costs the session."""
        record = w.ExecutionException(error_code=violation.code, description=violation.text[:1000])
        self.say(record)
        self.send_control(w.SessionDetach(self.name))
        self._lost(violation.condition, violation.text, found)

    def lose(self, found: list[Operation], code: int = 4) -> None:
        """The server's numbers are not known (session.detached with a code)."""
        self.send_control(w.SessionDetached(self.name, code))
        self._lost(Condition.CHANNEL_ERROR, "unknown command numbers", found)

    def lose_state(self, found: list[Operation]) -> None:
        """The server knows nothing of the session."""
        self.send_control(w.SessionDetached(self.name, 0))
        self._lost(Condition.NOT_FOUND, "the server has not kept the session", found)

    def _lost(self, condition: Condition, text: str, found: list[Operation]) -> None:
        self.state = State.DETACHING
        found += self.refusals(condition, text, Lost.SESSION)
        found.append(SessionLost(self.number, condition, text))

    def detached(self, reason: tuple[Condition, str], found: list[Operation]) -> None:
        """The session is over: answer everything that is open. ``reason``: why, if there was no
        execution.exception."""
        condition, text = self.exception or reason
        ending, lost = self.ending, self.state is State.DETACHING
        if ending is not None:
            condition, text = Condition.CHANNEL_ERROR, f"channel {self.number} is closed"
        found += self.refusals(condition, text, Lost.SESSION)
        self.state = State.ENDED
        if ending is not None:
            if ending.token is not None:
                found.append(Done(self.number, ending.token))
        elif not lost:
            found.append(SessionLost(self.number, condition, text))

    def refusals(self, condition: Condition, text: str, lost: Lost) -> list[Operation]:
        """Refuse the requests that will not be answered any more."""
        tokens = [each.operation.token for each in dict.fromkeys(self.awaited.values())]
        self.awaited.clear()
        tokens.append(self.opening)
        self.opening = None
        self.granted(0)
        return [
            Refused(self.number, token, condition, text, lost)
            for token in tokens
            if token is not None
        ]

    def mark_ended(self) -> list[Operation]:
        """The connection is over."""
        tail = []
        if self.ending is not None and self.ending.token is not None:
            tail.append(self.ending.token)
        text = "the connection is gone"
        found = self.refusals(Condition.CONNECTION_FORCED, text, Lost.CONNECTION)
        self.state = State.ENDED
        found += [
            Refused(self.number, token, Condition.CONNECTION_FORCED, text, Lost.CONNECTION)
            for token in tail
        ]
        return found

    # --- as an outlet ----------------------------------------------------------------------------

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Any) -> None:
        """No-op: a client does not deliver."""

    def confirm(self, sequence: int, multiple: bool, accepted: bool) -> None:
        """No-op: a client does not confirm."""
