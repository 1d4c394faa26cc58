"""Checks passwords for AMQP, HTTP and WebSockets without letting guesses block the event loop.

A wrong password costs a SCRAM computation (about ten milliseconds), so it runs on a thread, one at
a time, and failures are counted per peer, and per user and peer. A password that was right before
costs one HMAC and is never held back. Nobody is locked out from one address by guesses that come
from another.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from ipaddress import IPv6Address, ip_address

from gateway.broker.access import (
    MOST_PASSWORD_OCTETS,
    Access,
    User,
    Verifier,
    make_verifier,
    matched,
)
from gateway.config.web import AccessSettings
from gateway.net.failures import FailureRecords, Failures

MOST_DIGESTS = 4096
MOST_WAITING = 256
"""Computations that wait for the thread; further logins are told to try again later."""


class LoginError(Exception):
    """Not logged in."""


class Wrong(LoginError):
    """Unknown user or wrong password."""


class TooMany(LoginError):
    """Too many logins have failed: try again in ``seconds``."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many failed attempts, the next one in {seconds} s")
        self.seconds = seconds


class Stopping(LoginError):
    """The gateway is shutting down."""


def network(host: str) -> str:
    """Network of a peer, for counting failures: one IPv6 subscriber has a whole /64."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return str(IPv6Address(int(address) >> 64 << 64))
    return host


class Passwords:
    """Checks user and password. ``kept`` holds failures over a restart. ``turn`` brackets the
    change of a user."""

    def __init__(
        self,
        access: Access,
        clock: Callable[[], float],
        settings: AccessSettings,
        kept: FailureRecords | None = None,
        turn: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.access = access
        self.turn = turn
        self.failures = Failures(clock, settings.failures, settings.failure_seconds, kept)
        self.key = secrets.token_bytes(32)
        self.known: dict[str, tuple[Verifier, bytes]] = {}
        """By user: the verifier that a password matched, and a keyed digest of the password."""
        unknown = Verifier(secrets.token_bytes(32), bytes(32), bytes(32), access.iterations)
        self.unknown = User("", unknown)
        self.threads = ThreadPoolExecutor(1, "password")
        self.closed = False
        self.under_way: dict[tuple[str, str, bytes], asyncio.Future[Verifier | None]] = {}
        """Attempts by user, network of the peer and digest of the password."""
        self.computing: dict[tuple[str, bytes], asyncio.Future[Verifier | None]] = {}
        """Computations under way, by user and digest of the password."""

    def digest(self, password: str) -> bytes:
        secret = password.encode("utf-8", "surrogatepass")
        return hmac.digest(self.key, secret, hashlib.sha256)

    def remembered(self, user: str, password: str) -> User | None:
        """The user, if this password is known to be the right one."""
        if self.access.refresh is not None:
            self.access.refresh()
        found, kept = self.access.user(user), self.known.get(user)
        if found is None or kept is None or kept[0] != found.verifier:
            return None
        return found if hmac.compare_digest(kept[1], self.digest(password)) else None

    async def check(self, user: str, password: str, peer: str) -> User:
        """Raises ``LoginError``. An unknown user takes as long as a wrong password."""
        found = self.remembered(user, password)
        if found is not None:
            return found
        digest = self.digest(password)
        fitted = await self.once(user, password, network(peer), digest)
        found = self.access.user(user)
        if fitted is None or found is None or found.verifier != fitted:
            raise Wrong("unknown user or wrong password")
        if len(self.known) >= MOST_DIGESTS:
            self.known.clear()
        self.known[user] = (found.verifier, digest)
        return found

    async def verifier(self, password: str) -> Verifier:
        """Compute the verifier of a new password on the thread. Refuses (406) a password that
        cannot be used."""
        if self.closed:
            return make_verifier(password, self.access.iterations)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self.threads, make_verifier, password, self.access.iterations
        )

    def proved(self, user: str, right: bool, peer: str) -> None:
        """Count a SCRAM proof of the password, right or wrong. Raises ``LoginError``: beyond the
        limit even a right proof is refused."""
        account, where = self.account(user), network(peer)
        self.take(account, where)
        if not right:
            self.failures.failed(account, where)
            raise Wrong("unknown user or wrong password")
        self.failures.succeeded(account, where)

    async def once(self, user: str, password: str, peer: str, digest: bytes) -> Verifier | None:
        """The verifier that the password matches. Concurrent identical attempts count once: after a
        restart all programs of a user log in at once, and repeating a guess gains nothing."""
        key = (user, peer, digest)
        task = self.under_way.get(key)
        if task is None:
            task = asyncio.ensure_future(self.attempt(user, password, peer, digest))
            self.under_way[key] = task
            task.add_done_callback(lambda done: self.forget(key, done))
        return await asyncio.shield(task)

    def forget(self, key: tuple[str, str, bytes], done: "asyncio.Future[Verifier | None]") -> None:
        del self.under_way[key]
        if not done.cancelled():
            done.exception()  # taken, because the peer may have hung up

    def account(self, user: str) -> str:
        """Name under which failures are counted: the user with its present salt. Failures with an
        old password do not delay clients with the new one."""
        found = self.access.user(user)
        return user if found is None else f"{user}\0{found.verifier.salt.hex()}"

    def take(self, account: str, peer: str) -> None:
        seconds = self.failures.take(account, peer)
        if seconds:
            raise TooMany(seconds)

    async def attempt(self, user: str, password: str, peer: str, digest: bytes) -> Verifier | None:
        """The verifier that the password matches. The attempt is counted before it is computed, and
        refunded if it was right: concurrent attempts cannot exceed the limit."""
        if self.closed:
            raise Stopping("the gateway is shutting down")
        if len(self.computing) >= MOST_WAITING and (user, digest) not in self.computing:
            raise TooMany(1)
        account = self.account(user)
        self.take(account, peer)
        fitted = None
        if len(password) <= MOST_PASSWORD_OCTETS:
            fitted = await asyncio.shield(self.computation(user, password, digest))
        now = self.access.user(user)
        if fitted is None or now is None or now.verifier != fitted:
            self.failures.failed(account, peer)
            return None
        self.failures.succeeded(account, peer)
        return fitted

    def computation(
        self, user: str, password: str, digest: bytes
    ) -> "asyncio.Future[Verifier | None]":
        """One computation for all peers that send the same password."""
        key = (user, digest)
        task = self.computing.get(key)
        if task is None:
            task = asyncio.ensure_future(self.compute(user, password))
            self.computing[key] = task
            task.add_done_callback(lambda _: self.computing.pop(key))
        return task

    async def compute(self, user: str, password: str) -> Verifier | None:
        if self.closed:  # between the attempt and the start of this task
            raise Stopping("the gateway is shutting down")
        found = self.access.user(user)
        loop = asyncio.get_running_loop()
        known, iterations = found or self.unknown, self.access.iterations
        try:
            fitted = await loop.run_in_executor(self.threads, matched, known, password, iterations)
        except asyncio.CancelledError:
            if self.closed:
                raise Stopping("the gateway is shutting down") from None
            raise
        if found is None:
            return None
        if fitted is not None and fitted != found.verifier and self.access.user(user) == found:
            # The password of RabbitMQ, which is known from now on.
            with self.turn():
                self.access.adopt(found._replace(verifier=fitted, rabbit_hash=None))
        return fitted

    def close(self) -> None:
        """Refuse logins that wait, and later ones."""
        self.closed = True
        self.threads.shutdown(wait=False, cancel_futures=True)
