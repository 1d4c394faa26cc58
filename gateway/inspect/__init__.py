"""Recorded octets, made readable: hex dumps, capture JSON and pcap files."""

from gateway.inspect.show import inspect_file
from gateway.inspect.sources import InspectError

__all__ = ["InspectError", "inspect_file"]
