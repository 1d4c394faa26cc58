"""From the initiation to an open connection: challenge, response, tune, open (document §3.2).

Original clients write ``plain`` in lower case, with or without credentials, or put a NUL behind
them; a table that names somebody is what counts, whatever the mechanism is called.
"""

from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from gateway.adapters.commands import states
from gateway.adapters.commands import types as fields
from gateway.adapters.commands.violation import Violation
from gateway.adapters.commands.wire import layouts as w
from gateway.adapters.commands.wire.tables import HEADER, LEAST_FRAME_MAX, SUCCESS
from gateway.adapters.options import Limits
from gateway.errors import LocalError
from gateway.message import Table
from gateway.operations import Done, Open, Operation, Token
from gateway.operations.rules import EARLY
from gateway.values import Int

if TYPE_CHECKING:
    from gateway.adapters.commands.engine import Engine

LARGEST_FRAME = 32_768
"""What the original server announces: some original clients have no larger buffer."""
HANDLE_MAX = 255
TXN_LIMIT = 1000
MOST_ALIASES = 1000
PLAIN, NONE = "PLAIN", "NONE"
OPEN_TAG = 1


class Opening(NamedTuple):
    """The token of ``Open``: what has to be confirmed."""

    tag: int


def frame_max(limits: Limits) -> int:
    return max(LEAST_FRAME_MAX, min(limits.frame_max or LARGEST_FRAME, LARGEST_FRAME))


