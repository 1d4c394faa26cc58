"""Exchanges: which destinations a key (or headers) leads to.

An exchange answers for its own bindings only; walking on through other exchanges, alternates and
queues is ``Router.route``. What a key led to is remembered in ``routes`` until bindings change.

A binding of any type may carry conditions (``x-selector``, and the properties that RabbitMQ's
filters name): a message that the exchange would send that way goes only if they are true of it.
Such bindings stand in exchanges within the exchange, one for each set of conditions, so that they
are looked at once per message and only if it matters.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol, Union

from gateway.broker.deadletters import peek_properties
from gateway.broker.limits import NO_POLICY, invalid, type_name
from gateway.broker.plain import fingerprint
from gateway.broker.queues import Queue
from gateway.broker.topics import Topics
from gateway.errors import Condition, Refusal
from gateway.message import Message, Table
from gateway.selector import (
    EFFORT,
    Expression,
    ExpressionError,
    PropertiesFilter,
    Selector,
    SelectorError,
)

Destination = Union[Queue, "Exchange"]
Step = Destination | None
"""``None``: the message is lost here without a report."""

SELECTOR = "x-selector"
PROPERTIES = "x-properties-filter"
APPLICATION = "x-application-properties-filter"
CONDITIONS = frozenset([SELECTOR, PROPERTIES, APPLICATION])
"""Arguments of a binding that are conditions on a message."""
REGEXP = "x-regexp"


class Binding:
    """From an exchange to a queue or exchange. Equal if source, destination, key and arguments
    are. ``severed``: one of its ends is gone, and it is about to go too."""

    __slots__ = ("source", "destination", "key", "arguments", "identity", "severed")

    def __init__(
        self, source: "Exchange", destination: Destination, key: str, arguments: Table
    ) -> None:
        self.source = source
        self.destination = destination
        self.key = key
        self.arguments = arguments
        self.identity = (id(source), id(destination), key, fingerprint(arguments))
        self.severed = False

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


class BindingCondition(Protocol):
    """A condition on messages; equal if it means the same."""

    def matches(self, message: Message) -> bool: ...


class AllOf(NamedTuple):
    """Several tests of which all must be true."""

    tests: tuple[BindingCondition, ...]

    def matches(self, message: Message) -> bool:
        return all(test.matches(message) for test in self.tests)


def properties_of(wanted: Any, name: str) -> PropertiesFilter:
    """A table of properties that came with a binding. Refuses (406) other types."""
    if not isinstance(wanted, dict):
        raise invalid(name, "binding", f'"expected table, got {type_name(wanted)}"')
    try:
        return PropertiesFilter(wanted, name == PROPERTIES)
    except ValueError as error:
        raise invalid(name, "binding", str(error)) from None


def selector_of(text: Any) -> Selector:
    """A selector that came with a binding. Refuses (406) an invalid one."""
    if not isinstance(text, str):
        raise invalid(SELECTOR, "binding", f'"expected text, got {type_name(text)}"')
    try:
        return Selector(text)
    except SelectorError as error:
        raise invalid(SELECTOR, "binding", str(error)) from None


class Exchange(ABC):
    """Root of the exchange types. ``routes`` maps a key to queues: filled by ``Router.route``."""

    type = ""
    by_key = True
    """Whether the key alone decides, so that the answer may be remembered. Not while there are
    bindings with conditions."""

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
        self.policy = NO_POLICY
        self.bindings: dict[Binding, None] = {}
        self.routes: dict[str, tuple[Queue, ...]] = {}
        self.conditional: dict[BindingCondition, Exchange] = {}
        self.gone = False

    @property
    def used(self) -> bool:
        """Whether anything is bound to it."""
        return any(not binding.severed for binding in self.bindings)

    def add(self, binding: Binding) -> bool:
        """Whether it is new."""
        if binding in self.bindings:
            return False
        self.check(binding)
        condition = self.condition(binding)
        if condition is None:
            self.index(binding)
        else:
            within = self.within(condition)
            within.index(binding)
            within.bindings[binding] = None
            self.by_key = False
        self.bindings[binding] = None
        return True

    def within(self, condition: BindingCondition) -> "Exchange":
        found = self.conditional.get(condition)
        if found is None:
            found = self.conditional[condition] = type(self)(self.name, arguments=self.arguments)
        return found

    def remove(self, binding: Binding) -> None:
        del self.bindings[binding]
        condition = self.condition(binding)
        if condition is None:
            self.drop(binding)
            return
        within = self.conditional[condition]
        within.drop(binding)
        del within.bindings[binding]
        if not within.bindings:
            del self.conditional[condition]
            self.by_key = type(self).by_key and not self.conditional

    def condition(self, binding: Binding) -> BindingCondition | None:
        """The condition on messages that go by this binding."""
        arguments = binding.arguments
        if CONDITIONS.isdisjoint(arguments):
            return None
        tests: list[BindingCondition] = []
        if arguments.get(SELECTOR) is not None:
            tests.append(selector_of(arguments[SELECTOR]))
        tests += [
            properties_of(arguments[name], name)
            for name in (PROPERTIES, APPLICATION)
            if arguments.get(name) is not None
        ]
        if not tests:
            return None
        return tests[0] if len(tests) == 1 else AllOf(tuple(tests))

    def leads(self, message: Message) -> Iterable[Step]:
        """Where a message goes from here; a destination may come more than once."""
        if not self.conditional:
            return self.match(message)
        found = list(self.match(message))
        for condition, within in EFFORT.shared(list(self.conditional.items())):
            there = list(within.match(message))
            if there and condition.matches(message):
                found += there
        message.forget_properties()
        return found

    def everywhere(self, message: Message) -> list[Queue]:
        """The queues bound here whose conditions are true of a message, with any key."""
        EFFORT.fill()
        conditional = {b for within in self.conditional.values() for b in within.bindings}
        found = dict.fromkeys(b.destination for b in self.bindings if b not in conditional)
        for condition, within in EFFORT.shared(list(self.conditional.items())):
            if condition.matches(message):
                found.update(dict.fromkeys(b.destination for b in within.bindings))
        message.forget_properties()
        return [queue for queue in found if isinstance(queue, Queue) and not queue.gone]

    def check(self, binding: Binding) -> None:  # noqa: B027 - most types refuse nothing
        """Refuse a binding that this type does not allow."""

    @abstractmethod
    def index(self, binding: Binding) -> None:
        """Make a new binding effective."""

    @abstractmethod
    def drop(self, binding: Binding) -> None:
        """Undo ``index``."""

    @abstractmethod
    def match(self, message: Message) -> Iterable[Step]:
        """Where bindings without a condition lead; a destination may come more than once."""


class CountedDestinations(dict[Destination, int]):
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
        self.keys: dict[str, CountedDestinations] = {}

    def index(self, binding: Binding) -> None:
        self.keys.setdefault(binding.key, CountedDestinations()).add(binding.destination)

    def drop(self, binding: Binding) -> None:
        found = self.keys[binding.key]
        found.drop(binding.destination)
        if not found:
            del self.keys[binding.key]

    def match(self, message: Message) -> Iterable[Step]:
        return self.keys.get(message.key, ())


class Fanout(Exchange):
    """Everything goes everywhere."""

    type = "fanout"

    def __init__(self, name: str, **given: Any) -> None:
        super().__init__(name, **given)
        self.all = CountedDestinations()

    def index(self, binding: Binding) -> None:
        self.all.add(binding.destination)

    def drop(self, binding: Binding) -> None:
        self.all.drop(binding.destination)

    def match(self, message: Message) -> Iterable[Step]:
        return self.all


def expression_of(binding: Binding) -> Expression | None:
    """The key of a binding as a regular expression, if ``x-regexp`` is true. Refuses (406) an
    invalid one."""
    wanted = binding.arguments.get(REGEXP, False)
    if not isinstance(wanted, bool):
        raise invalid(REGEXP, "binding", f'"expected boolean, got {type_name(wanted)}"')
    try:
        return Expression(binding.key) if wanted else None
    except ExpressionError as error:
        raise invalid(REGEXP, "binding", str(error)) from None


class Topic(Exchange):
    """Keys are words divided by dots; bindings are patterns of them, or regular expressions that
    are looked for anywhere in a key (``x-regexp``)."""

    type = "topic"

    def __init__(self, name: str, **given: Any) -> None:
        super().__init__(name, **given)
        self.patterns: Topics[Destination] = Topics()
        self.expressions: dict[Binding, Expression] = {}

    def check(self, binding: Binding) -> None:
        expression_of(binding)

    def index(self, binding: Binding) -> None:
        expression = expression_of(binding)
        if expression is None:
            self.patterns.add(binding.key, binding.destination)
        else:
            self.expressions[binding] = expression

    def drop(self, binding: Binding) -> None:
        if self.expressions.pop(binding, None) is None:
            self.patterns.remove(binding.key, binding.destination)

    def match(self, message: Message) -> Iterable[Step]:
        key = message.key
        yield from self.patterns.match(key)
        for binding, expression in self.expressions.items():
            if expression.matches(key):
                yield binding.destination


MATCH_WORDS = ("all", "any", "all-with-x", "any-with-x")


class HeadersExchange(Exchange):
    """The message's headers decide. A binding value of ``None`` asks for presence only."""

    type = "headers"
    by_key = False

    def __init__(self, name: str, **given: Any) -> None:
        super().__init__(name, **given)
        self.unconditional: dict[Binding, None] = {}
        """Bindings that want nothing, and therefore match every message."""
        self.by_header: defaultdict[HeaderKey, dict[Binding, None]] = defaultdict(dict)
        """Bindings that can only match a message with this header: "all" under one of its headers,
        "any" under each."""

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
        keys = [header_key(name, value) for name, value in tested(binding.arguments)]
        if not wants_all(binding.arguments):
            for key in keys:
                self.by_header[key][binding] = None
        elif keys:
            rarest = min(keys, key=lambda key: len(self.by_header.get(key, ())))
            self.by_header[rarest][binding] = None
        else:
            self.unconditional[binding] = None

    def drop(self, binding: Binding) -> None:
        self.unconditional.pop(binding, None)
        for name, value in tested(binding.arguments):
            key = header_key(name, value)
            bindings = self.by_header.get(key)
            if bindings is not None and bindings.pop(binding, binding) is None and not bindings:
                del self.by_header[key]

    def match(self, message: Message) -> Iterable[Step]:
        given = peek_properties(message).application or {}
        found = dict(self.unconditional)
        by_header = self.by_header
        for name, value in given.items():
            key, present = header_key(name, value), (name, False, None)
            for one in (key,) if key == present else (key, present):
                for binding in by_header.get(one, ()):
                    if binding not in found and headers_match(binding.arguments, given):
                        found[binding] = None
        return [binding.destination for binding in found]


