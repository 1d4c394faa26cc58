"""The commands of README and guides are run as they stand there, with the ports of our gateway."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.reader import ROOT, SERVE, Reader, guide, settings
from tests.interop.servers import free_ports
from tests.net.running import PATIENCE, Running

README = (ROOT / "README.md").read_text()
GUIDES = ("publish-over-http", "follow-in-a-browser", "old-and-new-clients")
PROTON = "receive_1_0.py"
"""A program that needs a library which the extra ``test`` does not have."""
ELSEWHERE = {
    "python3 -m venv .venv && .venv/bin/pip install": "tests.examples.newcomer, and .ci/run",
    ".venv/bin/python examples/tour.py": "test_examples.py",
}
"""Blocks of the README that are not run here, and what runs them."""

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        shutil.which("curl") is None, reason="curl is not installed (apt-get install curl)"
    ),
]


@pytest.fixture(scope="module")
def ports() -> dict[str, str]:
    """The page of the guide is served at 8000 in it."""
    return {"8000": str(free_ports(1)[0])}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, ports: dict[str, str]) -> Iterator[Running]:
    """One for all pages, started as the guide for browsers says."""
    given = settings(guide("follow-in-a-browser"))
    given = {name: value.replace("8000", ports["8000"]) for name, value in given.items()}
    assert set(given) == {"http__origins"}
    with Running(tmp_path_factory.mktemp("gateway"), **given) as running:
        ports["8080"], ports["5672"] = str(running.http_port), str(running.port)
        # This example takes the port as its argument.
        ports["publish_and_consume.py\n"] = f"publish_and_consume.py {running.port}\n"
        yield running


@pytest.fixture
def reader(tmp_path: Path, gateway: Running, ports: dict[str, str]) -> Iterator[Reader]:
    url = f"http://127.0.0.1:{gateway.http_port}"
    with Reader(tmp_path, ports, patience=4 * PATIENCE, AMQP_GATEWAY_URL=url) as one:
        yield one


def test_the_readme(reader: Reader) -> None:
    pytest.importorskip("pika", reason="pika is not installed (pip install pika)")
    reader.read(README, leave_out=ELSEWHERE)
    (terminal,) = reader.endless
    terminal.shows('event: gateway.open…data: {…"resume":…"fresh"…data: {…"orders.new"…42')


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide(name: str, reader: Reader) -> None:
    page = guide(name)
    away = {SERVE} if SERVE in page else set()
    if PROTON in page:
        pytest.importorskip("pika", reason="pika is not installed (pip install pika)")
        away.add(PROTON)
    reader.read(page, leave_out=away)


@pytest.mark.interop
def test_a_guide_with_a_client_of_1_0(reader: Reader) -> None:
    for module in ("pika", "proton"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed; run tests/interop/install-peers")
    reader.read(guide("old-and-new-clients"), leave_out={"examples/tour.py"})
