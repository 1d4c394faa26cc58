"""The adapter of the command frames: 0.8a2, server or client.

``Engine`` owns the connection's lifecycle: octets in and out, the states of the handshake, ping and
close. ``Server`` and ``Client`` handle the commands of channels and handles, ``Connection`` holds
the state that all parts share.
"""

from collections.abc import Callable
from typing import Any

from gateway.adapters.commands.client import Client
from gateway.adapters.commands.command import Command
from gateway.adapters.commands.connection import Connection, Opening, PendingReply
from gateway.adapters.commands.frames import Frames
from gateway.adapters.commands.negotiation import ClientNegotiation, ServerNegotiation
from gateway.adapters.commands.server import Server
from gateway.adapters.commands.states import CLOSING, GREETING, HEADING, LEAVING, OPEN, OPENING
from gateway.adapters.commands.violation import Violation, code_of, condition_of, reply_text
from gateway.adapters.commands.wire import layouts as w
from gateway.adapters.commands.wire.tables import HANDSHAKE_MAX, HEADER, SUCCESS
from gateway.adapters.contract import Authority, Capability, Outlet, Role
from gateway.adapters.core.heartbeat import Due, Heartbeat
from gateway.adapters.core.output import OutputBuffer, no_op
from gateway.adapters.core.release import release
from gateway.adapters.options import MECHANISMS, Credentials, Limits, Product
from gateway.bodies import Spool
from gateway.errors import Condition, LocalError, Lost
from gateway.operations import Close, Closed, Open, Operation, Refused


