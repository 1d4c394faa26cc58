"""The adapter of the command frames: 0.8a2, server or client.

``Engine`` owns the connection: octets in and out, the handshake's states, ping and close. What is
done on channels and handles stands in ``server`` and ``client``.
"""

from collections.abc import Callable
from typing import Any

from gateway.adapters.commands import negotiation
from gateway.adapters.commands.client import Client
from gateway.adapters.commands.command import Command
from gateway.adapters.commands.fragments import Fragments, Headers, MakeFrame, cut_fragments
from gateway.adapters.commands.frames import BY_RECORD, Frames, frame
from gateway.adapters.commands.server import Server
from gateway.adapters.commands.server_outbound import PendingReply
from gateway.adapters.commands.states import CLOSING, GREETING, HEADING, LEAVING, OPEN, OPENING
from gateway.adapters.commands.violation import Violation, code_of, condition_of, reply_text
from gateway.adapters.commands.wire import layouts as w
from gateway.adapters.commands.wire.tables import HANDSHAKE_MAX, HEADER, REPLIES, SUCCESS
from gateway.adapters.contract import Authority, Capability, Outlet, Role
from gateway.adapters.core.heartbeat import Due, Heartbeat
from gateway.adapters.core.large_bodies import BodyWriter, LargeBodyOutput, Place
from gateway.adapters.core.output import MOST_OCTETS, no_op, take
from gateway.adapters.options import MECHANISMS, Credentials, Limits, Product
from gateway.bodies import Body, LargeBody, Spool
from gateway.errors import Condition, LocalError, Lost
from gateway.operations import Close, Closed, Open, Operation, Peer, Refused


