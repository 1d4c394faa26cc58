"""The path that was probably meant where there is none: an unescaped virtual host, a missing or
misspelt word."""

from collections.abc import Callable, Iterator

from gateway.similar_names import closest

ROOT = "%2F"
WORDS = (
    "queues", "exchanges", "routes", "addresses", "messages", "deliveries", "events", "requests",
    "streams", "subscriptions", "dead-letters", "admin", "vhosts", "bindings", "users",
    "permissions", "definitions",
)  # fmt: skip
LONGEST = 300
"""Of longer paths nothing is guessed."""


def path_hint(path: str, known: Callable[[str], bool]) -> str:
    """What to append to "nothing at PATH": a path that there is, or "". ``known``: whether there
    is a route for a path."""
    if len(path) > LONGEST or not path.startswith("/v1/"):
        return ""
    for candidate, why in candidates(path):
        if candidate != path and known(candidate):
            return f"; {why}: {candidate}"
    return ""


def candidates(path: str) -> Iterator[tuple[str, str]]:
    """A few paths that are like this one, the most likely first, each with the reason."""
    unescaped = "the virtual host / is written %2F in a path"
    yield path.replace("///", f"/{ROOT}/"), unescaped
    yield path.replace("//", f"/{ROOT}/"), unescaped
    first, *rest = path.removeprefix("/v1/").split("/")
    if first in WORDS:
        yield f"/v1/{ROOT}/{'/'.join((first, *rest))}", "the path needs a virtual host, / as %2F"
    if first == "admin" and rest:
        within = f"/v1/admin/vhosts/{ROOT}/{'/'.join(rest)}"
        yield within, "administration is by virtual host"
    spelt = (part if part in WORDS else closest(part, WORDS) or part for part in rest)
    yield f"/v1/{'/'.join((first, *spelt))}", "did you mean"
    yield f"/v1/{'/'.join((first, 'queues', *rest))}", "a queue is named behind queues/"
    yield f"{path.rstrip('/')}/messages", "messages are published to"
