"""The container image: its recipe is read, and its health check is run."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.test_cli import run
from tests.net.preloaded import ROOT
from tests.net.running import Running, until

LINES = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text()).splitlines()
RECIPE = [line for line in LINES if line and not line.startswith("#")]


def stages() -> dict[str, list[tuple[str, str]]]:
    """Instructions and their arguments, by the stage they are in."""
    found: dict[str, list[tuple[str, str]]] = {}
    steps: list[tuple[str, str]] = []  # before the first stage there are only arguments
    for line in RECIPE:
        word, _, rest = line.partition(" ")
        if word == "FROM":
            steps = found[rest.rpartition(" AS ")[2]] = []
        steps.append((word, rest))
    return found


def instruction(stage: str, word: str) -> str:
    """The one that counts is the last."""
    return [rest for name, rest in stages()[stage] if name == word][-1]


def test_the_gateway_is_the_stage_that_is_built() -> None:
    assert list(stages())[-1] == "gateway"
    assert instruction("gateway", "FROM") == "source AS gateway"
    copied = [shlex.split(rest)[:-1] for word, rest in stages()["source"] if word == "COPY"]
    assert [name for names in copied for name in names if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("stage", ["gateway", "spark"])
def test_it_runs_as_a_user_of_its_own(stage: str) -> None:
    user = instruction(stage, "USER")
    made = instruction(stage, "RUN")
    number = re.search(r"useradd --system .*--uid (\d+) gateway", made)
    assert user in (number[1] if number else "", "gateway") and user != "0"
    words = [word for word, _ in stages()[stage]]
    assert words.index("USER") > len(words) - 1 - words[::-1].index("RUN")
    assert f"chown {'-R ' if stage == 'spark' else ''}gateway /data" in made
    assert instruction(stage, "VOLUME").split()[0] == "/data"


def test_an_orchestrator_sees_that_it_is_not_root() -> None:
    assert int(instruction("gateway", "USER")) > 0


def test_its_command_is_one_of_ours() -> None:
    assert json.loads(instruction("gateway", "ENTRYPOINT")) == ["amqp-gateway"]
    command, *options = json.loads(instruction("gateway", "CMD"))
    shown = run(command, "--help").stdout
    assert [one for one in options if one.startswith("--") and one not in shown] == []
    assert "/data" in options


def health_check(port: int) -> int:
    command = instruction("gateway", "HEALTHCHECK").partition(" CMD ")[2]
    assert "8080" in command and "8080" in instruction("gateway", "EXPOSE").split()
    words = json.loads(command.replace("8080", str(port)))
    assert words[0] == "python"
    done = subprocess.run([sys.executable, *words[1:]], capture_output=True, timeout=60)
    return done.returncode


def test_its_health_check(tmp_path: Path) -> None:
    with Running(tmp_path) as gateway:
        until(lambda: health_check(gateway.http_port) == 0, "ready")
        assert gateway.stop() == 0
        assert health_check(gateway.http_port) == 1
    # Publishers are held.
    with Running(tmp_path, limits__disk_free_octets=1 << 60) as full:
        until(lambda: health_check(full.http_port) == 1, "not ready")


def test_any_base_with_python_will_do() -> None:
    """No stage has an image, or the place of a program, of its own."""
    known = ["${BASE}"]
    for name, steps in stages().items():
        for word, rest in steps:
            if word == "FROM":
                assert rest.partition(" AS ")[0] in known
            assert word != "ENV" or not re.search(r"=\S*/bin/", rest), rest
        known.append(name)
    assert "ARG BASE=python:3.11-slim-bookworm" in RECIPE
