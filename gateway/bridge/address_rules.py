"""Rules that lead from the addresses of one broker to those of another, and back.

A *place* is an exchange with a routing key, or an address of AMQP 1.0. The rules are tried in their
order, and the first whose pattern matches gives the target. The way back is derived: the source
that a rule makes of a target counts only if the rules lead from it to that target, so that both
ways agree always.

Nothing here knows of brokers, messages or settings.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote

from gateway.bridge.address_patterns import (
    ADDRESS,
    FIELD,
    RAW_ADDRESS,
    Extent,
    Pattern,
    common,
    read_twice,
)

SAMPLES = ("a", "", "a.b", "a/b", "a b", "a%2Fb", "ü")
"""Values that parts of a pattern are tried with."""


class Place(NamedTuple):
    """Where messages go or come from. Without ``exchange``, ``name`` is an address; else it is the
    routing key. A queue is its name as the key of the exchange "" (AMQP 0-9-1 §3.1.3.1)."""

    exchange: str | None
    name: str

    def __str__(self) -> str:
        if self.exchange is None:
            return self.name
        return f"exchange {self.exchange!r} key {self.name!r}" if self.exchange else self.name

    @property
    def routing(self) -> tuple[str, str]:
        """Exchange and key to publish with: those of an address are told by its form, which is that
        of RabbitMQ 4; any other address is the name of a queue."""
        if self.exchange is not None:
            return self.exchange, self.name
        match self.name.split("/"):
            case ["", "queues", queue]:
                return "", unquote(queue)
            case ["", "exchanges", exchange]:
                return unquote(exchange), ""
            case ["", "exchanges", exchange, key]:
                return unquote(exchange), unquote(key)
        return "", self.name


class PlacePattern:
    """A pattern of places. Raises ``ValueError``."""

    def __init__(self, exchange: str | None, name: str, encoded: bool = True) -> None:
        self.exchange = None if exchange is None else Pattern(exchange, FIELD)
        form = FIELD if exchange is not None else ADDRESS if encoded else RAW_ADDRESS
        self.name = Pattern(name, form)
        self.patterns = [one for one in (self.exchange, self.name) if one is not None]
        self.parts: dict[str, Extent] = {}
        for one in self.patterns:
            if self.parts.keys() & one.parts.keys():
                raise ValueError(f"{self}: two parts have the same name")
            self.parts |= one.parts
        self.unnamed = any(one.unnamed for one in self.patterns)

    def __str__(self) -> str:
        return str(Place(None if self.exchange is None else self.exchange.text, self.name.text))

    def match(self, place: Place) -> dict[str, str] | None:
        """The values of its parts."""
        if (self.exchange is None) is not (place.exchange is None):
            return None
        values = self.name.match(place.name)
        if values is None or self.exchange is None:
            return values
        more = self.exchange.match(place.exchange or "")
        return None if more is None else more | values

    def write(self, values: dict[str, str]) -> Place:
        exchange = None if self.exchange is None else self.exchange.write(values)
        return Place(exchange, self.name.write(values))

    def takes(self, name: str, value: str) -> bool:
        return all(one.takes(name, value) for one in self.patterns if name in one.parts)

    def common(self, other: "PlacePattern") -> Place | None:
        """A place that both match, if there is one."""
        if (self.exchange is None) is not (other.exchange is None):
            return None
        name = common(self.name, other.name)
        if name is None or self.exchange is None or other.exchange is None:
            return None if name is None else Place(None, name)
        exchange = common(self.exchange, other.exchange)
        return None if exchange is None else Place(exchange, name)


class Rule(NamedTuple):
    """One rule."""

    match: PlacePattern
    to: PlacePattern

    def __str__(self) -> str:
        return f"{self.match} -> {self.to}"


class Translation(NamedTuple):
    """A target, the values of the parts of the rule's pattern, and which rule it was, from 1; 0 for
    a place that stays as it is."""

    target: Place
    values: dict[str, str]
    rule: int


class Finding(NamedTuple):
    """Something about the rules that an operator should know. ``kind``: "overlap" (the first of two
    rules takes an address that the second would match), "collision" (two rules may have the same
    target) or "one-way" (targets that do not lead back). ``rules`` count from 1."""

    kind: str
    rules: tuple[int, ...]
    text: str


@dataclass
class DryRun:
    """Rules applied to an inventory."""

    targets: dict[Place, Translation] = field(default_factory=dict)
    unmatched: list[Place] = field(default_factory=list)
    collisions: dict[Place, list[Place]] = field(default_factory=dict)
    """Targets of several places, and those."""
    one_way: list[Place] = field(default_factory=list)
    """Places to which no way leads back from their target."""

    @property
    def good(self) -> bool:
        return not self.unmatched and not self.collisions


class AddressRules:
    """Raises ``ValueError`` if a target has a part that its pattern has not. ``keep``: a place that
    no rule matches stays as it is; otherwise it has no target."""

    def __init__(self, rules: Iterable[Rule], keep: bool = False) -> None:
        self.rules = list(rules)
        self.keep = keep
        for number, rule in enumerate(self.rules, 1):
            missing = rule.to.parts.keys() - rule.match.parts.keys()
            if missing or rule.to.unnamed:
                what = f"{{{sorted(missing)[0]}}}" if missing else "a part without a name"
                raise ValueError(f"rule {number}: {rule}: the target has {what}, the pattern not")

    def translate(self, place: Place) -> Translation | None:
        """The target of a place; ``None`` if it has none."""
        for number, rule in enumerate(self.rules, 1):
            values = rule.match.match(place)
            if values is not None:
                return Translation(rule.to.write(values), values, number)
        return Translation(place, {}, 0) if self.keep else None

    def inverse(self, target: Place) -> Place | None:
        """The place whose target this is; ``None`` if there is none, or the target does not tell
        which."""
        for rule in self.rules:
            if rule.match.unnamed or rule.match.parts.keys() != rule.to.parts.keys():
                continue
            values = rule.to.match(target)
            if values is None:
                continue
            place = rule.match.write(values)
            found = self.translate(place)
            if found is not None and found.target == target:
                return place
        found = self.translate(target)
        return target if found is not None and found.rule == 0 else None

    # --- ambiguities ------------------------------------------------------------------------------

    def check(self) -> list[Finding]:
        """Whatever is ambiguous."""
        found = []
        for number, rule in enumerate(self.rules, 1):
            reason = one_way(rule)
            if reason:
                found.append(Finding("one-way", (number,), f"{rule}: {reason}"))
            for earlier, other in enumerate(self.rules[: number - 1], 1):
                both = earlier, number
                place = other.match.common(rule.match)
                if place is not None:
                    text = f"both match {place}; rule {earlier} has it"
                    found.append(Finding("overlap", both, text))
                place = other.to.common(rule.to)
                if place is not None:
                    found.append(Finding("collision", both, f"both may lead to {place}"))
        return found

    def dry_run(self, places: Sequence[Place]) -> DryRun:
        """The targets of these places."""
        run = DryRun()
        sources: dict[Place, list[Place]] = {}
        for place in dict.fromkeys(places):
            found = self.translate(place)
            if found is None:
                run.unmatched.append(place)
                continue
            run.targets[place] = found
            sources.setdefault(found.target, []).append(place)
            if self.inverse(found.target) != place:
                run.one_way.append(place)
        run.collisions = {target: some for target, some in sources.items() if len(some) > 1}
        return run


def one_way(rule: Rule) -> str:
    """Why a target of the rule may not lead back; "" if it always does."""
    if rule.match.unnamed:
        return "* and # are lost; give them names"
    lost = rule.match.parts.keys() - rule.to.parts.keys()
    if lost:
        return f"{{{sorted(lost)[0]}}} is lost"
    for pattern in rule.to.patterns:
        text = read_twice(pattern)
        if text is not None:
            return f"{text!r} can be read in two ways"
    for name in rule.to.parts:
        for value in SAMPLES:
            if rule.match.takes(name, value) and not rule.to.takes(name, value):
                return f"{{{name}}} as {value!r} cannot be read back"
    return ""
