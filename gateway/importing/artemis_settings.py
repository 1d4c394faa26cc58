"""Settings of addresses of Artemis, by patterns that inherit from each other."""

import re
from typing import Any, NamedTuple

from gateway.importing.documents import Element
from gateway.importing.findings import ImportFailed
from gateway.importing.topology import Topology, flag_of, number_of, timer_of

Table = dict[str, Any]
UNITS = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mb": 1 << 20,
         "mib": 1 << 20, "g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30}  # fmt: skip
SIZE = re.compile(r"(-?[0-9]{1,15}) ?([a-z]{0,3})", re.ASCII | re.IGNORECASE)

READ = frozenset([
    "dead-letter-address", "expiry-address", "max-delivery-attempts", "max-size-bytes",
    "max-size-messages", "address-full-policy", "expiry-delay", "max-expiry-delay",
    "default-ring-size", "default-last-value-queue", "last-value-queue", "default-last-value-key",
    "default-exclusive-queue", "default-non-destructive",
])  # fmt: skip
QUIET = frozenset([
    "message-counter-history-day-limit", "page-size-bytes", "page-max-cache-size",
    "redistribution-delay", "max-read-page-bytes", "max-read-page-messages", "page-limit-bytes",
    "page-limit-messages", "page-full-policy", "default-consumer-window-size",
    "enable-metrics", "prefetch-page-bytes", "prefetch-page-messages",
    "management-browse-page-size",
    "management-message-attribute-size-limit", "id-cache-size", "initial-queue-buffer-size",
    "config-delete-queues", "config-delete-addresses", "config-delete-diverts",
])  # fmt: skip
WITHOUT_EQUAL = {
    "redelivery-delay": "a message that comes back is delivered again at once",
    "redelivery-delay-multiplier": "a message that comes back is delivered again at once",
    "max-redelivery-delay": "a message that comes back is delivered again at once",
    "min-expiry-delay": "a message expires when it says",
    "send-to-dla-on-no-route": "name an alternate exchange",
    "max-size-bytes-reject-threshold": "there is one limit",
    "default-max-consumers": "any number of consumers",
    "default-purge-on-no-consumers": "messages stay without consumers",
    "default-group-rebalance": "a group stays with its consumer until that ends",
    "slow-consumer-policy": "slow consumers are never cut",
    "slow-consumer-threshold": "slow consumers are never cut",
    "retroactive-message-count": "a new queue begins empty",
    "auto-create-queues": "clients declare their queues",
    "auto-create-addresses": "clients declare their exchanges",
    "auto-delete-queues": "a queue goes with its last consumer if it was declared so",
    "auto-delete-addresses": "exchanges stay",
    "auto-create-dead-letter-resources": "declare the queue for dead letters",
    "auto-create-expiry-resources": "declare the queue for dead letters",
}


MOST_SETTINGS = 1000
"""Each is compared with all addresses; a virtual host has no more policies."""


class Wildcards(NamedTuple):
    """Characters of patterns of addresses."""

    delimiter: str = "."
    any_words: str = "#"
    single_word: str = "*"

    def is_pattern(self, text: str) -> bool:
        words = text.split(self.delimiter)
        return self.any_words in words or self.single_word in words

    def expression(self, text: str) -> str:
        """A pattern of addresses as a regular expression."""
        words = text.split(self.delimiter)
        dot = re.escape(self.delimiter)
        if words == [self.any_words]:
            return ".*"
        found, joined = "", True
        for at, word in enumerate(words):
            if word != self.any_words:
                one = f"[^{dot}]++" if word == self.single_word else re.escape(word)
                found += ("" if joined else dot) + one
                joined = False
            elif at + 1 == len(words):  # the words before may stand alone
                found += f"({dot}.*)?"
            else:
                found += ("" if joined else dot) + f"(.*{dot})?"
                joined = True
        return f"^{found}$"

    def topic(self, text: str) -> str:
        """The same as a key of a topic exchange."""
        names = {self.any_words: "#", self.single_word: "*"}
        return ".".join(names.get(word, word) for word in text.split(self.delimiter))

    def covers(self, pattern: str, other: str) -> bool:
        """Whether every address of another pattern, or an address, has this pattern. Linear in the
        product of their words, as a table."""
        mine, theirs = pattern.split(self.delimiter), other.split(self.delimiter)
        reach = [True] + [False] * len(theirs)
        for word in mine:
            if word == self.any_words:
                first = reach.index(True) if True in reach else len(reach)
                reach = [at >= first for at in range(len(reach))]
                continue
            reach = [False] + [
                reach[at] and self.fits(word, theirs[at]) for at in range(len(theirs))
            ]
        return reach[-1]

    def fits(self, word: str, other: str) -> bool:
        return word == other or (word == self.single_word and other != self.any_words)

    def specificity(self, pattern: str) -> tuple[int, ...]:
        """Sorts patterns, the more specific last: by their words from the left."""
        values = {self.any_words: 0, self.single_word: 1}
        return tuple(values.get(word, 2) for word in pattern.split(self.delimiter))


