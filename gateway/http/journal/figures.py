"""Figures of the journal for ``/metrics``."""

import time
from typing import NamedTuple

from gateway.journal.consumers import Consumer, Consumers
from gateway.journal.reader import JournalReader, Overview

MOST_CONSUMERS = 100
"""Consumers whose lag is shown: those that were here last."""


class Figures(NamedTuple):
    """``octets`` of the segments; ``oldest``: seconds since the oldest sealed entry came, 0 if
    there is none."""

    overview: Overview
    octets: int
    oldest: float
    consumers: list[Consumer]


def figures_of(reader: JournalReader) -> Figures:
    """On the journal's thread. Raises ``JournalError``."""
    overview = reader.overview()
    segments = reader.segments()
    oldest = time.time() - segments[0].notes.oldest / 1000 if segments else 0.0
    consumers = sorted(Consumers(reader.directory).all(), key=lambda one: -one.seen)
    octets = sum(one.octets for one in segments)
    return Figures(overview, octets, max(0.0, oldest), consumers[:MOST_CONSUMERS])
