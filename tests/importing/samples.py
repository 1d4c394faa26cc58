"""Recorded files of brokers, and what is asked of a result."""

from pathlib import Path
from typing import Any

from gateway.importing import Document, Result, read_topology

DATA = Path(__file__).parent / "data"


def document(name: str) -> Document:
    return Document(name, (DATA / name).read_bytes())


def imported(*names: str, source: str = "auto", vhost: str | None = None) -> Result:
    return read_topology([document(name) for name in names], source, vhost)


def by_name(result: Result, kind: str) -> dict[str, Any]:
    return {one["name"]: one for one in result.definitions[kind]}


def arguments(result: Result, queue: str) -> Any:
    return by_name(result, "queues")[queue]["arguments"]


def bindings(result: Result) -> set[tuple[str, str, str, str]]:
    return {
        (one["source"], one["destination_type"], one["destination"], one["routing_key"])
        for one in result.definitions["bindings"]
    }


def told(result: Result, severity: str = "") -> str:
    """All findings, as text."""
    return "\n".join(
        f"{one.place}: {one.text}" for one in result.findings if severity in ("", one.severity)
    )
