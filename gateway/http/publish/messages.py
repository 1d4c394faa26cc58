"""Publish: ``POST`` to a queue, an exchange or an address, or with the address in the message.

A bare ASGI endpoint: for a plain body with metadata in fields, the answer costs little more than
reading the request. Everything that can be refused without the body is refused before the body is
read. Whatever asks for more is a full publish (``full_publish.py``).
"""

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from gateway.errors import Refusal
from gateway.http import problems
from gateway.http.access.principal import Principal
from gateway.http.context import Context
from gateway.http.fields import BadField
from gateway.http.problems import Problem, of_refusal
from gateway.http.publish.addresses import Target
from gateway.http.publish.bodies import Budget, check_length, read_body
from gateway.http.publish.full_publish import Finder, FullPublish
from gateway.http.publish.preferences import Pairs, needs_full_publish
from gateway.http.publish.publisher import Ticket
from gateway.http.publish.results import Answer, accepted_answer, judge
from gateway.http.publish.templates import prepare
from gateway.http.request_parameters import authenticate, vhost_of
from gateway.message import Message


class PublishEndpoint:
    """One of the publish routes. ``find`` tells the target from path and query; it is ``None``
    where the message says it."""

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
        self.limit = dependencies.settings.max_body_octets
        self.__name__ = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            fields = scope["headers"]
            if needs_full_publish(fields) or not self.plain:
                await self.full_publish(scope, receive, send, self.find)
                return
            caller = await authenticate(self.context, scope)
            path = scope["path_params"]
            vhost = vhost_of(self.broker, path["vhost"])
            target = self.find(path, scope["query_string"])
            assert target is not None
            length = check_length(scope, self.limit)
            answer = await self.take(caller, vhost, target, fields, receive, length)
        except (Problem, Refusal, BadField) as error:
            problem = self.as_problem(error, "route" in scope["path_params"])
            await problem.response(scope["path"])(scope, receive, send)
            return
        except ClientDisconnect:
            return  # nobody is left to answer; nothing was published
        status, headers, body = answer
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def as_problem(self, error: Problem | Refusal | BadField, hidden: bool = False) -> Problem:
        if isinstance(error, BadField):
            return Problem(problems.INVALID_FIELD, str(error), field=error.name)
        if isinstance(error, Refusal):
            error = of_refusal(error, hidden)
        error.retry_after = max(error.retry_after, self.dependencies.settings.retry_after_seconds)
        return error

    async def take(
        self,
        caller: Principal,
        vhost: str,
        target: Target,
        fields: Pairs,
        receive: Receive,
        length: int,
    ) -> Answer:
        """Publish the body that comes, of ``length`` octets as far as is known. Raises
        ``Problem``, ``Refusal``, ``BadField`` and ``ClientDisconnect``. Hot."""
        narrowed = caller.rights is not None or target.route
        if narrowed:
            target.permit(caller, vhost)
        self.dependencies.begin_turn()  # for the time in the id
        prepared = prepare(fields, self.broker.state.now)
        if self.publisher.closed:
            raise Problem(problems.DRAINING, "the gateway is shutting down")
        if self.broker.blocked is not None:
            raise Problem(problems.BACKPRESSURE, f"publishers are paused: {self.broker.blocked}")
        dependencies = self.dependencies
        body = await read_body(
            receive, length, self.limit, self.budget, dependencies.settings, dependencies.spool
        )
        message = Message(
            prepared.dialect,
            prepared.header,
            body,
            target.exchange,
            target.key,
            prepared.essentials,
        )
        if narrowed:
            target.permit(caller, vhost, message)
        ticket = await self.publisher.publish(vhost, caller.user, message)
        if not ticket.accepted or ticket.condition is not None:
            self.fail(ticket, vhost, target)
        self.counters.published[vhost] += 1
        now = self.broker.state.now
        return accepted_answer(prepared.message_id, target.address, ticket.durability, now)

    def fail(self, ticket: Ticket, vhost: str, target: Target) -> None:
        """Raises the ``Problem`` of a publish that was returned, rejected or not confirmed."""
        if ticket.condition is not None:
            self.counters.returned[vhost] += 1
        problem = judge(ticket, target, self.dependencies.settings.confirm_seconds, False)
        assert problem is not None
        raise problem
