"""The fast path of a plain publish: from the server to the broker and back without the framework.

A plain publish is ``POST`` of a body, with metadata in fields, to
``/v1/{vhost}/queues/{queue}/messages`` or ``/exchanges/{exchange}/``. Routing and Starlette's error
layers cost more than the publish, so ``Application`` (``application.py``) offers requests here
first. The publish itself is ``PublishEndpoint.answer``, as behind the framework; only the
credentials and the nodes of paths come from caches.
"""

from collections.abc import Awaitable, Mapping
from functools import lru_cache

from starlette.types import ASGIApp, Receive, Scope

from gateway.http.access.credential_cache import CredentialCache
from gateway.http.access.front import Front
from gateway.http.observe.observation import Observation
from gateway.http.path_segments import decode_segment
from gateway.http.problems import Problem
from gateway.http.publish.addresses import Node, Target, queue_segment, routing_key
from gateway.http.publish.messages import PublishEndpoint
from gateway.http.publish.preferences import FORMATS, MARKS
from gateway.http.publish.results import Answer

LONGEST = 2400
"""Octets of path and query: room for the longest names, percent-encoded."""
FULL_PUBLISH_FIELDS = MARKS - {b"content-type"} | {b"transfer-encoding"}


@lru_cache(4096)
def read_node(raw: bytes, query: bytes) -> Node | None:
    """The node whose messages a path is for; ``None`` for any other path, and any mistake in it."""
    path = raw.decode("ascii", "replace")
    parts = path.split("/")
    if len(parts) != 6 or parts[0] or parts[1] != "v1" or parts[5] != "messages":
        return None
    _, _, vhost, noun, name, _ = parts
    if not vhost or not name:
        return None
    try:
        if noun == "queues" and not query:
            return Node(path, noun, decode_segment(vhost), queue_segment(name))
        if noun == "exchanges":
            target = Target(decode_segment(name), routing_key(query), False)
            return Node(path, noun, decode_segment(vhost), target)
    except Problem:
        pass
    return None


class FastPath:
    """Finds the publishes to queues and exchanges among all requests, and answers plain ones."""

    def __init__(
        self,
        front: Front,
        credentials: CredentialCache,
        endpoints: Mapping[str, PublishEndpoint],
    ) -> None:
        """``endpoints``: by the noun in their path."""
        self.front = front
        self.credentials = credentials
        self.endpoints = endpoints

    def find(self, scope: Scope) -> Node | None:
        """The node, if this is a publish to one. Hot: every request pays for it."""
        if scope["method"] != "POST" or scope.get("root_path"):
            return None
        raw, query = scope.get("raw_path"), scope["query_string"]
        if raw is None or len(raw) + len(query) > LONGEST:
            return None
        node = read_node(raw, query)
        return node if node is not None and self.front.authenticator.names_nodes(scope) else None

    def endpoint(self, node: Node, scope: Scope) -> ASGIApp:
        """The endpoint of a publish; ``scope`` gets the keys that routing would add."""
        _, _, vhost, noun, name, _ = node.path.split("/")
        scope["path"] = node.path
        scope["path_params"] = {"vhost": vhost, noun[:-1]: name}
        endpoint = scope["endpoint"] = self.endpoints[noun]
        return endpoint

    def is_plain(self, observed: Observation, scope: Scope) -> bool:
        """Whether a publish is a body and its metadata, each field given once. Hot."""
        fields = observed.fields
        return (
            len(fields) == len(scope["headers"])
            and fields.keys().isdisjoint(FULL_PUBLISH_FIELDS)
            and (self.front.origins is None or b"origin" not in fields)
            and observed.span is None
            and not fields.get(b"content-type", b"")[:28].lower().startswith(FORMATS)
        )

    def answer(
        self, node: Node, scope: Scope, fields: Mapping[bytes, bytes], receive: Receive
    ) -> Awaitable[Answer | None]:
        """The answer to a plain publish; ``None`` if the client has disconnected. Hot."""
        endpoint = scope["endpoint"] = self.endpoints[node.noun]
        scope["path"] = node.path
        caller = self.credentials.authenticate(scope, fields)
        length = fields.get(b"content-length", b"0")
        return endpoint.answer(scope, receive, caller, length, node)
