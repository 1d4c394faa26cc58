"""SASL (RFC 4422) as state machines: the server's side challenges, the client's side responds.

Both read and return octets, without frames. PLAIN, AMQPLAIN (the table form of 0-8), ANONYMOUS,
EXTERNAL and SCRAM-SHA-256; ``Authority`` decides about users. ``scramp`` is imported by the first
login that uses it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from gateway.adapters.contract import Answer, Authority
from gateway.adapters.methods import types as fields
from gateway.adapters.options import MECHANISMS, Credentials

SCRAM = "SCRAM-SHA-256"


class Challenge(NamedTuple):
    """The client has to respond."""

    data: bytes


class Success(NamedTuple):
    """The client is this user."""

    user: str


class Failure(NamedTuple):
    """Refused. ``user`` is the claimed user, for the log only."""

    user: str = ""


class Waiting(NamedTuple):
    """The authority has not answered yet; ``ServerExchange.later`` will be called."""


Step = Challenge | Success | Failure | Waiting


def _nothing(step: Step) -> None:
    """The default of ``ServerExchange.later``."""


class ServerExchange:
    """One login, as the server sees it. An empty first response counts as a missing one."""

    def __init__(
        self,
        authority: Authority | None,
        subject: str | None = None,
        allowed: tuple[str, ...] = MECHANISMS,
    ) -> None:
        """``subject`` is the name in the peer's TLS certificate. EXTERNAL is offered only with
        one, ANONYMOUS only if the authority has a user for it, and nothing that is not
        ``allowed``."""
        self._authority = authority
        self._subject = subject
        self._allowed = allowed
        self._mechanism = ""
        self._scram: Any = None
        self._user = ""
        self._proved = False
        self.later: Callable[[Step], None] = _nothing
        """Called once with the step that has to wait for the authority. Set only then, because it
        makes a reference cycle."""

    def mechanisms(self) -> list[str]:
        """The mechanisms we offer, the strongest last: many clients take the first they know."""
        if self._authority is None:
            return []
        names = ["PLAIN", "AMQPLAIN", SCRAM]
        if self._authority.anonymous() is not None:
            names.append("ANONYMOUS")
        if self._subject is not None:
            names.append("EXTERNAL")
        return [name for name in names if name in self._allowed]

    def start(self, mechanism: str, response: bytes) -> Step:
        """The client has chosen; ``response`` may hold its first answer."""
        if mechanism not in self.mechanisms():
            return Failure()
        self._mechanism = mechanism
        if not response and mechanism in ("PLAIN", "AMQPLAIN", SCRAM):
            return Challenge(b"")
        return self.next(response)

    def next(self, response: bytes) -> Step:
        """The client's answer to a challenge."""
        if self._authority is None:
            return Failure()
        try:
            if self._mechanism == "PLAIN":
                return self._plain(self._authority, response)
            if self._mechanism == "AMQPLAIN":
                return self._amqplain(self._authority, response)
            if self._mechanism == SCRAM:
                return self._scram_step(self._authority, response)
            if self._mechanism == "ANONYMOUS":
                user = self._authority.anonymous()
                return Failure() if user is None else Success(user)
            if self._mechanism == "EXTERNAL" and self._subject is not None:
                user = self._authority.external(self._subject)
                return Failure(self._subject) if user is None else Success(user)
        except (UnicodeDecodeError, ValueError):
            return Failure(self._user)
        return Failure()

    def _ask(self, ask: Callable[[Answer], None], granted: Step, user: str) -> Step:
        """The authority's decision, or ``Waiting`` if it decides later."""
        step: Step = Waiting()
        asking = True

        def answer(right: bool) -> None:
            nonlocal step
            reached = granted if right else Failure(user)
            if asking:
                step = reached
            else:
                later, self.later = self.later, _nothing
                later(reached)

        ask(answer)
        asking = False
        return step

    def _password(self, authority: Authority, user: str, password: str) -> Step:
        return self._ask(partial(authority.password, user, password), Success(user), user)

    def _plain(self, authority: Authority, response: bytes) -> Step:
        """RFC 4616: authorization identity, user, password, separated by NUL. Acting as another
        user is not supported, so the first must be empty or the same as the second."""
        identity, _, rest = response.partition(b"\0")
        user, nul, password = rest.partition(b"\0")
        if not nul or b"\0" in password:
            return Failure()
        name = user.decode()
        if identity and identity != user:
            return Failure(name)
        return self._password(authority, name, password.decode())

    def _amqplain(self, authority: Authority, response: bytes) -> Step:
        """A field table without its length, with LOGIN and PASSWORD; some write the length."""
        if len(response) > 4 and int.from_bytes(response[:4], "big") == len(response) - 4:
            response = response[4:]
        table = fields.read_table(response)
        user, password = table.get("LOGIN"), table.get("PASSWORD")
        if isinstance(user, bytes):
            user = user.decode()
        if isinstance(password, bytes):
            password = password.decode()
        if not isinstance(user, str) or not isinstance(password, str):
            return Failure()
        return self._password(authority, user, password)

    def _scram_step(self, authority: Authority, response: bytes) -> Step:
        """RFC 5802, 7677. The server's last message needs an answer here, since success has no
        place for data in these versions."""
        if self._proved:
            return Success(self._user) if not response else Failure(self._user)
        from scramp import ScramException, ScramMechanism  # type: ignore[import-untyped]

        if self._scram is None:
            try:
                self._scram = ScramMechanism(SCRAM).make_server(self._keys)
                self._scram.set_client_first(response.decode())
                return Challenge(self._scram.get_server_first().encode())
            except ScramException:
                return Failure(self._user)
        try:
            self._scram.set_client_final(response.decode())
            proof: Step = Challenge(self._scram.get_server_final().encode())
        except (UnicodeDecodeError, ScramException):
            return self._ask(partial(authority.proved, self._user, False), Failure(), self._user)
        self._proved = True
        return self._ask(partial(authority.proved, self._user, True), proof, self._user)

    def _keys(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        assert self._authority is not None
        self._user = user
        return self._authority.scram(user)


class ClientExchange:
    """One login, as the client sees it."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._scram: Any = None
        self._step = 0
        self.satisfied = credentials.mechanism != SCRAM
        """Whether the server has proved itself, if the mechanism requires it (RFC 5802 §3)."""

    def choose(self, offered: list[str]) -> str | None:
        """The mechanism to use, ``None`` if the server does not offer it."""
        wanted = self._credentials.mechanism
        return wanted if wanted in offered else None

    def first(self) -> bytes:
        """The initial response. Raises ``ValueError`` if the mechanism cannot express this user."""
        login = self._credentials
        if login.mechanism == "PLAIN":
            return b"\0" + login.user.encode() + b"\0" + login.password.encode()
        if login.mechanism == "AMQPLAIN":
            return fields.write_table({"LOGIN": login.user, "PASSWORD": login.password})
        if login.mechanism == SCRAM:
            from scramp import ScramClient, ScramException

            try:
                self._scram = ScramClient([SCRAM], login.user, login.password)
                first: str = self._scram.get_client_first()
            except ScramException as error:
                raise ValueError("no user SCRAM could name") from error
            return first.encode()
        return login.identity.encode()

    def answer(self, challenge: bytes) -> bytes:
        """Our response. Raises ``ValueError`` if the server fails to prove itself."""
        if self._scram is None or not challenge:
            return self.first()
        self._step += 1
        from scramp import ScramException

        try:
            if self._step == 1:
                self._scram.set_server_first(challenge.decode())
                final: str = self._scram.get_client_final()
                return final.encode()
            self._scram.set_server_final(challenge.decode())
            self.satisfied = True
        except ScramException as error:
            raise ValueError("the server failed to prove itself") from error
        return b""
