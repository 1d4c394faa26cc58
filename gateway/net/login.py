"""Login of one connection: has passwords checked off the event loop, and logs failures.

The ``Authority`` of the connection's adapter. A password that is known to be right is answered at
once, any other by the thread that checks it; nothing is read from the peer until then.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from gateway.adapters.contract import Adapter, Answer, Capability
from gateway.broker.access import Access, User
from gateway.net.passwords import LoginError, Passwords, Wrong
from gateway.sessions.session import Session

log = logging.getLogger("gateway.net")


class Peer(Protocol):
    """The connection that logs in."""

    address: str
    host: str
    loopback: bool

    def hold_for_login(self) -> None:
        """Read nothing until ``settled`` is called."""
        ...

    def settled(self, answer: Callable[[], None]) -> None:
        """Call ``answer`` within a turn, and read again."""
        ...


@dataclass(eq=False)
class Login:
    """``passed`` after a successful login, ``failed`` after a failed one. ``anonymous_user`` is the
    user for ANONYMOUS on this connection's listener."""

    _peer: Peer | None
    _access: Access
    _passwords: Passwords
    _anonymous_user: str | None
    _task: asyncio.Task[None] | None = None
    passed: bool = False
    failed: bool = False

    def leave(self) -> None:
        """Let go of the connection, which has ended."""
        self._peer = None

    def suspect(self, adapter: Adapter, session: Session | None) -> bool:
        """Whether the connection ends because the peer could not log in. Any error before the
        login counts as an attack, unless clients of the version may probe for a SASL layer. In
        0.8a2 (§3.2.12), 0-9a0 (§3.13.3) and 0-9a6 (Denial of Service Attacks) errors count until a
        virtual host is open (``Capability.PATIENT``)."""
        if not (self.passed or (session is not None and session.authenticated)):
            probing = Capability.SASL_LAYER in adapter.capabilities
            return adapter.closing and (self.failed or not probing)
        patient = Capability.PATIENT in adapter.capabilities
        if session is None or session.opened or not patient:
            return False
        # A refused virtual host is answered before the adapter closes.
        return bool(session.ending) if adapter.closing else session.authenticated

    # --- adapters.contract.Authority ------------------------------------------------------------

    def password(self, user: str, password: str, answer: Answer) -> None:
        found = self._passwords.remembered(user, password)
        if found is not None:
            answer(self._decided(user, self._refusal(found)))
            return
        peer = self._peer
        if peer is None:
            return answer(False)
        checked = self._passwords.check(user, password, peer.host)
        peer.hold_for_login()
        self._task = asyncio.ensure_future(self._check(user, checked, answer))

    def scram(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        return self._access.scram(user)

    def proved(self, user: str, right: bool, answer: Answer) -> None:
        peer = self._peer
        if peer is None:
            return answer(False)
        try:
            self._passwords.proved(user, right, peer.host)
        except LoginError as error:
            answer(self._decided(user, str(error)))
            return
        answer(self._decided(user, self._refusal(self._access.user(user))))

    def anonymous(self) -> str | None:
        name = self._anonymous_user
        return name if name is not None and self._access.user(name) is not None else None

    def external(self, subject: str) -> str | None:
        return self._access.external(subject)

    # --- results --------------------------------------------------------------------------------

    async def _check(self, user: str, checked: Awaitable[User], answer: Answer) -> None:
        try:
            refusal = self._refusal(await checked)
        except LoginError as error:
            refusal = str(error)
        except Exception:
            log.exception("a login could not be checked")
            refusal = "internal error"
        right = self._decided(user, refusal)
        if self._peer is not None:  # else the connection has ended
            self._peer.settled(lambda: answer(right))

    def _refusal(self, user: User | None) -> str:
        """Reason to refuse a user in spite of the right password; empty if there is none."""
        if user is None:
            return str(Wrong("unknown user"))
        if user.loopback_only and not (self._peer is not None and self._peer.loopback):
            return (
                "this user may only come from this machine; amqp-gateway user add NAME adds one "
                "who may come from anywhere"
            )
        return ""

    def _decided(self, user: str, refusal: str) -> bool:
        if refusal:
            self.failed = True
            address = "that has gone" if self._peer is None else self._peer.address
            log.warning("connection %s: login of '%s' refused: %s", address, user[:255], refusal)
        else:
            self.passed = True
        return not refusal
