"""All exchange types; here are those that the drafts of 2005 name and RabbitMQ does not have.

0-9a6 has classes selector, matcher and lossy, and leaves their arguments open.
Here they are types that every version may declare: ``x-selector``, ``x-matcher``, ``x-lossy``.
"""

import random
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gateway.broker.exchanges import (
    SELECTOR,
    AllOf,
    Binding,
    BindingCondition,
    Direct,
    Exchange,
    Fanout,
    HeadersExchange,
    Step,
    Topic,
    same_header,
    selector_of,
    tested,
    wants_all,
)
from gateway.broker.federation import FederationExchange
from gateway.broker.limits import invalid, type_name
from gateway.errors import Refusal
from gateway.message import Message, Table
from gateway.operations.rules import RABBITMQ, VersionRules
from gateway.selector.errors import LONGEST
from gateway.selector.like import EFFORT, TooMuchEffort, matcher
from gateway.selector.names import NAMES, plain
from gateway.similar_names import did_you_mean

LOSS = "x-loss"
USUAL_LOSS = 50
"""Percent that an exchange loses by default."""


class SelectorExchange(Fanout):
    """Every binding has a condition: its argument ``x-selector`` or ``selector``, else its key."""

    type = "x-selector"

    def condition(self, binding: Binding) -> BindingCondition:
        arguments = binding.arguments
        wanted = selector_of(arguments.get(SELECTOR, arguments.get("selector", binding.key)))
        others = super().condition(binding)
        return wanted if others is None else AllOf((wanted, others))


Probe = Callable[[Message, Table], bool]
"""Message and its headers -> whether one argument of a binding is satisfied."""


class MatcherExchange(HeadersExchange):
    """As the headers exchange, with wild cards in texts: ``*`` is any run of characters, ``?`` one,
    and a backslash takes the meaning away. A name that no header has is that of a field, such as
    ``content-type``; values that are no text are compared as they are written. A key, if there is
    one, is a pattern of keys."""

    type = "x-matcher"

    def __init__(self, name: str, **given: Any) -> None:
        super().__init__(name, **given)
        self.tests: dict[Binding, tuple[bool, list[Probe]]] = {}

    def check(self, binding: Binding) -> None:
        super().check(binding)
        for name, value in patterns(binding):
            if isinstance(value, str) and len(value) > LONGEST:
                raise invalid(name, "binding", f"a pattern has at most {LONGEST} characters")

    def index(self, binding: Binding) -> None:
        tests = [probe_of(name, value) for name, value in patterns(binding)]
        self.tests[binding] = wants_all(binding.arguments), tests

    def drop(self, binding: Binding) -> None:
        del self.tests[binding]

    def match(self, message: Message) -> Iterable[Step]:
        try:
            headers = message.properties.application or {}
        except ValueError:
            return []
        found = []
        for binding, (every, tests) in EFFORT.shared(list(self.tests.items())):
            hits = (test(message, headers) for test in tests)
            EFFORT.begin()
            try:
                if all(hits) if every else any(hits):
                    found.append(binding.destination)
            except TooMuchEffort:
                continue
        message.forget_properties()
        return found


def patterns(binding: Binding) -> Iterator[tuple[str, Any]]:
    """The names that a binding of a matcher tests, with their patterns; "" is the key."""
    yield from tested(binding.arguments)
    if binding.key:
        yield "", binding.key


FIELDS: dict[str, Callable[[Message], Any]] = {
    **{name[5:].replace("_", "-"): read for name, read in NAMES.items() if name[:5] == "amqp."},
    "destination": NAMES["amqp.to"],
    "": lambda message: message.key,
    "timestamp": NAMES["amqp.creation_time"],
    "type": NAMES["amqp.jms_type"],
}
"""Fields of a message by the names that contents have in 0-8 to 0-9-1 and in the drafts."""


def probe_of(name: str, wanted: Any) -> Probe:
    """``None`` asks for presence only."""
    field = FIELDS.get(name)

    def value_in(message: Message, headers: Table) -> Any:
        if name in headers:
            return headers[name]
        return None if field is None else field(message)

    if wanted is None:
        return lambda message, headers: (
            name in headers or (field is not None and field(message) is not None)
        )
    if not isinstance(wanted, str):
        return lambda message, headers: same_header(wanted, value_in(message, headers))
    fits = wild(wanted)

    def test(message: Message, headers: Table) -> bool:
        text = written(value_in(message, headers))
        return text is not None and fits(text)

    return test


def wild(pattern: str) -> Callable[[str], bool]:
    """Whether a text fits a pattern with ``*`` and ``?``, in the time of one look at it."""
    pieces = []
    for piece in re.findall(r"\\[*?\\]|.", pattern, re.DOTALL):
        character = piece[-1]
        if len(piece) == 1 and character in "*?":
            pieces.append("%" if character == "*" else "_")
        else:
            pieces.append("\\" + character if character in "%_\\" else character)
    return matcher("".join(pieces), "\\")


def written(value: Any) -> str | None:
    """A value as text; ``None`` for null, a table or an array."""
    found = plain(value)
    if isinstance(found, bool):
        return "true" if found else "false"
    return None if found is None else str(found)


class LossyExchange(Fanout):
    """A fanout exchange that loses some messages on the way, on each binding by itself, for tests
    of programs on lossy networks. A message that is lost counts as routed and is not returned.
    ``x-loss`` (or ``loss``) is percent: of a binding, else of the exchange."""

    type = "x-lossy"
    by_key = False

    def __init__(self, name: str, **given: Any) -> None:
        super().__init__(name, **given)
        self.loss = loss_of(self.arguments, USUAL_LOSS)
        self.losses: dict[Binding, float] = {}
        self.draw: Callable[[], float] = random.random

    def check(self, binding: Binding) -> None:
        loss_of(binding.arguments, self.loss)

    def index(self, binding: Binding) -> None:
        self.losses[binding] = loss_of(binding.arguments, self.loss)

    def drop(self, binding: Binding) -> None:
        del self.losses[binding]

    def match(self, message: Message) -> Iterable[Step]:
        draw = self.draw
        return [
            None if draw() * 100 < loss else binding.destination
            for binding, loss in self.losses.items()
        ]


def loss_of(arguments: Table, usual: float) -> float:
    """Percent. Refuses (406) other values."""
    value = arguments.get(LOSS, arguments.get("loss"))
    if value is None:
        return usual
    number = plain(value)
    if isinstance(number, bool | str | None):
        raise invalid(LOSS, "binding or exchange", f'"expected number, got {type_name(value)}"')
    if not 0 <= number <= 100:
        raise invalid(LOSS, "binding or exchange", f'"{value} is not in 0 to 100"')
    return number


EXCHANGE_TYPES: dict[str, type[Exchange]] = {
    kind.type: kind
    for kind in (
        Direct,
        Fanout,
        Topic,
        HeadersExchange,
        SelectorExchange,
        MatcherExchange,
        LossyExchange,
        FederationExchange,
    )
}


def unknown_type(name: str) -> str:
    return f"unknown exchange type '{name}'{did_you_mean(name, EXCHANGE_TYPES)}"


def exchange_type(name: str, rules: VersionRules = RABBITMQ) -> type[Exchange]:
    """Refuses an unknown type, by RabbitMQ's rules with 503, which costs the connection."""
    kind = EXCHANGE_TYPES.get(name)
    if kind is None:
        condition, lost = rules.unknown_type
        raise Refusal(condition, unknown_type(name), lost)
    return kind
