"""The handshake: challenge, response, tune, open (document §3.2).

Original clients write ``plain`` in lower case, with or without credentials, or put a NUL after
them; a table with credentials counts under any mechanism.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.adapters.commands import states
from gateway.adapters.commands import types as fields
from gateway.adapters.commands.connection import Connection, Opening, frame_max
from gateway.adapters.commands.frames import Frames
from gateway.adapters.commands.violation import Violation
from gateway.adapters.commands.wire import layouts as w
from gateway.adapters.commands.wire.tables import HEADER, LEAST_FRAME_MAX, SUCCESS
from gateway.adapters.contract import Authority
from gateway.adapters.options import Credentials, Product
from gateway.errors import LocalError
from gateway.message import Table
from gateway.operations import Done, Open, Token
from gateway.operations.rules import EARLY
from gateway.values import Int

HANDLE_MAX = 255
TXN_LIMIT = 1000
MOST_ALIASES = 1000
PLAIN, NONE = "PLAIN", "NONE"
OPEN_TAG = 1


@dataclass(eq=False)
class ServerNegotiation:
    """The server's half of the handshake."""

    _connection: Connection
    _frames: Frames
    _authority: Authority | None
    _mechanisms: tuple[str, ...]
    _resume: Callable[[Callable[[], None]], None]
    """Performs an action after a wait and continues reading."""
    _want_pings: Callable[[int], None]
    _user: str | None = None

    def begin(self) -> None:
        self._connection.write(w.ConnectionChallenge(HEADER[1], " ".join(self.offered())))

    def offered(self) -> list[str]:
        """The mechanisms we offer. NONE is called ANONYMOUS in other versions."""
        names = [PLAIN] if PLAIN in self._mechanisms else []
        if self._anonymous() is not None:
            names.append(NONE)
        return names

    def _anonymous(self) -> str | None:
        if self._authority is None or "ANONYMOUS" not in self._mechanisms:
            return None
        return self._authority.anonymous()

    def on(self, name: str, record: Any) -> None:
        connection = self._connection
        user, greeting = self._user, connection.state is states.GREETING
        if name == "connection.response" and user is None:
            self._on_response(record)
        elif name == "connection.tune" and user is not None and greeting:
            self._on_tune(record)
        elif name == "connection.open" and user is not None and greeting:
            read(record.options)
            connection.state = states.OPENING
            connection.peer.name = record.client_name
            vhost = record.virtual_path or "/"
            token = Opening(record.confirm_tag)
            self._connection.emit(
                Open(token, vhost, user, connection.peer, record.client_name, EARLY)
            )
        else:
            raise Violation("command-invalid", f"{name} is not expected now")

    def _on_response(self, record: w.ConnectionResponse) -> None:
        connection = self._connection
        connection.peer.mechanism = record.mechanism.upper()
        table = read(record.responses)
        user, password = text_of(table, "LOGIN"), text_of(table, "PASSWORD")
        if user is not None and password is not None and PLAIN in self._mechanisms:
            self._check_password(user, password)
        else:
            self._decide(self._anonymous() if not table else None)

    def _decide(self, user: str | None) -> None:
        """Continue as a user; ``None``: authentication failed."""
        if user is None:
            raise Violation("access-refused", "login refused")
        connection, self._user = self._connection, user
        self._frames.limit = connection.frame_out = connection.frame_max
        connection.write(w.ConnectionTune(fields.write_table(self._options())))

    def _check_password(self, user: str, password: str) -> None:
        """A single NUL at the end of both user and password is removed: the original C client
        counts it in."""
        if self._authority is None:
            return self._decide(None)
        if user.endswith("\0") and password.endswith("\0"):
            user, password = user[:-1], password[:-1]
        answers: list[bool] = []
        undecided = True

        def answer(right: bool) -> None:
            if undecided:
                answers.append(right)
            else:
                self._resume(lambda: self._decide(user if right else None))

        self._authority.password(user, password, answer)
        undecided = False
        if answers:
            self._decide(user if answers[0] else None)
        else:
            self._frames.pause()

    def _options(self) -> Table:
        limits = self._connection.limits
        return {
            "FRAME_MAX": Int(self._connection.frame_max),
            "CHANNEL_MAX": Int(limits.channel_max),
            "HANDLE_MAX": Int(HANDLE_MAX),
            "HEARTBEAT": Int(limits.heartbeat),
            "TXN_LIMIT": Int(TXN_LIMIT),
        }

    def _on_tune(self, record: w.ConnectionTune) -> None:
        """The client may send any number of tunes; values outside our offer are refused
        (§3.2.5)."""
        connection = self._connection
        options = read(record.options)
        size = number(options, "FRAME_MAX")
        if size is not None:
            if not LEAST_FRAME_MAX <= size <= connection.frame_max:
                raise Violation("syntax-error", f"FRAME_MAX {size} is out of bounds")
            connection.frame_out = size
        wanted = number(options, "HEARTBEAT")
        if wanted:
            self._want_pings(wanted)
        try:
            connection.headers.add(record.dictionary)
        except ValueError as error:
            raise Violation("syntax-error", str(error)) from None
        if len(connection.headers.full) > MOST_ALIASES:
            raise Violation("resource-error", f"more than {MOST_ALIASES} aliases")

    def open(self, operation: Open) -> None:
        raise LocalError("a server does not open")

    def opened(self, token: Opening) -> None:
        """The virtual host is open."""
        self._connection.opened()
        if token.tag:
            self._connection.write(w.ConnectionReply(token.tag, SUCCESS))

    def awaited_tokens(self) -> list[tuple[int, Token]]:
        return []


