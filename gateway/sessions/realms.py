"""Access realms of the drafts of 2005: shared and exclusive tickets (0-9a0 §4.4.1)."""

from gateway.broker.channel import Channel
from gateway.errors import Condition, Refusal

Realm = tuple[str, str, str]
"""Virtual host, user and name: each user has realms of its own, so that no user can lock another
out. Permissions decide the access to resources."""


class Realms:
    """The channels with tickets for each realm; they give no permissions."""

    def __init__(self) -> None:
        self._holders: dict[Realm, dict[Channel, bool]] = {}
        self._held: dict[Channel, set[Realm]] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def enter(self, channel: Channel, name: str, exclusive: bool) -> None:
        """Enter a realm until ``leave``. Refuses (403) if another channel holds it exclusively, or
        if exclusive access is asked for and another channel is in it."""
        realm = channel.vhost.name, channel.client.user, name
        holders = self._holders.setdefault(realm, {})
        if any(alone or exclusive for holder, alone in holders.items() if holder is not channel):
            text = f"realm '{name[:80]}' in vhost '{realm[0]}' has other active tickets"
            raise Refusal(Condition.ACCESS_REFUSED, text)
        holders[channel] = holders.get(channel, False) or exclusive
        self._held.setdefault(channel, set()).add(realm)

    def leave(self, channel: Channel) -> None:
        """Give back all tickets of a channel."""
        for realm in self._held.pop(channel, ()):
            holders = self._holders[realm]
            del holders[channel]
            if not holders:
                del self._holders[realm]
