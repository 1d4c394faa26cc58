"""Reply codes as conditions."""

from typing import Any

from gateway.adapters.methods.wire.tables import VERSIONS
from gateway.errors import Condition

CONDITIONS = {condition.value: condition for condition in Condition}


def conditions_by_code(codes: dict[str, tuple[int, str, Any]]) -> dict[int, Condition]:
    """Reply codes as conditions; where several share one, the one that is named alike."""
    found: dict[int, Condition] = {}
    for name, (code, text, _) in codes.items():
        exact = name.replace("-", "_").upper() == text
        if exact or code not in found:
            found[code] = CONDITIONS[name]
    return found


LATEST = conditions_by_code(VERSIONS["0-9-1"].codes)
"""For codes that are not in a version's own list: RabbitMQ says 312 and 406 on 0-8 too."""
