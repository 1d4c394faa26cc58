"""HTTP Basic without handing the loop to whoever guesses.

A wrong password costs a SCRAM computation (about ten milliseconds), so it runs on a thread, few at
a time, and failures are counted per peer and per user. A password that was right before costs one
HMAC and is never held back: guessers cannot lock a user out.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from gateway.broker.access import Access, User, Verifier, fits
from gateway.http import problems
from gateway.http.access.buckets import Buckets, Rate
from gateway.http.problems import Problem, challenge

MOST_DIGESTS = 4096
MOST_WAITING = 64
WRONG = "Unknown user or wrong password."


def read_basic(given: bytes) -> tuple[str, str]:
    """User and password of Basic credentials. Raises ``Problem``."""
    try:
        pair = base64.b64decode(given.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise challenge("The credentials are malformed.") from None
    user, colon, password = pair.partition(":")
    if not colon:
        raise challenge("The credentials are malformed.")
    return user, password


def network(host: str) -> str:
    """Who a peer is for counting failures: one IPv6 subscriber has a whole /64."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return str(IPv6Address(int(address) >> 64 << 64))
    return host


@lru_cache(4096)
def fingerprint(verifier: Verifier) -> str:
    """Changes with the password, and says nothing about it."""
    return "password:" + hashlib.sha256(b"fingerprint" + verifier.stored_key).hexdigest()[:32]


class Passwords:
    """Checks user and password. ``failures`` per peer and twice that per user in ``seconds``."""

    def __init__(
        self, access: Access, clock: Callable[[], float], failures: int, seconds: float
    ) -> None:
        self.access = access
        self.by_peer = Buckets(Rate(failures, seconds), clock)
        self.by_user = Buckets(Rate(failures * 2, seconds), clock)
        self.key = secrets.token_bytes(32)
        self.known: dict[str, tuple[Verifier, bytes]] = {}
        """Per user the verifier that a password fitted, and a digest of it under our own key."""
        self.nobody = Verifier(secrets.token_bytes(16), bytes(32), bytes(32), access.iterations)
        self.threads = ThreadPoolExecutor(1, "password")
        self.waiting = 0
        self.closed = False
        self.under_way: dict[tuple[str, str, bytes], asyncio.Future[Verifier | None]] = {}
        """Computations by user, network of the peer and digest of the password."""

    async def check(self, user: str, password: str, peer: str) -> User:
        """Raises ``Problem``: 401, or 429 after too many failures. An unknown user takes as long
        as a wrong password and is answered alike."""
        if self.access.refresh is not None:
            self.access.refresh()
        found = self.access.user(user)
        secret = password.encode("utf-8", "surrogatepass")
        digest = hmac.digest(self.key, secret, hashlib.sha256)
        kept = self.known.get(user)
        if (
            found is not None
            and kept is not None
            and kept[0] == found.verifier
            and hmac.compare_digest(kept[1], digest)
        ):
            return found
        fitted = await self.once(found, password, user, network(peer), digest)
        found = self.access.user(user)
        if fitted is None or found is None or found.verifier != fitted:
            raise challenge(WRONG)
        if len(self.known) >= MOST_DIGESTS:
            self.known.clear()
        self.known[user] = (found.verifier, digest)
        return found

    async def once(
        self, found: User | None, password: str, user: str, peer: str, digest: bytes
    ) -> Verifier | None:
        """What the password fits. Whoever says the same meanwhile shares one computation: after a
        restart all programs of a user come at once, and are no guessers; nor is a guess better for
        being repeated."""
        key = (user, peer, digest)
        task = self.under_way.get(key)
        if task is None:
            task = asyncio.ensure_future(self.compute(found, password, user, peer))
            self.under_way[key] = task
            task.add_done_callback(lambda done: self.forget(key, done))
        return await asyncio.shield(task)

    def forget(self, key: tuple[str, str, bytes], done: "asyncio.Future[Verifier | None]") -> None:
        del self.under_way[key]
        if not done.cancelled():
            done.exception()  # whoever asked may have hung up

    async def compute(
        self, found: User | None, password: str, user: str, peer: str
    ) -> Verifier | None:
        """What the password fits. The attempt is counted before it is computed, and given back if
        it was right: many at once are no way round the limit."""
        left = self.by_peer.take(peer)
        if not left.allowed:
            raise too_many(left.seconds)
        left = self.by_user.take(user)
        if not left.allowed:
            raise too_many(left.seconds)
        if self.closed:
            raise draining()
        if self.waiting >= MOST_WAITING:
            raise too_many(1)
        self.waiting += 1
        verifier = self.nobody if found is None else found.verifier
        try:
            loop = asyncio.get_running_loop()
            right = await loop.run_in_executor(self.threads, fits, verifier, password)
        except asyncio.CancelledError:
            if self.closed:
                raise draining() from None
            raise
        finally:
            self.waiting -= 1
        now = None if found is None else self.access.user(user)
        right = right and now is not None and now.verifier == verifier
        if right:
            self.by_peer.charge(peer, -1)
            self.by_user.charge(user, -1)
        return verifier if right else None

    def close(self) -> None:
        """Whoever still waits, or comes now, is told to go elsewhere."""
        self.closed = True
        self.threads.shutdown(wait=False, cancel_futures=True)


def draining() -> Problem:
    return Problem(problems.DRAINING, "the gateway is shutting down")


def too_many(seconds: int) -> Problem:
    return Problem(problems.QUOTA, "too many failed attempts to authenticate", retry_after=seconds)
