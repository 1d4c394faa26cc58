"""The notations, and which headers are converted by shape for readers of the versions before 0-8.

Those have fewer types, so that more values change the outcome than for other readers: an integer of
64 bits goes as one of 32 if it fits, times have 32 bits, and empty text stands for a property that
is absent. A header with such a value is converted as a whole.
"""

from gateway.adapters.commands.content import COMMAND
from gateway.adapters.core.templates import Both, Check
from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.segments.content import SEGMENTS
from gateway.crossing import basic_shapes, section_shapes, segment_shapes
from gateway.crossing.basic_shapes import BASIC_NOTATION, is_wide, wide_stand_in
from gateway.crossing.command_shapes import COMMAND_NOTATION
from gateway.crossing.draft_shapes import DRAFT_NOTATIONS
from gateway.crossing.plans import (
    IDS,
    Notation,
    Scanned,
    has_room,
    is_soon,
    is_soon_in_milliseconds,
    tokens,
)
from gateway.crossing.section_shapes import SECTIONS_NOTATION
from gateway.crossing.segment_shapes import SEGMENT_NOTATION

ALONE = frozenset((is_wide, is_soon))
"""Limits within which the checks of all notations hold."""
PLAIN_IDS: dict[int, Check] = dict.fromkeys(IDS, has_room)
LEGACY: dict[int, Check] = {
    **PLAIN_IDS, basic_shapes.EIGHT: is_wide, basic_shapes.SECONDS: is_soon,
}  # fmt: skip
IN_SECTIONS: dict[int, Check] = {
    **PLAIN_IDS,
    section_shapes.LONG_INT: is_wide,
    **dict.fromkeys(section_shapes.TIMES, is_soon_in_milliseconds),
}
IN_SEGMENTS: dict[int, Check] = {
    **PLAIN_IDS,
    segment_shapes.LONG_INT: is_wide,
    **dict.fromkeys((*segment_shapes.TIMES, *segment_shapes.TIMES_IN_MAP), is_soon_in_milliseconds),
    **dict.fromkeys((segment_shapes.TIMES[0], segment_shapes.TIMES_IN_MAP[0]), is_soon),
}


def never(raw: bytes) -> bool:
    return False


class NarrowNotation:
    """A notation for headers of which all values are within ``limits``, by token."""

    def __init__(self, notation: Notation, limits: dict[int, Check]) -> None:
        self._notation, self._limits = notation, limits
        self.writers, self.texts = notation.writers, notation.texts
        self.narrowed = notation.narrowed
        self.checks = {
            **notation.checks,
            **{token: within(notation.checks.get(token), limit) for token, limit in limits.items()},
        }
        self.look, self.size = notation.look, notation.size
        self.is_narrow, self.is_closed = notation.is_narrow, notation.is_closed

    def scan(self, header: bytes) -> Scanned | None:
        found = self._notation.scan(header)
        if found is not None:
            limits = self._limits
            for token, value in zip(tokens(found[0]), found[1], strict=True):
                limit = limits.get(token)
                if limit is not None and not limit(value):
                    return None
        return found

    def stand_in(self, token: int, turn: int, place: int, narrow: bool) -> bytes:
        if self._limits.get(token) is is_wide:
            return wide_stand_in(turn, place)
        return self._notation.stand_in(token, turn, place, narrow)


def within(check: Check | None, limit: Check) -> Check:
    """The check of a notation and a limit, for other octets of a size that is within it."""
    if check is None or limit in ALONE:
        return limit
    return Both(check, limit)


SINCE_0_8: dict[str, Notation] = {
    BASIC.name: BASIC_NOTATION, SECTIONS.name: SECTIONS_NOTATION, SEGMENTS.name: SEGMENT_NOTATION,
}  # fmt: skip
BEFORE_0_8: dict[str, Notation] = {COMMAND.name: COMMAND_NOTATION, **DRAFT_NOTATIONS}
NOTATIONS = {**SINCE_0_8, **BEFORE_0_8}
"""By name of the dialect: those that are converted by shape."""

LIMITS: dict[str, dict[int, Check]] = {
    BASIC.name: LEGACY, SECTIONS.name: IN_SECTIONS, SEGMENTS.name: IN_SEGMENTS,
    **dict.fromkeys(DRAFT_NOTATIONS, LEGACY),
}  # fmt: skip
NO_OCTETS: dict[str, dict[int, Check]] = {
    BASIC.name: {basic_shapes.OCTETS: never},
    SECTIONS.name: {section_shapes.BINARY: never},
    SEGMENTS.name: {segment_shapes.OCTETS: never},
    **dict.fromkeys(DRAFT_NOTATIONS, {basic_shapes.OCTETS: never}),
}
"""0.8a2 takes octets for text if they are UTF-8."""
NARROW = dict(BEFORE_0_8)
NARROWEST = dict(BEFORE_0_8)
for _name, _limits in LIMITS.items():
    NARROW[_name] = NarrowNotation(NOTATIONS[_name], _limits)
    NARROWEST[_name] = NarrowNotation(NOTATIONS[_name], {**_limits, **NO_OCTETS[_name]})


def source_for(source: str, reader: str) -> Notation:
    """The notation in which headers of one dialect are read for readers of another."""
    if reader == COMMAND.name:
        return NARROWEST[source]
    return (NARROW if reader in BEFORE_0_8 else NOTATIONS)[source]
