"""Rules for the connections of one listener."""

from typing import NamedTuple

from gateway.adapters.registry import HeaderMeanings, header_meanings
from gateway.adapters.sniff import FALLBACK
from gateway.config.amqp import AmqpListener, AmqpSettings

IN_THE_CLEAR = frozenset({"PLAIN", "AMQPLAIN"})
"""Mechanisms that send the password in the clear."""

REFUSALS = {
    "tls": FALLBACK,
    "http": b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    b"Content-Length: 50\r\n\r\nThis port speaks AMQP. HTTP has a port of its own.",
}
"""Answers to peers that do not speak AMQP, by protocol."""


class ListenerRules(NamedTuple):
    """``name``: of the listener, for the journal; "" is its address and port. ``meanings``:
    versions by protocol header. ``mechanisms``: SASL mechanisms, in order.
    ``anonymous_user``: name of the user for ANONYMOUS. ``require_tls``: "no", "passwords"
    (mechanisms in the clear need TLS), or "yes" (connections without TLS are refused)."""

    name: str
    meanings: HeaderMeanings
    mechanisms: tuple[str, ...]
    anonymous_user: str | None
    require_tls: str

    def offered(self, encrypted: bool) -> tuple[str, ...]:
        """The mechanisms for a connection with TLS, or without."""
        if encrypted or self.require_tls == "no":
            return self.mechanisms
        return tuple(name for name in self.mechanisms if name not in IN_THE_CLEAR)


def rules_of(amqp: AmqpSettings, listener: AmqpListener | None = None) -> ListenerRules:
    """Rules of an additional listener, or those of the standard ports."""
    one = listener or amqp
    return ListenerRules(
        "amqp" if listener is None else listener.name or "",
        header_meanings(filter(None, (one.header_0_9, one.header_0_10))),
        tuple(amqp.mechanisms if one.mechanisms is None else one.mechanisms),
        amqp.anonymous_user if one.anonymous_user is None else one.anonymous_user,
        one.require_tls or amqp.require_tls,
    )
