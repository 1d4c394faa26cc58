"""Plain publishes answered within the read that brought them, without a scope, a task or a cycle.

``direct_protocol.py`` asks here for each request whose head has been read, and once more when its
body is here as well. A head that comes again is known by a digest of its octets and not parsed
again; each message has its own id all the same. Whatever is not plain, and credentials that were
not verified before, go the ordinary way (``application.py``): nothing has happened to them yet. A
message that waits for the disk is answered as soon as it is there.
"""

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from time import perf_counter
from typing import Any, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from gateway.broker.access import User
from gateway.http.access.authenticator import MOST_AUTHORIZATION
from gateway.http.access.credential_cache import AMBIENT
from gateway.http.access.principal import Principal
from gateway.http.admin.rabbit_direct import PATH, RabbitPublish, read_rabbit_node
from gateway.http.application import Application
from gateway.http.fast_path import FULL_PUBLISH_FIELDS, LONGEST, read_node
from gateway.http.observe.observation import GOOD_ID
from gateway.http.problems import INTERNAL, INTERNAL_TEXT, Problem
from gateway.http.publish.addresses import Node
from gateway.http.publish.messages import Published
from gateway.http.publish.preferences import FORMATS
from gateway.http.publish.results import Answer, problem_answer
from gateway.http.publish.templates import Pairs as Given
from gateway.http.publish.templates import metadata_of
from gateway.net.loopback import PROXIED

log = logging.getLogger("gateway.http")

MOST_HEADS = 512
LONGEST_HEAD = 4096
MOST_SEEN = 8192
NOT_PLAIN = FULL_PUBLISH_FIELDS | AMBIENT | {b"traceparent", b"upgrade"}
Pairs = list[tuple[bytes, bytes]]


@dataclass(slots=True)
class Head:
    """The content of the head of a plain publish. It holds no credentials, only their digest."""

    node: Node
    endpoint: "Endpoint"
    route: str
    length: int
    credentials: bytes
    request_id: bytes | None
    given: Given
    """The metadata of the message."""
    origin: Mapping[bytes, bytes]
    """Those that say where the request comes from."""
    query: bytes
    user: User | None = None
    """The user as it was when the credentials were last found good."""
    principal: Principal | None = None
    """The caller that they stand for."""
    peer: str = ""
    """The address that it came from then."""


class Endpoint(Protocol):
    """Publishes of one form. Each method gives ``None`` for requests that go the ordinary way."""

    def publish_now(
        self, node: Node, principal: Principal, given: Given, body: bytes, /
    ) -> Published | Answer | None:
        """Hand a message to the broker."""
        ...

    def answer_now(self, published: Published, path: str, /) -> Answer:
        """The answer to one whose outcome is known, or will not be waited for."""
        ...


