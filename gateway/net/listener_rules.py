"""Rules for the connections of one listener."""

from typing import NamedTuple

from gateway.adapters.registry import HeaderMeanings, header_meanings
from gateway.config.amqp import AmqpListener, AmqpSettings

IN_THE_CLEAR = frozenset({"PLAIN", "AMQPLAIN"})
"""Mechanisms that send the password in the clear."""


class ListenerRules(NamedTuple):
    """``meanings``: versions by protocol header. ``mechanisms``: SASL mechanisms, in order.
    ``anonymous_user``: name of the user for ANONYMOUS. ``require_tls``: "no", "passwords"
    (mechanisms in the clear need TLS), or "yes" (connections without TLS are refused)."""

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
    rules = ListenerRules(
        header_meanings([amqp.header_0_9]),
        tuple(amqp.mechanisms),
        amqp.anonymous_user,
        amqp.require_tls,
    )
    if listener is None:
        return rules
    user = listener.anonymous_user
    return ListenerRules(
        header_meanings([listener.header_0_9]),
        rules.mechanisms if listener.mechanisms is None else tuple(listener.mechanisms),
        rules.anonymous_user if user is None else user,
        listener.require_tls or rules.require_tls,
    )