HeaderKey = tuple[str, bool, Any]


def header_key(name: str, value: Any) -> HeaderKey:
    """Equal for headers that ``same_header`` takes for equal: the name, whether the value is a
    boolean, and the value; ``None`` for tables, arrays, and where the presence is enough."""
    if isinstance(value, str):
        return name, False, value.encode("utf-8", "surrogateescape")
    if isinstance(value, dict | list):
        return name, False, None
    try:
        hash(value)
    except TypeError:
        return name, False, None
    return name, isinstance(value, bool), value


def headers_match(wanted: Table, given: Table) -> bool:
    """Whether headers satisfy a binding's arguments; with nothing wanted, all matches and any does
    not."""
    hits = (
        name in given and (value is None or same_header(value, given[name]))
        for name, value in tested(wanted)
    )
    return all(hits) if wants_all(wanted) else any(hits)


def wants_all(wanted: Table) -> bool:
    word: str = wanted.get("x-match", "all")
    return word.startswith("all")


def tested(wanted: Table) -> Iterator[tuple[str, Any]]:
    """The arguments that a message is tested for. Names that begin with ``x-`` are left out unless
    ``x-match`` ends in ``-with-x``."""
    with_x = wanted.get("x-match", "all").endswith("-with-x")
    for name, value in wanted.items():
        if name == "x-match" or name in CONDITIONS:
            continue
        if with_x or not name.startswith("x-"):
            yield name, value


def same_header(one: Any, other: Any) -> bool:
    """As RabbitMQ: types matter only inside tables and arrays, so octets are the text that they
    spell, and an empty array is an empty table."""
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
