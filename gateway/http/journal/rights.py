"""Which entries of the journal a caller may read: those at addresses that it may browse."""

from collections.abc import Callable
from fnmatch import fnmatchcase
from urllib.parse import unquote

from starlette.types import Scope

from gateway.broker.broker import Broker
from gateway.http import problems
from gateway.http.access.principal import Action, Principal
from gateway.http.context import Context
from gateway.http.problems import Problem
from gateway.http.request_parameters import read_caller

KINDS = {"queues": "queue", "exchanges": "exchange"}


def node_of(address: str) -> tuple[str, str]:
    """The kind and the name of the node that an address names."""
    _, kind, name = address.partition("?")[0].split("/", 2)
    return KINDS[kind], unquote(name, errors="surrogatepass")


async def read_reader(context: Context, scope: Scope) -> tuple[Principal, str]:
    """The caller, and the virtual host whose journal it reads. Raises ``Problem``: 403 without a
    permission there."""
    principal, vhost = await read_caller(context, scope)
    if not context.broker.access.may_enter(principal.user, vhost):
        raise Problem(problems.FORBIDDEN, f"no permission in virtual host {vhost!r}")
    return principal, vhost


def readable(
    broker: Broker, principal: Principal, vhost: str, pattern: str = "*"
) -> Callable[[str, str], bool]:
    """Whether an entry's address is wanted and may be read. Raises ``Problem`` (403) for one that
    is named and may not."""
    known: dict[str, bool] = {}

    def permitted(address: str) -> bool:
        kind, name = node_of(address)
        access = broker.access
        if not access.allows(principal.user, vhost, "read", name):
            return False
        if kind == "exchange" and access.topics.of(principal.user, vhost, name) is not None:
            return False  # the journal has messages of all its routing keys
        return principal.may(Action.BROWSE, vhost, kind, name)

    def wanted(host: str, address: str) -> bool:
        if host != vhost or not (pattern == "*" or fnmatchcase(address, pattern)):
            return False
        may = known.get(address)
        if may is None:
            may = known[address] = permitted(address)
        return may

    if "*" not in pattern:
        try:
            kind, name = node_of(pattern)
        except (ValueError, KeyError):
            text = "address is /queues/NAME or /exchanges/NAME, or has a `*`"
            raise Problem(problems.INVALID, text) from None
        principal.need(broker, Action.BROWSE, vhost, kind, name)
    return wanted
