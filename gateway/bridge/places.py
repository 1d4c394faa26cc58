"""The names that queues and addresses have at an upstream of a facade."""

from gateway.bridge.address_rules import AddressRules, Place
from gateway.bridge.preparation import translated


class Places:
    """``rules`` lead from the names that clients use to those at the upstream; without rules, and
    for a place that they do not know, both are the same."""

    def __init__(self, rules: AddressRules | None) -> None:
        self.rules = rules

    def there(self, exchange: str, key: str) -> tuple[str, str]:
        """Exchange and key at the upstream, to publish to."""
        return self._translated(exchange, key, False)

    def here(self, exchange: str, key: str) -> tuple[str, str]:
        """Exchange and key that clients know, of a message that came from the upstream."""
        return self._translated(exchange, key, True)

    def queue(self, name: str) -> str:
        """The name of a queue at the upstream."""
        return self.there("", name)[1]

    def _translated(self, exchange: str, key: str, back: bool) -> tuple[str, str]:
        if self.rules is None:
            return exchange, key
        target, _ = translated(self.rules, Place(exchange, key), back)
        return (exchange, key) if target is None else target.routing


SAME_PLACES = Places(None)
