"""Message ids made here: UUID version 7 (RFC 9562 §5.7), sortable by time."""

import os
from functools import lru_cache

DIGITS = 19
"""Random hexadecimal digits of an id. Of the fourth of them two bits are used."""
VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
AHEAD = 64
"""Ids whose noise is asked of the system at once: one call each would be most of their cost."""

noise: list[str] = []
"""The ends of ids to come, from the version on."""


def uuid7(now: int) -> str:
    """A new id; ``now`` is ms since 1970."""
    if not noise:
        refill()
    return begin(now) + noise.pop()


@lru_cache(8)
def begin(now: int) -> str:
    time = f"{now & 0xFFFFFFFFFFFF:012x}"
    return f"{time[:8]}-{time[8:]}"


def refill() -> None:
    digits = os.urandom(AHEAD * DIGITS // 2).hex()
    each = [digits[at : at + DIGITS] for at in range(0, AHEAD * DIGITS, DIGITS)]
    noise.extend([f"-7{one[:3]}-{VARIANT[one[3]]}{one[4:7]}-{one[7:]}" for one in each])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=noise.clear)
