"""Requests about queues, exchanges and bindings, which go to both brokers of a facade.

The primary one of an address answers. The other one may be slower: nothing may be sent there over
what it does not have yet.
"""

import logging
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from typing import Any

from gateway.bridge.facade import Facade
from gateway.bridge.modes.address import Address, Addresses, Kind
from gateway.bridge.modes.bindings import Bindings
from gateway.bridge.modes.mode import NEW, NO_SHARE, OLD
from gateway.broker.answers import Answer
from gateway.broker.facade import UpstreamQueue
from gateway.errors import Refusal
from gateway.operations import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    FindQueue,
    PurgeQueue,
    Unbind,
)

log = logging.getLogger("gateway.bridge")

QUEUE_REQUESTS = (DeclareQueue, DeleteQueue, FindQueue, PurgeQueue)
EXCHANGE_REQUESTS = (DeclareExchange, DeleteExchange)
Place = tuple[Kind, str]


class Topology:
    """Of both ``sides`` of a facade."""

    def __init__(self, sides: dict[int, Facade], addresses: Addresses) -> None:
        self.bindings = Bindings()
        self._sides = sides
        self._addresses = addresses
        self._under_way: dict[Answer, set[Place]] = {}
        """Requests that the other broker has not performed yet, and what they are about."""

    def ask(self, operation: Any) -> Answer:
        """Both brokers get a request, and the primary one of its address answers: when the other
        one has performed it too, if messages or consumers may go there next."""
        exclusive = operation.__class__ is DeclareQueue and operation.exclusive
        name, exchange = named(operation)
        side = OLD
        if exchange:
            side = self._address("exchange", name).arrangement.primary
        elif name:
            side = self.side(name)
        unknown = isinstance(operation, Bind | Unbind) and not (exchange or self._known(name))
        temporary = not exchange and self.is_temporary(name)
        looked = isinstance(operation, FindQueue) or getattr(operation, "passive", False)
        told = None
        if not (exclusive or temporary or unknown or looked):
            told = self._ask_other(OLD + NEW - side, operation)
        answer = self._ask(side, operation)
        if answer is None:  # the successor has no such request: its topology was prepared
            answer = self._ask(OLD, operation)
        assert answer is not None
        answer.then(lambda: self._performed(operation, answer))
        if told is None or not self._is_used(OLD + NEW - side, operation):
            return answer
        both = Answer()
        told.then(lambda: answer.then(lambda: pass_on(answer, both)))
        return both

    def side(self, queue: str) -> int:
        """Where the consumers of a queue have their subscriptions. Exclusive queues, and those that
        end with the connection to the upstream, stay where they were declared."""
        if self.is_temporary(queue):
            return OLD
        return self._addresses.queue(queue).arrangement.primary

    def is_temporary(self, queue: str) -> bool:
        """Whether a queue stays at the old broker, in every mode."""
        found = self._known(queue)
        return found is not None and bool(found.restore)

    def is_under_way(self, addresses: Collection[Address]) -> bool:
        """Whether one of the brokers has something of these addresses that the other has not
        yet."""
        places = {(one.kind, one.name) for one in addresses}
        return not all(map(places.isdisjoint, self._under_way.values()))

    def _known(self, queue: str) -> UpstreamQueue | None:
        found = self._sides[OLD].host.queues.known(queue)
        return found if isinstance(found, UpstreamQueue) else None

    def _address(self, kind: Kind, name: str) -> Address:
        if kind == "queue":
            return self._addresses.queue(name)
        return self._addresses.exchanges.get(name, self._addresses.others)

    def _is_used(self, other: int, operation: Any) -> bool:
        """Whether messages or consumers may go to the other side over what a request has made.
        Nobody waits for a broker that is away."""
        return self._sides[other].remote is not None and any(
            one.target is not None
            or one.share != NO_SHARE
            or one.arrangement.waited
            or one.arrangement.primary == other
            for one in (self._address(*place) for place in places_of(operation))
        )

    def _ask(self, side: int, operation: Any) -> Answer | None:
        facade = self._sides[side]
        if side == NEW and facade.places.rules is not None:
            if not isinstance(operation, QUEUE_REQUESTS):
                return None
            operation = replace(operation, name=facade.places.queue(operation.name))
        return facade.ask(operation)

    def _ask_other(self, side: int, operation: Any) -> Answer | None:
        answer = self._ask(side, operation)
        if answer is not None:
            self._under_way[answer] = places_of(operation)
            answer.then(lambda: self._told(side, operation, answer))
        return answer

    def _told(self, side: int, operation: Any, answer: Answer) -> None:
        del self._under_way[answer]
        try:
            answer.value()
        except Refusal as refusal:
            facade, (name, _) = self._sides[side], named(operation)
            upstream = facade.upstream.settings.name
            log.info("facade %s: %s at %s: %s", facade.vhost, name, upstream, refusal.text)

    def _performed(self, operation: Any, answer: Answer) -> None:
        with suppress(Refusal):
            answer.value()
            self.bindings.follow(operation)


def named(operation: Any) -> tuple[str, bool]:
    """The name that a request is about, and whether it is that of an exchange."""
    if isinstance(operation, Bind | Unbind):
        return operation.destination, operation.to_exchange
    return operation.name, isinstance(operation, EXCHANGE_REQUESTS)


def places_of(operation: Any) -> set[Place]:
    """The queues and exchanges that a request is about."""
    name, exchange = named(operation)
    found: set[Place] = {("exchange" if exchange else "queue", name)}
    if isinstance(operation, Bind | Unbind):
        found.add(("exchange", operation.source))
    return found


def pass_on(later: Answer, answer: Answer) -> None:
    """Answer as another one has, which has come."""
    try:
        answer.resolve(later.value())
    except Refusal as refusal:
        answer.resolve(None, refusal)
