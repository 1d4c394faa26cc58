"""Bearer tokens: JWTs (RFC 9068, RFC 8725) of one issuer for one audience.

Only algorithms of the configured family are accepted, so a public key is never used as a shared
secret and ``none`` is rejected. Keys come from the configuration; of the key parameters in a token
only the key id is used.
"""

import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError

from gateway.broker.access import Access
from gateway.config.web import BearerSettings
from gateway.http.access.keys import Keys, UnknownKey
from gateway.http.access.principal import BadToken, Principal
from gateway.http.access.rights import BadRights, Right, of_details, of_scope

MOST_OCTETS = 16_384
MOST_KEPT = 4096
TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})


class Bearer:
    """Turns tokens into principals. ``clock`` gives seconds since 1970."""

    def __init__(
        self, settings: BearerSettings, access: Access, clock: Callable[[], float], keys: Keys
    ) -> None:
        self.settings = settings
        self.access = access
        self.clock = clock
        self.keys = keys
        self.kept: OrderedDict[bytes, tuple[int, Principal]] = OrderedDict()
        """Verified tokens by digest, with the generation of keys and the principal."""

    async def check(self, token: bytes) -> Principal:
        """The principal of a token. Raises ``BadToken`` and, if no keys are available,
        ``Problem``."""
        await self.keys.fresh(self.clock())
        digest = hashlib.sha256(token).digest()
        kept = self.kept.get(digest)
        if kept is not None and kept[0] == self.keys.generation:
            principal = kept[1]
            expires = principal.expires
            if expires is None or self.clock() >= expires:
                raise BadToken("the token has expired")
            if self.access.user(principal.user) is None:
                raise BadToken("the user of the token is unknown here")
            return principal
        try:
            header, claims = self.decode(token)
        except UnknownKey:
            if not await self.keys.refresh(self.clock()):
                raise BadToken("no key of the issuer fits the token") from None
            try:
                header, claims = self.decode(token)
            except UnknownKey:
                raise BadToken("no key of the issuer fits the token") from None
        principal = self.read(header, claims)
        self.kept[digest] = (self.keys.generation, principal)
        if len(self.kept) > MOST_KEPT:
            self.kept.popitem(last=False)
        return principal

    def decode(self, token: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
        """Header and claims, if the signature is valid. Raises ``UnknownKey``."""
        if len(token) > MOST_OCTETS or token.count(b".") != 2:
            raise BadToken("not a signed token")
        try:
            found = jwt.decode(token, self.keys.pick, algorithms=self.settings.accepted_algorithms)
        except UnknownKey:
            raise
        except (JoseError, ValueError, TypeError, KeyError, RecursionError):
            raise BadToken("the token is malformed or its signature is wrong") from None
        return dict(found.header), dict(found.claims)

    def read(self, header: dict[str, Any], claims: dict[str, Any]) -> Principal:
        settings = self.settings
        kind = header.get("typ", "JWT")
        if not isinstance(kind, str) or kind.lower() not in TYPES:
            raise BadToken("the token is of a type that is no access token")
        if "cnf" in claims:
            raise BadToken("tokens that are bound to a key of their holder are not supported")
        self.check_claims(claims)
        subject = claims.get("sub", claims.get("client_id", ""))
        user = self.user_of(claims)
        if not isinstance(subject, str) or user is None:
            raise BadToken("the user of the token is unknown here")
        return Principal(
            user,
            "bearer",
            f"{settings.issuer} {subject}",
            float(claims["exp"]) + settings.leeway_seconds,
            self.rights_of(claims),
        )

    def check_claims(self, claims: dict[str, Any]) -> None:
        settings, now = self.settings, self.clock()
        for name in ("exp", "nbf", "iat"):
            value = claims.get(name, 0)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise BadToken(f"{name} is not a number")
            if not math.isfinite(value) or abs(value) > 2**53:
                raise BadToken(f"{name} is no time")
        if claims.get("iss") != settings.issuer:
            raise BadToken("the token is of another issuer")
        audience = claims.get("aud")
        if isinstance(audience, str):
            audience = [audience]
        if not isinstance(audience, list) or settings.audience not in audience:
            raise BadToken("the token is for another audience")
        if "exp" not in claims or now >= claims["exp"] + settings.leeway_seconds:
            raise BadToken("the token has expired")
        if now < claims.get("nbf", 0) - settings.leeway_seconds:
            raise BadToken("the token is not valid yet")

    def user_of(self, claims: dict[str, Any]) -> str | None:
        """The broker's user: named by a claim, or the configured user."""
        settings = self.settings
        name: Any = settings.user
        if settings.user_claim and settings.user_claim in claims:
            name = claims[settings.user_claim]
        if not isinstance(name, str) or self.access.user(name) is None:
            return None
        return name

    def rights_of(self, claims: dict[str, Any]) -> tuple[Right, ...]:
        """The rights of a token. A token without rights for this gateway permits nothing."""
        scope = claims.get("scope", claims.get("scp", ""))
        if isinstance(scope, list):
            scope = " ".join([one for one in scope if isinstance(one, str)])
        if not isinstance(scope, str):
            raise BadToken("scope is not a string")
        try:
            rights = of_scope(scope, self.settings.scope_prefix)
            rights += of_details(claims.get("authorization_details", []))
        except BadRights as error:
            raise BadToken(str(error)) from None
        return tuple(rights)
