"""JSON as the gateway takes it from others: no members twice, no words beside the standard, no deep
nesting. ``refuse`` and ``once`` are hooks of ``json.loads``."""

from typing import Any, NoReturn


def refuse(name: str) -> NoReturn:
    """Hook ``parse_constant``: ``NaN`` and infinities. Raises ``ValueError``."""
    raise ValueError(f"{name} is not JSON")


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Hook ``object_pairs_hook``. Raises ``ValueError`` if a member stands in an object twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a member twice")
    return found


def deeper(value: Any, most: int) -> bool:
    """Whether lists and objects are nested more than ``most`` deep."""
    level = [value]
    while level:
        if most < 0:
            return True
        most -= 1
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return False


def whole(value: Any) -> Any:
    """A number without a fraction is an integer, however it is written (JSON Schema 2020-12
    §4.2.3), as far as a double is exact. Anything else stays."""
    exact = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return int(value) if exact else value
