"""Publishes of class ``basic`` that are whole in one read, taken in one step.

Their arguments are looked up by their octets, and their properties compared with some that came
before; whatever is unusual is left to ``Incoming``, frame by frame.
"""

import struct
from typing import NamedTuple, Protocol

from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.core.templates import Templates, template
from gateway.adapters.methods import states
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.essentials import value_places
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.transitional.channel import Channel, ChannelEngine
from gateway.adapters.methods.transitional.content import arrived_header
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.message import Essentials, Message
from gateway.operations import Operation, Publish


class Route(NamedTuple):
    """The arguments of a publish."""

    exchange: str
    key: str
    immediate: bool


_ROUTES: BoundedCache[bytes, Route] = BoundedCache()
_LIKE: Templates[Essentials] = Templates()
_KNOWN: BoundedCache[bytes, tuple[bytes, Essentials]] = BoundedCache()
"""Connections share them (one thread). Both revisions write alike."""


class PublishingEngine(ChannelEngine, Protocol):
    """The engine, as far as this part needs it."""

    @property
    def channels(self) -> dict[int, Channel]: ...


class Publishes:
    """Those of one connection, in the server role."""

    def __init__(self, engine: PublishingEngine) -> None:
        self._engine = engine
        self._method: Method = engine.table.by_name["basic.publish"]
        self.prefix = self._method.prefix
        """Class and method."""
        self.group = self._method.number >> 16
        spool, most = engine.spool, engine.max_message_octets
        self.most = most if spool is None else min(most, spool.threshold - 1)
        """Octets of the largest body."""

    def take(
        self, number: int, method: bytes, properties: bytes, body: bytes, found: list[Operation]
    ) -> bool:
        """A publish with its content on a channel; ``method`` begins with class and method. Whether
        it was taken. Hot."""
        engine = self._engine
        channel = engine.channels.get(number)
        if (
            channel is None
            or channel.state is not states.OPEN
            or channel.content is not None
            or engine.life.state is not states.OPEN
        ):
            return False
        route = _ROUTES.get(method) or self._route(method)
        if route is None:
            return False
        essentials = _LIKE.find(properties)
        if essentials is None:
            known = _KNOWN.get(properties) or known_properties(properties)
            if known is None:
                return False
            properties, essentials = known
        channel.numbering.received += 1
        exchange, key, immediate = route
        message = Message(BASIC, properties, body, exchange, key, essentials)
        found.append(Publish(number, message, False, immediate))
        return True

    def _route(self, octets: bytes) -> Route | None:
        try:
            record, stop = self._method.read(octets, len(self.prefix))
        except (ValueError, struct.error, IndexError):
            return None
        if stop != len(octets):
            return None
        return _ROUTES.keep(octets, Route(record.exchange, record.routing_key, record.immediate))


def known_properties(octets: bytes) -> tuple[bytes, Essentials] | None:
    """The properties as they are kept, and their essentials; ``None`` if they are not good."""
    try:
        known = received_header(octets)
    except ValueError:
        return None
    if known[0] == octets:
        _LIKE.keep(octets, lambda: template(octets, value_places(octets), known[1]))
    return _KNOWN.keep(octets, known)


def received_header(octets: bytes) -> tuple[bytes, Essentials]:
    """The properties of a message of class ``basic``, and its essentials. Raises ``ValueError``."""
    try:
        w.read_basic_properties(octets, 0)  # the flags of this version
        return arrived_header(octets)
    except (struct.error, IndexError) as error:
        raise ValueError("the properties are cut short") from error