class ServerNegotiation:
    """The server's side."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._user: str | None = None

    def begin(self) -> None:
        self._engine.write(w.ConnectionChallenge(HEADER[1], " ".join(self.offered())))

    def offered(self) -> list[str]:
        """NONE is what others call anonymous."""
        engine = self._engine
        names = [PLAIN] if PLAIN in engine.mechanisms else []
        if self._anonymous() is not None:
            names.append(NONE)
        return names

    def _anonymous(self) -> str | None:
        engine = self._engine
        if engine.authority is None or "ANONYMOUS" not in engine.mechanisms:
            return None
        return engine.authority.anonymous()

    def on(self, name: str, record: Any, found: list[Operation]) -> None:
        engine = self._engine
        if name == "connection.response" and self._user is None:
            self._on_response(record)
        elif (
            name == "connection.tune" and self._user is not None and engine.state is states.GREETING
        ):
            self._on_tune(record)
        elif (
            name == "connection.open" and self._user is not None and engine.state is states.GREETING
        ):
            read(record.options)
            engine.state = states.OPENING
            engine.peer.name = record.client_name
            vhost = record.virtual_path or "/"
            token = Opening(record.confirm_tag)
            found.append(Open(token, vhost, self._user, engine.peer, record.client_name, EARLY))
        else:
            raise Violation("command-invalid", f"{name} is not expected now")

    def _on_response(self, record: w.ConnectionResponse) -> None:
        engine = self._engine
        engine.peer.mechanism = record.mechanism.upper()
        table = read(record.responses)
        user, password = text_of(table, "LOGIN"), text_of(table, "PASSWORD")
        if user is not None and password is not None and PLAIN in engine.mechanisms:
            self._check_password(user, password)
        else:
            self._decide(self._anonymous() if not table else None)

    def _decide(self, user: str | None) -> None:
        """Who it is, ``None`` if that could not be proved."""
        if user is None:
            raise Violation("access-refused", "login refused")
        engine, self._user = self._engine, user
        engine.frames.limit = engine.frame_out = engine.frame_max
        engine.write(w.ConnectionTune(fields.write_table(self._options())))

    def _check_password(self, user: str, password: str) -> None:
        """One NUL behind both is not part of them: the original C client counts it in."""
        engine = self._engine
        if engine.authority is None:
            return self._decide(None)
        if user.endswith("\0") and password.endswith("\0"):
            user, password = user[:-1], password[:-1]
        answers: list[bool] = []
        undecided = True

        def answer(right: bool) -> None:
            if undecided:
                answers.append(right)
            else:
                engine.resume(lambda: self._decide(user if right else None))

        engine.authority.password(user, password, answer)
        undecided = False
        if answers:
            self._decide(user if answers[0] else None)
        else:
            engine.frames.pause()

    def _options(self) -> Table:
        limits = self._engine.limits
        return {
            "FRAME_MAX": Int(self._engine.frame_max),
            "CHANNEL_MAX": Int(limits.channel_max),
            "HANDLE_MAX": Int(HANDLE_MAX),
            "HEARTBEAT": Int(limits.heartbeat),
            "TXN_LIMIT": Int(TXN_LIMIT),
        }

    def _on_tune(self, record: w.ConnectionTune) -> None:
        """Any number of them; what we did not offer is refused (§3.2.5)."""
        engine = self._engine
        options = read(record.options)
        size = number(options, "FRAME_MAX")
        if size is not None:
            if not LEAST_FRAME_MAX <= size <= engine.frame_max:
                raise Violation("syntax-error", f"FRAME_MAX {size} is out of bounds")
            engine.frame_out = size
        wanted = number(options, "HEARTBEAT")
        if wanted:
            engine.want_pings(wanted)
        try:
            engine.headers.add(record.dictionary)
        except ValueError as error:
            raise Violation("syntax-error", str(error)) from None
        if len(engine.headers.full) > MOST_ALIASES:
            raise Violation("resource-error", f"more than {MOST_ALIASES} aliases")

    def open(self, operation: Open) -> None:
        raise LocalError("a server does not open")

    def opened(self, token: Opening) -> None:
        """The virtual host is there."""
        self._engine.opened()
        if token.tag:
            self._engine.write(w.ConnectionReply(token.tag, SUCCESS))

    def awaited_tokens(self) -> list[tuple[int, Token]]:
        return []


class ClientNegotiation:
    """The client's side."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._requested: Open | None = None
        self._tuned = False

    def begin(self) -> None:
        """The initiation was said when the engine was made."""

    def on(self, name: str, record: Any, found: list[Operation]) -> None:
        engine = self._engine
        if name == "connection.challenge" and not self._tuned:
            self._on_challenge(record)
        elif name == "connection.tune" and not self._tuned:
            self._on_tune(record)
        elif name == "connection.reply" and engine.state is states.OPENING:
            requested = self._requested
            engine.opened()
            self._requested = None
            if requested is not None and requested.token is not None:
                found.append(Done(0, requested.token, engine.peer))
            elif requested is not None:
                found.append(Done(0, None, engine.peer))
        else:
            raise Violation("command-invalid", f"{name} is not expected now")

    def _on_challenge(self, record: w.ConnectionChallenge) -> None:
        engine, login = self._engine, self._engine.credentials
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
        engine.peer.mechanism = mechanism
        engine.write(w.ConnectionResponse(mechanism, fields.write_table(answer)))

    def _on_tune(self, record: w.ConnectionTune) -> None:
        engine, limits = self._engine, self._engine.limits
        options = read(record.options)
        size = number(options, "FRAME_MAX") or LEAST_FRAME_MAX
        if size < LEAST_FRAME_MAX:
            raise Violation("syntax-error", f"FRAME_MAX {size} is out of bounds")
        engine.want_pings(number(options, "HEARTBEAT") or 0)
        engine.endpoint.tuned(
            number(options, "CHANNEL_MAX") or 0, number(options, "HANDLE_MAX") or 0
        )
        engine.frame_out = size
        engine.frame_max = engine.frames.limit = min(size, frame_max(limits))
        ours = {"FRAME_MAX": Int(engine.frame_max), "HEARTBEAT": Int(limits.heartbeat)}
        engine.write(w.ConnectionTune(fields.write_table(dict(ours))))
        self._tuned = True
        self._send_open()

    def open(self, operation: Open) -> None:
        if self._requested is not None or self._engine.state is not states.GREETING:
            raise LocalError("the connection is already being opened")
        self._requested = operation
        self._send_open()

    def _send_open(self) -> None:
        engine, requested = self._engine, self._requested
        if requested is not None and self._tuned and engine.state is states.GREETING:
            engine.state = states.OPENING
            name = requested.client or engine.product.name or f"{engine.product.product}-{uuid4()}"
            engine.write(w.ConnectionOpen(OPEN_TAG, requested.vhost, name))

    def opened(self, token: Opening) -> None:
        raise LocalError("a client is told")

    def awaited_tokens(self) -> list[tuple[int, Token]]:
        requested, self._requested = self._requested, None
        return [] if requested is None or requested.token is None else [(0, requested.token)]


def read(entries: bytes) -> Table:
    """A field table of the peer. Raises ``Violation``."""
    try:
        return fields.read_table(entries)
    except ValueError as error:
        raise Violation("syntax-error", str(error)) from None


def text_of(table: Table, name: str) -> str | None:
    value = table.get(name)
    return value if isinstance(value, str) else None


def number(options: Table, name: str) -> int | None:
    """Raises ``Violation`` unless it is absent or a number that may be."""
    value = options.get(name)
    if value is None:
        return None
    if type(value) is not Int or value < 0:
        raise Violation("syntax-error", f"{name} is no number")
    return int(value)
