"""Exchanges: which destinations a key (or headers) leads to.

An exchange answers for its own bindings only; walking on through other exchanges, alternates and
queues is ``vhost.route``. What a key led to is remembered in ``routes`` until bindings change.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Union

from gateway.broker.limits import type_name
from gateway.broker.plain import fingerprint
from gateway.broker.queues import Queue
from gateway.broker.topics import Topics
from gateway.errors import Condition, Lost, Refusal
from gateway.message import Table

Destination = Union[Queue, "Exchange"]
Headers = Callable[[], Table]


class Binding:
    """From an exchange to a queue or exchange. Equal if source, destination, key and arguments
    are."""

    __slots__ = ("source", "destination", "key", "arguments", "identity")

    def __init__(
        self, source: "Exchange", destination: Destination, key: str, arguments: Table
    ) -> None:
        self.source = source
        self.destination = destination
        self.key = key
        self.arguments = arguments
        self.identity = (id(source), id(destination), key, fingerprint(arguments))

    @property
    def to_exchange(self) -> bool:
        return isinstance(self.destination, Exchange)

    @property
    def durable(self) -> bool:
        """Whether it comes back after a restart: both ends do."""
        to = self.destination
        kept = to.durable if isinstance(to, Exchange) else to.keeps
        return self.source.durable and kept

    def record_key(self, vhost: str) -> tuple[str, ...]:
        kind = "exchange" if self.to_exchange else "queue"
        fields = (self.source.name, kind, self.destination.name, self.key, self.identity[3])
        return (vhost, *fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Binding) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)


class Exchange(ABC):
    """Root of the exchange types. ``routes`` maps a key to queues: filled by ``vhost.route``."""

    type = ""
    by_key = True
    """Whether the key alone decides, so that the answer may be remembered."""

    def __init__(
        self,
        name: str,
        *,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments or {}
        alternate = self.arguments.get("alternate-exchange")
        self.alternate: str | None = alternate if isinstance(alternate, str) and alternate else None
        self.bindings: dict[Binding, None] = {}
        self.incoming: dict[Binding, None] = {}
        self.routes: dict[str, tuple[Queue, ...]] = {}
        self.gone = False

    def add(self, binding: Binding) -> bool:
        """Whether it is new."""
        if binding in self.bindings:
            return False
        self.check(binding)
        self.bindings[binding] = None
        self.index(binding)
        return True

    def remove(self, binding: Binding) -> None:
        del self.bindings[binding]
        self.drop(binding)

    def check(self, binding: Binding) -> None:  # noqa: B027 - most types refuse nothing
        """Refuse what this type cannot bind."""

    @abstractmethod
    def index(self, binding: Binding) -> None:
        """Make a new binding effective."""

    @abstractmethod
    def drop(self, binding: Binding) -> None:
        """Undo ``index``."""

    @abstractmethod
    def match(self, key: str, headers: Headers) -> Iterable[Destination]:
        """Where this leads; a destination may come more than once."""


class Counted(dict[Destination, int]):
    """Destinations with the number of bindings that lead there."""

    def add(self, destination: Destination) -> None:
        self[destination] = self.get(destination, 0) + 1

    def drop(self, destination: Destination) -> None:
        if self[destination] == 1:
            del self[destination]
        else:
            self[destination] -= 1


class Direct(Exchange):
    """The key is the binding's key."""

    type = "direct"

    def __init__(self, name: str, **given: Any) -> None:
        super().__init__(name, **given)
        self.keys: dict[str, Counted] = {}

    def index(self, binding: Binding) -> None:
        self.keys.setdefault(binding.key, Counted()).add(binding.destination)

    def drop(self, binding: Binding) -> None:
        found = self.keys[binding.key]
        found.drop(binding.destination)
        if not found:
            del self.keys[binding.key]

    def match(self, key: str, headers: Headers) -> Iterable[Destination]:
        return self.keys.get(key, ())


