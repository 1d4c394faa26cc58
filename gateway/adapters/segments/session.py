"""One session: the numbers of its commands, their completion, and its deliveries; also an
``Outlet``.

Commands are completed out of order. Publishes and settlements of one read are completed together,
when all of them are performed and stored (``flush_unsafe``). ``session.completed`` is sent once a
turn at most, when the output is taken: if a command with sync completes, an execution.sync is
reached, the peer asks, or 1000 commands are complete.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gateway.adapters.core.allowance import MOST_VALUES
from gateway.adapters.core.output import CROWD, HEAVY, JOINED
from gateway.adapters.segments.batches import Batches
from gateway.adapters.segments.completion import (
    SERIALS,
    BrowsedTransfers,
    ReceivedCommands,
    SentCommands,
    SentRuns,
    ranges_of,
    unwrapped,
)
from gateway.adapters.segments.content import SEGMENTS, sent
from gateway.adapters.segments.essentials import (
    DISCARD_UNROUTABLE,
    IMMEDIATE,
    NO_HEADER,
    NOWHERE,
    arrived,
    route,
)
from gateway.adapters.segments.failures import Failure
from gateway.adapters.segments.frames import (
    LargeBodyFrames,
    command,
    control,
    opening_frames,
    transfer,
)
from gateway.adapters.segments.operation_types import OperationType
from gateway.adapters.segments.operations import (
    read_fields,
    write_command,
    write_control,
    write_struct,
)
from gateway.adapters.segments.publishes import RETURN_CODES
from gateway.adapters.segments.replay import ReplayLog
from gateway.adapters.segments.session_state import ATTACHED, SessionEngine, State
from gateway.adapters.segments.splicing import NO_BODY
from gateway.adapters.segments.subscriptions import Spent, Subscription
from gateway.adapters.segments.types import ALLOWANCE, FieldError, Unacceptable
from gateway.adapters.segments.violation import (
    Violation,
    command_invalid,
    session_code,
    undecodable,
)
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import (
    OPERATIONS,
    AcceptMode,
    ErrorCode,
    RejectCode,
)
from gateway.bodies import Body, LargeBody
from gateway.errors import Condition, PeerError
from gateway.message import ExpiringMessage, Message, Table
from gateway.operations import (
    Done,
    Operation,
    Outcome,
    Publish,
    PublishMany,
    Refused,
    Returned,
    SessionLost,
    Unsent,
)

TRANSFER, SYNC = 0x0401, 0x0301
EMPTY_ARRAY = b"\xf0\0\0\0\0"
MOST_PENDING = 16_384
"""Commands of a session that are not complete, after which it takes no other commands than
transfers: those wait for the store, and their publisher is not read from meanwhile."""


class Request(NamedTuple):
    """A command that is being performed; also the token of its operation."""

    session: "Session"
    number: int
    kind: OperationType
    record: Any

    def done(self, op: Done) -> None:
        """It is performed: its result, then its completion."""
        session = self.session
        if session.state in (State.DETACHING, State.ENDED):
            return
        answer = session.answers.get(self.kind.code)
        if answer is not None:
            result = answer(self, op.result)
            if result is not None:
                value = write_struct(result)
                session.send(w.ExecutionResult(self.number & SERIALS, value))
        if self.kind.code == SYNC:
            session.synchronized(self.number)
        else:
            session.complete(self.number)

    def refused(self, op: Refused) -> None:
        """The broker has refused it, which costs the session."""
        code = session_code(op.condition)
        name = getattr(self.record, "queue", None) or getattr(self.record, "exchange", None)
        reserves = self.kind.name in ("queue.declare", "exchange.declare", "exchange.delete")
        if reserves and code == ErrorCode.UNAUTHORIZED_ACCESS and str(name).startswith("amq."):
            code = ErrorCode.NOT_ALLOWED  # "reserved-names"
        self.session.tell_exception(code, op.text, self.number, self.kind.code)


Serve = Callable[[Request], list[Operation]]
Answer = Callable[[Request, Any], Any]


def _unowned(allowed: bool) -> None:
    """No-op."""


class Session:
    """One session, attached to a channel."""

    allow_deliveries: Callable[[bool], None]
    __slots__ = (
        "number", "name", "state", "allow_deliveries", "received", "pointed", "confirming",
        "sent", "subscriptions", "unsettled", "windowed", "transactional", "branching", "accepted",
        "batches", "acquiring", "owned", "answers", "_serve", "_batched", "_engine",
        "_buffer", "_pending", "timeout", "log",
        "linked", "known", "given_up", "browsed", "_arguments", "_route", "_arrived",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        name: bytes,
        engine: SessionEngine,
        serve: dict[int, Serve],
        answers: dict[int, Answer],
        batched: frozenset[int],
    ) -> None:
        """``serve`` makes the operations of a command, ``answers`` the struct of its result;
        commands that are ``batched`` need not follow the completion of publishes."""
        self.number = number
        """Of the channel."""
        self.name = name
        self.state = ATTACHED
        self.allow_deliveries = _unowned
        self.received = ReceivedCommands()
        self.pointed = False
        """The peer has said where its numbers begin, and its commands are not counted in another
        way (``ReceivedCommands.plain``)."""
        self.known = -1
        """The last of our commands that the peer knows us to know as complete."""
        self.timeout = 0
        """For so many seconds it is kept when it is not attached."""
        self.log: ReplayLog | None = None
        """With a timeout: commands of ours that the peer may not have."""
        self.linked = True
        """The peer knows where the numbers of our commands begin: they may be sent."""
        self.confirming = False
        """The peer has asked for session.confirmed."""
        self.sent = 0
        """The number of our next command."""
        self.subscriptions: dict[str, Subscription] = {}
        self.unsettled: SentCommands[int] = SentCommands()
        """Numbers of deliveries by those of their transfers."""
        self.browsed: BrowsedTransfers | None = None
        """The same of deliveries that need no accept but may be acquired, if there are any."""
        self.windowed: SentRuns[Spent] = SentRuns()
        """Transfers whose completion gives credit back."""
        self.transactional = False
        self.branching = False
        """It has selected class dtx: accepts belong to the branch at hand, if there is one."""
        self.accepted: dict[int, int] = {}
        """Deliveries that were accepted in the transaction."""
        self.given_up: list[tuple[list[tuple[int, int]], Outcome, Table | None]] = []
        """Ranges that were released or rejected after some were accepted in it."""
        self.batches = Batches()
        self.acquiring = 0
        """Messages named by acquires that are not answered."""
        self.answers = answers
        self._arguments = b""
        self._route = NOWHERE
        """Of the transfer before, with its arguments: many transfers of a read share these."""
        self._arrived = NO_HEADER
        """Of the header before."""
        self._serve = serve
        self._batched = batched
        self._engine = engine
        self._buffer = engine.buffer
        self._pending = engine.buffer.pending

    # --- commands of the peer --------------------------------------------------------------------

    def on_transfer(
        self,
        sync: bool,
        arguments: bytes,
        header: bytes | None,
        body: Body | None,
        found: list[Operation],
    ) -> None:
        """A message is published. Hot."""
        if (self.state is not ATTACHED or not self.pointed) and not self._admits(found):
            return
        number = self.received.next()
        try:
            if arguments is not self._arguments:
                self._route = route(arguments)
                self._arguments = arguments
            destination, accept_mode, _ = self._route
            octets, essentials, _, key, flags = self._arrived = arrived(header)
        except FieldError as error:
            self.fail(undecodable(error, self.number, TRANSFER), number, found)
            return
        if body is None:
            octets, body = NO_BODY + octets, b""
        message = Message(SEGMENTS, octets, body, destination, key, essentials)
        self.batches.numbers[number] = message
        if accept_mode == AcceptMode.EXPLICIT or flags & IMMEDIATE:
            mandatory = False
            if accept_mode == AcceptMode.EXPLICIT:
                mandatory = not flags & DISCARD_UNROUTABLE
                self.batches.explicit[id(message)] = number
                self.batches.messages.append(message)
            found.append(Publish(self.number, message, mandatory, flags & IMMEDIATE != 0))
        else:
            last = found[-1] if found else None
            if last.__class__ is PublishMany and last.channel == self.number:
                last.messages.append(message)
            else:
                found.append(PublishMany(self.number, [message]))
        if sync:
            self.received.wanted = number

    def on_run(
        self, arguments: bytes, content: list[tuple[bytes, bytes]], found: list[Operation]
    ) -> None:
        """Messages are published as the one before. Hot."""
        destination, accept_mode, _ = self._route
        _, essentials, _, key, flags = self._arrived
        if (
            self.state is not ATTACHED
            or not self.pointed
            or arguments is not self._arguments
            or accept_mode == AcceptMode.EXPLICIT
            or flags & IMMEDIATE
        ):
            for header, body in content:
                self.on_transfer(False, arguments, header, body, found)
            return
        messages = [
            Message(SEGMENTS, header, body, destination, key, essentials)
            for header, body in content
        ]
        numbers = self.received.next_run(len(messages))
        self.batches.numbers.update(zip(numbers, messages, strict=True))
        last = found[-1] if found else None
        if isinstance(last, PublishMany) and last.channel == self.number:
            last.messages += messages
        else:
            found.append(PublishMany(self.number, messages))

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
        if (self.state is not ATTACHED or not self.pointed) and not self._admits(found):
            return
        number = self.received.next()
        if sync:
            self.received.wanted = number
        if len(self.received.pending) > MOST_PENDING:
            text = f"more than {MOST_PENDING} commands are not complete"
            self.refuse(number, code, ErrorCode.RESOURCE_LIMIT_EXCEEDED, text, found)
            return
        kind = OPERATIONS.get(code)
        if kind is None or kind.control or not kind.from_client:
            text = f"command {code >> 8}.{code & 0xFF} of a client is unknown"
            self.fail(command_invalid(text, self.number, code), number, found)
            return
        serve = self._serve.get(code)
        if serve is None:
            text = f"{kind.name} is not implemented"
            self.refuse(number, code, ErrorCode.NOT_IMPLEMENTED, text, found)
            return
        if code not in self._batched:
            self.flush_unsafe(found)
        try:
            if end - at > MOST_VALUES:
                with ALLOWANCE.within():
                    record = read_fields(kind, buf, at, end)
                    self._perform(Request(self, number, kind, record), serve, found)
            else:
                record = read_fields(kind, buf, at, end)
                self._perform(Request(self, number, kind, record), serve, found)
        except FieldError as error:
            self.fail(undecodable(error, self.number, code), number, found)

    def _perform(self, request: Request, serve: Serve, found: list[Operation]) -> None:
        """Raises ``FieldError``."""
        number, code = request.number, request.kind.code
        try:
            found += serve(request)
        except PeerError as error:
            self.refuse(number, code, session_code(error.condition), error.text, found)
        except Unacceptable as error:
            self.refuse(number, code, error.code, error.text, found)

    def follow(self, *operations: Operation) -> None:
        """An answer led to these operations, to be performed soon."""
        self._engine.life.follow(*operations)

    def serve_later(self, request: Request, serve: Serve) -> None:
        """A command that had to wait for an earlier one."""
        found: list[Operation] = []
        if self.state is ATTACHED:
            self._perform(request, serve, found)
            self._engine.life.follow(*found)

    def on_violation(self, violation: Violation, found: list[Operation]) -> None:
        """A command was not valid, or its content is not taken."""
        if self.state is ATTACHED:
            self.fail(violation, self.received.next(), found)

    def _admits(self, found: list[Operation]) -> bool:
        """Whether a command is to be performed: not before the first number, not in a session that
        ends, not if it has come before."""
        if self.state is not ATTACHED:
            return False
        received = self.received
        if received.plain:
            self.lose(found)
            return False
        admitted = received.admit()
        self.pointed = received.plain
        if not admitted:
            self.tell_soon()
        return admitted

    def flush_unsafe(self, found: list[Operation]) -> None:
        """Complete the publishes and settlements so far when they are performed and stored."""
        self.batches.flush(self, found)

    # --- mistakes --------------------------------------------------------------------------------

    def fail(
        self, violation: Violation, number: int, found: list[Operation], code: int = 0
    ) -> None:
        """The peer's mistake costs the session. It is told behind the answers to earlier
        commands."""
        self.flush_unsafe(found)
        self.state = State.FAILED
        token = Failure(self, violation, code or violation.code, number)
        found.append(SessionLost(self.number, violation.condition, violation.text, token))

    def refuse(
        self, number: int, code: int, error_code: int, text: str, found: list[Operation]
    ) -> None:
        """The same with an error code that has no condition of its own."""
        self.fail(command_invalid(text, self.number, code), number, found, error_code)

    def tell_exception(
        self, code: int, text: str, number: int | None = None, operation: int = 0
    ) -> None:
        """Send execution.exception and detach, unless the session ends already."""
        if self.state in (State.DETACHING, State.ENDED):
            return
        self._engine.tell_due()
        record = w.ExecutionException(error_code=code, description=text[:1000])
        if number is not None:
            record.command_id = number & SERIALS
        if operation:
            record.class_code, record.command_code = operation >> 8, operation & 0xFF
        self.send(record)
        self.detach()

    def refused_transfer(self, op: Refused) -> None:
        """The broker has refused a message, which costs the session."""
        number = self.batches.number_of(op.message)
        self.tell_exception(session_code(op.condition), op.text, number, TRANSFER)

    def detach(self) -> None:
        """End the session from our side."""
        self.send_control(w.SessionDetach(self.name))
        self.state = State.DETACHING
        self._drop()

    def lose(self, found: list[Operation], code: int = 4) -> None:
        """The peer's numbers are not known (session.detached with a code)."""
        self.send_control(w.SessionDetached(self.name, code))
        self.state = State.DETACHING
        self._drop()
        found.append(SessionLost(self.number, Condition.CHANNEL_ERROR, "unknown command numbers"))

    def mark_ended(self) -> list[Operation]:
        """It is over; as an outlet it sends nothing. Returns refusals of our requests: none."""
        self.state = State.ENDED
        self._drop()
        return []

    def _drop(self) -> None:
        for each in (
            self.subscriptions, self.unsettled, self.windowed, self.batches
        ):  # fmt: skip
            each.clear()
        self.browsed = None
        if self.log is not None:
            self.log.end()
            self.log = None

    # --- completion ------------------------------------------------------------------------------

    def complete(self, number: int) -> None:
        """A command of the peer is performed."""
        if self.received.complete(number):
            self.tell_soon()

    def tell_soon(self) -> None:
        """The peer is to be told of completed commands in this turn."""
        self._engine.tell_soon(self)

    def flushed(self, confirmed: bool) -> None:
        """The peer asks for the completed commands (session.flush). It is told once a turn, as
        that costs a step per command that is pending."""
        self.received.wanted = self.received.following - 1
        self.confirming = self.confirming or confirmed
        self.tell_soon()

    def synchronized(self, number: int) -> None:
        """An execution.sync is reached, unless earlier commands are still pending."""
        if self.received.synchronized(number):
            self.tell_soon()

    def tell_due(self) -> None:
        """Send the commands and controls that were put off to the end of the turn."""
        if self.confirming and self.state is ATTACHED:
            self.confirming = False
            self.send_control(w.SessionConfirmed(self.received.complete_ranges(), EMPTY_ARRAY))
        self.tell_completed()

    def tell_completed(self) -> None:
        """Send session.completed: behind the results, which may have to be sent again."""
        if self.linked and self.state in (ATTACHED, State.ENDING, State.FAILED):
            self.send_control(w.SessionCompleted(self.received.complete_ranges()))

    def on_completed(self, m: w.SessionCompleted, found: list[Operation]) -> None:
        """The peer has taken transfers, whose credit comes back in window mode."""
        ranges = unwrapped(m.commands, self.sent)
        if self.log is not None:
            self.log.completed(ranges)
        more: dict[Subscription, None] = {}
        for (name, cost, epoch), times in self.windowed.take(ranges):
            subscription = self.subscriptions.get(name)
            if subscription is not None and subscription.give_back(cost, epoch, times):
                more[subscription] = None
        found += [each.tell() for each in more]

    # --- out -------------------------------------------------------------------------------------

    def send(self, record: Any) -> None:
        """A command of ours without content."""
        self.sent += 1
        segment = write_command(record)
        if self.log is not None:
            self.log.add(segment)
        if self.linked:
            octets = command(self.number, segment, limit=self._engine.frame_limit)
            self._buffer.put_on(self.number, octets)

    def repeat(self, commands: Iterator[tuple[bytes, bytes | None, Body | None]]) -> None:
        """Send commands of ours again; then deliveries go on."""
        number, limit = self.number, self._engine.frame_limit
        for segment, header, body in commands:
            if isinstance(body, LargeBody):
                self._pending += opening_frames(number, segment, header, False, limit)
                self._buffer.large.add(self, LargeBodyFrames(number, body, limit))
            else:
                self._buffer.put_on(number, command(number, segment, header, body, limit))
        if number not in self._buffer.large.deferred:
            self.allow_deliveries(True)

    def move(self, engine: SessionEngine, number: int) -> None:
        """It is on a channel of another connection now."""
        self.number, self._engine = number, engine
        self._buffer, self._pending = engine.buffer, engine.buffer.pending

    def send_control(self, record: Any) -> None:
        """A control, behind the frames of the session."""
        octets = control(self.number, write_control(record), self._engine.frame_limit)
        self._buffer.put_on(self.number, octets)

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        """Hot."""
        subscription = self.subscriptions.get(consumer)
        if subscription is None or self.state is not ATTACHED:
            return
        envelope, body = subscription.envelope, message.body
        if envelope is None or redelivered or self.log is not None:
            frames = b""
        else:
            frames = envelope.around(message, body)
        if frames:
            assert envelope is not None
            pending = self._pending
            if not pending:
                self._buffer.waken()
            elif len(pending) > CROWD:
                self._buffer.crowd()
            pending.append(frames)
            size = len(body)
            if size > HEAVY:
                self._buffer.weigh(size)
                if size > JOINED:
                    pending.append(body)  # type: ignore[arg-type]
            cost = envelope.cost + size
        else:
            cost = self._write(subscription, delivery, redelivered, message)
            if not cost:
                return
        number = self.sent
        self.sent = number + 1
        if not subscription.settled:
            subscription.unsettled.add(number, delivery)
        spent = subscription.spend(cost)
        if spent is not None:
            self.windowed.add(number, spent)

    def _write(
        self, subscription: Subscription, delivery: int, redelivered: bool, message: Message
    ) -> int:
        """A transfer; how many octets of content, with at least one for the header. Nothing if
        the message has no form here."""
        try:
            left = message.left if message.__class__ is ExpiringMessage else None
            header, body = sent(message, left, redelivered)
        except ValueError:
            name = subscription.name
            self._engine.life.follow(Unsent(self.number, name, delivery, message))
            return 0
        if self.log is not None:
            self.log.add(subscription.segment, header, body)
        pending, limit = self._pending, self._engine.frame_limit
        if not pending:
            self._buffer.waken()
        elif len(pending) > CROWD:
            self._buffer.crowd()
        cost = len(header)
        if body is None:
            pending.append(command(self.number, subscription.segment, header, None, limit))
            return cost
        size = len(body)
        if isinstance(body, LargeBody):
            pending += opening_frames(self.number, subscription.segment, header, False, limit)
            self._buffer.large.add(self, LargeBodyFrames(self.number, body, limit))
        else:
            if size > HEAVY:
                self._buffer.weigh(size)
            pending += transfer(self.number, subscription.opening, header, body, limit)
            if left is None and not redelivered:
                subscription.prepare(self.sent, message, header, limit)
        return cost + size

    def divert(self, pending: list[bytes]) -> None:
        """Write there from now on."""
        self._pending = pending

    def confirm(self, sequence: int, multiple: bool, accepted: bool) -> None:
        """Sessions have no confirms: a transfer is completed when it is safe."""

    def returned(self, op: Returned) -> None:
        """A message that no queue took: its publisher is told, if it asked for that."""
        number = self.batches.explicit.pop(id(op.message), None)
        if number is not None and self.state in (ATTACHED, State.LEFT):
            code = RETURN_CODES.get(op.condition, RejectCode.UNSPECIFIED)
            self.send(w.MessageReject(ranges_of([number]), code, op.text))
