"""Topologies of other brokers, read from their files as RabbitMQ's definitions.

``read_topology`` is all that is needed from outside. Nothing here knows a broker or a clock; every
function may run on a thread.
"""

from pathlib import PurePath
from typing import Any, NamedTuple

from gateway.importing import artemis, broker_j, qpid_cpp, rabbitmq
from gateway.importing.documents import read_json, read_text, read_xml
from gateway.importing.findings import SEVERITIES as SEVERITIES
from gateway.importing.findings import Finding as Finding
from gateway.importing.findings import ImportFailed as ImportFailed
from gateway.importing.findings import Result as Result

RABBITMQ, BROKER_J, ARTEMIS, QPID_CPP = "rabbitmq", "broker-j", "artemis", "qpid-cpp"
FORMATS = (RABBITMQ, BROKER_J, ARTEMIS, QPID_CPP)
AUTO = "auto"


class Document(NamedTuple):
    """One file. Its name tells what it is if there are several."""

    name: str
    octets: bytes


def detect(octets: bytes) -> str:
    """The format of a file. Raises ``ImportFailed``."""
    start = octets[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] == b"<":
        return ARTEMIS
    if start[:1] in (b"{", b"["):
        return detect_json(read_json(octets))
    return QPID_CPP


def detect_json(value: Any) -> str:
    if broker_j.is_broker(value):
        return BROKER_J
    if qpid_cpp.is_objects(value):
        return QPID_CPP
    return BROKER_J if broker_j.is_host(value) else RABBITMQ


def read_topology(
    documents: list[Document], source: str = AUTO, vhost: str | None = None
) -> Result:
    """The topology of a file. Others may follow: virtual hosts and access rules of Broker-J,
    users and roles of Artemis (by their usual names). ``vhost`` is where the topology of a broker
    without virtual hosts goes, by default ``/``. Raises ``ImportFailed``."""
    if not documents:
        raise ImportFailed("no file")
    first, *others = documents
    if source == AUTO:
        source = detect(first.octets)
    if source == ARTEMIS:
        return artemis.read(read_xml(first.octets), vhost, files_of(others))
    if source == BROKER_J:
        files = [(one.name, one.octets) for one in others]
        return broker_j.read(read_json(first.octets), vhost, files)
    if others:
        raise ImportFailed(f"{others[0].name}: the format {source} has one file")
    if source == RABBITMQ:
        return rabbitmq.read(read_json(first.octets))
    if source != QPID_CPP:
        raise ImportFailed(f"no format '{source}', there are: {', '.join(FORMATS)}")
    if first.octets.lstrip()[:1] in (b"{", b"["):
        return qpid_cpp.read_objects(read_json(first.octets), vhost)
    return qpid_cpp.read_listing(read_text(first.octets), vhost)


def files_of(others: list[Document]) -> artemis.Files:
    found: dict[str, str] = {}
    for one in others:
        kind = next((kind for kind in ("users", "roles") if kind in PurePath(one.name).name), None)
        if kind is None:
            raise ImportFailed(f"{one.name}: neither a file of users nor of roles")
        found[kind] = read_text(one.octets)
    return artemis.Files(**found)
