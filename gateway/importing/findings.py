"""Results of an import: definitions, and everything that has no equal here."""

from typing import Any, NamedTuple

INFO, WARNING, ERROR = "info", "warning", "error"
SEVERITIES = (INFO, WARNING, ERROR)
"""Behaves almost the same, or belongs to another part of a broker; behaves otherwise; is left
out."""
MOST_FINDINGS = 10_000


class ImportFailed(ValueError):
    """The file does not have the form that was expected. The message may be shown."""


class Finding(NamedTuple):
    """``place``: a path in the file, or its line."""

    severity: str
    place: str
    text: str


class Result(NamedTuple):
    """``format`` is one of ``gateway.importing.FORMATS``; ``definitions`` are RabbitMQ's."""

    format: str
    definitions: dict[str, Any]
    findings: list[Finding]
