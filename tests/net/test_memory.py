"""What a great many messages cost, and queues that are larger than memory."""

import contextlib
import sys
from pathlib import Path

import pytest

from gateway.adapters.methods.wire import layouts as w
from tests.drawing import examples
from tests.net.running import Running
from tests.net.wire import PERSISTENT, TRANSIENT

MIB = 1 << 20
MILLION = 1_000_000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]


def resident(gateway: Running) -> int:
    for line in Path(f"/proc/{gateway.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def test_a_million_messages_wait(tmp_path: Path) -> None:
    """256 octets each, in less than 1 KiB a message, and all of them come out again."""
    many = examples(MILLION)
    with Running(tmp_path, limits__memory_high=0.9, limits__memory_page=0.5) as gateway:
        wire = gateway.wire(1)
        wire.declare("million")
        before = resident(gateway)
        group = 1000
        for first in range(0, many, group):
            octets = b"".join(
                wire.message("million", b"%-256d" % number, TRANSIENT)
                for number in range(first, first + group)
            )
            wire.send(octets)
        assert wire.depth("million") == many
        assert resident(gateway) - before < many * 1024
        wire.consume("million", no_ack=True)
        for number in range(many):
            # By hand: a million records would take longer to read than to deliver.
            head = wire.take(7)
            wire.take(int.from_bytes(head[3:7]) + 1)
            wire.take(22 + 1)
            wire.take(7)
            assert int(wire.take(256 + 1)[:256]) == number
        assert wire.depth("million") == 0


@pytest.mark.parametrize("properties", [PERSISTENT, TRANSIENT], ids=["durable", "transient"])
def test_a_queue_larger_than_memory(tmp_path: Path, properties: bytes) -> None:
    """400 MB with a budget of some: the rest is on disk, in order."""
    size, count = 20_000, 20_000
    settings = {"limits__memory_page": 0.0005, "limits__store_backlog_octets": 8 * MIB}
    with Running(tmp_path, **settings) as gateway:
        wire = gateway.wire(1)
        wire.declare("large", durable=True)
        before = most = resident(gateway)
        wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
        told = 0
        for number in range(count):
            wire.publish("large", b"%08d" % number + bytes(size - 8), properties)
            if number % 500 == 499:
                while told <= number:
                    told = wire.heard(w.BasicAck).delivery_tag
                    told += told == number + 1
                most = max(most, resident(gateway))
        assert wire.depth("large") == count
        most = max(most, resident(gateway))
        assert most - before < 200 * MIB, f"{(most - before) // MIB} MiB"
        wire.consume("large", no_ack=True)
        for number in range(count):
            assert int(wire.delivered()[1][:8]) == number
            if number % 500 == 0:
                most = max(most, resident(gateway))
        assert most - before < 200 * MIB, f"{(most - before) // MIB} MiB"
        assert wire.depth("large") == 0
        with contextlib.suppress(ConnectionError):
            wire.ended()
