"""Methods with their contents, as the parts of a draft pass them. ``mapping`` has their meaning."""

from collections.abc import Callable
from typing import Any, NamedTuple

from gateway.adapters.methods.contents.dialect import ClassDialect
from gateway.adapters.methods.geometry import Method
from gateway.bodies import Body


def group_of(method: Method) -> str:
    """The class of a method."""
    return method.name.partition(".")[0]


class Content(NamedTuple):
    """The content behind a method: class, header and body."""

    number: int
    header: bytes
    body: Body


class OutgoingMethod(NamedTuple):
    """A record to be sent, and its content."""

    record: Any
    content: Content | None = None


class ContentMethod(NamedTuple):
    """A method of the peer that a content follows. ``dialect`` is that of its class,
    ``handler`` makes its operation (``None``: it has none by itself)."""

    method: Method
    record: Any
    dialect: ClassDialect
    handler: Callable[..., Any] | None
