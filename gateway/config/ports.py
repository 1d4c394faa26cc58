"""Listeners that want the same port."""

from collections.abc import Iterable

EVERYWHERE = ("", "0.0.0.0", "::")

Listener = tuple[str, str, int | None]
"""The setting that has the port, the address and the port."""


def collision(listeners: Iterable[Listener]) -> str:
    """The first two that cannot listen both, in words, or "". Port 0 is a free one, and ``None``
    is none."""
    seen: list[tuple[str, str, int]] = []
    for setting, host, port in listeners:
        if not port:
            continue
        for other, there, taken in seen:
            if taken == port and (host == there or {host, there} & {*EVERYWHERE}):
                return f"{other} and {setting} are both {port}; each listener needs its own port"
        seen.append((setting, host, port))
    return ""
