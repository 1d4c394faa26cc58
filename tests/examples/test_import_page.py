"""The commands of docs/import.md in their order, with recorded files of the brokers it names. The
new broker is a gateway, whose management is RabbitMQ's."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import httpx

from tests.examples.commands import environment
from tests.examples.not_run import check_listed
from tests.examples.reader import blocks, guide
from tests.examples.test_shown_commands import lines
from tests.importing.samples import DATA
from tests.net.commands import completed
from tests.net.running import PATIENCE, Running

FILES = {
    "broker.xml": "artemis.xml",
    "artemis-users.properties": "artemis-users.properties",
    "artemis-roles.properties": "artemis-roles.properties",
    "config.json": "broker-j.json",
    "acl.txt": "broker-j-acl.txt",
    "default.json": "broker-j-host.json",
    "old.json": "broker-j.json",
    "queues.txt": "qpid-config.txt",
}
"""Files of the page, and recorded ones."""
SECRET = "of-an-administrator"


def rules() -> str:
    """The address rules that docs/shovels.md shows."""
    (found,) = re.findall(r"```toml address rules\n(.*?)```", guide("shovels"), re.DOTALL)
    return str(found)


def prepared(folder: Path) -> None:
    for name, recorded in FILES.items():
        shutil.copy(DATA / recorded, folder / name)
    (folder / "rules.toml").write_text(rules())
    (folder / "secret").write_text(SECRET)


def wanted_status(words: list[str], printed: str) -> int:
    """What the page says of the exit status."""
    if words[0] == "import":
        if "--json" in words:
            return int(any(one["severity"] == "error" for one in json.loads(printed)["findings"]))
        return int(re.search(r"^│ error\b", printed, re.MULTILINE) is not None)
    if words[:2] == ["bridge", "plan"]:
        return int(not re.search(r"^\d+ nodes, 0 without a target", printed, re.MULTILINE))
    return 0


def test_the_commands_of_the_page(tmp_path: Path) -> None:
    check_listed("import")
    prepared(tmp_path)
    shown = [one.text for one in blocks(guide("import"))]
    commands = [words for text in shown for words in lines(text) if words]
    assert len(commands) == 7
    with Running(tmp_path / "here") as here, Running(tmp_path / "new") as new:
        places = {
            "http://127.0.0.1:8080": f"http://127.0.0.1:{here.http_port}",
            "http://new.example:15672": f"http://127.0.0.1:{new.http_port}",
        }
        for one in (here, new):
            url = f"http://127.0.0.1:{one.http_port}/api"
            user = {"password": SECRET, "tags": "administrator"}
            with httpx.Client(auth=("guest", "guest"), timeout=PATIENCE) as client:
                client.put(f"{url}/users/admin", json=user).raise_for_status()
                client.put(f"{url}/vhosts/shop").raise_for_status()
        for program, *given in commands:
            assert program == "amqp-gateway"
            words = [places.get(word, word) for word in given]
            done = completed(words, environment(), text=f"{SECRET}\n", folder=tmp_path)
            printed = done.stdout + done.stderr
            assert done.returncode == wanted_status(words, done.stdout), (words, printed)
            assert "Traceback" not in printed
        queues = {(one["vhost"], one["name"]) for one in here.asked("/api/queues")}
        assert queues and {vhost for vhost, _ in queues} == {"shop"}
        planned = {
            (one["vhost"], one["name"])
            for one in json.loads((tmp_path / "plan.json").read_text())["queues"]
        }
        made = {(one["vhost"], one["name"]) for one in new.asked("/api/queues")}
        assert planned and planned <= made
    assert (tmp_path / "addresses.xml").read_text().strip().startswith("<")
    assert (tmp_path / "definitions.json").stat().st_mode & 0o077 == 0
