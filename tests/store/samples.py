"""A dialect without a wire, and messages in it."""

from gateway.bodies import Body
from gateway.message import DIALECTS, Essentials, Message, Properties, Table


class SampleDialect:
    """The header is the priority as text, or empty."""

    name = "store-sample"

    def essentials(self, header: bytes) -> Essentials:
        return Essentials(durable=True, priority=int(header) if header else None)

    def read(self, header: bytes) -> Properties:
        return Properties(priority=int(header) if header else None)

    def write(self, properties: Properties) -> bytes:
        return b"" if properties.priority is None else b"%d" % properties.priority

    def with_headers(self, header: bytes, added: Table) -> bytes:
        return header

    def rewrite(self, header: bytes, properties: Properties) -> bytes:
        return header

    def everlasting(self, header: bytes) -> bytes:
        return header


SAMPLE = SampleDialect()
DIALECTS[SAMPLE.name] = SAMPLE


def message(
    body: Body = b"body",
    header: bytes = b"4",
    exchange: str = "amq.topic",
    key: str = "a.key",
    notes: Table | None = None,
) -> Message:
    return Message(SAMPLE, header, body, exchange, key, SAMPLE.essentials(header), notes)


def same(one: Message, other: Message) -> bool:
    """Whether everything that is kept agrees."""
    names = ("dialect", "header", "body", "exchange", "key", "essentials")
    equal = all(getattr(one, name) == getattr(other, name) for name in names)
    return equal and (one.added_headers or None) == (other.added_headers or None)
