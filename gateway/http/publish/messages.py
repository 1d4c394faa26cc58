"""Publish: ``POST`` to a queue, an exchange or an address, or with the address in the message.

A bare ASGI endpoint: for a plain body with metadata in fields, the answer costs little more than
reading the request. Everything that can be refused without the body is refused before the body is
read. Any other request is a full publish (``full_publish.py``).
"""

from collections.abc import Awaitable
from typing import NamedTuple

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from gateway.bodies import Body
from gateway.bridge.waiting import know
from gateway.errors import Refusal
from gateway.http import problems
from gateway.http.access.principal import Principal
from gateway.http.context import Context
from gateway.http.fields import BadField
from gateway.http.problems import Problem, no_vhost, of_refusal
from gateway.http.publish.addresses import Node, Target
from gateway.http.publish.bodies import Budget, read_body, read_length
from gateway.http.publish.full_publish import Finder, FullPublish
from gateway.http.publish.preferences import needs_full_publish
from gateway.http.publish.publisher import PendingPublish
from gateway.http.publish.results import (
    Answer,
    accepted_answer,
    has_form_type,
    problem_answer,
    problem_of,
    warned_answer,
)
from gateway.http.publish.templates import Pairs, Prepared, metadata_of, prepare
from gateway.http.request_parameters import authenticate, existing_vhost, vhost_of
from gateway.message import Message


class Published(NamedTuple):
    """A plain publish that was handed to the broker."""

    pending: PendingPublish
    prepared: Prepared
    vhost: str
    target: Target


class PublishEndpoint:
    """One of the publish routes. ``find`` reads the target from path and query; its result is
    ``None`` where each message names its target."""

    def __init__(
        self,
        context: Context,
        full_publish: FullPublish,
        name: str,
        find: Finder,
        plain: bool = True,
    ) -> None:
        self.context = context
        self.dependencies = dependencies = context.dependencies
        self.broker = dependencies.broker
        self.publisher = context.publisher
        self.counters = context.counters
        self.full_publish = full_publish
        self.find = find
        self.plain = plain
        self.budget: Budget = full_publish.budget
        self.__name__ = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        fields = scope["headers"]
        if needs_full_publish(fields) or not self.plain:
            await self.full_publish(scope, receive, send, self.find)
            return
        length = next((value for name, value in fields if name == b"content-length"), b"0")
        answer = await self.answer(scope, receive, authenticate(self.context, scope), length)
        if answer is not None:
            status, headers, body = answer
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    async def answer(
        self,
        scope: Scope,
        receive: Receive,
        caller: Awaitable[Principal],
        length: bytes,
        node: Node | None = None,
    ) -> Answer | None:
        """The answer to a plain publish; ``None`` if the client has disconnected: then nothing was
        published. ``length``: Content-Length. ``node``: what the path names, if it has been read.
        Hot."""
        broker, publisher, dependencies = self.broker, self.publisher, self.dependencies
        settings = dependencies.settings
        try:
            principal = await caller
            if node is None:
                path = scope["path_params"]
                vhost = vhost_of(broker, path["vhost"])
                target = self.find(path, scope["query_string"])
                assert target is not None
            else:
                vhost, target = existing_vhost(broker, node.vhost), node.target
            if vhost in broker.facades:
                await self.know(vhost, target)
            limit = settings.max_body_octets
            known = read_length(length, limit)
            narrowed = principal.rights is not None or target.route
            if narrowed:
                target.permit(principal, vhost)
            dependencies.begin_turn()  # for the time in the id
            prepared = prepare(metadata_of(scope["headers"]), broker.state.now)
            publisher.check_open(vhost)
            body = await read_body(receive, known, limit, self.budget, settings, dependencies.spool)
            message = message_of(prepared, target, body)
            if narrowed:
                target.permit(principal, vhost, message)
            pending = publisher.publish(vhost, principal.user, message)
            if pending.accepted is None:
                await publisher.wait(pending, publisher.seconds)
            return self.conclude(Published(pending, prepared, vhost, target))
        except (Problem, Refusal, BadField) as error:
            # Without a variable: it would make a cycle with the traceback.
            hidden = "route" in scope.get("path_params", ())
            return problem_answer(self.as_problem(error, hidden), scope["path"])
        except ClientDisconnect:
            return None

    def publish_now(
        self, node: Node, principal: Principal, given: Pairs, body: bytes
    ) -> Published | Answer:
        """Hand a message that is here as a whole to the broker, for a caller without narrowed
        rights; the answer, if it is refused. Hot."""
        publisher, target, vhost = self.publisher, node.target, node.vhost
        try:
            if vhost not in self.broker.vhosts:
                raise no_vhost(vhost)
            publisher.begin()
            try:
                prepared = prepare(given, self.broker.state.now)
                publisher.check_open(vhost)
                pending = PendingPublish(publisher.meter)
                channel = publisher.channel(vhost, principal.user)
                channel.publish(message_of(prepared, target, body), pending)
            finally:
                publisher.end()
            return Published(pending, prepared, vhost, target)
        except (Problem, Refusal, BadField) as error:
            return problem_answer(self.as_problem(error), node.path)

    def answer_now(self, published: Published, path: str) -> Answer:
        """The answer to a publish whose outcome is known, or will not be waited for. Hot."""
        try:
            return self.conclude(published)
        except Problem as error:
            return problem_answer(self.as_problem(error), path)

    def conclude(self, published: Published) -> Answer:
        """The answer to an accepted publish. Raises ``Problem`` for any other."""
        pending, prepared, vhost, target = published
        if not pending.accepted or pending.condition is not None:
            raise self.failure(pending, vhost, target)
        self.counters.published[vhost] += 1
        now = self.broker.state.now
        answer = warned_answer if has_form_type(prepared.header) else accepted_answer
        return answer(prepared.message_id, target.address, pending.durability, now)

    async def know(self, vhost: str, target: Target) -> None:
        """Look the nodes of a target up at the upstream."""
        turn = self.dependencies.turn
        await know(self.broker, turn, vhost, "exchange", target.exchange)
        if target.queue:
            await know(self.broker, turn, vhost, "queue", target.key)

    def as_problem(self, error: Problem | Refusal | BadField, hidden: bool = False) -> Problem:
        if isinstance(error, BadField):
            return Problem(problems.INVALID_FIELD, str(error), field=error.name)
        if isinstance(error, Refusal):
            error = of_refusal(error, hidden)
        error.retry_after = max(error.retry_after, self.dependencies.settings.retry_after_seconds)
        return error

    def failure(self, pending: PendingPublish, vhost: str, target: Target) -> Problem:
        """The ``Problem`` of a publish that was returned, rejected or not confirmed."""
        if pending.condition is not None:
            self.counters.returned[vhost] += 1
        problem = problem_of(pending, target, self.dependencies.settings.confirm_seconds, False)
        assert problem is not None
        return problem


def message_of(prepared: Prepared, target: Target, body: Body) -> Message:
    return Message(
        prepared.dialect,
        prepared.header,
        body,
        target.exchange,
        target.key,
        prepared.essentials,
    )
