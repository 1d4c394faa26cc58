"""Client role: topology, as requests to the peer's management node.

RabbitMQ 4 and this gateway have one: "HTTP over AMQP", a pair of links of one name to and from
``/management``. The subject of a request is a method, its ``to`` a path, its body a map; the
subject of the response is a status. Without a management node, passive declares still work: they
attach a link and see whether that succeeds.
"""

from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import uuid4

from gateway.adapters.performatives import addresses, termini
from gateway.adapters.performatives.client_context import ClientContext
from gateway.adapters.performatives.client_messages import management_request, received
from gateway.adapters.performatives.decoding import FieldError, read_value
from gateway.adapters.performatives.deliveries import IncomingDelivery
from gateway.adapters.performatives.links import LinkHandler
from gateway.adapters.performatives.open_performative import LINK_PAIR
from gateway.adapters.performatives.receiving_link import ReceivingLink
from gateway.adapters.performatives.sending_link import SendingLink
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import SenderSettleMode
from gateway.errors import Condition
from gateway.message import Properties
from gateway.operations import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Operation,
    PurgeQueue,
    QueueState,
    Terminus,
    Token,
    Unbind,
    UpdateSecret,
)
from gateway.values import Symbol

MANAGEMENT, ME = "/management", "$me"
WINDOW = 100

CONDITIONS = {
    400: Condition.COMMAND_INVALID,
    401: Condition.ACCESS_REFUSED,
    403: Condition.ACCESS_REFUSED,
    404: Condition.NOT_FOUND,
    405: Condition.NOT_IMPLEMENTED,
    409: Condition.PRECONDITION_FAILED,
    501: Condition.NOT_IMPLEMENTED,
}

Result = Callable[[Any], Any]
"""Converts the body of a successful response to the result of the operation."""


class PendingRequest(NamedTuple):
    """A request without a response yet. ``then`` takes the body of a successful response and the
    list for operations."""

    token: Token
    then: Callable[[Any, list[Operation]], None]


