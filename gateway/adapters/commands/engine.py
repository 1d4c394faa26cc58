"""The adapter of the command frames: 0.8a2, server or client.

``Engine`` owns the connection: octets in and out, the handshake's states, ping and close. What is
done on channels and handles stands in ``server`` and ``client``.
"""

from collections.abc import Callable
from typing import Any

from gateway.adapters.commands.client import Client
from gateway.adapters.commands.command import Command
from gateway.adapters.commands.connection import Connection
from gateway.adapters.commands.frames import Frames
from gateway.adapters.commands.negotiation import ClientNegotiation, ServerNegotiation
from gateway.adapters.commands.pending import Opening, PendingReply
from gateway.adapters.commands.server import Server
from gateway.adapters.commands.states import CLOSING, GREETING, HEADING, LEAVING, OPEN, OPENING
from gateway.adapters.commands.violation import Violation, code_of, condition_of, reply_text
from gateway.adapters.commands.wire import layouts as w
from gateway.adapters.commands.wire.tables import HANDSHAKE_MAX, HEADER, REPLIES, SUCCESS
from gateway.adapters.contract import Authority, Capability, Outlet, Role
from gateway.adapters.core.heartbeat import Due, Heartbeat
from gateway.adapters.core.output import no_op
from gateway.adapters.options import MECHANISMS, Credentials, Limits, Product
from gateway.bodies import Spool
from gateway.errors import Condition, LocalError, Lost
from gateway.operations import Close, Closed, Open, Operation, Refused


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
        self.handle_errors = handle_errors
        self.connection = connection = Connection(
            version, server, limits, spool, self._channel_of, self._wake, self._crowded
        )
        self.pending = connection.pending
        self.loads = connection.loads
        self.heartbeat = Heartbeat(limits)
        self._ping_interval = 0
        """Seconds between the pings that the peer would like."""
        self.endpoint: Server | Client
        self.negotiation: ServerNegotiation | ClientNegotiation
        if server:
            self.endpoint = Server(connection, handle_errors, self)
            hot = "handle.send"
        else:
            self.endpoint = client = Client(connection)
            hot = "handle.notify"
        self.table = self.endpoint.table
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
            connection.put(HEADER)

    def _wake(self) -> None:
        """Call the callback that is set now: the owner may replace it."""
        self.wake()

    def _crowded(self) -> None:
        self.crowded()

    def _channel_of(self, handle: int) -> int:
        return self.table.channel_of(handle)

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
        self.heartbeat.heard = connection.receiving = True
        try:
            if connection.state is HEADING:
                data = self._initiation(data)
            if data and not self.closing:
                self.frames.feed(data)
        except Violation as violation:
            self._violated(violation)
        finally:
            connection.receiving = False
            connection.found = []  # or the last message would live until the next
        return found

    def resume(self, act: Callable[[], None]) -> None:
        """What the peer waits for has come from elsewhere: act on it, then look at what the peer
        has said since. What that brings is ``found``."""
        if self.closing:
            return
        connection = self.connection
        connection.begin_receiving()
        connection.receiving = True
        try:
            act()
            self.frames.resume()
        except Violation as violation:
            self._violated(violation)
        finally:
            connection.receiving = False
            connection.later = connection.found + connection.later
            connection.found = []
        self.wake()

    def _initiation(self, data: bytes) -> bytes:
        """128 and the highest version of the client, which is told ours (§3.2.2); what is not that
        is closed without a word."""
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
            self.negotiation.on(command.name, record, connection.found)
        elif connection.state is OPEN or (self.server and connection.state is OPENING):
            self.endpoint.on(command, record, fragment, connection.found)
        else:
            raise Violation("command-invalid", f"{command.name} before the connection is open")

    # --- the end --------------------------------------------------------------------------------

    def _while_closing(self, command: Command) -> None:
        """Only their close ends it; whatever else comes is told again (§3.2.9)."""
        if command.name == "connection.close":
            self.finish(*self._reason, self._theirs)
        else:
            self.connection.write(
                w.ConnectionClose(code_of(self._reason[0]), reply_text(self._reason[1]))
            )

    def _on_close(self, record: w.ConnectionClose) -> None:
        """Their close: all is released, and it is answered (§3.2.9). A server answers behind its
        answers to what was asked before."""
        self._reason, self._theirs = (condition_of(record.reply_code), record.reply_text), True
        if self.server and self.connection.state in (OPENING, OPEN):
            self._leave()
        else:
            self.answer_close()

    def _leave(self, fault: bool = False) -> None:
        """Server: the connection ends behind our answers to what was asked before. ``fault``: they
        broke a rule."""
        self.connection.state = LEAVING
        token = PendingReply("connection.close", 0, 0)
        self.connection.found_now().append(Closed(*self._reason, token=token, fault=fault))

    def answer_close(self) -> None:
        """The peer has asked for the end, or broken a rule, and has its answers: this is the last
        one."""
        self.connection.write(w.ConnectionClose(*self._last))
        self.finish(*self._reason, self._theirs)

    def send_close(
        self, condition: Condition | None, text: str, code: int = 0, theirs: bool = False
    ) -> None:
        """Begin to close. Before there is a connection, hanging up is all there is to say."""
        connection = self.connection
        if self.closing or connection.state is CLOSING:
            return
        if connection.state is LEAVING:
            # It is about something that was asked before: it is told instead.
            self._last = code or code_of(condition), reply_text(text)
            return
        if connection.state is not HEADING:
            connection.write(w.ConnectionClose(code or code_of(condition), reply_text(text)))
        connection.state = CLOSING
        self._reason, self._theirs = (condition, text), theirs
        self.loads.end(self.table.channels)
        self.table.silence()

    def _violated(self, violation: Violation) -> None:
        """They broke a rule and the connection dies of it. A server says so behind its answers to
        what was asked before."""
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
        """Nothing more will come, nor be said."""
        found = self.connection.found_now()
        self.closing = True
        self.frames.stop()
        self.loads.end(self.table.channels)
        why = condition or Condition.CONNECTION_FORCED
        for number, token in [*self.negotiation.awaited_tokens(), *self.table.awaited_tokens()]:
            found.append(
                Refused(number, token, why, text or "the connection ends", Lost.CONNECTION)
            )
        self.table.forget()
        found.append(Closed(condition, text, theirs))

    def lost(self) -> list[Operation]:
        """The socket is gone."""
        if self.closing:
            return []
        self.connection.receiving = False
        if self.connection.state in (CLOSING, LEAVING):
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
        """We did not read: the peer counts as heard."""
        self.heartbeat.heard = True

    # --- out ------------------------------------------------------------------------------------

    def send(self, operation: Operation) -> None:
        """Say this. Raises ``LocalError`` before any octet is written."""
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

    def outlet(self, channel: int) -> Outlet:
        """The hot way out for an open channel."""
        return self.table.outlet(channel)

    def found(self) -> list[Operation]:
        """Take what was found outside ``receive`` and ``tick``."""
        found, self.connection.later = self.connection.later, []
        return found

    @property
    def more(self) -> int:
        return self.loads.more

    def refill(self) -> None:
        self.loads.refill()

    def output(self) -> list[bytes]:
        """Take what is to be written; of large bodies a portion. Raises ``OSError``."""
        if self.loads.tracks:
            self.loads.move(self.table.channels)
        if not self.pending:
            return []
        self.heartbeat.spoke = True
        return self.connection.take_output()


__all__ = ["REPLIES", "Engine"]
