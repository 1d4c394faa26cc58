"""Whether a peer is near, by the round trips that the system has measured."""

import socket
import struct
import sys
from typing import Any

import pytest

from gateway.adapters.performatives.credit_window import MOST, NEAR
from gateway.adapters.performatives.wire import layouts as w
from gateway.net.distance import is_near
from tests.net.running import Running
from tests.net.wire_1_0 import data

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the round trip")


class Told:
    """A transport whose socket tells this."""

    family = socket.AF_INET

    def __init__(self, octets: bytes | OSError) -> None:
        self.octets = octets

    def get_extra_info(self, name: str) -> Any:
        return self

    def getsockopt(self, *args: int) -> bytes:
        if isinstance(self.octets, OSError):
            raise self.octets
        return self.octets


@linux
@pytest.mark.parametrize(
    ("octets", "near"),
    [
        (bytes(148) + struct.pack("=I", 150), True),
        (bytes(148) + struct.pack("=I", 30_000), False),
        (bytes(148) + struct.pack("=I", 0xFFFF_FFFF), False),  # not measured yet
        (bytes(152), False),
        (bytes(104), False),  # an old kernel
        (OSError(95, "not supported"), False),
    ],
)
def test_what_the_system_tells(octets: bytes | OSError, near: bool) -> None:
    assert is_near(Told(octets)) is near


def test_no_socket() -> None:
    told = Told(b"")
    told.get_extra_info = lambda name: None  # type: ignore[method-assign]
    assert not is_near(told)


@linux
def test_a_sender_of_this_machine_is_near(gateway: Running) -> None:
    """The credit shrinks when its first messages have come."""
    watcher = gateway.wire(1)
    watcher.declare("near1")
    wire = gateway.wire_1_0()
    wire.sender(0, "/queues/near1")
    wire.send(b"".join(wire.transfer(0, data(b"x"), settled=True) for _ in range(MOST - NEAR // 4)))
    assert wire.heard_among(w.Flow).link_credit == NEAR // 2
    wire.ended()
    watcher.ended()