class Setting(NamedTuple):
    """Settings for the addresses of a pattern, with inherited ones."""

    match: str
    place: str
    values: dict[str, str]
    own: frozenset[str]


def read_settings(
    topology: Topology, elements: list[Element], wildcards: Wildcards
) -> list[Setting]:
    """The most general first. Raises ``ImportFailed``."""
    if len(elements) > MOST_SETTINGS:
        raise ImportFailed(f"there are more than {MOST_SETTINGS} address-settings")
    named = [one for one in elements if topology.good(one.place, "match", one.get("match"), True)]
    given = sorted(named, key=lambda one: wildcards.specificity(one.get("match")))
    found: list[Setting] = []
    for one in given:
        match = one.get("match")
        own = {child.name: child.text for child in one.children}
        for child in one.children:
            if child.name in WITHOUT_EQUAL:
                told = f"{child.name} of '{match}': {WITHOUT_EQUAL[child.name]}"
                topology.find(severity_of(child), child.place, told)
            elif child.name not in READ | QUIET:
                topology.info(child.place, f"{child.name} of '{match}' has no equal")
        values: dict[str, str] = {}
        for more in found:
            if wildcards.covers(more.match, match):
                values |= {name: more.values[name] for name in more.own}
        found.append(Setting(match, one.place, values | own, frozenset(own)))
    return found


def severity_of(child: Element) -> str:
    return "info" if child.name.startswith("auto-") or child.text in ("0", "-1") else "warning"


def effective(settings: list[Setting], address: str, wildcards: Wildcards) -> dict[str, str]:
    """The settings in force for an address."""
    values: dict[str, str] = {}
    for one in settings:
        if wildcards.covers(one.match, address):
            values |= {name: one.values[name] for name in one.own}
    return values


def octets_of(text: str) -> int | None:
    """A size with its unit; ``None`` for no limit and for what is no size."""
    found = SIZE.fullmatch(text.strip())
    if found is None or found[2].lower() not in UNITS:
        return None
    value = int(found[1]) * UNITS[found[2].lower()]
    return value if value >= 0 else None


def policy_of(topology: Topology, setting: Setting, multicast: frozenset[str]) -> Table:
    """Keys of a policy of RabbitMQ."""
    values, place = setting.values, setting.place
    found: Table = {}
    dead, expired = values.get("dead-letter-address"), values.get("expiry-address")
    if dead or expired:
        to = dead or expired or ""
        if to in multicast:
            found["dead-letter-exchange"] = to
        else:
            found |= {"dead-letter-exchange": "", "dead-letter-routing-key": to}
        if dead != expired:
            told = f"'{setting.match}': rejected and expired messages both go to '{to}'"
            topology.warn(place, told)
    attempts = number_of(values.get("max-delivery-attempts"))
    if attempts is not None and attempts > 0:
        found["delivery-limit"] = attempts - 1
    lengths(topology, setting, found)
    delay = number_of(values.get("max-expiry-delay"))
    if delay is None or delay < 0:
        delay = number_of(values.get("expiry-delay"))
        if delay is not None and delay >= 0:
            told = (
                f"expiry-delay of '{setting.match}': here it also limits messages that expire later"
            )
            topology.info(place, told)
    if delay is not None and delay >= 0:
        found["message-ttl"] = timer_of(delay)
    return found


def lengths(topology: Topology, setting: Setting, found: Table) -> None:
    values, place = setting.values, setting.place
    full = values.get("address-full-policy", "PAGE").upper()
    limits = {
        "max-length-bytes": octets_of(values.get("max-size-bytes", "")),
        "max-length": octets_of(values.get("max-size-messages", "")),
    }
    given = {key: value for key, value in limits.items() if value is not None}
    ring = number_of(values.get("default-ring-size"))
    if given and full == "FAIL":
        found |= given | {"overflow": "reject-publish"}
    elif given and full == "DROP":
        found |= given | {"overflow": "drop-head"}
        told = f"DROP of '{setting.match}': here the oldest messages go, there the newest"
        topology.warn(place, told)
    elif given and full == "BLOCK":
        found |= given | {"overflow": "reject-publish"}
        told = f"BLOCK of '{setting.match}': here a publish to a full queue is refused"
        topology.warn(place, told)
    if ring is not None and ring >= 0:
        found |= {"max-length": ring, "overflow": "drop-head"}


def arguments_of(values: dict[str, str]) -> Table:
    """Settings by address that no policy has."""
    found: Table = {}
    last_value = flag_of(values.get("default-last-value-queue", values.get("last-value-queue")))
    key = values.get("default-last-value-key")
    if last_value or key:
        found["x-last-value-key"] = key or "_AMQ_LVQ_NAME"
    if flag_of(values.get("default-exclusive-queue")):
        found["x-single-active-consumer"] = True
    if flag_of(values.get("default-non-destructive")):
        found["x-browse-only"] = True
    return found