class ClientManagement(LinkHandler):
    """The pair of management links of a session, and probes: links that are only attached."""

    def __init__(self, context: ClientContext) -> None:
        self.context = context
        self.session = context.session
        self._out: SendingLink | None = None
        self._in: ReceivingLink | None = None
        self._pending: dict[str, PendingRequest] = {}
        self._serial = 0

    # --- operations -------------------------------------------------------------------------------

    def declare_queue(self, op: DeclareQueue) -> None:
        if op.passive and not self._offered():
            self._probe(op.token, addresses.queue(self.context.form, op.name), True, op.name)
            return
        name = op.name or f"client.gen-{uuid4()}"
        path = f"/queues/{quote(name, safe='')}"

        def state(body: Any) -> QueueState:
            found = body if isinstance(body, dict) else {}
            return QueueState(
                str(found.get("name", name)),
                _number(found.get("message_count")),
                _number(found.get("consumer_count")),
            )

        if op.passive:
            self._request(op.token, "GET", path, None, state)
            return
        asked = {
            "durable": op.durable,
            "exclusive": op.exclusive,
            "auto_delete": op.auto_delete,
            "arguments": op.arguments,
        }
        self._request(op.token, "PUT", path, asked, state)

    def delete_queue(self, op: DeleteQueue) -> None:
        if op.if_unused or op.if_empty:
            text = "management deletes without conditions"
            self.context.refuse(op.token, Condition.NOT_IMPLEMENTED, text)
            return
        self._request(op.token, "DELETE", f"/queues/{quote(op.name, safe='')}", None, _count)

    def purge_queue(self, op: PurgeQueue) -> None:
        self._request(
            op.token, "DELETE", f"/queues/{quote(op.name, safe='')}/messages", None, _count
        )

    def declare_exchange(self, op: DeclareExchange) -> None:
        if op.passive:
            address = addresses.exchange(self.context.form, op.name, "")
            self._probe(op.token, address, False, None)
            return
        asked = {
            "type": op.type,
            "durable": op.durable,
            "auto_delete": op.auto_delete,
            "internal": op.internal,
            "arguments": op.arguments,
        }
        self._request(op.token, "PUT", f"/exchanges/{quote(op.name, safe='')}", asked, _none)

    def delete_exchange(self, op: DeleteExchange) -> None:
        if op.if_unused:
            text = "management deletes without conditions"
            self.context.refuse(op.token, Condition.NOT_IMPLEMENTED, text)
            return
        self._request(op.token, "DELETE", f"/exchanges/{quote(op.name, safe='')}", None, _none)

    def bind(self, op: Bind) -> None:
        kind = "destination_exchange" if op.to_exchange else "destination_queue"
        asked = {
            "source": op.source,
            kind: op.destination,
            "binding_key": op.key,
            "arguments": op.arguments,
        }
        self._request(op.token, "POST", "/bindings", asked, _none)

    def unbind(self, op: Unbind) -> None:
        """By its path; one with arguments has to be looked for first."""
        source, to, key = (quote(name, safe="") for name in (op.source, op.destination, op.key))
        kind = "dste" if op.to_exchange else "dstq"
        if not op.arguments:
            path = f"/bindings/src={source};{kind}={to};key={key};args="
            self._request(op.token, "DELETE", path, None, _none)
            return

        def listed(body: Any, found: list[Operation]) -> None:
            for binding in body if isinstance(body, list) else ():
                if isinstance(binding, dict) and binding.get("arguments") == op.arguments:
                    self._request(op.token, "DELETE", str(binding.get("location")), None, _none)
                    return
            self.context.answer(op.token, None, found)  # undone already

        path = f"/bindings?src={source}&{kind}={to}&key={key}"
        self._send(op.token, "GET", path, None, listed)

    def update_secret(self, op: UpdateSecret) -> None:
        self._request(op.token, "PUT", "/auth/tokens", op.secret, _none)

    # --- requests -------------------------------------------------------------------------------

    def _offered(self) -> bool:
        opened = self.context.connection.opened
        return opened is not None and LINK_PAIR in (opened.offered_capabilities or ())

    def _request(self, token: Token, method: str, path: str, body: Any, result: Result) -> None:
        """A request with one response, which becomes the answer."""

        def then(body: Any, found: list[Operation]) -> None:
            self.context.answer(token, result(body), found)

        self._send(token, method, path, body, then)

    def _send(
        self,
        token: Token,
        method: str,
        path: str,
        body: Any,
        then: Callable[[Any, list[Operation]], None],
    ) -> None:
        if not self._offered():
            self.context.refuse(token, Condition.NOT_IMPLEMENTED, "the peer has no management node")
            return
        if self._out is None:
            self._pair()
        assert self._out is not None
        self._serial += 1
        number = str(self._serial)
        properties = Properties(message_id=number, to=path, subject=method, reply_to=ME)
        self._pending[number] = PendingRequest(token, then)
        self._out.deliver(0, management_request(properties, body), False, True)

    def _pair(self) -> None:
        """The two links (Link Pairing 1.0)."""
        name = self.context.link_name("management")
        paired = {Symbol("paired"): True}
        receiver: ReceivingLink = self.session.offer(name, True, self)
        receiver.source, receiver.target = w.Source(MANAGEMENT), w.Target(ME)
        receiver.window, receiver.ignores_unsettled = WINDOW, True
        sender: SendingLink = self.session.offer(name, False, self)
        sender.source, sender.target = w.Source(ME), w.Target(MANAGEMENT)
        for link in (sender, receiver):
            link.snd_mode = SenderSettleMode.SETTLED
        receiver.attach(properties=paired)  # first: RabbitMQ wants credit before it answers
        sender.attach(properties=paired)
        self._out, self._in = sender, receiver

    def _probe(self, token: Token, address: str, queue: bool, name: str | None) -> None:
        """Find out whether a node exists by attaching a link; no message is sent or taken."""
        link = self.session.offer(self.context.link_name("probe"), queue, self)
        terminus = Terminus(address)
        link.source = termini.source(terminus) if queue else w.Source()
        link.target = w.Target() if queue else termini.target(terminus)
        link.data = token, (None if name is None else QueueState(name, 0, 0))
        link.attach()

    # --- events of links --------------------------------------------------------------------------

    def on_attached(self, link: Any, record: w.Attach, found: list[Operation]) -> None:
        if link.data is None:
            return
        if (record.source if link.receiver else record.target) is not None:
            (token, result), link.data = link.data, (None, None)
            self.context.answer(token, result, found)
            link.detach(True, found)

    def on_message(self, arrival: IncomingDelivery, octets: bytes, found: list[Operation]) -> None:
        """A response."""
        if not arrival.settled:
            self.session.unsettled.settle_received([arrival], w.ACCEPTED)
        try:
            message, _ = received(octets, "", "")
            properties = message.properties
            body = None
            if properties.body_kind == "value":
                body = read_value(message.body[:], 3, len(message.body))[0]
        except FieldError:
            return
        asked = self._pending.pop(str(properties.correlation_id), None)
        if asked is None:
            return
        subject = properties.subject or ""
        status = int(subject) if subject.isdecimal() else 500
        if 200 <= status < 300:
            asked.then(body, found)
        else:
            condition = CONDITIONS.get(status, Condition.INTERNAL_ERROR)
            text = body if isinstance(body, str) else f"the management node answers {status}"
            self.context.refuse(asked.token, condition, text, found)

    def on_unsent(self, link: SendingLink, number: int, message: Any, text: str) -> None:
        """A request that has no form or is too large: its number is its message-id."""
        asked = self._pending.pop(str(message.properties.message_id), None)
        if asked is not None:
            self.context.refuse(asked.token, Condition.CONTENT_TOO_LARGE, text)

    def on_credit(self, link: Any, record: w.Flow, found: list[Operation]) -> None:
        if isinstance(link, SendingLink) and link.drain:
            link.drained(link.credit - link.waiting)

    def on_detached(
        self, link: Any, record: w.Detach | None, closed: bool, lost: bool, found: list[Operation]
    ) -> None:
        if link.data is not None:  # a probe
            found += self.context.refusals([link.data[0]], link, record, lost)
        elif link in (self._out, self._in):
            asked, self._pending = self._pending, {}
            tokens = [each.token for each in asked.values()]
            found += self.context.refusals(tokens, link, record, lost)
            pair, self._out, self._in = (self._out, self._in), None, None
            for other in pair:
                if other is not None and not other.over and (record or link.fault):
                    other.detach(True, found)
        if record is not None:
            link.detach(True, found)


def _number(value: Any) -> int:
    return int(value) if isinstance(value, int) else 0


def _count(body: Any) -> int:
    return _number(body.get("message_count")) if isinstance(body, dict) else 0


def _none(body: Any) -> None:
    return None
