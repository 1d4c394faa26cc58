"""Reply codes as conditions, and conditions as reply codes."""

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
"""For codes that are not in a version's own list: RabbitMQ sends 312 and 406 on 0-8 too."""


class ReplyCodes:
    """The reply codes of one version, both ways."""

    def __init__(self, codes: dict[str, tuple[int, str, Any]]) -> None:
        self._codes = codes
        self._conditions = {**LATEST, **conditions_by_code(codes)}

    def condition(self, code: int) -> Condition:
        return self._conditions.get(code, Condition.INTERNAL_ERROR)

    def reply(self, condition: Condition, text: str) -> tuple[int, str]:
        """Code and text as a native peer expects them: ``NOT_FOUND - no queue 'x' ...``."""
        code, name, _ = self._codes[condition.value]
        raw = f"{name} - {text}".encode("utf-8", "surrogateescape")[:255]
        return code, raw.decode("utf-8", "ignore")


_KNOWN: dict[str, ReplyCodes] = {}


def reply_codes(version: str, codes: dict[str, tuple[int, str, Any]]) -> ReplyCodes:
    """Those of a version, which all its connections share."""
    known = _KNOWN.get(version)
    if known is None:
        known = _KNOWN[version] = ReplyCodes(codes)
    return known
