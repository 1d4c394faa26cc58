"""Features and losses of messages in an archive, from their form in 1.0 (``amqp10``) alone. What
1.0 expresses with a capsule is in the capsule, which the columns of a journal seal with no key."""

from collections.abc import Callable
from typing import Any

from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.sections import part
from gateway.adapters.segments.content import SEGMENTS
from gateway.crossing.crossing import Crossing
from gateway.crossing.legacy_forms import form_of
from gateway.inventory.message_features import features_of
from gateway.journal.canonical import ODD, clean, is_sampled
from gateway.message import NO_ESSENTIALS, Dialect, Message

KEY = bytes(32)
Losses = list[dict[str, str]]


def dialect_of(protocol: str) -> Dialect:
    """The dialect in which a publisher of this protocol has written."""
    if protocol == "amqp-0-10":
        return SEGMENTS
    return BASIC if protocol.startswith("amqp-0") else SECTIONS


def message_of(octets: bytes, exchange: str = "", key: str = "") -> Message:
    """The message of ``amqp10``. Raises ``ValueError``."""
    header, body = part(octets)
    return Message(SECTIONS, header, body, exchange, key, NO_ESSENTIALS)


class Archived:
    """Reads messages of an archive. For one thread at a time."""

    def __init__(self) -> None:
        self._crossing = Crossing(KEY)
        self._form = form_of(SECTIONS)

    def features(self, octets: bytes, protocol: str) -> list[str] | None:
        """``None`` of octets that are no message."""
        try:
            message = message_of(octets)
            size = len(message.body)
            dialect = dialect_of(protocol)
            if dialect is SECTIONS:
                return list(map(clean, features_of(message.properties, dialect, size)))
            header = self._crossing.cross(message, dialect).header
            return list(map(clean, features_of(dialect.read(header), dialect, size)))
        except ODD:
            return None

    def losses(self, octets: bytes) -> Losses | None:
        """At most as many as a capsule names. ``None`` of octets that are no message."""
        try:
            header, _ = part(octets)
            sealed = self._form.capsule_in(header) if self._form.marker in header else None
            capsule = None if sealed is None else self._crossing.seal.read(sealed)
        except ODD:
            return None
        return [
            {"feature": clean(name), "detail": "not natural in 1.0", "severity": "warning"}
            for name in (() if capsule is None else capsule.names)
        ]


def finder(share: float) -> Callable[[Any], Any]:
    """A function for ``mapInArrow``: batches with ``features`` and ``lossy`` where these were null
    and there is ``amqp10``, which is left out. ``lossy`` is found of a sample."""

    def run(batches: Any) -> Any:
        import pyarrow as pa

        read = Archived()
        for batch in batches:
            given = {name: batch.column(name) for name in batch.schema.names}
            rows = list(
                zip(
                    *(given[name].to_pylist()
                      for name in ("pos", "protocol", "amqp10", "features", "lossy")),
                    strict=True,
                )
            )  # fmt: skip
            features = [
                read.features(octets, protocol or "")
                if octets is not None and used is None
                else used
                for _, protocol, octets, used, _ in rows
            ]
            losses = [
                read.losses(octets)
                if octets is not None and lost is None and is_sampled(pos, share)
                else lost
                for pos, _, octets, _, lost in rows
            ]
            given["features"] = pa.array(features, given["features"].type)
            given["lossy"] = pa.array(losses, given["lossy"].type)
            del given["amqp10"]
            yield pa.RecordBatch.from_arrays(list(given.values()), names=list(given))

    return run
