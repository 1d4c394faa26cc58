"""The version is stated once, in ``gateway/__init__.py``; everything else reads it there."""

import re
import tomllib
from pathlib import Path

from typer.testing import CliRunner

from gateway import __version__
from gateway.__main__ import cli
from gateway.adapters.options import Product

ROOT = Path(__file__).parent.parent
DEPLOYMENT = ("pyproject.toml", "Dockerfile", "docker-compose.yml", ".github/workflows/ci.yml")


def test_packaging_reads_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["project"]["dynamic"] == ["version"]
    dynamic = project["tool"]["setuptools"]["dynamic"]
    assert dynamic["version"] == {"attr": "gateway.__version__"}


def test_types_are_in_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "py.typed" in project["tool"]["setuptools"]["package-data"]["gateway"]
    assert (ROOT / "gateway" / "py.typed").is_file()


def test_the_command_line_shows_it() -> None:
    for arguments in (["--version"], ["version"]):
        done = CliRunner().invoke(cli, arguments)
        assert done.exit_code == 0, done.output
        assert done.output.split() == ["amqp-gateway", __version__]


def test_peers_are_told() -> None:
    assert Product().version == __version__


def test_no_other_file_states_it() -> None:
    files = [*(ROOT / "gateway").rglob("*.py"), *map(ROOT.joinpath, DEPLOYMENT)]
    stated = re.compile(rf"(?<![\w.]){re.escape(__version__)}(?![\w.])")
    found = [str(path.relative_to(ROOT)) for path in files if stated.search(path.read_text())]
    assert found == ["gateway/__init__.py"]
