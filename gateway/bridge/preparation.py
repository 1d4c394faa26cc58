"""Changes of a message before a shovel publishes it: address, properties, note of the hop."""

from collections.abc import Iterator

from gateway.adapters.performatives.addresses import exchange as exchange_address
from gateway.bridge.address_inventory import compiled
from gateway.bridge.address_patterns import FIELD, Pattern
from gateway.bridge.address_rules import AddressRules, Place
from gateway.bridge.notes import HOPS
from gateway.bridge.ordering import KeyOf, key_reader
from gateway.bridge.property_rules import Draft, PropertyRules, Values
from gateway.config.addresses import read_address_rules
from gateway.config.bridge import ShovelDestination, ShovelSettings
from gateway.errors import ConfigError
from gateway.message import Message
from gateway.selector import Selector

ALWAYS = ("exchange", "key", "queue")
"""Parts of every address: exchange and key of the message, and the queue that it comes from."""


class Preparation:
    """Of one shovel. ``values``: parts of the pattern that its queue matches. Raises
    ``ConfigError`` if the rules are wrong."""

    def __init__(self, settings: ShovelSettings, values: Values | None = None) -> None:
        text = "" if settings.filters_at_source else settings.filter
        self.matches = Selector(text).matches if text else None
        """The filter, unless the source has it."""
        self._destination = settings.destination
        self._fixed = {"queue": settings.source.queue, **(values or {})}
        self._addresses = address_rules(settings.destination)
        self._properties: PropertyRules | None = None
        if settings.properties:
            rules = [] if self._addresses is None else self._addresses.rules
            parts = {name for one in rules for name in one.match.parts}
            try:
                self._properties = PropertyRules(
                    settings.properties, parts | {*ALWAYS, *self._fixed}
                )
            except ValueError as error:
                raise ConfigError(f"shovel {settings.name}: {error}") from None
        self.key_of = reader(settings, "order_by", settings.order_by)
        """The property by which messages are ordered."""
        duplicates = settings.duplicates
        named = "" if duplicates is None else duplicates.id
        self.id_of = reader(settings, "duplicates.id", named)
        """The property that no two messages share."""
        self._plain = self._addresses is None and self._properties is None

    def noted(self, message: Message, hops: int) -> Message:
        """The message with a note that this shovel is its ``hops``th."""
        added = {**(message.added_headers or {}), HOPS: hops}
        return message.routed_as(message.exchange, message.key, added_headers=added)

    def prepared(self, message: Message, hops: int) -> Message:
        """As it is published, with that note. Raises ``ValueError`` if it has no address at the
        destination, or its properties cannot be changed as the rules say. Hot."""
        if self._plain:
            exchange, key = self._destination.place(message.exchange, message.key)
            added = {**(message.added_headers or {}), HOPS: hops}
            return message.routed_as(exchange, key, added_headers=added)
        place, values = self._place(message)
        draft = Draft(self.noted(message, hops))
        if self._addresses is not None:
            translate_reply_to(draft, self._addresses, self._destination.inverse)
        if self._properties is not None:
            self._properties.apply(draft, values)
        return draft.message().routed_as(*place)

    def _place(self, message: Message) -> tuple[tuple[str, str], Values]:
        values = {**self._fixed, "exchange": message.exchange, "key": message.key}
        if self._addresses is None or self._destination.is_fixed:
            return self._destination.place(message.exchange, message.key), values
        place = Place(message.exchange, message.key)
        target, parts = translated(self._addresses, place, self._destination.inverse)
        if target is None:
            raise ValueError(f"no address rule has a target for {place}")
        return target.routing, {**values, **parts}


def reader(settings: ShovelSettings, setting: str, name: str) -> KeyOf | None:
    """Reads a property that a setting names, if it does. Raises ``ConfigError``."""
    try:
        return key_reader(name) if name else None
    except ValueError as error:
        raise ConfigError(f"shovel {settings.name}: {setting}: {error}") from None


def check_rules(settings: ShovelSettings) -> None:
    """Raises ``ConfigError`` if the rules or the pattern of a shovel are wrong."""
    parts = queue_pattern(settings).parts if settings.source.queues else ()
    Preparation(settings, dict.fromkeys(parts, ""))


def queue_pattern(settings: ShovelSettings) -> Pattern:
    """Of the queues that a shovel moves. Raises ``ConfigError``."""
    try:
        return Pattern(settings.source.queues, FIELD)
    except ValueError as error:
        raise ConfigError(f"shovel {settings.name}: {error}") from None


def address_rules(settings: ShovelDestination) -> AddressRules | None:
    """Raises ``ConfigError``."""
    if settings.addresses_file is not None:
        return compiled(read_address_rules(settings.addresses_file))
    return None if settings.addresses is None else compiled(settings.addresses)


def translated(rules: AddressRules, place: Place, inverse: bool) -> tuple[Place | None, Values]:
    """The target of a place, whichever way it is written, and the parts of the rule. On the way
    back it is the place that leads here."""
    for one in forms_of(place, inverse):
        source = rules.inverse(one) if inverse else one
        found = None if source is None else rules.translate(source)
        if found is not None and found.rule:
            return source if inverse else found.target, found.values
    return (place if rules.keep else None), {}


def forms_of(place: Place, inverse: bool) -> Iterator[Place]:
    """The same place as exchange and key, and as an address. On the way back the name of a queue
    stands for the address that the other broker has told, and comes first: a rule for any address
    would take the other form too."""
    yield place
    if place.exchange is None:
        yield Place(*place.routing)
        return
    address = Place(None, exchange_address("v2", place.exchange, place.name))
    name = [] if place.exchange else [Place(None, place.name)]
    yield from (*name, address) if inverse else (address, *name)


def translate_reply_to(draft: Draft, rules: AddressRules, inverse: bool) -> None:
    """Replies go where the rules lead; an address that no rule knows stays. Raises
    ``ValueError``."""
    given = draft.properties.reply_to
    if not given:
        return
    place = Place(None if given.startswith("/") else "", given)
    target, _ = translated(rules, place, inverse)
    if target is None or target == place:
        return
    text = target.name
    if target.exchange:
        text = exchange_address("v2", target.exchange, target.name)
    draft.put("reply_to", text)
