"""The view of a message for readers by a declared route: all that its publisher said, and nothing
that names the nodes it went through.

Left out are the exchange; the routing key where it is, or may be, the name of a queue (the default
exchange, dead letters); ``to`` and annotations, which are for those on the way; and the headers in
which a broker keeps a message's history. Filters look at the same message: hidden
properties cannot be filtered by either.
"""

from gateway.message import Message, Properties

HISTORY = ("x-death", "x-first-death-", "x-last-death-")
DEATH = b"x-death"


class RedactedMessage(Message):
    """A message without its way."""

    __slots__ = ()

    @property
    def properties(self) -> Properties:
        if self._properties is not None:
            return self._properties
        found = super().properties
        found.to = found.annotations = found.delivery_annotations = None
        if found.application:
            kept = {
                name: value
                for name, value in found.application.items()
                if name != "CC" and not (isinstance(name, str) and name.startswith(HISTORY))
            }
            found.application = kept or None
        return found


def redacted(message: Message) -> RedactedMessage:
    died = "x-death" in (message.added_headers or {}) or DEATH in message.header
    return RedactedMessage(
        message.dialect,
        message.header,
        message.body,
        "",
        message.key if message.exchange and not died else "",
        message.essentials,
        message.added_headers,
    )
