"""Requests of a channel about the topology of an upstream."""

from dataclasses import replace
from typing import Any, cast

from gateway.broker.answers import Answers
from gateway.broker.facade import FacadeVirtualHost, UpstreamQueue
from gateway.broker.replies import REPLY_TO
from gateway.broker.topology_requests import TopologyRequests
from gateway.errors import Condition, Refusal
from gateway.operations import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    PurgeQueue,
    QueueState,
    Unbind,
)

MOST_RESTORED = 1000
"""Bindings of one queue that are made again when the upstream has lost the queue."""


class FacadeTopology(TopologyRequests):
    """Checks the permissions that its user has here, and lets the upstream decide the rest."""

    __slots__ = ()

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.answers: Answers = Answers()

    @property
    def host(self) -> FacadeVirtualHost:
        return cast(FacadeVirtualHost, self.vhost)

    def ask(self, operation: Any) -> Any:
        """The upstream's answer to a request. Raises ``AwaitsUpstream``, or the refusal."""
        request = replace(operation, channel=0, token=None)
        key = repr(request)
        self.answers.begin()
        answer = self.answers.given.get(key)
        if answer is None:
            answer = self.answers.given[key] = self.host.upstream.ask(request)
        return answer.value()

    # --- exchanges ------------------------------------------------------------------------------

    def declare_exchange(self, op: DeclareExchange) -> None:
        self.refuse_default(op.name)
        if not op.passive:
            self.permissions.need("configure", "exchange", op.name)
            alternate = op.arguments.get("alternate-exchange")
            if isinstance(alternate, str):
                self.permissions.need("read", "exchange", op.name)
                self.permissions.need("write", "exchange", alternate)
        self.ask(op)
        kind = "" if op.passive else op.type
        self.host.know_exchange(
            op.name,
            kind,
            durable=op.durable,
            auto_delete=op.auto_delete,
            internal=op.internal,
            arguments=op.arguments,
        )

    def delete_exchange(self, op: DeleteExchange) -> None:
        self.refuse_default(op.name)
        self.permissions.need("configure", "exchange", op.name)
        self.ask(op)
        self.host.lose_exchange(op.name)

    # --- queues ---------------------------------------------------------------------------------

    def declare_queue(self, op: DeclareQueue) -> QueueState:
        if op.name.startswith(REPLY_TO):
            return self.declare_replies(op.name)
        if op.passive and self.vhost.is_reply(op.name):
            return self.find_replies(op)
        op = replace(op, name=self.named(op.name)) if op.passive else self.permitted(op)
        known = self.host.queues.known(op.name)
        if known is not None and known.owner not in (None, self.owner):
            raise self.vhost.locked(op.name)
        state = self.ask(op)
        queue = self.host.know_queue(op.name, None if op.passive else op, self.owner)
        if not op.passive and (op.exclusive or not op.durable) and not queue.restore:
            queue.restore.append(replace(op, channel=0, token=None))
        self.declared = op.name
        return QueueState(op.name, state.messages, state.consumers)

    def find_replies(self, op: DeclareQueue) -> QueueState:
        """Whether a client waits for direct replies. The queue is not remembered here."""
        if op.name not in self.vhost.replies:
            self.ask(op)
        self.declared = op.name
        return QueueState(op.name, 0, 1)

    def permitted(self, op: DeclareQueue) -> DeclareQueue:
        """The declaration with its name and arguments, if the user may make it."""
        self.answers.begin()
        wish = repr(op)
        name = op.name or self.answers.names.get(wish) or self.vhost.new_name(op.hint)
        if not op.name:
            self.answers.names[wish] = name
        self.permissions.need("configure", "queue", name)
        letters = op.arguments.get("x-dead-letter-exchange")
        if isinstance(letters, str):
            self.permissions.need("read", "queue", name)
            self.permissions.need("write", "exchange", letters)
        template = self.templates.get(op.template, {})
        return replace(op, name=name, arguments={**template, **op.arguments}, template="", hint="")

    def delete_queue(self, op: DeleteQueue) -> int:
        name = self.named(op.name)
        self.permissions.need("configure", "queue", name)
        if name not in self.host.queues and not self.rules.must_exist:
            return 0
        self.vhost.queue(name, self.owner)
        count = self.ask(replace(op, name=name))
        self.host.lose_queue(name)
        return int(count or 0)

    def purge_queue(self, op: PurgeQueue) -> int:
        name = self.named(op.name)
        self.permissions.need("read", "queue", name)
        queue = cast(UpstreamQueue, self.vhost.queue(name, self.owner))
        queue.refuse_stream("queue.purge")
        return int(self.ask(replace(op, name=name)) or 0)

    # --- bindings -------------------------------------------------------------------------------

    def bind(self, op: Bind) -> None:
        name, key = self.ends(op)
        self.check_owner(op, name)
        request = replace(op, channel=0, token=None, destination=name, key=key)
        self.ask(request)
        queue = self.bound(op, name)
        if queue is not None and queue.restore and request not in queue.restore:
            if len(queue.restore) >= MOST_RESTORED:
                text = f"a transient queue of an upstream has {MOST_RESTORED} bindings at most"
                raise Refusal(Condition.RESOURCE_ERROR, text)
            queue.restore.append(request)

    def unbind(self, op: Unbind) -> None:
        name, key = self.ends(op)
        self.check_owner(op, name)
        self.ask(replace(op, destination=name, key=key))
        queue = self.bound(op, name)
        made = Bind(0, None, name, op.source, key, op.arguments)
        if queue is not None and made in queue.restore:
            queue.restore.remove(made)

    def check_owner(self, op: Bind | Unbind, name: str) -> None:
        """Refuse (405) a queue of another connection."""
        queue = self.bound(op, name)
        if queue is not None and queue.owner not in (None, self.owner):
            raise self.vhost.locked(name)

    def bound(self, op: Bind | Unbind, name: str) -> UpstreamQueue | None:
        """The queue that a binding leads to, if it is known here."""
        if op.to_exchange:
            return None
        return cast(UpstreamQueue | None, self.host.queues.known(name))
