"""The needs of features at a target: the table of knowledge of the inventory, and what a document
of ``GET /v1/capabilities`` says the target lacks."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gateway.inventory.knowledge import TARGETS, UNKNOWN, Advice, Severity, knowledge
from gateway.inventory.report import severity_order
from pyspark_amqp.options import OptionError

LACKING: dict[str, tuple[str, Advice]] = {
    "priorities": ("priority", Advice(
        "topology", "major",
        "The target has no queues with priorities: messages stay in order of arrival.")),
    "streams": ("stream-filter", Advice(
        "client", "major", "The target has no stream queues, which filter by this value.")),
    "declaring": ("direct-reply-to", Advice(
        "topology", "blocking",
        "Clients may not make queues at the target, so that there is no queue for replies.")),
}  # fmt: skip
"""Abilities, and the needs of the feature that is seen in messages if the target lacks them."""
ABILITIES = {
    "confirms": "publishes are confirmed one by one",
    "transactions": "transactions",
    "browsing": "queues can be read without taking their messages",
    "draining": "a consumer learns that no message is ready",
    "counting": "the number of ready messages is told",
    "declaring": "clients may make queues",
    "priorities": "queues with priorities",
    "streams": "stream queues",
}
"""What a target may lack, in words."""
HTTP = "http"
THROUGH_HTTP = Advice("gateway", "none", "Publishes over HTTP, which the gateway goes on to offer.")
WITHIN = Advice("nothing", "none", "Published by the gateway itself.")
LOST = {
    "warning": Advice(
        "gateway", "major",
        "1.0 has no place for it but the gateway's capsule: programs of 1.0 do not see it."),
    "error": Advice("client", "blocking", "The message has no form in 1.0."),
}  # fmt: skip
"""By the severity that the column ``lossy`` has."""


class Weights(NamedTuple):
    """``lacks``: abilities that the target does not have, in words; ``unknown``: those that its
    probe did not find out; ``product`` is "" without a document of capabilities."""

    target: str
    product: str = ""
    lacking: Mapping[str, Advice] = {}
    lacks: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return self.product or TARGETS[self.target]

    def title_of(self, feature: str) -> str:
        return knowledge().get(feature, UNKNOWN).title

    def advice(self, feature: str) -> Advice:
        """What a feature of messages needs at the target."""
        known = knowledge().get(feature, UNKNOWN).on(self.target)
        lacking = self.lacking.get(feature)
        if lacking is not None and severity_order(lacking.severity) > severity_order(
            known.severity
        ):
            return lacking
        return known

    def of_protocol(self, protocol: str) -> Advice:
        """What a version of the protocol needs."""
        if protocol == HTTP:
            return THROUGH_HTTP
        if not protocol.startswith("amqp-"):
            return WITHIN
        return self.advice(f"version-{protocol.removeprefix('amqp-')}")

    def severity(self, protocol: str, features: Iterable[str]) -> Severity:
        """The worst of a message's features and its version."""
        found = [self.of_protocol(protocol).severity, *(self.advice(f).severity for f in features)]
        return max(found, key=severity_order)


def weights_of(target: str | None, capabilities: Path | None, upstream: str | None) -> Weights:
    """Raises ``OptionError``. Without a target the product in the document says it."""
    if target is not None and target not in TARGETS:
        raise OptionError(f"--target: one of {', '.join(TARGETS)}, not {target!r}")
    if capabilities is None:
        if upstream is not None:
            raise OptionError("--upstream: only with --capabilities")
        return Weights(target or "generic-1.0")
    found = upstream_in(capabilities, upstream)
    abilities, product = found["abilities"], str(found.get("product") or "")
    lacking = dict(LACKING[name] for name in LACKING if abilities.get(name) is False)
    return Weights(
        target or target_of(product),
        f"{product} {found.get('product_version') or ''}".strip() or str(found.get("name")),
        lacking,
        tuple(text for name, text in ABILITIES.items() if abilities.get(name) is False),
        tuple(text for name, text in ABILITIES.items() if abilities.get(name) is None),
    )


def target_of(product: str) -> str:
    """The row of the table of knowledge for a product, as it calls itself."""
    low = product.lower()
    return "rabbitmq-4" if "rabbit" in low else "artemis" if "artemis" in low else "generic-1.0"


def upstream_in(path: Path, name: str | None) -> dict[str, Any]:
    """The upstream of this name, or the only one. Raises ``OptionError``."""
    try:
        document = json.loads(path.read_text())
        found = {str(one["name"]): one for one in document["upstreams"]}
    except OSError as error:
        raise OptionError(f"--capabilities: {path}: {error.strerror}") from None
    except (ValueError, LookupError, TypeError):
        text = "not an answer of GET /v1/capabilities"
        raise OptionError(f"--capabilities: {path}: {text}") from None
    if name is None and len(found) != 1:
        raise OptionError(f"--upstream: one of {', '.join(found) or '(none there)'}")
    one = found.get(name) if name is not None else next(iter(found.values()))
    if one is None:
        raise OptionError(f"--upstream: one of {', '.join(found)}, not {name!r}")
    if not isinstance(one.get("abilities"), dict):
        raise OptionError(f"--capabilities: the upstream {one['name']!r} has not been probed")
    return dict(one)
