"""Measures memory and disk and raises the broker's alarms.

Memory is the process's resident set against the machine's (or the container's) memory.
"""

import logging
from pathlib import Path

import psutil

from gateway.broker.broker import Broker

log = logging.getLogger("gateway.alarms")

CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
MARGIN = 0.05
"""An alarm ends this share of its threshold below it, so that it does not flutter,"""
MOST_MARGIN = 256 << 20
"""but no more than this many octets."""


def memory_total() -> int:
    """Octets of memory this process may use: the smaller of machine and container."""
    total = int(psutil.virtual_memory().total)
    try:
        limit = CGROUP_LIMIT.read_text().strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total


class ResourceMonitor:
    """Call ``look`` about once a second."""

    def __init__(
        self, broker: Broker, *, memory_high: float, disk_free: int, data_dir: Path | None
    ) -> None:
        self.limit(memory_high, disk_free)
        self.memory_used = 0
        self.disk_free = 0
        self._broker = broker
        self._data_dir = data_dir
        self._process = psutil.Process()
        self._raised = {"memory": False, "disk": False}

    def limit(self, memory_high: float, disk_free: int) -> None:
        """Change the limits: a share of the memory, and free octets of the disk."""
        self.memory_limit = int(memory_total() * memory_high)
        self._disk_limit = disk_free

    def look(self) -> None:
        """Measure, and raise or end alarms."""
        self.memory_used = int(self._process.memory_info().rss)
        self._judge("memory", self.memory_used, self.memory_limit)
        if self._data_dir is not None:
            self.disk_free = int(psutil.disk_usage(str(self._data_dir)).free)
            # Negative, so that a larger figure is worse for both.
            self._judge("disk", -self.disk_free, -self._disk_limit)

    def _judge(self, kind: str, measured: int, limit: int) -> None:
        raised = self._raised[kind]
        margin = min(int(abs(limit) * MARGIN), MOST_MARGIN)
        if not raised and measured > limit:
            log.warning("%s alarm: publishers are held back", kind)
        elif raised and measured < limit - margin:
            log.warning("%s alarm is over", kind)
        else:
            return
        self._raised[kind] = not raised
        self._broker.alarm(kind, not raised)
