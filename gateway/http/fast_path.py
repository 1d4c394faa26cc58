"""The fast path of a plain publish: from the server to the broker and back in one coroutine.

``POST`` of a body with metadata in fields to ``/v1/{vhost}/queues/{queue}/messages`` or
``/exchanges/{exchange}/``. The layers of the application (``Observe``, ``Front``, the router and
Starlette's error layers) cost more than the publish, so their work is done here in a line each,
with their own functions. The publish itself is ``PublishEndpoint.take``, as for all plain
publishes; any other request passes through the layers, untouched.
"""

from collections.abc import Mapping
from functools import lru_cache
from time import perf_counter
from typing import NamedTuple

from fastapi import FastAPI
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from gateway.errors import Refusal
from gateway.http.access.credential_cache import CredentialCache
from gateway.http.access.front import ALWAYS, Front
from gateway.http.access.gate import PLANE
from gateway.http.access.protocol import answer_whole
from gateway.http.access.quotas import LIMITS
from gateway.http.fields import BadField
from gateway.http.observe.layer import REQUEST_ID, Observe, trace_headers
from gateway.http.observe.trace import CURRENT, Trace, read_trace
from gateway.http.problems import INTERNAL, INTERNAL_TEXT, NOT_FOUND, Problem
from gateway.http.publish.addresses import Target, queue_segment, routing_key
from gateway.http.publish.bodies import read_length
from gateway.http.publish.messages import PublishEndpoint
from gateway.http.publish.preferences import FORMATS, MARKS
from gateway.http.publish.results import Answer, problem_answer
from gateway.http.segments import decode_segment

LONGEST = 2400
"""Octets of path and query: room for the longest names, percent-encoded."""
FULL_PUBLISH_FIELDS = MARKS - {b"content-type"} | {b"transfer-encoding"}


class Node(NamedTuple):
    """The node that a path names. ``path``: as it was sent, for problem documents. ``noun``:
    "queues" or "exchanges"."""

    path: str
    noun: str
    vhost: str
    target: Target


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
    """Takes plain publishes to queues and exchanges out of all requests."""

    def __init__(
        self,
        front: Front,
        observe: Observe,
        endpoints: Mapping[str, PublishEndpoint],
    ) -> None:
        self.observe = observe
        self.log_requests = observe.log_requests
        self.raw_nodes = front.raw_nodes
        self.origins = front.origins
        self.always = list(ALWAYS)
        if front.origins is not None:
            self.always.append((b"vary", b"Origin"))
        self.vhosts = front.gate.dependencies.broker.vhosts
        self.credentials = CredentialCache(front.gate)
        self.requests = front.counters.requests
        self.endpoints = {
            noun: (endpoint, observe.labels[endpoint]) for noun, endpoint in endpoints.items()
        }

    def find(self, scope: Scope) -> Node | None:
        """The node, if this is a request for here. Hot: every request pays for it."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope.get("root_path"):
            return None
        raw, query = scope.get("raw_path"), scope["query_string"]
        if raw is None or len(raw) + len(query) > LONGEST or self.observe.spans is not None:
            return None
        node = read_node(raw, query)
        if node is None or not (self.raw_nodes or scope.get(PLANE) == "admin"):
            return None
        return node

    async def take(self, node: Node, scope: Scope, receive: Receive, send: Send) -> bool:
        """Whether it was answered: if not, it has not been touched. Hot."""
        began = perf_counter()
        pairs: list[tuple[bytes, bytes]] = scope["headers"]
        fields = dict(pairs)
        if (
            len(fields) != len(pairs)
            or not FULL_PUBLISH_FIELDS.isdisjoint(fields)
            or (self.origins is not None and b"origin" in fields)
            or fields.get(b"content-type", b"")[:28].lower().startswith(FORMATS)
        ):
            return False
        endpoint, label = self.endpoints[node.noun]
        trace = read_trace(pairs) if b"traceparent" in fields else None
        token = None if trace is None else CURRENT.set(trace)
        request_id = self.observe.identify(fields.get(b"x-request-id"))
        status, ready = 500, began
        answer: Answer | None = None
        try:
            answer = await self.answer(endpoint, node, scope, fields, receive)
            status, ready = answer.status, perf_counter()
            headers = [*answer.headers, *self.always, *scope.get(LIMITS, ())]
            headers.append((b"x-request-id", request_id))
            if trace is not None:
                headers += trace_headers(trace)
            body = bytes(answer.body)
            if not answer_whole(scope, status, headers, body):
                await send({"type": "http.response.start", "status": status, "headers": headers})
                await send({"type": "http.response.body", "body": body})
        except ClientDisconnect:
            pass  # nobody is left to answer; nothing was published
        except Exception:
            if answer is None:
                internal = problem_answer(Problem(INTERNAL, INTERNAL_TEXT), node.path)
                headers = [*internal.headers, *self.always]
                await send({"type": "http.response.start", "status": status, "headers": headers})
                await send({"type": "http.response.body", "body": internal.body})
            raise  # for the server, which logs it
        finally:
            if token is not None:
                CURRENT.reset(token)
            self.requests["POST", label, status] += 1
            self.observe.measure(label, ready - began)
            if self.log_requests:
                self.tell(scope, label, status, began, answer, request_id, trace)
        return True

    async def answer(
        self,
        endpoint: PublishEndpoint,
        node: Node,
        scope: Scope,
        fields: Mapping[bytes, bytes],
        receive: Receive,
    ) -> Answer:
        try:
            caller = await self.credentials.authenticate(scope, fields)
            vhost = node.vhost
            if vhost not in self.vhosts:
                raise Problem(NOT_FOUND, f"no virtual host {vhost!r}")
            length = read_length(fields.get(b"content-length", b"0"), endpoint.limit)
            return await endpoint.take(
                caller, vhost, node.target, scope["headers"], receive, length
            )
        except (Problem, Refusal, BadField) as error:
            return problem_answer(endpoint.as_problem(error), node.path)

    def tell(
        self,
        scope: Scope,
        label: str,
        status: int,
        began: float,
        answer: Answer | None,
        request_id: bytes,
        trace: Trace | None,
    ) -> None:
        found = () if answer is None else answer.headers
        message_id = next((value for name, value in found if name == b"amqp-message-id"), b"")
        scope[REQUEST_ID] = request_id.decode()
        seconds = perf_counter() - began
        self.observe.tell(scope, label, status, seconds, message_id, trace)


class Application(FastAPI):
    """FastAPI, with the fast path in front of all its layers."""

    fast_path: FastPath

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        node = self.fast_path.find(scope)
        if node is None or not await self.fast_path.take(node, scope, receive, send):
            await super().__call__(scope, receive, send)
