"""Where a message goes: queues, exchanges with a key, and addresses as AMQP 1.0 clients write them.

``/queues/x`` and ``/exchanges/x/key`` (percent-encoded, as RabbitMQ 4 has them) or the bare name
of a queue.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from gateway.broker.deadletters import header_keys, peek_properties
from gateway.errors import Condition, Refusal
from gateway.http import problems
from gateway.http.access.catalogue import Catalogue, fill, read_parameters
from gateway.http.access.principal import Action, Principal
from gateway.http.path_segments import decode_segment
from gateway.http.problems import Problem, of_refusal
from gateway.message import Message

LONGEST_NAME = 255


class Target(NamedTuple):
    """``queue``: through the default exchange; ``key`` is its name then. ``route``: the declared
    route whose target it is, which is all that its caller may know of it."""

    exchange: str
    key: str
    queue: bool
    route: str = ""

    @property
    def address(self) -> str:
        """As receipts show it."""
        return self.route or (self.key if self.queue else self.exchange)

    @property
    def scope(self) -> str:
        """The scope of idempotency keys and ordering keys."""
        return f"queue:{self.key}" if self.queue else f"exchange:{self.exchange}"

    def with_key(self, key: str | None) -> "Target":
        """The item says its own routing key; a queue is where it is, and a route has its own."""
        return self if self.queue or self.route or key is None else self._replace(key=key)

    def missing(self) -> Problem:
        """The queue is not there."""
        told = (
            f"no queue {self.key!r}" if not self.route else "the target of the route does not exist"
        )
        return Problem(problems.NOT_FOUND, told)

    def unrouted(self) -> Problem:
        """No queue takes a message. Over AMQP, too, exchange and key come beside the condition."""
        if self.route:
            return self.refused(Refusal(Condition.NO_ROUTE, ""))
        told = (
            f"exchange '{self.exchange}' routed the message with routing key '{self.key}' to no "
            "queue; bind a queue to it"
        )
        told += " with this key" if self.key else ", or send a routing key (?routing_key=KEY)"
        amqp = {"condition": Condition.NO_ROUTE.value, "description": "NO_ROUTE"}
        return Problem(
            problems.UNROUTABLE, told, exchange=self.exchange, routing_key=self.key, amqp=amqp
        )

    def refused(self, refusal: Refusal) -> Problem:
        """The problem of a refusal by the broker."""
        return of_refusal(refusal, hidden=bool(self.route))

    def permit(self, caller: Principal, vhost: str, message: Message | None = None) -> None:
        """Raises ``Problem`` (403) if the credential is narrower than the user and does not cover
        this; the permissions of the user are checked by the broker, by exchange, as over AMQP. With
        ``message``, the routing keys in its headers CC and BCC are checked, too."""
        if message is not None and message.essentials.has_headers and b"CC" in message.header:
            self.permit_copies(caller, vhost, message)
        kind = "route" if self.route else "queue" if self.queue else "exchange"
        if caller.rights is None or caller.may(Action.PUBLISH, vhost, kind, self.address):
            return
        raise Problem(
            problems.FORBIDDEN,
            f"the credential of '{caller.user}' does not cover publishing to {kind} "
            f"'{self.address}' in vhost '{vhost}'",
        )

    def permit_copies(self, caller: Principal, vhost: str, message: Message) -> None:
        """Raises ``Problem`` (403). A declared route has its own key and no other. Behind a queue
        is the default exchange, where each further key is another queue; a credential that covers
        any other exchange covers all of its keys."""
        keys = header_keys(peek_properties(message).application or {}, "CC", "BCC")
        if keys and self.route:
            raise Problem(problems.FORBIDDEN, "a declared route takes no headers CC and BCC")
        if self.queue:
            for key in keys:
                to_queue(key).permit(caller, vhost)


class Node(NamedTuple):
    """The node that a path names. ``path``: as it was sent, for problem documents. ``noun``:
    "queues" or "exchanges"."""

    path: str
    noun: str
    vhost: str
    target: Target


def to_queue(name: str) -> Target:
    return Target("", name, True)


@lru_cache(4096)
def read_address(text: str) -> Target:
    """Raises ``Problem`` (400)."""
    if not text:
        raise Problem(problems.INVALID, "an address is empty")
    if not text.startswith("/"):
        return to_queue(checked(text))
    parts = text.split("/")[1:]
    try:
        names = [checked(unquote(part, errors="strict")) for part in parts[1:]]
    except UnicodeDecodeError:
        raise Problem(problems.INVALID, "an address is not percent-encoded UTF-8") from None
    if parts[0] == "queues" and len(names) == 1 and names[0]:
        return to_queue(names[0])
    if parts[0] == "exchanges" and len(names) in (1, 2) and names[0]:
        return Target(names[0], names[1] if len(names) == 2 else "", False)
    raise Problem(
        problems.INVALID, f"{text!r} is neither /queues/NAME nor /exchanges/NAME/KEY nor a name"
    )


def checked(name: str) -> str:
    if len(name.encode("utf-8", "surrogateescape")) > LONGEST_NAME:
        raise Problem(problems.INVALID, f"a name is longer than {LONGEST_NAME} octets")
    return name


def queue_of_path(path: dict[str, str], query: bytes) -> Target:
    if query:
        no_query(query)
    return queue_segment(path["queue"])


@lru_cache(4096)
def queue_segment(segment: str) -> Target:
    return to_queue(decode_segment(segment))


def exchange_of_path(path: dict[str, str], query: bytes) -> Target:
    return Target(decode_segment(path["exchange"]), routing_key(query), False)


def by_route(catalogue: Catalogue) -> Callable[[dict[str, str], bytes], Target]:
    """Finds the target of a declared route, whose parameters are the query."""

    def find(path: dict[str, str], query: bytes) -> Target:
        route = catalogue.route(decode_segment(path["vhost"]), decode_segment(path["route"]))
        key = fill(route.key, read_parameters(query))
        if route.queue:
            return Target("", route.queue, True, route.name)
        return Target(route.exchange, key, False, route.name)

    return find


def address_of_path(path: dict[str, str], query: bytes) -> Target:
    no_query(query)
    try:
        return read_address(unquote(path["address"], errors="strict"))
    except UnicodeDecodeError:
        raise Problem(problems.INVALID, "a name in the path is not UTF-8") from None


def nowhere(path: dict[str, str], query: bytes) -> None:
    """The message names its target."""
    no_query(query)


def no_query(query: bytes) -> None:
    if query:
        name = query.decode("latin-1").partition("=")[0][:64]
        raise Problem(
            problems.INVALID,
            f"publishing here takes no parameters, and {name!r} is one; metadata goes into "
            "fields such as Amqp-Priority: 3",
        )


def routing_key(query: bytes) -> str:
    if not query:
        return ""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict")
    except (UnicodeDecodeError, ValueError):
        raise Problem(problems.INVALID, "the query is not percent-encoded UTF-8") from None
    if len(pairs) != 1 or pairs[0][0] != "routing_key":
        names = ", ".join(sorted({name[:64] for name, _ in pairs}))
        raise Problem(
            problems.INVALID, f"the only parameter is routing_key, given once; given are: {names}"
        )
    key = pairs[0][1]
    if len(key.encode()) > LONGEST_NAME:
        raise Problem(problems.INVALID, "routing_key is longer than 255 octets")
    return key
