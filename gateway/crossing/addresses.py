"""Reply addresses: a queue's name in the older versions, an address in 1.0."""

from urllib.parse import unquote

QUEUES = "/queues/"


def to_address(reply_to: str | None) -> str | None:
    """A plain queue name stays plain: plain addresses mean queues here."""
    return reply_to


def from_address(address: str | None) -> str | None:
    """``/queues/q`` is the queue ``q``; any other address stays as it is."""
    if address is None or not address.startswith(QUEUES) or "/" in address[len(QUEUES) :]:
        return address
    try:
        return unquote(address[len(QUEUES) :], errors="strict") or address
    except UnicodeDecodeError:
        return address
