"""Annotations of deliveries as RabbitMQ 4 writes them: the exchange and routing key of the message,
and in the header section whether this is the first delivery.

RabbitMQ's own client requires them (``compat`` is for it). The bare message stays as it came
(§3.2).
"""

from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.performatives.composites import write
from gateway.adapters.performatives.encoding import write_value
from gateway.adapters.performatives.sections import (
    ANNOTATIONS,
    DATA,
    DELIVERY,
    HEADER,
    section_value,
    split_header,
)
from gateway.adapters.performatives.wire import layouts as w
from gateway.message import Message
from gateway.values import Symbol

EXCHANGE, ROUTING_KEY = Symbol("x-exchange"), Symbol("x-routing-key")

_SEEN: BoundedCache[tuple[bytes, str, str], bytes] = BoundedCache(2048)
"""Annotated headers by header, exchange and routing key. All connections share the cache."""


def annotated(header: bytes, message: Message) -> bytes:
    """The header of a first delivery with these annotations; existing ones stay. Raises
    ``FieldError``."""
    key = header, message.exchange, message.key
    found = _SEEN.get(key)
    if found is None:
        found = _SEEN.keep(key, _written(*key))
    return found


def _written(header: bytes, exchange: str, routing_key: str) -> bytes:
    sections = split_header(header)
    at = 0  # behind sections that stand before the header section, which is unusual
    for code, (_, _, stop) in sections.single.items():
        if code > DATA and stop > at:
            at = stop
    for _, (_, _, stop) in sections.body:
        if stop > at:
            at = stop
    transport = sections.single.get(HEADER)
    record = w.Header() if transport is None else w.read_header(header, transport[1])[0]
    record.first_acquirer = True
    rest = at if transport is None else transport[2]
    delivery = sections.single.get(DELIVERY, (rest,) * 3)
    old = sections.single.get(ANNOTATIONS, (delivery[2],) * 3)
    existing = section_value(header, old) if old[2] > old[0] else {}
    annotations = {EXCHANGE: exchange, ROUTING_KEY: routing_key, **existing}
    return b"".join(
        (
            header[:at],
            write(record),
            header[rest : old[0]],
            b"\x00\x53\x72",
            write_value(annotations),
            header[old[2] :],
        )
    )


__all__ = ["annotated"]
