"""Conversion by shape: headers that differ in the values of ids, times, texts and numbers alone.

Every real message has an identifier of its own, so a cache by header never helps. What two messages
of one program have in common is the *shape* (``plans``): the octets around those values, and the
kinds of the values. A shape is converted twice, checked by the inverse, with other values in their
place (*stand-ins*); where each of them is found again in the result, a *plan* writes the result for
every header of the shape, by copying the octets of its values.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gateway.adapters.core.templates import Template, Templates
from gateway.crossing.plans import (
    CORRELATION,
    IDS,
    KEPT,
    KEPT_LONG,
    MADE,
    MADE_LONG,
    TRANSFERS,
    UNREAD,
    Key,
    Notation,
    Plan,
    Result,
    as_it_is,
    digest,
    places_in,
    plan_of,
    tokens,
)
from gateway.crossing.references import References
from gateway.crossing.sized_plans import SizedPlan, Tally


class Made(NamedTuple):
    """A header that was converted, with values that stood in."""

    given: list[bytes]
    header: bytes
    fidelity: Any
    key: Key
    values: list[bytes]


Convert = Callable[[bytes, str, str], tuple[bytes, Any] | None]
"""Header, exchange and routing key, to the natural form and its fidelity, or what else is the same
for all headers of a shape; ``None`` if there is no such thing."""

HOPS = (("stand-in-exchange", "stand.in.key"), ("e", "k" * 255))
"""Exchange and routing key that stand in, twice."""

MOST_PLANS = 512
MOST_SEEN = 4096
MANY_MISSES, SELDOM = 256, 7
"""After so many headers in turn without a plan, one in eight is looked at."""
WARM = 32
"""How often a shape must come before it has a plan, which costs as much as three conversions."""
LONGEST = 4096
"""Most octets of a header that is looked at."""


class Shapes:
    """The plans from one dialect to another. A peer chooses the shapes: plans are few, and shapes
    without one are counted by a number alone, so that nothing grows."""

    def __init__(
        self,
        source: Notation,
        reader: Notation,
        convert: Convert,
        references: References,
        changed: Callable[[int, SizedPlan], None],
    ) -> None:
        """``changed``: is told of each plan for the headers of a size, which replaces an earlier
        one."""
        self._source, self._reader, self._convert = source, reader, convert
        self._references, self._changed = references, changed
        self._plans: dict[Key, Plan | None] = {}
        self._seen: dict[int, int] = {}
        self._misses = 0
        """Headers without a plan, since so many were ``_passed`` on."""
        self._passed = 0
        self._templates: Templates[SizedPlan] = Templates()
        """By size: headers that came and had a plan. Those of their size need not be scanned."""
        self.tallies: dict[str, Tally] = {}
        """Messages that plans for a size have converted, by fidelity."""
        self.warm = WARM

    def like(
        self, header: bytes, exchange: str, key: str, tried: bool = False
    ) -> tuple[bytes, Any] | None:
        """The header in the other dialect and the fidelity, if it is like one that had a plan.
        ``tried``: it is not, if the plan is complete. Hot."""
        template = self._templates.get(len(header))
        if template is None or (tried and template.found.tally is not None):
            return None
        known = template.found
        if known.correlation >= 0 and len(self._references):
            values = template.values(header)
            try:
                if values is None or self._refers(known.correlation, values):
                    return None
            except UNREAD:
                return None
        converted = known.converted(header, exchange, key)
        if converted is None:
            return None
        self._misses = 0
        return converted, known.fidelity

    def filled(self, header: bytes, exchange: str, key: str) -> tuple[bytes, Any] | None:
        """The same, if there is a plan for it. Hot."""
        if len(header) > LONGEST:
            return None
        passed = sum(tally.number for tally in self.tallies.values())
        if passed != self._passed:
            self._passed, self._misses = passed, 0
        self._misses += 1
        if self._misses > MANY_MISSES and self._misses & SELDOM:
            return None
        try:
            scanned = self._source.scan(header)
            if scanned is None:
                return None
            shape, values = scanned
            plan = self._plans.get(shape) or self._planned(shape)
            if plan is None:
                return None
            self._misses = 0
            self._keep(header, shape, values, plan)
            place = plan.correlation
            if place >= 0 and len(self._references) and self._refers(place, values):
                return None
            return plan.filled((*values, exchange.encode(), key.encode())), plan.fidelity
        except UNREAD:
            return None

    def _refers(self, place: int, values: Sequence[bytes]) -> bool:
        """Whether the correlation id, at this place, is one that was remembered with another id."""
        text = values[place].decode()
        return self._references.get(text, self._references.get(f"ID:{text}")) is not None

    def _keep(self, header: bytes, shape: Key, values: list[bytes], plan: Plan) -> None:
        """A header had a plan: others of its size may be like it."""
        size = len(header)
        before = self._templates.get(size)
        self._templates.keep(header, lambda: self._template(header, shape, values, plan))
        template = self._templates.get(size)
        if template is not None and template is not before:
            self._changed(size, template.found)

    def _template(
        self, header: bytes, shape: Key, values: list[bytes], plan: Plan
    ) -> Template[SizedPlan] | None:
        """The template of a header of this shape, with its values: for others that have values of
        the same sizes in the same places."""
        octets, found = places_in(self._source, shape, values)
        if octets != header or (plan.correlation >= 0 and found[plan.correlation] is None):
            return None
        fixed = [
            value if place is None else None for place, value in zip(found, values, strict=True)
        ]
        places = [place for place in found if place is not None]
        if not places:
            return None
        fidelity = plan.fidelity
        tally = self.tallies.setdefault(fidelity, Tally()) if isinstance(fidelity, str) else Tally()
        return SizedPlan(header, places, plan.with_fixed(fixed), tally).template

    def _planned(self, shape: Key) -> Plan | None:
        """The plan of a shape that was not there yet."""
        if shape in self._plans:
            return None
        number = hash(shape)
        count = self._seen.get(number, 0) + 1
        if count < self.warm:
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
            self._seen[number] = count
            return None
        self._seen.pop(number, None)
        return self.plan_of(shape)

    def plan_of(self, shape: Key) -> Plan | None:
        """The plan of a shape, also of one that has not come as often as ``warm`` says."""
        if shape in self._plans:
            return self._plans[shape]
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        try:
            plan = self._compiled(shape)
        except UNREAD:
            plan = None
        self._plans[shape] = plan
        return plan

    def _compiled(self, shape: Key) -> Plan | None:
        """Convert the shape with other values, twice, and see where they are."""
        if any(self._source.is_closed(each) for each in shape if isinstance(each, bytes)):
            return None
        one, two = self._made(shape, 0), self._made(shape, 1)
        if one is None or two is None or (one.key, one.fidelity) != (two.key, two.fidelity):
            return None
        known = results(one.given, two.given)
        sources: list[Result | bytes] = []
        for value, other in zip(one.values, two.values, strict=True):
            source = value if value == other else known.get((value, other))
            if source is None:
                return None
            sources.append(source)
        plan = plan_of(self._reader, one.key, sources)
        if any(plan.filled(made.given) != made.header for made in (one, two)):
            return None
        plan.fidelity = one.fidelity
        made = 0  # the UUID comes first
        for place, token in enumerate(tokens(shape)):
            if token in IDS and token & CORRELATION:
                plan.correlation = place
            elif token in (KEPT, KEPT_LONG):
                plan.made = made, place
            elif token in (MADE, MADE_LONG):
                made = place
        return plan

    def _made(self, shape: Key, turn: int) -> Made | None:
        source, narrow = self._source, self._source.is_narrow(shape)
        given = [
            source.stand_in(token, turn, place, narrow) for place, token in enumerate(tokens(shape))
        ]
        as_given: list[Result | bytes] = list(given)
        header = plan_of(source, shape, as_given).filled([])
        if source.scan(header) != (shape, given):
            return None
        hop = HOPS[turn]
        converted = self._convert(header, *hop)
        if converted is None:
            return None
        looked = self._reader.look(converted[0])
        if looked is None:
            return None
        return Made([*given, *(each.encode() for each in hop)], *converted, *looked)


def results(given: list[bytes], others: list[bytes]) -> dict[tuple[bytes, bytes], Result]:
    """The results of all conversions of the values, in both; the first of equal ones."""
    found: dict[tuple[bytes, bytes], Result] = {}
    for place, (one, two) in enumerate(zip(given, others, strict=True)):
        found.setdefault((one, two), (place, as_it_is))
        transfers = TRANSFERS.get(len(one), ()) if len(one) == len(two) else ()
        for transfer in (*transfers, digest):
            found.setdefault((transfer(one), transfer(two)), (place, transfer))
    return found
