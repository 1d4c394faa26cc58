"""Java programs, compiled once for all the runs and processes of tests that start them."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.interop.servers import PEERS

CLASSES = PEERS / "java" / "classes"
QUICK = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")
"""For the compiler itself: it would spend most of its time on becoming fast."""


def compiled(sources: Sequence[Path], jars: str) -> Path:
    """The folder with the classes of these sources. ``jars`` is the class path they need."""
    mark = hashlib.sha256(jars.encode())
    for source in sources:
        mark.update(source.name.encode() + b"\0" + source.read_bytes())
    folder = CLASSES / mark.hexdigest()[:20]
    if folder.is_dir():
        return folder
    CLASSES.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=CLASSES, prefix="new-"))
    command = ["javac", *QUICK, "-proc:none", "-cp", jars, "-d", str(scratch), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    with suppress(OSError):  # another process has compiled it meanwhile
        scratch.rename(folder)
    shutil.rmtree(scratch, ignore_errors=True)
    return folder
