"""docker-compose.yml: what it starts are commands and settings of ours, in images of our recipe."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.examples.commands import gateway_command
from tests.examples.test_shown_commands import take
from tests.net.preloaded import ROOT
from tests.release.test_image import stages

yaml = pytest.importorskip("yaml", reason="pyyaml is not installed (pip install pyyaml)")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = [name for name, one in SERVICES.items() if "build" in one]
GATEWAYS = ["gateway", "gateway-1", "gateway-2", "spark-gateway"]
HERE = {"/cluster/": f"{ROOT}/examples/cluster/"}
"""Folders of this repository that services have."""


def words(service: dict[str, Any]) -> list[str]:
    """The command of the container."""
    recipe = stages()[service["build"]["target"]]
    entry: list[str] = service.get("entrypoint") or next(
        (yaml.safe_load(rest) for word, rest in recipe if word == "ENTRYPOINT"), []
    )
    return [*entry, *service["command"]]


def test_all_that_we_build_is_known_here() -> None:
    commands = {name: words(SERVICES[name])[0] for name in OURS}
    assert [name for name, first in commands.items() if first == "amqp-gateway"] == GATEWAYS
    assert set(commands.values()) == {"amqp-gateway", "spark-class", "spark-submit"}


@pytest.mark.parametrize("name", GATEWAYS)
def test_commands_and_settings_of_gateways(name: str, tmp_path: Path) -> None:
    program, *rest = words(SERVICES[name])
    assert (program, rest[0]) == ("amqp-gateway", "serve")
    take(rest)
    given: dict[str, str] = {}
    for setting, value in SERVICES[name].get("environment", {}).items():
        for there, here in HERE.items():
            value = value.replace(there, here)
        given[setting] = value.replace("/shared", str(tmp_path))
    assert all(setting.startswith("AMQP_GATEWAY_") for setting in given)
    done = checked(tmp_path, **given)
    assert done.returncode == 0, done.stdout + done.stderr


def checked(folder: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """The program's answer to these settings."""
    file = folder / "gateway.toml"
    file.touch()
    return gateway_command("check", str(file), **given)


def test_a_wrong_setting_would_be_found(tmp_path: Path) -> None:
    done = checked(tmp_path, AMQP_GATEWAY_JOURNAL__RECORDINGS="[{}]")
    assert done.returncode == 2 and "recordings" in (done.stdout + done.stderr).lower()


@pytest.mark.parametrize("name", OURS)
def test_its_image_and_its_places(name: str) -> None:
    service = SERVICES[name]
    assert service["build"]["target"] in stages() and service["build"]["context"] == "."
    assert set(service.get("depends_on", ())) <= set(SERVICES)
    for volume in service.get("volumes", ()):
        source = volume.partition(":")[0]
        assert (ROOT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]
    for word in words(service):
        if copied := re.fullmatch(r"/src/(\S+)", word):
            assert (ROOT / copied[1]).is_file()


def test_ports_are_different_and_local() -> None:
    ports = [port for one in SERVICES.values() for port in one.get("ports", ())]
    assert all(port.startswith("127.0.0.1:") for port in ports)
    taken = [port.split(":")[1] for port in ports]
    assert len(set(taken)) == len(taken)
