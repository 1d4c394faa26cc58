"""Rules of the broker in which the documents of 0-8 and 0-9 differ from RabbitMQ's 0-9-1."""

from typing import NamedTuple

from gateway.errors import Condition, Lost


class VersionRules(NamedTuple):
    """The broker's rules for clients of one version. The defaults are RabbitMQ's."""

    unknown_vhost: Condition = Condition.NOT_ALLOWED
    """For opening a virtual host that does not exist."""
    no_queue: tuple[Condition, Lost] = (Condition.NOT_FOUND, Lost.SESSION)
    """For an empty queue name on a channel that has declared none."""
    other_type: tuple[Condition, Lost] = (Condition.PRECONDITION_FAILED, Lost.SESSION)
    """For declaring an exchange that exists with another type."""
    unknown_type: tuple[Condition, Lost] = (Condition.COMMAND_INVALID, Lost.CONNECTION)
    """For declaring an exchange of a type that does not exist."""
    passive_type: bool = False
    """A passive declaration that names a type must name that of the exchange (``other_type``)."""
    same_arguments: bool = True
    """A declaration of something that exists must repeat the arguments that limit it, and whether
    it is exclusive. Otherwise only an alternate exchange that it names must be the same (530)."""
    alternates_exist: bool = False
    """An alternate exchange must exist when it is named (404), and cannot be deleted while it is
    one (530)."""
    same_flags: bool = True
    """A declaration of something that exists must repeat its flags; otherwise they are ignored."""
    must_exist: bool = False
    """To delete or unbind something that does not exist is refused (404)."""
    bound_by_key: bool = False
    """A binding is named by exchange, queue and key alone. Binding again with other arguments
    changes nothing (0-10 exchange.bind, rule "duplicates")."""
    bind_default: bool = False
    """Queues may be bound to the default exchange."""
    channel_prefetch: bool = False
    """Prefetch limits are those of the channel, consumers that run included; shared ones are those
    of every channel of the connection. Otherwise they are those of each consumer that starts
    later; shared ones are those of the channel."""
    exclusive_use: Condition = Condition.ACCESS_REFUSED
    """For consuming from a queue that an exclusive consumer has, and for doing so exclusively while
    there are others."""
    returns_refused: bool = False
    """A mandatory message that a full queue refuses comes back (0-10 message.reject)."""
    lasting_exclusive: bool = False
    """An exclusive queue that is durable and not auto-delete outlives its connection, and other
    connections may use it: clients of Qpid keep a durable subscription in one."""
    session_exclusive: bool = False
    """Exclusive queues belong to sessions, not to connections: those that are auto-delete end with
    the session, others are free for the next one that declares them exclusive. A passive
    declaration needs no exclusive use, unless it asks for it."""


RABBITMQ = VersionRules()
PUBLISHED = VersionRules(
    unknown_vhost=Condition.INVALID_PATH,
    no_queue=(Condition.NOT_ALLOWED, Lost.CONNECTION),
    other_type=(Condition.NOT_ALLOWED, Lost.CONNECTION),
    same_flags=False,
    must_exist=True,
    bind_default=True,
    channel_prefetch=True,
)
"""The documents of 0-8 and 0-9."""
TRANSITIONAL = PUBLISHED._replace(alternates_exist=True)
"""0-10 of July 2007."""
EARLY = VersionRules(unknown_vhost=Condition.INVALID_PATH)
"""The documents of 2005: 0.8a2 (with RFC 011, 402), 0-9a0 and 0-9a6."""
FINAL_0_10 = PUBLISHED._replace(
    no_queue=(Condition.NOT_FOUND, Lost.SESSION),
    other_type=(Condition.NOT_ALLOWED, Lost.SESSION),
    bound_by_key=True,
    bind_default=False,
    unknown_type=(Condition.NOT_FOUND, Lost.SESSION),
    passive_type=True,
    same_arguments=False,
    alternates_exist=True,
    channel_prefetch=False,
    exclusive_use=Condition.RESOURCE_LOCKED,
    returns_refused=True,
    lasting_exclusive=True,
    session_exclusive=True,
)
"""0-10 as it was published in 2008."""
