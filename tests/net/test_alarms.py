"""The watch over memory and disk, on a real broker."""

from pathlib import Path

from gateway.broker.broker import Broker
from gateway.broker.memory_store import MemoryStore
from gateway.net.alarms import ResourceMonitor, memory_total


def test_memory() -> None:
    broker = Broker(MemoryStore())
    watch = ResourceMonitor(broker, memory_high=1, disk_free=0, data_dir=None)
    assert watch.memory_limit == memory_total()
    watch.look()
    assert broker.blocked is None
    watch.memory_limit = watch.memory_used // 2
    watch.look()
    assert broker.blocked == "low on memory"
    # Just below the threshold it stays, so that it does not flutter.
    watch.memory_limit = int(watch.memory_used * 1.02)
    watch.look()
    assert broker.blocked is not None
    watch.memory_limit = watch.memory_used * 2
    watch.look()
    assert broker.blocked is None


def test_disk(tmp_path: Path) -> None:
    broker = Broker(MemoryStore())
    watch = ResourceMonitor(broker, memory_high=1, disk_free=1 << 60, data_dir=tmp_path)
    watch.look()
    assert broker.blocked == "low on disk"
    assert watch.disk_free > 0
    broker.alarm("memory", True)
    assert broker.blocked == "low on disk & low on memory"
    enough = Broker(MemoryStore())
    ResourceMonitor(enough, memory_high=1, disk_free=1, data_dir=tmp_path).look()
    assert enough.blocked is None
