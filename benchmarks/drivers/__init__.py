"""The load drivers: small C programs of ours, compiled when first wanted, kept in a cache."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.servers import Failed, Missing

HERE = Path(__file__).parent
LIBRARIES = {name: ["-lrabbitmq"] for name in ("consumer", "crowd", "producer")}


def build(name: str) -> Path:
    """The compiled driver; raise `Missing` without a compiler or the library."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise Missing("no C compiler (apt install gcc libc6-dev)")
    files = (f"{name}.c", "common.h", "links.h", "delays.h", "messages.h")
    text = b"".join((HERE / file).read_bytes() for file in files)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gateway-benchmarks"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        cache = Path(tempfile.mkdtemp(prefix="bench-drivers-"))
    binary = cache / f"{name}-{hashlib.sha256(text).hexdigest()[:16]}"
    if binary.exists():
        return binary
    fresh = cache / f"{binary.name}.{os.getpid()}"
    libraries = LIBRARIES.get(name, [])
    command = [compiler, "-O2", "-o", str(fresh), str(HERE / f"{name}.c"), *libraries]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        if libraries and "rabbitmq" in done.stderr or "amqp.h" in done.stderr:
            raise Missing("librabbitmq is not installed (apt install librabbitmq-dev)")
        raise Failed(f"{name}.c does not compile: {done.stderr[:400]}")
    fresh.replace(binary)
    return binary


class Driver:
    """One running driver: an optional "ready" line, then one line of JSON."""

    def __init__(self, name: str, *arguments: object) -> None:
        self.name = name
        command = [str(build(name)), *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def wait_ready(self) -> None:
        line = self.line()
        if line.strip() != "ready":
            raise Failed(f"{self.name}: {line.strip() or 'ended without a word'}")

    def result(self) -> dict[str, Any]:
        """What it measured. The driver itself is bound in time, by an alarm."""
        line = self.line()
        self.process.wait(10)
        if not line.strip():
            raise Failed(f"{self.name} ended without a word ({self.process.returncode})")
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise Failed(f"{self.name}: {found['error']}")
        return found

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        if self.process.stdout is not None:
            self.process.stdout.close()