class Engine:
    """One connection of 0.8a2; an ``Adapter``. ``handle_errors``: the scope of an error on a
    handle, "handle" by the document, "channel" as in the original server."""

    capabilities = Capability.HANDLES | Capability.PATIENT

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
        """``spool``: storage for bodies that are too large for memory; ``None`` keeps them in
        memory."""
        self.version = version
        self.role = role
        self.server = server = role is Role.SERVER
        self.closing = False
        self.wake = wake
        self.output_congested: Callable[[], None] = no_op
        self.limits = limits
        self.handle_errors = handle_errors
        self.heartbeat = Heartbeat(limits)
        channels: dict[int, Any] = {}
        self.buffer = buffer = OutputBuffer(self, self.heartbeat, channels)
        self.pending = buffer.pending
        self.connection = connection = Connection(version, server, limits, spool, buffer)
        self._ping_interval = 0
        """Seconds between pings that the peer has asked for."""
        self.endpoint: Server | Client
        self.negotiation: ServerNegotiation | ClientNegotiation
        if server:
            self.endpoint = Server(connection, channels, handle_errors, self)
            hot = "handle.send"
        else:
            self.endpoint = client = Client(connection, channels)
            hot = "handle.notify"
        self.table = self.endpoint.table
        self.outlet: Callable[[int], Outlet] = self.table.outlet
        self.output, self.refill = buffer.take, buffer.large.refill
        self.frames = Frames(self._on_command, HANDSHAKE_MAX, hot, self.endpoint.fast_path)
        if server:
            self.negotiation = ServerNegotiation(
                connection, self.frames, authority, mechanisms, self.resume, self.want_pings
            )
        else:
            login = credentials or Credentials()
            self.negotiation = ClientNegotiation(
                connection, self.frames, login, product, client.table.tuned, self.want_pings
            )
        self._opening = b""
        self._reason: tuple[Condition | None, str] = (None, "")
        self._theirs = False
        self._last = SUCCESS, ""
        """Code and text of our close while the connection is ``LEAVING``."""
        if not server:
            self.buffer.put(HEADER)

    # --- in -------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[Operation]:
        """Octets from the peer, whole or cut anywhere; ``b""`` is the end of the stream."""
        if self.closing:
            return []
        connection = self.connection
        found = connection.begin_receiving()
        if not data:
            return found + self.lost()
        if connection.state is LEAVING:
            return found
        self.heartbeat.heard = self.buffer.receiving = True
        try:
            if connection.state is HEADING:
                data = self._initiation(data)
            if data and not self.closing:
                self.frames.feed(data)
        except Violation as violation:
            self._violated(violation)
        finally:
            self.buffer.receiving = False
            connection.found = []  # or the last message would stay in memory until the next
        return found

    def resume(self, act: Callable[[], None]) -> None:
        """Continue after a wait, for instance for a password check: perform ``act``, then read the
        octets that have arrived since. Their operations go to ``later``."""
        if self.closing:
            return
        connection = self.connection
        connection.begin_receiving()
        self.buffer.receiving = True
        try:
            act()
            self.frames.resume()
        except Violation as violation:
            self._violated(violation)
        finally:
            self.buffer.receiving = False
            connection.later = connection.found + connection.later
            connection.found = []
        self.wake()

    def read_on(self) -> list[Operation]:
        """Operations of the octets that ``receive`` has left unread."""
        self.resume(lambda: None)
        return self.found()

    def _initiation(self, data: bytes) -> bytes:
        """Read the initiation: 128 and the highest version of the client, which is told ours
        (§3.2.2). Anything else is disconnected without a reply."""
        data = self._opening + data
        if data[:1] == HEADER[:1] and data[1:2] >= HEADER[1:]:
            self._opening = b""
            self.connection.state = GREETING
            self.negotiation.begin()
            return data[len(HEADER) :]
        if HEADER.startswith(data):
            self._opening = data
            return b""
        self.finish(Condition.NOT_IMPLEMENTED, "not the initiation expected")
        return b""

    def _on_command(self, command: Command, record: Any, fragment: bytes) -> None:
        """One command with its fragment. Raises ``Violation`` if the connection dies of it."""
        connection = self.connection
        if connection.state is CLOSING:
            self._while_closing(command)
            return
        if connection.state is LEAVING:
            return
        if not (command.from_client if self.server else command.from_server):
            raise Violation("command-invalid", f"{command.name} is not expected here")
        if command.name == "connection.close":
            self._on_close(record)
        elif command.name == "connection.ping":
            self._on_ping()
            if record.respond:
                connection.write(w.ConnectionPing(False))
        elif command.name.startswith("connection."):
            self.negotiation.on(command.name, record)
        elif connection.state is OPEN or (self.server and connection.state is OPENING):
            self.endpoint.on(command, record, fragment)
        else:
            raise Violation("command-invalid", f"{command.name} before the connection is open")

    # --- the end --------------------------------------------------------------------------------

    def _while_closing(self, command: Command) -> None:
        """Only the peer's close ends the connection; our close is repeated for all other commands
        (§3.2.9)."""
        if command.name == "connection.close":
            self.finish(*self._reason, self._theirs)
        else:
            self.connection.write(
                w.ConnectionClose(code_of(self._reason[0]), reply_text(self._reason[1]))
            )

    def _on_close(self, record: w.ConnectionClose) -> None:
        """The peer closes: release everything and answer (§3.2.9). A server first answers the
        requests before it."""
        self._reason, self._theirs = (condition_of(record.reply_code), record.reply_text), True
        if self.server and self.connection.state in (OPENING, OPEN):
            self._leave()
        else:
            self.answer_close()

    def _leave(self, fault: bool = False) -> None:
        """Server: end the connection once earlier requests are answered. ``fault``: the peer broke
        a rule."""
        self.connection.state = LEAVING
        token = PendingReply("connection.close", 0, 0)
        self.connection.emit(Closed(*self._reason, token=token, fault=fault))

    def answer_close(self) -> None:
        """Send the last close: the peer has asked for it, or broken a rule, and has all its
        replies."""
        self.connection.write(w.ConnectionClose(*self._last))
        self.finish(*self._reason, self._theirs)

    def send_close(
        self, condition: Condition | None, text: str, code: int = 0, theirs: bool = False
    ) -> None:
        """Begin to close. Before the initiation, the connection is closed without a command."""
        connection = self.connection
        if self.closing or connection.state is CLOSING:
            return
        if connection.state is LEAVING:
            # It concerns an earlier request: send it as the last close.
            self._last = code or code_of(condition), reply_text(text)
            return
        if connection.state is not HEADING:
            connection.write(w.ConnectionClose(code or code_of(condition), reply_text(text)))
        connection.state = CLOSING
        self._reason, self._theirs = (condition, text), theirs
        self.buffer.end_large()
        self.table.silence()

    def _violated(self, violation: Violation) -> None:
        """The peer broke a rule, which ends the connection. A server first answers earlier
        requests."""
        condition = condition_of(violation.code)
        endpoint = self.endpoint
        if isinstance(endpoint, Server) and self.connection.state in (OPENING, OPEN):
            endpoint.table.abandon()
            self._reason, self._theirs = (condition, violation.text), True
            self._last = violation.code, reply_text(violation.text)
            self._leave(fault=True)
            return
        self.send_close(condition, violation.text, violation.code, theirs=True)
        self.finish(*self._reason, self._theirs)

    def finish(self, condition: Condition | None, text: str, theirs: bool = True) -> None:
        """End the connection; nothing more is received or sent."""
        self.closing = True
        self.frames.stop()
        self.buffer.end_large()
        why = condition or Condition.CONNECTION_FORCED
        for number, token in [*self.negotiation.awaited_tokens(), *self.table.awaited_tokens()]:
            self.connection.emit(
                Refused(number, token, why, text or "the connection ends", Lost.CONNECTION)
            )
        self.table.forget()
        self.connection.emit(Closed(condition, text, theirs))

    def lost(self) -> list[Operation]:
        """The socket is closed."""
        if self.closing:
            return []
        self.buffer.receiving = False
        if self.connection.state in (CLOSING, LEAVING):
            self.finish(*self._reason, self._theirs)
        else:
            self.finish(Condition.CONNECTION_FORCED, "the connection was lost")
        return self.found()

    # --- time -----------------------------------------------------------------------------------

    def want_pings(self, seconds: int) -> None:
        """The peer asks for pings at this interval (§3.2.5.1). A server sends them; a client does
        once the server has pinged, because some original programs do not support them."""
        self._ping_interval = seconds
        if self.server or self.heartbeat.patience:
            self.heartbeat.interval = seconds

    def _on_ping(self) -> None:
        """Pings are optional, but a peer that has sent one must continue (§3.2.7): from now on
        silence counts as failure."""
        self.heartbeat.patience = 2 * self.limits.heartbeat
        self.heartbeat.interval = self._ping_interval

    def tick(self, now: float) -> list[Operation]:
        """Send due pings, disconnect silent peers, and apply time-outs."""
        connection = self.connection
        if self.closing or connection.state is LEAVING:
            return []
        due = self.heartbeat.look(now, connection.state is OPEN, connection.state is CLOSING)
        if due is Due.BEAT:
            connection.write(w.ConnectionPing(False))
        elif due is Due.UNCLOSED:
            self.finish(*self._reason, self._theirs)
        elif due is Due.UNOPENED:
            self.finish(Condition.CONNECTION_FORCED, "the handshake took too long")
        elif due is Due.SILENT:
            text = f"nothing was heard for {self.heartbeat.patience:g} s"
            self.finish(Condition.CONNECTION_FORCED, text)
        return self.found()

    def excuse_silence(self) -> None:
        """We did not read, so the peer counts as heard."""
        self.heartbeat.heard = True

    # --- out ------------------------------------------------------------------------------------

    def send(self, operation: Operation) -> None:
        """Encode an operation. Raises ``LocalError`` before any octet is written."""
        if self.closing:
            return
        if isinstance(operation, Close):
            self.send_close(operation.condition, operation.text)
        elif self.connection.state is not CLOSING:
            try:
                if isinstance(operation, Open):
                    self.negotiation.open(operation)
                else:
                    self.endpoint.send(operation)
            except ValueError as error:
                raise LocalError(str(error)) from error

    def opened(self, token: Opening) -> None:
        self.negotiation.opened(token)

    def found(self) -> list[Operation]:
        """Take the operations found outside ``receive`` and ``tick``."""
        found, self.connection.later = self.connection.later, []
        return found

    @property
    def more(self) -> int:
        return self.buffer.more

    def release(self) -> None:
        """Let go of everything, as the connection is over."""
        release(self, self.endpoint, self.connection, self.negotiation)
