"""The adapter of the class-and-method family: 0-8, 0-9 and 0-9-1, server or client.

``Engine`` owns the channels and the output, takes methods from the frame loop to whom they concern,
and turns what is wrong into the close that the specification asks for.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.adapters.contract import Authority, Capability, Outlet, Role
from gateway.adapters.core.heartbeat import Due, Heartbeat
from gateway.adapters.core.large_bodies import PORTION, BodyLoad, LargeBodyOutput
from gateway.adapters.core.output import MOST_OCTETS, no_op, take
from gateway.adapters.methods import states
from gateway.adapters.methods import types as fields
from gateway.adapters.methods.channel import Awaited, Channel
from gateway.adapters.methods.codes import LATEST, conditions_by_code
from gateway.adapters.methods.connection import Connection, Ended
from gateway.adapters.methods.frames import Frames
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.incoming import Incoming
from gateway.adapters.methods.outbound import SPEECH
from gateway.adapters.methods.wire import layouts as w
from gateway.adapters.methods.wire.tables import VERSIONS
from gateway.adapters.options import MECHANISMS, Credentials, Limits, Product
from gateway.bodies import Body, LargeBody, Spool
from gateway.errors import Condition, LocalError, Lost, PeerError, Unwritable
from gateway.operations import (
    Closed,
    Confirm,
    Done,
    Operation,
    Outcome,
    Refused,
    Settle,
    Unsent,
)

WEIGHT = 512
"""What a message counts besides its body, as an answer."""

HEADERS = {"0-8": (b"AMQP\x01\x01\x08\x00", b"AMQP\x01\x01\x09\x01")}
"""Headers that open a version, where there are several (python amqplib writes the second)."""


class Engine:
    """One connection of the family; an ``Adapter``."""

    capabilities = Capability.NONE
    versions = VERSIONS
    frames: Frames
    connection: Connection

    def __init__(
        self,
        version: str,
        role: Role,
        *,
        authority: Authority | None = None,
        limits: Limits = Limits(),  # noqa: B008
        credentials: Credentials | None = None,
        product: Product = Product(),  # noqa: B008
        external_subject: str | None = None,
        mechanisms: tuple[str, ...] = MECHANISMS,
        wake: Callable[[], None] = no_op,
        spool: Spool | None = None,
    ) -> None:
        """``spool``: where bodies go that are too large for memory; ``None``: they stay there."""
        self.version = version
        self.role = role
        self.closing = False
        self.wake = wake
        self.crowded: Callable[[], None] = no_op
        self.limits = limits
        self.table = self.versions[version]
        self.pending: list[bytes] = []
        self.channels: dict[int, Channel] = {}
        self.tags = fields.RABBITMQ
        self.max_message_octets = limits.max_message_octets
        self.announced = 0
        self.spool = spool
        self.channel_max = limits.channel_max or 0xFFFF
        self.later: list[Operation] = []
        """Found outside ``receive``; the next one returns them."""
        self.server = role is Role.SERVER
        self._set_frames()
        ack = self.table.by_name.get("basic.ack")
        self._ack = 0 if ack is None else ack.number
        self._codes = {**LATEST, **conditions_by_code(self.table.codes)}
        self._receiving = False
        self._weight = 0
        self._fault: PeerError | None = None
        """What the peer did wrong, while it is still to be told."""
        self._opening = b""
        self.heartbeat = Heartbeat(limits)
        self._set_connection(authority, credentials, product, external_subject, mechanisms)
        if not self.server:
            self.connection.begin()

    def _set_frames(self) -> None:
        """The framing of this version."""
        server, limits = self.server, self.limits
        self.frames = Frames(
            self.table,
            server,
            Settle if server else Confirm,
            Outcome.ACCEPT if server else True,
            self.channels,
            Incoming(self, server),
            limits.max_message_octets,
        )
        self.loads = LargeBodyOutput(self.pending)
        overhead = self.frames.overhead
        self.frames.limit = (limits.frame_max or limits.max_message_octets + overhead) - overhead
        self.body_max = self.table.constants["frame-min-size"] - overhead

    def _set_connection(
        self,
        authority: Authority | None,
        credentials: Credentials | None,
        product: Product,
        external_subject: str | None,
        mechanisms: tuple[str, ...],
    ) -> None:
        """Channel 0 of this version."""
        self.connection = Connection(
            self,
            self.role,
            authority,
            self.limits,
            credentials,
            product,
            external_subject,
            mechanisms,
        )

    # --- in --------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[Operation]:
        """Octets from the peer, whole or cut anywhere; ``b""`` is the end of the stream."""
        if self.closing:
            return []
        found, self.later = self.later, []
        if not data:
            return found + self.lost()
        if self.connection.state is states.LEAVING:
            return found
        self.heartbeat.heard = True
        self._receiving = True
        try:
            if self.connection.state is states.HEADER:
                data = self._protocol_header(data, found)
            elif (
                not self.server
                and data[:4] == b"AMQP"
                and self.connection.state is states.START
                and not self.frames.held  # else it may be the middle of "PLAIN AMQPLAIN"
            ):
                self._other_version(data, found)
            if data:
                self.frames.feed(data, found)
        except PeerError as error:
            self._violated(error, found)
        except Ended:
            pass
        finally:
            self._receiving = False
        return found

    def go_on(self, act: Callable[[list[Operation]], None]) -> None:
        """What the peer waits for has come from elsewhere: act on it, then look at what the peer
        has said since. What that brings is ``found``."""
        if self.closing:
            return
        found, self.later = self.later, []
        try:
            act(found)
            self.frames.go_on(found)
        except PeerError as error:
            self._violated(error, found)
        except Ended:
            pass
        self.later = found + self.later
        self.wake()

    def _protocol_header(self, data: bytes, found: list[Operation]) -> bytes:
        """Take the client's header off; what follows it."""
        data = self._opening + data
        good = HEADERS.get(self.version, (self.table.header,))
        head = data[:8]
        if head in good:
            self._opening = b""
            self.connection.on_protocol_header()
            return data[8:]
        if len(head) < 8 and any(header.startswith(head) for header in good):
            self._opening = data
            return b""
        self.refuse_header()
        found += self.give_up()
        found.append(Closed(Condition.NOT_IMPLEMENTED, "not the protocol header expected"))
        raise Ended

    def refuse_header(self) -> None:
        """Say which header would be good (0-9-1 §2.2.4)."""
        self.put(self.table.header)

    def _other_version(self, data: bytes, found: list[Operation]) -> None:
        """Client: the server answers our header with the one it would like (0-9-1 §2.2.4)."""
        text = f"the server does not speak {self.version}, it answers {data[:8]!r}"
        found += self.give_up()
        found.append(Closed(Condition.NOT_IMPLEMENTED, text))
        raise Ended

    # --- the end ---------------------------------------------------------------------------------

    def condition(self, code: int) -> Condition:
        return self._codes.get(code, Condition.INTERNAL_ERROR)

    def reply(self, condition: Condition, text: str) -> tuple[int, str]:
        """Code and text as a native peer expects them: ``NOT_FOUND - no queue 'x' ...``."""
        code, name, _ = self.table.codes[condition.value]
        raw = f"{name} - {text}".encode("utf-8", "surrogateescape")[:255]
        return code, raw.decode("utf-8", "ignore")

    def lose(self, channel: int, condition: Condition, text: str, method: int = 0) -> None:
        """Close a channel for an error."""
        code, reason = self.reply(condition, text)
        self.channels[channel].die()
        self.write(channel, w.ChannelClose(code, reason, method >> 16, method & 0xFFFF))

    def say_close(
        self, condition: Condition | None, text: str, method: int = 0, theirs: bool = False
    ) -> None:
        """Begin to close the connection."""
        if condition is None:
            code, reason = self.table.constants["reply-success"], text or "Normal shutdown"
        else:
            code, reason = self.reply(condition, text)
        self.write(0, w.ConnectionClose(code, reason, method >> 16, method & 0xFFFF))
        self.connection.state = states.CLOSING
        self.connection.said = condition, text
        self.connection.caused_by_them = theirs
        self.loads.end(self.channels)
        for place in self.channels.values():
            place.die()

    def _violated(self, error: PeerError, found: list[Operation]) -> None:
        """They broke a rule and the connection dies of it. A server says so behind its answers to
        what was asked before."""
        if self.server and self.connection.state in (states.OPENING, states.OPEN):
            self._fault = error
            for place in self.channels.values():
                place.forget_content()
            found.append(self.connection.leave(error.condition, error.text, fault=True))
            return
        self._say_fault(error)
        found += self.give_up()
        found.append(Closed(error.condition, error.text))

    def violated(self, error: PeerError) -> list[Operation]:
        """Something that the peer asked turns out to cost the connection."""
        found: list[Operation] = []
        if self.connection.state is states.LEAVING:
            self._fault = self._fault or error
        else:
            self._violated(error, found)
        return found

    def _say_fault(self, error: PeerError) -> None:
        """Close the connection for an error of theirs, unless it is being closed."""
        if self.connection.state is not states.CLOSING:
            self.say_close(error.condition, error.text, error.method, theirs=True)

    def part(self) -> None:
        """The peer has asked for the end, or broken a rule, and has its answers: this is the last
        one."""
        if self._fault is not None:
            self._say_fault(self._fault)
        else:
            self.connection.say_close_ok()
        self.later += self.give_up()
        self.later.append(Closed(*self.connection.said))

    def give_up(self) -> list[Operation]:
        """Nothing more will come. Requests that are still open are refused."""
        self.closing = True
        self.loads.end(self.channels)
        self.frames.stop()
        found: list[Operation] = []
        for place in self.channels.values():
            self.refuse_all(
                place, Condition.CONNECTION_FORCED, "the connection is gone", Lost.CONNECTION, found
            )
        for place in self.channels.values():
            place.vanish()
        self.channels.clear()
        return found

    def lost(self) -> list[Operation]:
        """The socket is gone."""
        if self.closing:
            return []
        found = self.give_up()
        if self.connection.state in (states.CLOSING, states.LEAVING):
            condition, text = self.connection.said
            found.append(Closed(condition, text, theirs=self.connection.caused_by_them))
        else:
            found.append(Closed(Condition.CONNECTION_FORCED, "the connection was lost"))
        return found

    def refuse_all(
        self, place: Channel, condition: Condition, text: str, lost: Lost, found: list[Operation]
    ) -> None:
        found += [
            Refused(place.number, awaited.token, condition, text, lost)
            for awaited in place.awaited
            if awaited.token is not None
        ]

    def tick(self, now: float) -> list[Operation]:
        """Heartbeats out after half an interval of silence, the peer given up after two of its own;
        a handshake and a close have their time-outs."""
        if self.closing:
            return []
        state = self.connection.state
        found, self.later = self.later, []
        due = self.heartbeat.look(now, state is states.OPEN, state is states.CLOSING)
        if state is states.LEAVING:
            return found
        if due is Due.BEAT:
            self.put(self.table.geometry.heartbeat)
        elif due is Due.UNCLOSED:
            found += self.lost()
        elif due is Due.UNOPENED:
            found += self.give_up()
            found.append(Closed(Condition.CONNECTION_FORCED, "the handshake took too long"))
        elif due is Due.SILENT:
            whom = "client" if self.server else "server"
            text = f"missed heartbeats from {whom}, timeout: {self.heartbeat.patience / 2:g}s"
            found += self.give_up()
            found.append(Closed(Condition.CONNECTION_FORCED, text))
        return found

    def excuse_silence(self) -> None:
        """We did not read: the peer counts as heard."""
        self.heartbeat.heard = True

    # --- out -------------------------------------------------------------------------------------

    def send(self, operation: Operation) -> None:
        """Say this. Raises ``LocalError`` before any octet is written."""
        if self.closing:
            return
        speak = SPEECH.get(type(operation))
        if speak is None:
            raise LocalError(f"{type(operation).__name__} cannot be said in {self.version}")
        try:
            speak(self, operation)
        except ValueError as error:
            raise LocalError(str(error)) from error

    def outlet(self, channel: int) -> Outlet:
        """The hot way out for an open channel."""
        return self.channel(channel)

    def channel(self, number: int) -> Channel:
        place = self.channels.get(number)
        if place is None:
            raise LocalError(f"channel {number} is not open")
        return place

    def found(self) -> list[Operation]:
        """What was found outside ``receive`` and ``tick``."""
        found, self.later = self.later, []
        return found

    def unsent(self, what: Unsent) -> None:
        """A delivery has no form for the peer: the broker is told in this turn."""
        self.later.append(what)
        self.wakened()

    def wakened(self) -> None:
        """``pending`` gets its first octets: tell the owner of the socket."""
        if not self._receiving:
            self.wake()

    def weigh(self, octets: int) -> None:
        """A large body waits to be written."""
        self._weight += octets
        if self._weight > MOST_OCTETS:
            self.crowded()

    def crowd(self) -> None:
        """Very many pieces wait to be written."""
        self.crowded()

    def put(self, octets: bytes) -> None:
        if not self.pending:
            self.wakened()
        self.pending.append(octets)

    def write(self, channel: int, record: Any) -> None:
        """One method of ours. Raises ``LocalError`` if it is not ours to send."""
        octets = self.encoded(channel, record)
        if channel in self.loads.tracks:
            self.loads.tracks[channel].append(octets)
        else:
            self.put(octets)

    def encoded(self, channel: int, record: Any) -> bytes:
        method = self.table.by_record.get(type(record))
        if method is None:
            raise LocalError(f"{record.NAME} is not in {self.version}")
        ours = method.from_server if self.server else method.from_client
        if not ours and method.number != self._ack:
            raise LocalError(f"{record.NAME} is not ours to send")
        payload = method.prefix + method.write(record)
        if self.frames.limit and len(payload) > self.frames.limit:
            raise Unwritable(f"{record.NAME} does not fit a frame of the peer")
        return self.frames.frame(self.frames.method, channel, payload)

    def head_of(self, method: Method, flags: int = 0) -> bytes:
        """What stands before a method's arguments."""
        return method.prefix

    def write_content(self, channel: int, record: Any, header: bytes, body: Body) -> None:
        """A method with its content."""
        self.write(channel, record)
        self.channel(channel).write_content(header, body)
        self.weigh(len(body) + WEIGHT)

    def load(self, channel: int, body: LargeBody) -> None:
        make = partial(self.frames.frame, self.frames.body, channel)
        self.loads.add(self.channel(channel), BodyLoad(make, body, min(self.body_max, PORTION)))

    @property
    def more(self) -> int:
        return self.loads.more

    def refill(self) -> None:
        self.loads.refill()

    def request(self, place: Channel, record: Any, token: Any) -> None:
        """A request of ours; its answer brings the token back."""
        method = self.table.by_record.get(type(record))
        if method is None:
            raise LocalError(f"{record.NAME} is not in {self.version}")
        no_wait = token is None and hasattr(record, "no_wait")
        if no_wait:
            record.no_wait = True
        self.write(place.number, record)
        if method.replies and not no_wait:
            if self.answerable(method):
                place.awaited.append(Awaited(method, token))
            elif token is not None:
                self.later.append(Done(place.number, token))

    def answerable(self, method: Method) -> bool:
        """Is there an answer? On 0-8 only Qpid's clients expect one to recover."""
        if self.version == "0-8" and method.name == "basic.recover":
            return "qpid" in self.connection.peer.product.lower()
        return bool(method.replies)

    def output(self) -> list[bytes]:
        """Take what is to be written; of large bodies a portion. Raises ``OSError``."""
        pending = self.pending
        if self.loads.tracks:
            self.loads.move(self.channels)
        if not pending:
            return []
        self.heartbeat.spoke = True
        self._weight = 0
        return take(pending)
