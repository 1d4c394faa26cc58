"""The README's shell commands are run as they stand there, with the ports of our gateway."""

from __future__ import annotations

import json
import re
import shutil
import sys

import pytest

from tests.examples.commands import base, gateway_command, publishing, run
from tests.interop.servers import ROOT, Server

README = (ROOT / "README.md").read_text()
NEEDS_CURL = pytest.mark.skipif(
    shutil.which("curl") is None, reason="curl is not installed (apt-get install curl)"
)
SHOWN = re.findall(r"^```sh\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
BUILDS = ("python3 -m venv",)  # .ci/run does that


def command(start: str) -> str:
    found = [shown for shown in SHOWN if shown.startswith(start)]
    assert len(found) == 1, f"the README shows {len(found)} commands that start with {start!r}"
    return str(found[0])


def ours(shown: str, gateway: Server) -> str:
    """The shown command, for the gateway that runs here."""
    changed = shown.replace("http://127.0.0.1:8080", base(gateway))
    assert changed != shown, f"the README's base address is not in {shown!r}"
    return changed


def test_every_command_is_known_here() -> None:
    pipeline = ".venv/bin/pip install '.[spark"  # tests/pipeline/test_readme.py
    known = (*BUILDS, pipeline, ".venv/bin/pip install pika &&", "curl -u", "curl -N")
    assert [shown for shown in SHOWN if not shown.startswith(known)] == []


@NEEDS_CURL
@pytest.mark.parametrize("first", ["pika", "curl"])
def test_pika_then_curl(first: str, gateway: Server) -> None:
    """In the order of the README, and curl alone, which makes the queue if it is not there."""
    if first == "pika":
        publish_with_pika(gateway)
    done = run(["sh", "-c", ours(command("curl -u"), gateway)])
    assert done.returncode == 0, done.stderr
    # The queue, and behind it the receipt.
    assert '"name":"orders"' in done.stdout
    assert json.loads(done.stdout[done.stdout.index('{"outcome"') :])["outcome"] == "accepted"
    status = ours(command("curl -u"), gateway).strip() + " -s -o /dev/null -w '%{http_code}'"
    assert run(["sh", "-c", status]).stdout.endswith("201")


def publish_with_pika(gateway: Server) -> None:
    pytest.importorskip("pika")
    install, script = command(".venv/bin/pip install pika && ").strip().split(" && ")
    assert install == ".venv/bin/pip install pika"
    python, file = script.split()
    assert python == ".venv/bin/python"
    done = run([sys.executable, file, str(gateway.port)])
    assert done.returncode == 0, done.stderr


@NEEDS_CURL
def test_following_an_exchange(gateway: Server) -> None:
    endless = ours(command("curl -N"), gateway)
    events: list[dict[str, object]] = []
    with publishing(gateway, "any.key"):
        for seconds in (3, 10, 30):  # on a busy machine the first is short
            limited = endless.replace("curl -N", f"curl -N -s --max-time {seconds}", 1)
            done = run(["sh", "-c", limited])
            assert done.returncode == 28, done.stderr  # curl's own time limit
            whole = done.stdout.rpartition("\n")[0].splitlines()
            events = [json.loads(line[6:]) for line in whole if line.startswith("data: ")]
            if len(events) > 3:
                break
    assert events[0]["resume"] == "fresh"
    assert events[1]["routing_key"] == "any.key" and len(events) > 3


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert [one for one in links if "://" not in one and not (ROOT / one).exists()] == []


def test_command_line() -> None:
    """Every command of the table exists."""
    table = README.partition("## Command line")[2].partition("\n## ")[0]
    shown = re.findall(r"`(?:amqp-gateway )?((?:user )?[a-z]+)(?: NAME| FILE| \[.*?\])?`", table)
    assert {"serve", "check", "versions", "user add", "user list", "inspect"} <= set(shown)
    for words in dict.fromkeys(shown):
        done = gateway_command(*words.split(), "--help")
        assert done.returncode == 0, done.stderr
