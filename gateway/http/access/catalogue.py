"""Declared routes by name, with their targets and the parameters of their keys.

As a source, a route is written ``NAME`` or ``NAME?parameter=value&...``.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from gateway.config.web import DeclaredRoute
from gateway.http import problems
from gateway.http.problems import Problem

PARAMETER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]{0,63})\}")
MAX_KEY = 255
MOST_PARAMETERS = 16
PREFIX = "route:"


class Filled(NamedTuple):
    """A route with its parameters. ``shown`` is its complete name for readers."""

    route: DeclaredRoute
    key: str
    shown: str


class Catalogue:
    """All declared routes."""

    def __init__(self, routes: Iterable[DeclaredRoute]) -> None:
        self.routes = {(route.vhost, route.name): route for route in routes}

    def route(self, vhost: str, name: str) -> DeclaredRoute:
        """The route of a name. Raises ``Problem`` (404)."""
        found = self.routes.get((vhost, name))
        if found is None:
            raise Problem(problems.NOT_FOUND, "no such route")
        return found

    def source(self, vhost: str, text: str) -> Filled:
        """The target of ``source=route:...``. Raises ``Problem``."""
        name, _, query = text.removeprefix(PREFIX).partition("?")
        return self.filled(vhost, name, read_parameters(query.encode("utf-8", "surrogatepass")))

    def filled(self, vhost: str, name: str, given: dict[str, str]) -> Filled:
        """The route with these parameters. Raises ``Problem`` if there is no such route, it does
        not permit reading, or it needs other parameters."""
        route = self.route(vhost, name)
        if not route.stream:
            raise Problem(problems.FORBIDDEN, "the route does not permit streaming")
        key = fill(route.key, given)
        shown = PREFIX + name
        if given:
            shown += "?" + urlencode(sorted(given.items()), quote_via=quote)
        return Filled(route, key, shown)


def read_parameters(query: bytes) -> dict[str, str]:
    """The parameters of a route. Raises ``Problem``."""
    if not query:
        return {}
    try:
        pairs = parse_qsl(
            query.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS
        )
    except (UnicodeDecodeError, ValueError):
        raise Problem(problems.INVALID, "the parameters of a route cannot be read") from None
    given = dict(pairs)
    if len(given) < len(pairs):
        raise Problem(problems.INVALID, "a parameter of a route is given twice")
    return given


def fill(template: str, given: dict[str, str]) -> str:
    """The key of a template. A value is one word of a topic, without dots and wildcards. Raises
    ``Problem``."""
    names = set(PARAMETER.findall(template))
    if given.keys() != names:
        wanted = ", ".join(sorted(names)) or "no parameters"
        raise Problem(problems.INVALID, f"the route takes {wanted}")
    for value in given.values():
        if not value or any(letter in value for letter in ".*#") or not value.isprintable():
            raise Problem(problems.INVALID, "a parameter of a route is a word without . * #")
    key = PARAMETER.sub(lambda found: given[found[1]], template)
    if len(key.encode()) > MAX_KEY:
        raise Problem(problems.INVALID, f"the routing key is longer than {MAX_KEY} octets")
    return key