class Fanout(Exchange):
    """Everything goes everywhere."""

    type = "fanout"

    def __init__(self, name: str, **given: Any) -> None:
        super().__init__(name, **given)
        self.all = Counted()

    def index(self, binding: Binding) -> None:
        self.all.add(binding.destination)

    def drop(self, binding: Binding) -> None:
        self.all.drop(binding.destination)

    def match(self, key: str, headers: Headers) -> Iterable[Destination]:
        return self.all


class Topic(Exchange):
    """Keys are words divided by dots; bindings are patterns of them."""

    type = "topic"

    def __init__(self, name: str, **given: Any) -> None:
        super().__init__(name, **given)
        self.patterns: Topics[Destination] = Topics()

    def index(self, binding: Binding) -> None:
        self.patterns.add(binding.key, binding.destination)

    def drop(self, binding: Binding) -> None:
        self.patterns.remove(binding.key, binding.destination)

    def match(self, key: str, headers: Headers) -> Iterable[Destination]:
        return self.patterns.match(key)


MATCH_WORDS = ("all", "any", "all-with-x", "any-with-x")


class HeadersExchange(Exchange):
    """The message's headers decide. A binding value of ``None`` asks for presence only."""

    type = "headers"
    by_key = False

    def check(self, binding: Binding) -> None:
        word = binding.arguments.get("x-match", "all")
        if not isinstance(word, str):
            raise Refusal(
                Condition.PRECONDITION_FAILED,
                f"Invalid x-match field type {type_name(word)}; expected longstr",
            )
        if word not in MATCH_WORDS:
            raise Refusal(
                Condition.PRECONDITION_FAILED,
                f'Invalid x-match field value <<"{word}">>; expected all, any, all-with-x, or '
                "any-with-x",
            )

    def index(self, binding: Binding) -> None:
        """Nothing: every binding is looked at for every message."""

    def drop(self, binding: Binding) -> None:
        """Nothing to undo."""

    def match(self, key: str, headers: Headers) -> Iterable[Destination]:
        given = headers()
        return [b.destination for b in self.bindings if headers_match(b.arguments, given)]


def headers_match(wanted: Table, given: Table) -> bool:
    """Whether headers satisfy a binding's arguments. Keys that begin with ``x-`` are left out
    unless ``x-match`` ends in ``-with-x``; with nothing wanted, all matches and any does not."""
    word = wanted.get("x-match", "all")
    with_x = word.endswith("-with-x")
    hits = (
        name in given and (value is None or same_header(value, given[name]))
        for name, value in wanted.items()
        if name != "x-match" and (with_x or not name.startswith("x-"))
    )
    return all(hits) if word.startswith("all") else any(hits)


def same_header(one: Any, other: Any) -> bool:
    """As RabbitMQ: types do not matter but in what a table or array holds, so octets are the text
    that they spell, and an empty array is an empty table."""
    if isinstance(one, dict | list) and isinstance(other, dict | list):
        return not (one or other) or same_inside(one, other)
    if isinstance(one, str):
        one = one.encode("utf-8", "surrogateescape")
    if isinstance(other, str):
        other = other.encode("utf-8", "surrogateescape")
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def same_inside(one: Any, other: Any) -> bool:
    """Whether two values within a table or array are equal and of the same type."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_inside(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_inside, one, other))
    return type_name(one) == type_name(other) and bool(one == other)


EXCHANGE_TYPES: dict[str, type[Exchange]] = {
    kind.type: kind for kind in (Direct, Fanout, Topic, HeadersExchange)
}


def exchange_type(name: str) -> type[Exchange]:
    """Refuses an unknown type with 503, which costs the connection."""
    kind = EXCHANGE_TYPES.get(name)
    if kind is None:
        raise Refusal(Condition.COMMAND_INVALID, f"unknown exchange type '{name}'", Lost.CONNECTION)
    return kind
