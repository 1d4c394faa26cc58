"""Bodies of messages that tests have made, which are octets and no ``LargeBody``."""

from collections.abc import Iterable
from typing import Any

from gateway.bodies import LargeBody
from gateway.message import Message


def small(body: bytes | LargeBody) -> bytes:
    """A body that is no large one."""
    assert isinstance(body, bytes)
    return body


def octets(message: Message) -> bytes:
    return small(message.body)


def text(message: Message) -> str:
    return octets(message).decode()


def joined(pieces: Iterable[Any]) -> bytes:
    """Pieces of which none is a large body."""
    return b"".join(map(small, pieces))
