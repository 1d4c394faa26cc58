"""Authentication: every kind of credential, and its permitted uses.

An invalid credential is always a 401, never treated as a missing one.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.types import Scope

from gateway.broker.access import Access
from gateway.broker.broker import FIRST_USER
from gateway.config.web import AccessSettings, BearerSettings
from gateway.http import problems
from gateway.http.access.catalogue import Catalogue
from gateway.http.access.origins import Origins
from gateway.http.access.passwords import FROM_ELSEWHERE, WRONG, checked, fingerprint, read_basic
from gateway.http.access.principal import BadToken, Principal
from gateway.http.access.quotas import Quotas
from gateway.http.access.sessions import Records, Sessions, holds
from gateway.http.access.tickets import Positions, Tickets
from gateway.http.dependencies import HttpDependencies
from gateway.http.problems import Problem, challenge
from gateway.net.loopback import LOCAL, is_loopback, peer_is_loopback
from gateway.net.passwords import Passwords

if TYPE_CHECKING:
    from gateway.http.access.bearer import Bearer

__all__ = ["Authenticator", "is_loopback", "peer_is_loopback"]

PRINCIPAL = "gateway.principal"
"""Key in a scope: the principal, if a layer above the endpoint has authenticated it."""
PLANE = "gateway.plane"
"""Key in a scope: "admin" on the admin listener."""
NO_NODES = "queues and exchanges cannot be named on this listener; use a declared route"
HOST_COOKIE = "__Host-amqp-gateway"
PLAIN_COOKIE = "amqp-gateway-session"
MOST_AUTHORIZATION = 20_000


class Authenticator:
    """Turns the credentials of a request into a ``Principal``."""

    def __init__(
        self, dependencies: HttpDependencies, positions: Callable[[str], Positions | None]
    ) -> None:
        """``positions`` opens a cursor of event streams, for tickets; it returns ``None`` for an
        unknown one."""
        self.dependencies = dependencies
        self.access = dependencies.broker.access
        self.settings: AccessSettings = dependencies.settings
        settings = self.settings
        self.clock: Callable[[], float] = dependencies.clock
        store = dependencies.broker.state.store
        self.passwords = dependencies.passwords or Passwords(
            self.access, self.now, settings, turn=dependencies.turn
        )
        sessions = Records("http-session", store, dependencies, settings.session.max_sessions)
        self.sessions = Sessions(sessions, self.access, self.now)
        tickets = Records("http-ticket", store, dependencies, settings.session.max_sessions)
        self.kept = (sessions, tickets)
        self.tickets = Tickets(
            tickets,
            sessions,
            self.access,
            self.now,
            settings.tickets.seconds,
            settings.tickets.idle_seconds,
            positions,
        )
        self.catalogue = Catalogue(dependencies.routes)
        self.take_settings()

    def take_settings(self) -> None:
        """Derive what is derived from settings, at the start and when they have changed. Quotas
        begin anew."""
        dependencies, settings, bearer = self.dependencies, self.settings, self.settings.bearer
        self.bearer = bearer_reader(bearer, self.access, self.now) if bearer.issuer else None
        for records in self.kept:
            records.most = settings.session.max_sessions
        self.tickets.first_seconds = settings.tickets.seconds
        self.tickets.idle_seconds = settings.tickets.idle_seconds
        self.origins = Origins(settings.origins, settings.origin_credentials)
        self.quotas = Quotas(settings, dependencies.routes, self.now, dependencies.broker.vhosts)
        self.cookie_names = (
            (HOST_COOKIE, PLAIN_COOKIE) if settings.session.plain_http else (HOST_COOKIE,)
        )

    def now(self) -> float:
        return self.clock()

    def names_nodes(self, scope: Scope) -> bool:
        """Whether queues and exchanges can be named on the listener that a request came to."""
        return self.settings.raw_nodes or scope.get(PLANE) == "admin"

    async def authenticate(self, scope: Scope) -> Principal:
        """The principal of a request. Raises ``Problem``: 401, or 429 when a quota of the caller is
        exhausted."""
        found: Principal | None = scope.get(PRINCIPAL)
        if found is None:
            found = await self.identify(scope)
        if self.quotas.active and "gateway.limits" not in scope:
            self.quotas.charge(found, scope)
        return found

    async def identify(self, scope: Scope) -> Principal:
        authorization = cookie = origin = site = mode = None
        for name, value in scope["headers"]:
            if name == b"authorization":
                if authorization is not None:
                    raise self.challenge("The request has two credentials.")
                authorization = value
            elif name == b"cookie":
                cookie = value if cookie is None else cookie + b"; " + value
            elif name == b"origin":
                origin = value
            elif name == b"sec-fetch-site":
                site = value
            elif name == b"sec-fetch-mode":
                mode = value
        if b"access_token" in scope["query_string"]:
            raise Problem(problems.INVALID, "an access token must not be in a URL")
        if authorization is None:
            return self.of_cookie(scope, cookie, origin, site, mode)
        scheme, _, given = authorization.partition(b" ")
        scheme = scheme.lower()
        if len(given) > MOST_AUTHORIZATION:
            raise self.challenge("The credentials are too long.")
        if scheme == b"basic":
            # A browser sends a remembered password by itself.
            self.origins.check_ambient(scope, origin, site, mode)
            return await self.of_password(scope, given)
        if scheme == b"bearer" and self.bearer is not None:
            try:
                return await self.bearer.check(given.strip())
            except BadToken as error:
                raise self.challenge(str(error), "invalid_token") from None
        raise self.challenge()

    async def of_password(self, scope: Scope, given: bytes) -> Principal:
        user, password = read_basic(given)
        client = scope.get("client")
        near = peer_is_loopback(scope)
        wrong = FROM_ELSEWHERE if user == FIRST_USER and not near else WRONG
        peer = client[0] if client else LOCAL
        found = await checked(self.passwords, user, password, peer, wrong)
        if found.loopback_only and not near:
            raise self.challenge(wrong)
        return Principal(user, proof=(fingerprint(found.verifier),))

    def of_cookie(
        self,
        scope: Scope,
        cookie: bytes | None,
        origin: bytes | None,
        site: bytes | None,
        mode: bytes | None,
    ) -> Principal:
        given = self.session_of(scope, cookie)
        if given is None:
            raise self.challenge()
        self.origins.check_ambient(scope, origin, site, mode, session=True)
        if scope["method"] not in ("GET", "HEAD") and origin is None and site != b"same-origin":
            raise Problem(
                problems.FORBIDDEN, "with a cookie this needs an Origin or Sec-Fetch-Site field"
            )
        found = self.sessions.find(given)
        known = None if found is None else self.access.user(found.user)
        if found is None or known is None:
            raise self.challenge("The session has ended.")
        if known.loopback_only and not peer_is_loopback(scope):
            raise self.challenge("The session has ended.")
        return found

    def session_of(self, scope: Scope, cookie: bytes | None) -> str | None:
        """The session id among cookies. Raises ``Problem`` if there are several."""
        if cookie is None:
            return None
        found = []
        for part in cookie.decode("latin-1").split(";"):
            name, _, value = part.strip().partition("=")
            if name in self.cookie_names and (name == HOST_COOKIE or plain_allowed(scope)):
                found.append(value)
        if len(found) > 1:
            raise self.challenge("The request has two session cookies.")
        return found[0] if found else None

    def challenge(self, detail: str = "", error: str = "") -> Problem:
        """A 401 with a challenge for each available scheme."""
        problem = challenge(detail) if detail else challenge()
        if self.bearer is not None:
            bearer = self.bearer.settings
            parameters = ['realm="amqp-gateway"']
            if error:
                parameters.append(f'error="{error}"')
            if bearer.resource:
                parameters.append(f'resource_metadata="{metadata_url(bearer.resource)}"')
            problem.headers["www-authenticate"] += ", Bearer " + ", ".join(parameters)
        return problem

    def still_good(self, principal: Principal, now: float | None = None) -> bool:
        """Whether a stream that this caller opened may go on. ``now`` is seconds since 1970."""
        moment = self.clock() if now is None else now
        if not holds(principal, self.access, self.sessions.records, moment):
            return False
        return all(
            self.tickets.records.get(proof[7:]) is not None
            for proof in principal.proof
            if proof.startswith("ticket:")
        )

    async def close(self) -> None:
        self.passwords.close()


def plain_allowed(scope: Scope) -> bool:
    """Whether the cookie without ``__Host-`` is allowed: plain http on this machine."""
    return scope.get("scheme") == "http" and peer_is_loopback(scope)


def metadata_url(resource: str) -> str:
    """URL of the metadata: the well-known part is between host and path (RFC 9728, section 3.1)."""
    scheme, _, rest = resource.partition("://")
    host, slash, path = rest.partition("/")
    tail = slash + path if path else ""
    return f"{scheme}://{host}/.well-known/oauth-protected-resource{tail}"


def bearer_reader(settings: BearerSettings, access: Access, clock: Callable[[], float]) -> "Bearer":
    """The reader of bearer tokens. Its libraries are large and loaded only if tokens are
    accepted."""
    from gateway.http.access.bearer import Bearer
    from gateway.http.access.keys import Keys

    return Bearer(settings, access, clock, Keys(settings))
