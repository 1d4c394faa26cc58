"""Basic credentials that were verified before, by digest, so that a request costs no hashing.

A program sends the same ``Authorization`` with every request. Once it was good, its digest under a
key of this process stands for it: neither password nor field is kept, and an attacker cannot steer
the digest, so that the time of a look-up tells nothing. An entry is compared with the user as it is
now, and dropped if the password was changed or the user deleted.
"""

import secrets
from collections.abc import Mapping
from hashlib import blake2b

from starlette.types import Scope

from gateway.broker.access import Verifier
from gateway.http.access.authenticator import MOST_AUTHORIZATION, PRINCIPAL, Authenticator
from gateway.http.access.passwords import fingerprint
from gateway.http.access.principal import Principal
from gateway.http.access.quotas import LIMITS
from gateway.net.loopback import is_own_request

MOST_KEPT = 4096
AMBIENT = frozenset({b"cookie", b"origin", b"sec-fetch-site", b"sec-fetch-mode"})
"""Fields that indicate a browser, which sends a remembered password by itself."""


class CredentialCache:
    """Consulted before ``Authenticator.authenticate``."""

    def __init__(self, authenticator: Authenticator) -> None:
        self.authenticator = authenticator
        self.access = authenticator.access
        self.key = secrets.token_bytes(32)
        self.kept: dict[bytes, tuple[Verifier, Principal]] = {}

    async def of_request(self, scope: Scope) -> Principal:
        """The principal of a request that may repeat fields, or be authenticated by now. Raises
        ``Problem``."""
        headers = scope["headers"]
        fields = dict(headers)
        if PRINCIPAL in scope or LIMITS in scope or len(fields) != len(headers):
            return await self.authenticator.authenticate(scope)
        return await self.authenticate(scope, fields)

    async def authenticate(self, scope: Scope, fields: Mapping[bytes, bytes]) -> Principal:
        """The principal of a request. ``fields`` are its fields by name, without repetitions.
        Raises ``Problem``."""
        given = fields.get(b"authorization")
        if given is None or len(given) > MOST_AUTHORIZATION or not AMBIENT.isdisjoint(fields):
            return await self.authenticator.authenticate(scope)
        digest = self.digest(given)
        found = self.find(digest, scope, fields)
        if found is None:
            found = await self.authenticator.authenticate(scope)
            self.keep(digest, found)
        elif self.authenticator.quotas.active:
            self.authenticator.quotas.charge(found, scope)
        return found

    def digest(self, given: bytes) -> bytes:
        """Stands for the value of an ``Authorization`` field."""
        return blake2b(given, digest_size=32, key=self.key).digest()

    def find(self, digest: bytes, scope: Scope, fields: Mapping[bytes, bytes]) -> Principal | None:
        kept = self.kept.get(digest)
        if kept is None or b"access_token" in scope["query_string"]:
            return None
        if self.access.refresh is not None:
            self.access.refresh()
        verifier, principal = kept
        user = self.access.user(principal.user)
        if user is None or user.verifier != verifier:
            del self.kept[digest]
            return None
        return None if user.loopback_only and not is_own_request(scope, fields) else principal

    def keep(self, digest: bytes, principal: Principal) -> None:
        user = self.access.user(principal.user)
        if user is None or principal.scheme != "basic":
            return
        if principal.proof != (fingerprint(user.verifier),):
            return  # the password was changed meanwhile
        if len(self.kept) >= MOST_KEPT:
            self.kept.clear()
        self.kept[digest] = (user.verifier, principal)