class DirectPublish:
    """For the listener that names queues and exchanges. ``heads`` are those that came at least
    twice, by digest."""

    def __init__(self, app: Application) -> None:
        self.observe = app.observe
        self.app = app
        self.credentials = app.fast_path.credentials
        self.access = self.credentials.access
        self.endpoints: dict[str, Endpoint] = {**app.fast_path.endpoints}
        self.routes = {noun: app.observe.labels[each] for noun, each in self.endpoints.items()}
        self.takes_rabbit = not app.front.apart
        self.endpoints["rabbit"] = RabbitPublish(app.state.context)
        self.routes["rabbit"] = PATH
        self.broker = app.state.context.broker
        self.publisher = app.state.context.publisher
        self.key = secrets.token_bytes(32)
        self.heads: dict[bytes, Head] = {}
        self.seen: set[bytes] = set()
        self.defaults: tuple[Pairs, bytes] = ([], b"")
        self.take_settings()
        app.state.context.on_reload.append(self.take_settings)

    def take_settings(self) -> None:
        """As ``Front.take_settings``, and after it. Where each request needs more (a quota, a span,
        a line in the log) none is plain."""
        context, observe = self.app.state.context, self.observe
        settings = context.settings
        usual = (
            settings.raw_nodes
            and not context.authenticator.quotas.active
            and not settings.trusted_proxies
            and not observe.log_requests
            and observe.spans is None
        )
        self.longest = min(settings.spool_octets, settings.max_body_octets) if usual else -1
        self.heads.clear()
        self.tail = b"".join([b"%b: %b\r\n" % pair for pair in self.app.front.own])

    # --- heads ----------------------------------------------------------------------------------

    def known(self, octets: bytes) -> Head | None:
        """The head of these octets, if it came before. Hot."""
        return self.heads.get(blake2b(octets, digest_size=32, key=self.key).digest())

    def digest(self, octets: bytes) -> bytes:
        """Stands for octets that hold credentials, and are therefore not kept."""
        return blake2b(octets, digest_size=32, key=self.key).digest()

    def read(self, method: bytes, url: bytes, pairs: Pairs) -> Head | None:
        """``None`` for anything but a plain publish. Hot."""
        if method != b"POST" or b"#" in url or len(url) > LONGEST:
            return None
        raw, _, query = url.partition(b"?")
        if raw.startswith(b"/v1/"):
            node = read_node(raw, query)
        elif self.takes_rabbit and not query:
            node = read_rabbit_node(raw)
        else:
            return None
        fields = dict(pairs)
        if (
            node is None
            or b"access_token" in query
            or len(fields) != len(pairs)
            or not fields.keys().isdisjoint(NOT_PLAIN)
            or fields.get(b"content-type", b"")[:28].lower().startswith(FORMATS)
        ):
            return None
        given = fields.get(b"authorization")
        length = fields.get(b"content-length", b"0")
        if given is None or len(given) > MOST_AUTHORIZATION or not length.isdigit():
            return None
        size = int(length[:20])
        if size > self.longest:
            return None
        request_id = fields.get(b"x-request-id")
        if request_id is not None and not GOOD_ID.fullmatch(request_id):
            request_id = None
        endpoint = self.endpoints[node.noun]
        return Head(
            node,
            endpoint,
            self.routes[node.noun],
            size,
            self.credentials.digest(given),
            request_id,
            metadata_of(pairs),
            {name: value for name, value in pairs if name == b"host" or name in PROXIED},
            query,
        )

    def remember(self, octets: bytes, head: Head) -> None:
        """Keep a head that has come twice: one with an id of its own does not come again."""
        digest = self.digest(octets)
        if digest not in self.seen:
            if len(self.seen) >= MOST_SEEN:
                self.seen.clear()
            self.seen.add(digest)
            return
        if len(self.heads) >= MOST_HEADS:
            self.heads.clear()
        self.heads[digest] = head

    # --- answers --------------------------------------------------------------------------------

    def publish(self, head: Head, body: bytes, client: Any) -> Answer | Published | None:
        """The answer, or the message that waits for its outcome; ``None``: nothing has happened.
        ``client``: address of the peer. Hot."""
        if head.node.vhost in self.broker.facades:
            return None
        user, principal, access = head.user, head.principal, self.access
        if (
            user is None
            or principal is None
            or access.user(user.name) is not user
            or access.refresh is not None
            or client is None
            or client[0] != head.peer
        ):
            principal = self.verify(head, client)
            if principal is None:
                return None
        try:
            done = head.endpoint.publish_now(head.node, principal, head.given, body)
        except Exception:
            log.exception("internal error in a publish")
            return problem_answer(Problem(INTERNAL, INTERNAL_TEXT), head.node.path)
        if not isinstance(done, Published):
            return done
        if done.pending.accepted is None and done.pending.condition is None:
            return done
        return self.answer(head, done)

    def verify(self, head: Head, client: Any) -> Principal | None:
        """The caller, if the credentials are known to be good. It is remembered for requests from
        the same address, as long as nothing of the user is changed."""
        scope = {"client": client, "query_string": head.query}
        principal = self.credentials.find(head.credentials, scope, head.origin)
        if principal is None or principal.rights is not None:
            return None
        if client is not None:
            head.user, head.peer = self.access.user(principal.user), client[0]
            head.principal = principal
        return principal

    def answer(self, head: Head, published: Published) -> Answer:
        """The answer to a publish whose outcome is known, or will not be waited for. Hot."""
        try:
            return head.endpoint.answer_now(published, head.node.path)
        except Exception:
            log.exception("internal error in the answer to a publish")
            return problem_answer(Problem(INTERNAL, INTERNAL_TEXT), head.node.path)

    def octets(self, head: Head, answer: Answer, defaults: Pairs, began: float) -> bytes:
        """A whole response. ``defaults``: the server's own fields. Hot."""
        latest, lines = self.defaults
        if latest is not defaults:
            lines = b"".join([b"%b: %b\r\n" % pair for pair in defaults])
            self.defaults = (defaults, lines)
        status, headers, body = answer
        observe = self.observe
        observe.count("POST", head.route, status, perf_counter() - began)
        return b"%b%b%b\r\n%bx-request-id: %b\r\n\r\n%b" % (
            STATUS_LINE[status],
            lines,
            b"\r\n".join([name + b": " + value for name, value in headers]),
            self.tail,
            head.request_id or observe.new_id(),
            bytes(body),
        )
