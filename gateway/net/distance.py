"""How far away the peer of a socket is."""

import socket
import struct
import sys
from typing import Any

NEAR_SECONDS = 0.002
"""A round trip within one machine takes less than 0.1 ms, within one building less than 1 ms."""

_MIN_RTT = struct.Struct("=148xI")
"""``tcpi_min_rtt`` of Linux's ``struct tcp_info``, in microseconds."""


def is_near(transport: Any) -> bool:
    """Whether the shortest round trip to the peer was short; false where the system cannot tell."""
    found = transport.get_extra_info("socket")
    if found is None or sys.platform != "linux":
        return False
    if found.family == socket.AF_UNIX:
        return True
    try:
        octets = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _MIN_RTT.size)
        (microseconds,) = _MIN_RTT.unpack(octets)
    except (OSError, struct.error):  # not TCP, or an old kernel
        return False
    return 0 < int(microseconds) < NEAR_SECONDS * 1_000_000
