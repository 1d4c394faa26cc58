"""The files of examples/operations: a unit of systemd, alerts of Prometheus, a dashboard."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.adapters.methods.wire import layouts as w
from gateway.store.schema import FORMAT, MIGRATIONS
from tests.app.test_cli import run
from tests.examples.commands import gateway_command
from tests.net.preloaded import ROOT
from tests.net.running import Running
from tests.net.wire import PERSISTENT

FILES = ROOT / "examples" / "operations"
UNIT = (FILES / "amqp-gateway.service").read_text()
RULES = (FILES / "rules.yml").read_text()
DASHBOARD: dict[str, Any] = json.loads((FILES / "grafana-dashboard.json").read_text())
GUIDE = (ROOT / "docs" / "operations.md").read_text()
INSTALLED = "/opt/amqp-gateway/bin/amqp-gateway"


def needs(program: str, package: str) -> pytest.MarkDecorator:
    missing = shutil.which(program) is None
    return pytest.mark.skipif(missing, reason=f"{program} is not installed (apt-get: {package})")


@needs("systemd-analyze", "systemd")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "amqp-gateway.service"
    unit.write_text(UNIT.replace(INSTALLED, shutil.which("true") or ""))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_commands_of_the_unit_are_commands_of_ours(tmp_path: Path) -> None:
    """``check`` accepts the file, and ``serve`` has the options."""
    lines = re.findall(r"^ExecStart(?:Pre)?=(.*)$", UNIT, re.MULTILINE)
    check, serve = (shlex.split(line) for line in lines)
    assert {check[0], serve[0]} == {INSTALLED}
    settings = tmp_path / "gateway.toml"
    settings.write_text('log_format = "json"\n')
    done = gateway_command(*(str(settings) if one.endswith(".toml") else one for one in check[1:]))
    assert done.returncode == 0, done.stderr
    shown = gateway_command(serve[1], "--help").stdout
    assert [one for one in serve[2:] if one.startswith("--") and one not in shown] == []


def test_backup_and_restore(tmp_path: Path) -> None:
    """The commands of the guide, in its order, with other directories."""
    section = GUIDE.partition("## Backup and restore")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    lines = "".join(blocks).splitlines()
    places = {"/var/lib/amqp-gateway": tmp_path / "data", "/backup": tmp_path / "backup"}
    (tmp_path / "backup").mkdir()
    with Running(tmp_path) as gateway:
        wire = gateway.wire(1)
        wire.declare("orders", durable=True)
        wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
        wire.publish("orders", b"on Monday", PERSISTENT)
        wire.heard(w.BasicAck)
        for line in lines:
            words = line
            for shown, ours in places.items():
                words = words.replace(shown, str(ours))
            if line == "systemctl stop amqp-gateway":
                wire.publish("orders", b"later", PERSISTENT)
                wire.heard(w.BasicAck)
                assert gateway.stop() == 0
            elif line == "systemctl start amqp-gateway":
                gateway.start()
            elif line.startswith("amqp-gateway "):
                done = run(*shlex.split(words)[1:])
                assert done.returncode == 0, done.stderr
            else:
                subprocess.run(["sh", "-ec", words], check=True, timeout=60)
        wire = gateway.wire(1)
        assert [wire.got("orders"), wire.got("orders")] == [b"on Monday", None]
    assert [line.split()[0] for line in lines].count("amqp-gateway") == 3


def test_the_guide_tells_the_formats_of_the_store() -> None:
    known = ", ".join(map(str, [*sorted(MIGRATIONS), FORMAT]))
    assert f"| this one | {FORMAT} | {known} |" in GUIDE


def named(text: str) -> set[str]:
    return set(re.findall(r"\b(?:amqp_gateway|process)_\w+", text))


def test_metrics_of_alerts_and_dashboard_exist(tmp_path: Path) -> None:
    """In a gateway that has a shovel and a journal."""
    settings = tmp_path / "gateway.toml"
    settings.write_text(
        '[[journal.recording]]\naddress = "*"\n'
        '[[shovels]]\nname = "s"\nsource.queue = "from"\ndestination.key = "to"\n'
    )
    with Running(tmp_path / "running", "--config", settings) as gateway:
        url = f"http://127.0.0.1:{gateway.http_port}"
        gateway.wire(1).declare("from")
        with httpx.Client(base_url=url, auth=("guest", "guest"), timeout=60) as client:
            answer = client.post("/v1/%2F/queues/from/messages", content=b"one")
            assert answer.status_code == 201, answer.text
            told = client.get("/metrics").text
    # With the families that have no sample yet.
    known = set(re.findall(r"^(?:# TYPE )?(\w+)", told, re.MULTILINE))
    shown = [one["expr"] for panel in DASHBOARD["panels"] for one in panel["targets"]]
    used = named(RULES) | named("\n".join(shown))
    assert len(used) > 20
    assert used - known == set()


@pytest.mark.interop
@needs("promtool", "prometheus")
@pytest.mark.parametrize("arguments", [("rules", "rules.yml"), ("config", "prometheus.yml")])
def test_prometheus_takes_the_files(arguments: tuple[str, str]) -> None:
    kind, name = arguments
    done = subprocess.run(
        ["promtool", "check", kind, str(FILES / name)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_guide_says_what_to_do_about_each_alert() -> None:
    alerts = set(re.findall(r"- alert: (\w+)", RULES))
    assert alerts
    assert alerts == set(re.findall(r"^\| `([A-Z]\w+)` \|", GUIDE, re.MULTILINE))


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    taken = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24
