"""Keys for verifying tokens: a shared secret, a file, or a URL that is fetched rarely."""

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable
from typing import Any

import httpx
from joserfc.errors import JoseError
from joserfc.jwk import Key, KeySet, OctKey

from gateway.config.web import BearerSettings
from gateway.http import problems
from gateway.http.problems import Problem

log = logging.getLogger("gateway.http")

MOST_OCTETS = 1 << 18
MOST_KEYS = 64
FETCH_SECONDS = 5.0
AGAIN_SECONDS = 15.0
"""Minimum seconds between two fetches, regardless of the number of unknown key ids."""
STALE_SECONDS = 3600.0
"""Seconds that an outdated key set remains valid while it cannot be refetched."""


class UnknownKey(Exception):
    """No key has the key id of a token."""


class Keys:
    """The current keys. ``generation`` increases when they change. ``client`` creates the HTTP
    client."""

    def __init__(
        self,
        settings: BearerSettings,
        client: Callable[[], httpx.AsyncClient] | None = None,
    ) -> None:
        self.settings = settings
        self.client = client or make_client
        self.generation = 0
        self.keys: list[Key] = []
        self.at: float | None = None
        """Time of the last fetch."""
        self.asked = -AGAIN_SECONDS
        self.monotonic: Callable[[], float] = time.monotonic
        self.lock = asyncio.Lock()
        if settings.secret:
            self.keys = [OctKey.import_key(settings.secret)]

    async def fresh(self, now: float) -> None:
        """Ensure that the keys are not outdated. Raises ``Problem`` if there are none."""
        if self.settings.secret:
            return
        age = None if self.at is None else now - self.at
        if age is None or age >= self.settings.refresh_seconds:
            await self.refresh(now)
            age = None if self.at is None else now - self.at
        if age is None or age >= self.settings.refresh_seconds + STALE_SECONDS:
            raise Problem(
                problems.KEYS_UNAVAILABLE, "the keys of the issuer cannot be fetched at present"
            )

    async def refresh(self, now: float) -> bool:
        """Fetch the keys again, unless just fetched. Returns whether keys are available."""
        if self.settings.secret:
            return False
        async with self.lock:
            moment = self.monotonic()
            if moment - self.asked < AGAIN_SECONDS:
                return False
            self.asked = moment
            try:
                found = read_keys(await self.load(), self.settings.accepted_algorithms)
            except (OSError, ValueError, RecursionError, httpx.HTTPError, JoseError) as error:
                log.warning("cannot fetch the keys of %s: %s", self.settings.issuer, error)
                return False
            if [key.as_dict(private=False) for key in found] != [
                key.as_dict(private=False) for key in self.keys
            ]:
                self.keys = found
                self.generation += 1
            self.at = now
            return True

    async def load(self) -> bytes:
        """The document. Raises ``OSError``, ``ValueError`` and ``httpx.HTTPError``."""
        where = self.settings.jwks
        if "://" not in where:
            return await asyncio.to_thread(read_file, where)
        parts = bytearray()
        # A new client reads the authorities of the system: 50 ms, which the loop must not take.
        client = await asyncio.to_thread(self.client)
        async with asyncio.timeout(FETCH_SECONDS), client:  # noqa: SIM117
            async with client.stream("GET", where, follow_redirects=False) as answer:
                if answer.status_code != 200:
                    raise ValueError(f"status {answer.status_code}")
                async for part in answer.aiter_bytes():
                    parts += part
                    if len(parts) > MOST_OCTETS:
                        raise ValueError("the document is too large")
        return bytes(parts)

    def pick(self, token: Any) -> Key:
        """The key for a token (called by joserfc). Raises ``UnknownKey``."""
        headers = token.headers()
        wanted = headers.get("kid")
        if self.settings.secret:
            return self.keys[0]
        found = [key for key in self.keys if wanted is None or key.kid == wanted]
        fitting = [key for key in found if fits(key, headers.get("alg"))]
        if len(fitting) == 1 or (fitting and wanted is not None):
            return fitting[0]
        raise UnknownKey


def make_client() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=FETCH_SECONDS, trust_env=False)


def read_file(path: str) -> bytes:
    if os.stat(path).st_size > MOST_OCTETS:
        raise ValueError("the document is too large")
    with open(path, "rb") as file:
        return file.read(MOST_OCTETS)


KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


def fits(key: Key, algorithm: Any) -> bool:
    """Whether the key is of the algorithm's family and for signatures."""
    if not isinstance(algorithm, str) or key.key_type != KINDS.get(algorithm[:2]):
        return False
    said = key.get("alg")
    return key.get("use") in (None, "sig") and said in (None, algorithm)


def read_keys(document: bytes, algorithms: list[str]) -> list[Key]:
    """The usable public keys of a JWKS. Others (shared secrets, unknown curves) are ignored. Raises
    ``ValueError`` if there are none."""
    parsed = json.loads(document)
    if not isinstance(parsed, dict) or not isinstance(parsed.get("keys"), list):
        raise ValueError("not a JSON Web Key Set")
    found: list[Key] = []
    for one in parsed["keys"][:MOST_KEYS]:
        try:
            (key,) = KeySet.import_key_set({"keys": [one]}).keys
        except (JoseError, ValueError, TypeError, KeyError, AttributeError):
            continue
        if any(fits(key, algorithm) for algorithm in algorithms):
            found.append(key)
    if not found:
        raise ValueError("the set has no key that can be used")
    return found
