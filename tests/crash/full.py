"""A disk that is full when a gateway starts. Runs in a mount name space of its own, because it
needs a small disk: ``unshare -rm python -m tests.crash.full DIRECTORY killed|stopped``."""

import contextlib
import subprocess
import sys
from pathlib import Path

from gateway.adapters.methods.wire import layouts as w
from tests.net.running import Running, until
from tests.net.wire import PERSISTENT

COUNT = 20
BODY = bytes(100_000)
SMALL = "16m"
ENLARGED = "64m"


def fill(directory: Path) -> None:
    """Not an octet is left."""
    with contextlib.suppress(OSError), (directory / "filled").open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def main(directory: Path, ending: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", directory], check=True)
    # The limit that blocks publishers is far larger than this disk.
    with Running(directory, limits__disk_free_octets=1000) as gateway:
        wire = gateway.wire(1)
        wire.declare("q", durable=True)
        wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
        for number in range(COUNT):
            wire.publish("q", b"%d " % number + BODY, PERSISTENT)
            wire.heard(w.BasicAck)
        wire.close()
        if ending == "killed":
            gateway.kill()
        else:
            assert gateway.stop() == 0
            # As on a disk with plenty of room.
            (gateway.data / "reserve").write_bytes(bytes(4 << 20))
        fill(directory)
        gateway.log_file = Path("/dev/shm") / f"full-{gateway.process.pid}.log"
        try:
            drain(gateway, directory)
        finally:
            gateway.log_file.unlink(missing_ok=True)
            gateway.log_file = directory / "gateway.log"


def drain(gateway: Running, directory: Path) -> None:
    gateway.start()
    fill(directory)
    # A client that declares its queue, consumes and acknowledges, as after any start.
    wire = gateway.wire(1)
    assert wire.declare("q", durable=True).message_count == COUNT
    wire.consume("q", prefetch=5)
    for number in range(COUNT):
        record, octets = wire.delivered()
        assert octets == b"%d " % number + BODY
        wire.say(1, w.BasicAck(record.delivery_tag, False))
    wire.close()
    until(lambda: "commit failed" in gateway.log(), "a commit that fails")
    # Another one comes while the disk is known to be full: the queue is there, and is empty.
    wire = gateway.wire(1, capabilities=())
    assert wire.declare("q", durable=True).message_count == 0
    wire.close()
    # With room again, what was acknowledged is gone for good.
    subprocess.run(["mount", "-o", f"remount,size={ENLARGED}", directory], check=True)
    until(lambda: "commits work again" in gateway.log(), "a commit")
    wire = gateway.wire(1, capabilities=())
    wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
    wire.publish("q", b"new", PERSISTENT)
    wire.heard(w.BasicAck)
    wire.close()
    gateway.kill()
    gateway.start()
    wire = gateway.wire(1)
    assert wire.got("q") == b"new"
    assert wire.got("q") is None


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
