"""The class tunnel of 0-8, 0-9 and the transitional 0-10: a block of octets for a proxy.

The documents leave it to the server what a proxy is; here it is whoever consumes from the queue of
its name, over any version. So the block becomes a basic message for that queue, or, if its
broadcast mode is not 0, for all queues that are bound to ``amq.fanout``. Its data name is the type
of the message, its meta-data a header.
"""

from collections.abc import Callable
from typing import Any

from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.geometry import Content
from gateway.adapters.methods.tags import ALLOWANCE
from gateway.bodies import Body
from gateway.message import Message, Properties, Table
from gateway.operations import Publish

REQUEST = "tunnel.request"
META_DATA = "x-tunnel-meta-data"
EVERYBODY = "amq.fanout"

Read = Callable[[bytes], Table]
"""Reads a table of the version. Raises ``FieldError``."""


class TunnelledBlock(Message):
    """A block on its way to a proxy, to whom it cannot be returned."""

    __slots__ = ()


def arrived(content: Content, read: Read, header: bytes) -> tuple[Any, Table | None]:
    """The properties of a block, and its headers. Raises ``ValueError``."""
    try:
        record, end = content.read(header, 0)
    except IndexError as error:
        raise ValueError("the properties are cut short") from error
    if end != len(header):
        raise ValueError("the properties do not end where the frame ends")
    if record.headers is None:
        return record, None
    with ALLOWANCE.within():
        return record, read(record.headers)


def published(
    channel: int, meta_data: Table, known: tuple[Any, Table | None], body: Body
) -> Publish:
    """The message for a proxy. Raises ``ValueError``."""
    record, headers = known
    application = {**(headers or {}), **({META_DATA: meta_data} if meta_data else {})}
    given = Properties(
        durable=bool(record.durable), type=record.data_name or None, application=application or None
    )
    header, to_all = BASIC.write(given), bool(record.broadcast)
    exchange, proxy = EVERYBODY if to_all else "", record.proxy_name or ""
    block = TunnelledBlock(BASIC, header, body, exchange, proxy, BASIC.essentials(header))
    return Publish(channel, block, not to_all, False)