class Engine:
    """One connection of 0.8a2; an ``Adapter``. ``handle_errors``: what a mistake on a handle costs,
    "handle" by the document, "channel" as in the original server."""

    capabilities = Capability.LINKS | Capability.PATIENT

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
        handle_errors: str = "handle",
    ) -> None:
        """``spool``: where bodies go that are too large for memory; ``None``: they stay there."""
        self.version = version
        self.role = role
        self.server = server = role is Role.SERVER
        self.closing = False
        self.wake = wake
        self.crowded: Callable[[], None] = no_op
        self.limits = limits
        self.product = product
        self.credentials = credentials or Credentials()
        self.authority = authority
        self.mechanisms = mechanisms
        self.handle_errors = handle_errors
        self.peer = Peer(version=version)
        self.headers = Headers()
        self.spool = spool
        self.pending: list[bytes] = []
        self.loads = LargeBodyOutput(self.pending)
        self.later: list[Operation] = []
        """Found outside ``receive``; the next one, or the next tick, returns them."""
        self.state = HEADING
        self.frame_max = negotiation.frame_max(limits)
        """The largest frame and fragment that we take."""
        self.frame_out = HANDSHAKE_MAX
        """The largest that the peer takes."""
        self.under_way = 0
        """Octets announced of messages that are half received, and in memory."""
        self.heartbeat = Heartbeat(limits)
        self._ping_interval = 0
        """Seconds between the pings that the peer would like."""
        self.negotiation: negotiation.ServerNegotiation | negotiation.ClientNegotiation = (
            negotiation.ServerNegotiation(self) if server else negotiation.ClientNegotiation(self)
        )
        self.endpoint: Server | Client = Server(self) if server else Client(self)
        hot = "handle.send" if server else "handle.notify"
        self.frames = Frames(self._on_command, HANDSHAKE_MAX, hot, self.endpoint.fast_path)
        self._opening = b""
        self._reason: tuple[Condition | None, str] = (None, "")
        self._theirs = False
        self._last = SUCCESS, ""
        """Code and text of our close while the connection is ``LEAVING``."""
        self._found: list[Operation] = []
        self._receiving = False
        self._weight = 0
        if not server:
            self.state = GREETING
            self.put(HEADER)

    # --- in -------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[Operation]:
        """Octets from the peer, whole or cut anywhere; ``b""`` is the end of the stream."""
        if self.closing:
            return []
        self._found, self.later = self.later, []
        found = self._found
        if not data:
            return found + self.lost()
        if self.state is LEAVING:
            return found
        self.heartbeat.heard = self._receiving = True
        try:
            if self.state is HEADING:
                data = self._initiation(data)
            if data and not self.closing:
                self.frames.feed(data)
        except Violation as violation:
            self._violated(violation)
        finally:
            self._receiving = False
            self._found = []  # or the last message would live until the next
        return found

    def resume(self, act: Callable[[], None]) -> None:
        """What the peer waits for has come from elsewhere: act on it, then look at what the peer
        has said since. What that brings is ``found``."""
        if self.closing:
            return
        self._found, self.later = self.later, []
        self._receiving = True
        try:
            act()
            self.frames.resume()
        except Violation as violation:
            self._violated(violation)
        finally:
            self._receiving = False
            self.later = self._found + self.later
            self._found = []
        self.wake()

    def _initiation(self, data: bytes) -> bytes:
        """128 and the highest version of the client, which is told ours (§3.2.2); what is not that
        is closed without a word."""
        data = self._opening + data
        if data[:1] == HEADER[:1] and data[1:2] >= HEADER[1:]:
            self._opening = b""
            self.state = GREETING
            self.negotiation.begin()
            return data[len(HEADER) :]
        if HEADER.startswith(data):
            self._opening = data
            return b""
        self.finish(Condition.NOT_IMPLEMENTED, "not the initiation expected")
        return b""

    def _on_command(self, command: Command, record: Any, fragment: bytes) -> None:
        """One command with its fragment. Raises ``Violation`` if the connection dies of it."""
        if self.state is CLOSING:
            self._while_closing(command)
            return
        if self.state is LEAVING:
            return
        if not (command.from_client if self.server else command.from_server):
            raise Violation("command-invalid", f"{command.name} is not expected here")
        if command.name == "connection.close":
            self._on_close(record)
        elif command.name == "connection.ping":
            self._on_ping()
            if record.respond:
                self.write(w.ConnectionPing(False))
        elif command.name.startswith("connection."):
            self.negotiation.on(command.name, record, self._found)
        elif self.state is OPEN or (self.server and self.state is OPENING):
            self.endpoint.on(command, record, fragment, self._found)
        else:
            raise Violation("command-invalid", f"{command.name} before the connection is open")

    def found_now(self) -> list[Operation]:
        """Where to put what is found: into what ``receive`` returns, or for later."""
        return self._found if self._receiving else self.later

    # --- the end --------------------------------------------------------------------------------

    def _while_closing(self, command: Command) -> None:
        """Only their close ends it; whatever else comes is told again (§3.2.9)."""
        if command.name == "connection.close":
            self.finish(*self._reason, self._theirs)
        else:
            self.write(w.ConnectionClose(code_of(self._reason[0]), reply_text(self._reason[1])))

    def _on_close(self, record: w.ConnectionClose) -> None:
        """Their close: all is released, and it is answered (§3.2.9). A server answers behind its
        answers to what was asked before."""
        self._reason, self._theirs = (condition_of(record.reply_code), record.reply_text), True
        if self.server and self.state in (OPENING, OPEN):
            self._leave()
        else:
            self.part()

    def _leave(self, fault: bool = False) -> None:
        """Server: the connection ends behind our answers to what was asked before. ``fault``: they
        broke a rule."""
        self.state = LEAVING
        token = PendingReply("connection.close", 0, 0)
        self.found_now().append(Closed(*self._reason, token=token, fault=fault))

    def part(self) -> None:
        """The peer has asked for the end, or broken a rule, and has its answers: this is the last
        one."""
        self.write(w.ConnectionClose(*self._last))
        self.finish(*self._reason, self._theirs)

    def send_close(
        self, condition: Condition | None, text: str, code: int = 0, theirs: bool = False
    ) -> None:
        """Begin to close. Before there is a connection, hanging up is all there is to say."""
        if self.closing or self.state is CLOSING:
            return
        if self.state is LEAVING:
            # It is about something that was asked before: it is told instead.
            self._last = code or code_of(condition), reply_text(text)
            return
        if self.state is not HEADING:
            self.write(w.ConnectionClose(code or code_of(condition), reply_text(text)))
        self.state = CLOSING
        self._reason, self._theirs = (condition, text), theirs
        self.loads.end(self.endpoint.channels)
        self.endpoint.silence()

    def _violated(self, violation: Violation) -> None:
        """They broke a rule and the connection dies of it. A server says so behind its answers to
        what was asked before."""
        condition = condition_of(violation.code)
        endpoint = self.endpoint
        if isinstance(endpoint, Server) and self.state in (OPENING, OPEN):
            endpoint.abandon()
            self._reason, self._theirs = (condition, violation.text), True
            self._last = violation.code, reply_text(violation.text)
            self._leave(fault=True)
            return
        self.send_close(condition, violation.text, violation.code, theirs=True)
        self.finish(*self._reason, self._theirs)

    def finish(self, condition: Condition | None, text: str, theirs: bool = True) -> None:
        """Nothing more will come, nor be said."""
        found = self.found_now()
        self.closing = True
        self.frames.stop()
        self.loads.end(self.endpoint.channels)
        why = condition or Condition.CONNECTION_FORCED
        for number, token in [*self.negotiation.awaited_tokens(), *self.endpoint.awaited_tokens()]:
            found.append(
                Refused(number, token, why, text or "the connection ends", Lost.CONNECTION)
            )
        self.endpoint.forget()
        found.append(Closed(condition, text, theirs))

    def lost(self) -> list[Operation]:
        """The socket is gone."""
        if self.closing:
            return []
        self._receiving = False
        if self.state in (CLOSING, LEAVING):
            self.finish(*self._reason, self._theirs)
        else:
            self.finish(Condition.CONNECTION_FORCED, "the connection was lost")
        return self.found()

    # --- time -----------------------------------------------------------------------------------

    def want_pings(self, seconds: int) -> None:
        """The peer would like a ping this often (§3.2.5.1). A server sends them; a client does
        once the server has pinged, for original programs may not bear it."""
        self._ping_interval = seconds
        if self.server or self.heartbeat.patience:
            self.heartbeat.interval = seconds

    def _on_ping(self) -> None:
        """Pings are optional, but a peer that has sent one must go on (§3.2.7): from now on its
        silence counts."""
        self.heartbeat.patience = 2 * self.limits.heartbeat
        self.heartbeat.interval = self._ping_interval

    def tick(self, now: float) -> list[Operation]:
        """Pings, if the peer wants them and takes part; a silent peer given up; time-outs."""
        if self.closing or self.state is LEAVING:
            return []
        due = self.heartbeat.look(now, self.state is OPEN, self.state is CLOSING)
        if due is Due.BEAT:
            self.write(w.ConnectionPing(False))
        elif due is Due.UNCLOSED:
            self.finish(*self._reason, self._theirs)
        elif due is Due.UNOPENED:
            self.finish(Condition.CONNECTION_FORCED, "the handshake took too long")
        elif due is Due.SILENT:
            text = f"nothing was heard for {self.heartbeat.patience:g} s"
            self.finish(Condition.CONNECTION_FORCED, text)
        return self.found()

    def excuse_silence(self) -> None:
        """We did not read: the peer counts as heard."""
        self.heartbeat.heard = True

    # --- out ------------------------------------------------------------------------------------

    def send(self, operation: Operation) -> None:
        """Say this. Raises ``LocalError`` before any octet is written."""
        if self.closing:
            return
        if isinstance(operation, Close):
            self.send_close(operation.condition, operation.text)
        elif self.state is not CLOSING:
            try:
                if isinstance(operation, Open):
                    self.negotiation.open(operation)
                else:
                    self.endpoint.send(operation)
            except ValueError as error:
                raise LocalError(str(error)) from error

    def opened(self) -> None:
        if self.state is OPENING:
            self.state = OPEN

    def outlet(self, channel: int) -> Outlet:
        """The hot way out for an open channel."""
        return self.endpoint.outlet(channel)

    def found(self) -> list[Operation]:
        """Take what was found outside ``receive`` and ``tick``."""
        found, self.later = self.later, []
        return found

    def put(self, octets: bytes) -> None:
        pending = self.pending
        pending.append(octets)
        if len(pending) == 1 and not self._receiving:
            self.wake()

    def write(self, record: Any) -> None:
        """One command of ours. Raises ``LocalError`` if it is not ours to send."""
        command = BY_RECORD[type(record)]
        if not (command.from_server if self.server else command.from_client):
            raise LocalError(f"{command.name} is not ours to send")
        octets = frame(record)
        if len(octets) > self.frame_out + 6:
            raise LocalError(f"{command.name} does not fit a frame of the peer")
        if self.loads.tracks:
            self.put_on(self._channel_of(record), octets)
        else:
            self.put(octets)

    def _channel_of(self, record: Any) -> int:
        """The channel that a command concerns, 0 for the connection."""
        number: int = getattr(record, "channel_id", 0)
        return number or self.endpoint.channel_of(getattr(record, "handle_id", 0))

    def put_on(self, channel: int, octets: bytes) -> None:
        """Output of a channel: behind the large bodies it is saying."""
        track = self.loads.tracks.get(channel)
        if track is None:
            self.put(octets)
        else:
            track.append(octets)

    def put_message(self, channel: int, octets: bytes) -> None:
        """Command and fragment. Hot."""
        if self.loads.tracks:
            self.put_on(channel, octets)
        else:
            self.put(octets)
        self._weight += len(octets)
        if self._weight > MOST_OCTETS:
            self.crowded()

    def write_message(self, place: Place, head: bytes, body: Body, make: MakeFrame) -> None:
        """Header and body in as many fragments as they need."""
        if isinstance(body, LargeBody):
            self.load(place, Fragments(make, head, body, self.frame_out))
            return
        for fragment, more in cut_fragments(head + body, self.frame_out):
            self.put_message(place.number, make(fragment, more))

    def load(self, place: Place, load: BodyWriter) -> None:
        """What comes next on a channel, in portions."""
        self.loads.add(place, load)
        if not self._receiving:
            self.wake()

    @property
    def more(self) -> int:
        return self.loads.more

    def refill(self) -> None:
        self.loads.refill()

    def output(self) -> list[bytes]:
        """Take what is to be written; of large bodies a portion. Raises ``OSError``."""
        pending = self.pending
        if self.loads.tracks:
            self.loads.move(self.endpoint.channels)
        if not pending:
            return []
        self.heartbeat.spoke = True
        self._weight = 0
        return take(pending)


__all__ = ["REPLIES", "Engine"]