@dataclass(eq=False)
class ClientNegotiation:
    """The client's half of the handshake."""

    _connection: Connection
    _frames: Frames
    _credentials: Credentials
    _product: Product
    _set_limits: Callable[[int, int], None]
    """Takes the server's limits of channels and handles."""
    _want_pings: Callable[[int], None]
    _requested: Open | None = None
    _tuned: bool = False

    def begin(self) -> None:
        """The initiation was written when the connection was made."""

    def on(self, name: str, record: Any) -> None:
        connection = self._connection
        if name == "connection.challenge" and not self._tuned:
            self._on_challenge(record)
        elif name == "connection.tune" and not self._tuned:
            self._on_tune(record)
        elif name == "connection.reply" and connection.state is states.OPENING:
            requested = self._requested
            connection.opened()
            self._requested = None
            if requested is not None:
                connection.emit(Done(0, requested.token, connection.peer))
        else:
            raise Violation("command-invalid", f"{name} is not expected now")

    def _on_challenge(self, record: w.ConnectionChallenge) -> None:
        connection, login = self._connection, self._credentials
        if record.version != HEADER[1]:
            raise Violation("not-implemented", f"the server speaks version {record.version}")
        read(record.challenges)
        offered = record.mechanisms.upper().split()
        answer: Table = {}
        if PLAIN in offered and login.mechanism == PLAIN:
            mechanism = PLAIN
            answer = {"LOGIN": login.user, "PASSWORD": login.password}
        elif NONE in offered:
            mechanism = NONE
        else:
            raise Violation("not-implemented", f"the server offers '{record.mechanisms}'")
        connection.peer.mechanism = mechanism
        connection.write(w.ConnectionResponse(mechanism, fields.write_table(answer)))

    def _on_tune(self, record: w.ConnectionTune) -> None:
        connection, limits = self._connection, self._connection.limits
        options = read(record.options)
        size = number(options, "FRAME_MAX") or LEAST_FRAME_MAX
        if size < LEAST_FRAME_MAX:
            raise Violation("syntax-error", f"FRAME_MAX {size} is out of bounds")
        self._want_pings(number(options, "HEARTBEAT") or 0)
        self._set_limits(number(options, "CHANNEL_MAX") or 0, number(options, "HANDLE_MAX") or 0)
        connection.frame_out = size
        connection.frame_max = self._frames.limit = min(size, frame_max(limits))
        ours = {"FRAME_MAX": Int(connection.frame_max), "HEARTBEAT": Int(limits.heartbeat)}
        connection.write(w.ConnectionTune(fields.write_table(dict(ours))))
        self._tuned = True
        self._send_open()

    def open(self, operation: Open) -> None:
        if self._requested is not None or self._connection.state is not states.GREETING:
            raise LocalError("the connection is already being opened")
        self._requested = operation
        self._send_open()

    def _send_open(self) -> None:
        connection, requested = self._connection, self._requested
        if requested is not None and self._tuned and connection.state is states.GREETING:
            connection.state = states.OPENING
            name = requested.client or self._product.identity
            connection.write(w.ConnectionOpen(OPEN_TAG, requested.vhost, name))

    def opened(self, token: Opening) -> None:
        raise LocalError("a client is told")

    def awaited_tokens(self) -> list[tuple[int, Token]]:
        requested, self._requested = self._requested, None
        return [] if requested is None or requested.token is None else [(0, requested.token)]


def read(entries: bytes) -> Table:
    """Decode a field table of the peer. Raises ``Violation``."""
    try:
        return fields.read_table(entries)
    except ValueError as error:
        raise Violation("syntax-error", str(error)) from None


def text_of(table: Table, name: str) -> str | None:
    value = table.get(name)
    return value if isinstance(value, str) else None


def number(options: Table, name: str) -> int | None:
    """An option that must be a number; ``None`` if it is absent. Raises ``Violation`` for other
    types and negative numbers."""
    value = options.get(name)
    if value is None:
        return None
    if type(value) is not Int or value < 0:
        raise Violation("syntax-error", f"{name} is no number")
    return int(value)
