"""Arguments of subscriptions and bindings by which clients of Qpid filter and browse."""

from typing import Any, NamedTuple

from gateway.errors import Condition, Lost, PeerError
from gateway.message import Table
from gateway.selector import Selector, SelectorError

SELECTOR = "x-filter-jms-selector"
BROWSE = "x-filter-no-consume"
BINDING_SELECTOR = "x-selector"
AUTO_CLOSE = "x-filter-auto-close"
NO_LOCAL = ("x-qpid-no-local", "no-local")


class ConsumerArguments(NamedTuple):
    """``copy``: browse. ``ends``: the consumer ends when it has seen all ready messages."""

    selector: Selector | None = None
    copy: bool = False
    ends: bool = False
    no_local: bool = False


NONE = ConsumerArguments()


def read_consumer_arguments(arguments: Table) -> ConsumerArguments:
    """Raises ``PeerError`` (406, costs the channel) for a selector with a mistake."""
    if not any(name in arguments for name in (SELECTOR, BROWSE, AUTO_CLOSE, *NO_LOCAL)):
        return NONE
    return ConsumerArguments(
        _selector(arguments.get(SELECTOR)),
        _true(arguments.get(BROWSE)),
        _true(arguments.get(AUTO_CLOSE)),
        any(_true(arguments.get(name)) for name in NO_LOCAL),
    )


def binding_arguments(arguments: Table) -> Table:
    """Arguments of a binding with the broker's name for a selector."""
    if SELECTOR not in arguments:
        return arguments
    kept = {name: value for name, value in arguments.items() if name != SELECTOR}
    if arguments[SELECTOR]:
        kept[BINDING_SELECTOR] = arguments[SELECTOR]
    return kept


def _true(value: Any) -> bool:
    """Qpid writes booleans also as texts, and a mark without a value as void."""
    return value is True or (isinstance(value, str) and value.lower() == "true")


def _selector(text: Any) -> Selector | None:
    if text is None or text == "":
        return None
    if not isinstance(text, str):
        raise _refused(f"{SELECTOR} is not a text")
    try:
        return Selector(text)
    except SelectorError as error:
        raise _refused(f"no selector: {error}") from None


def _refused(text: str) -> PeerError:
    return PeerError(Condition.PRECONDITION_FAILED, text, Lost.SESSION)
