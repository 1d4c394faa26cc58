"""Bindings that the gateway has seen since its start: no AMQP lists those of a broker."""

from collections.abc import Iterator
from typing import Any

from gateway.operations import Bind, DeleteExchange, DeleteQueue, Unbind

MOST = 20_000
"""Pairs of an exchange and a queue that are remembered."""


class Bindings:
    """Of queues to exchanges, by the names that clients know."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], set[tuple[str, str]]] = {}
        """By exchange and queue, the keys and arguments of their bindings."""

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Exchange and queue."""
        return iter(self._found)

    def follow(self, operation: Any) -> None:
        """A request about topology that the broker has performed."""
        if isinstance(operation, Bind | Unbind):
            if operation.source and not operation.to_exchange:
                self._follow(operation)
        elif isinstance(operation, DeleteQueue | DeleteExchange):
            at = int(isinstance(operation, DeleteQueue))
            for place in [one for one in self._found if one[at] == operation.name]:
                del self._found[place]

    def _follow(self, operation: Bind | Unbind) -> None:
        place = operation.source, operation.destination
        one = operation.key, repr(operation.arguments)
        if isinstance(operation, Unbind):
            left = self._found.get(place, set())
            left.discard(one)
            if not left:
                self._found.pop(place, None)
        elif place in self._found or len(self._found) < MOST:
            self._found.setdefault(place, set()).add(one)
