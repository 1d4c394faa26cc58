"""The source archive and the wheel of a release, made as a release is made."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from tests.net.preloaded import ROOT

PACKAGES = "gateway", "pyspark_amqp"
NEEDED = 77
"""The first version of setuptools that reads our pyproject.toml."""


def build(kind: str, source: Path, target: Path) -> Path:
    script = f"from setuptools import build_meta as it; print(it.build_{kind}({str(target)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=source, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return target / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """The source archive and the wheel."""
    try:
        known = int(version("setuptools").partition(".")[0])
    except PackageNotFoundError:
        known = 0
    if known < NEEDED:
        pytest.skip(f"a wheel is built by setuptools >= {NEEDED} (pip install setuptools)")
    folder = tmp_path_factory.mktemp("release")
    source = folder / "source"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, source / name)
    (source / "tests").mkdir()
    (source / "tests" / "test_one.py").touch()
    archive = build("sdist", source, folder)
    (folder / "unpacked").mkdir()
    subprocess.run(["tar", "-xzf", archive, "-C", folder / "unpacked"], check=True, timeout=60)
    (unpacked,) = (folder / "unpacked").iterdir()
    yield archive, build("wheel", unpacked, folder)
