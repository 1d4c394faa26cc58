"""A release: a source archive, and the wheel that is made of it, with all that the packages
have."""

import re
import signal
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from gateway import __version__
from tests.net.preloaded import ROOT
from tests.net.running import environment, until
from tests.release.conftest import PACKAGES


def shipped(root: Path) -> set[str]:
    """The files of the packages."""
    return {
        path.relative_to(root).as_posix()
        for name in PACKAGES
        for path in (root / name).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def test_what_is_no_module_is_package_data() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    data = project["tool"]["setuptools"]["package-data"]
    named = {
        path.relative_to(ROOT).as_posix()
        for name, patterns in data.items()
        for pattern in patterns
        for path in (ROOT / name).glob(pattern)
    }
    assert {name for name in shipped(ROOT) if not name.endswith(".py")} - named == set()


@pytest.mark.extras
def test_the_wheel_has_the_files_of_the_packages(built: tuple[Path, Path]) -> None:
    archive, wheel = built
    assert wheel.name == f"amqp_gateway-{__version__}-py3-none-any.whl"
    assert archive.name == f"amqp_gateway-{__version__}.tar.gz"
    about = f"amqp_gateway-{__version__}.dist-info"
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        assert {name for name in names if not name.startswith(about)} == shipped(ROOT)
        for name in shipped(ROOT):
            assert packed.read(name) == (ROOT / name).read_bytes(), name
        licence = packed.read(f"{about}/licenses/LICENSE")
        assert licence == (ROOT / "LICENSE").read_bytes()
        metadata = packed.read(f"{about}/METADATA").decode()
        assert f"\nVersion: {__version__}\n" in metadata
        assert "\nLicense-Expression: Apache-2.0\n" in metadata
        commands = packed.read(f"{about}/entry_points.txt").decode()
        assert commands.split() == [
            "[console_scripts]",
            "amqp-gateway",
            "=",
            "gateway.__main__:main",
        ]
    with tarfile.open(archive) as source:
        there = {name.partition("/")[2] for name in source.getnames()}
    assert shipped(ROOT) | {"pyproject.toml", "README.md", "LICENSE"} <= there
    assert not any(name.startswith("tests") for name in there), "half of the tests"


@pytest.mark.extras
def test_the_wheel_works(built: tuple[Path, Path], tmp_path: Path) -> None:
    """Away from the sources; what it depends on is that of these tests."""
    if find_spec("pip") is None:
        pytest.skip("pip is not installed here")
    site = tmp_path / "site"
    options = ["--quiet", "--no-deps", "--no-index", "--no-compile", "--target", str(site)]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, str(built[1])],
        check=True, capture_output=True, timeout=100,
    )  # fmt: skip
    there = {**environment(), "PYTHONPATH": str(site)}
    program = site / "bin" / "amqp-gateway"
    told = subprocess.run(
        [program, "--version"], cwd=tmp_path, env=there, capture_output=True, text=True, timeout=100
    )
    assert told.stdout.split() == ["amqp-gateway", __version__], told.stderr
    log = tmp_path / "log"
    with log.open("wb") as sink:
        serving = subprocess.Popen(
            [program, "serve", "--amqp-port", "0", "--http-port", "0", "--data-dir", "data"],
            cwd=tmp_path, env=there, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
        )  # fmt: skip
    try:
        until(lambda: "data in" in log.read_text() or serving.poll() is not None, "start")
        found = re.search(r"HTTP on (http://\S+:\d+)/", log.read_text())
        assert found is not None, log.read_text()
        with httpx.Client(base_url=found[1], auth=("guest", "guest"), timeout=60) as client:
            for folder, path in (("client", "/client/"), ("console", "/console/")):
                for file in (ROOT / "gateway" / "http" / folder).glob("*.js"):
                    answer = client.get(path + file.name)
                    assert (answer.status_code, answer.content) == (200, file.read_bytes()), file
            url = "/v1/%2F/queues/orders/messages"
            client.put("/v1/admin/vhosts/%2F/queues/orders").raise_for_status()
            assert client.post(url, content=b"one").status_code == 201
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(60) == 0
    finally:
        serving.kill()
        serving.wait()
    assert "Traceback" not in log.read_text()
