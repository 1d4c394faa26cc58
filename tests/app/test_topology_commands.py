"""The commands ``import`` and ``policy``, and other brokers' files at the start."""

import json
from pathlib import Path

from gateway.importing import Document, read_topology
from tests.app.test_cli import refused, run
from tests.importing.samples import DATA
from tests.net.running import Running


def test_import_reads_and_writes(tmp_path: Path) -> None:
    output = tmp_path / "definitions.json"
    done = run("import", DATA / "broker-j-host.json", "--output", output)
    assert done.returncode == 0, done.stderr
    assert "broker-j: " in done.stdout and "6 queues" in done.stdout
    assert "warning" in done.stdout and "/queues/4" in done.stdout
    assert output.stat().st_mode & 0o77 == 0
    written = json.loads(output.read_text())
    expected = read_topology([Document("x", (DATA / "broker-j-host.json").read_bytes())])
    assert written == expected.definitions
    again = run("import", output, "--json")
    assert json.loads(again.stdout)["format"] == "rabbitmq"


def test_import_of_several_files() -> None:
    files = [DATA / f"artemis{rest}" for rest in (".xml", "-users.properties", "-roles.properties")]
    done = run("import", *files, "--json")
    assert done.returncode == 1  # a user needs a new password
    told = json.loads(done.stdout)
    assert told["counts"]["permissions"] == 2
    assert {one["severity"] for one in told["findings"]} == {"info", "warning", "error"}


def test_import_of_what_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "x"
    refused(run("import", file), "No such file")
    file.write_text("hello")
    refused(run("import", file), "no output of qpid-config")
    refused(run("import", file, "--from", "odd"), "no format 'odd'")
    refused(run("import", file, "--from", "artemis"), "not XML")


def test_import_into_a_gateway_and_policies(tmp_path: Path) -> None:
    lines = "".join(f"queue-{number}  --durable\n" for number in range(1500))
    many = tmp_path / "many.txt"
    many.write_text("Queue Name  Attributes\n" + lines)
    with Running(tmp_path) as running:
        url = f"http://127.0.0.1:{running.http_port}"
        where = ("--url", url, "--password", "guest")
        applied = ("--apply", url, "--password", "guest")
        done = run("import", DATA / "artemis.xml", *applied, "--json")
        assert done.returncode == 1 and "permissions are left out" in done.stdout, done
        assert json.loads(done.stdout)["not_applied"] == []
        done = run("import", many, *applied)
        assert done.returncode == 0, done
        assert {"orders.in", "sub1", "queue-0", "queue-1499"} <= running.queues()
        assert "prices.*" in run("policy", "list", *where).stdout
        limits = '{"max-length": 5, "ha-mode": "all"}'
        done = run("policy", "set", "limits", "^queue-", limits, "--priority", 50, *where)
        assert "policy limits is set" in done.stdout and "ha-mode has no effect" in done.stderr
        top = '{"max-length": 3}'
        assert run("policy", "set", "top", "", top, "--operator", *where).returncode == 0
        assert "top" in run("policy", "list", "--operator", *where).stdout
        refused(run("policy", "set", "bad", "(", limits, *where), "not a regular expression")
        refused(run("policy", "set", "bad", "", "{", *where), "not JSON")
        assert "deleted" in run("policy", "delete", "limits", *where).stdout
        refused(run("policy", "delete", "limits", *where), "404")
        assert running.stop() == 0


def test_a_gateway_begins_with_the_file_of_another_broker(tmp_path: Path) -> None:
    file = DATA / "broker-j-host.json"
    with Running(tmp_path, definitions=file) as running:
        assert "6 queues, " in running.log()
        assert "/queues/4: queue 'sorted': sorted by the header" in running.log()
        assert running.stop() == 0
    done = run("serve", definitions=file, definitions_format="artemis")
    refused(done, "broker-j-host.json: not XML")
