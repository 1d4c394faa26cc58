"""The commands of docs/move.md, executed in their order."""

import re
import shlex
from pathlib import Path

from tests.bridge.moving import declare, publish
from tests.bridge.test_moves_over_http import configuration, ended
from tests.net.commands import completed
from tests.net.running import Running, environment

GUIDE = Path(__file__).parents[2] / "docs/move.md"


def test_the_commands_of_the_guide(tmp_path: Path) -> None:
    text = GUIDE.read_text()
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    commands = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    assert len(commands) >= 8
    with Running(tmp_path / "old") as old:
        file = configuration(tmp_path, old, "0-9-1")
        with Running(tmp_path / "new", "--config", file) as new:
            declare(old, "orders", "bills", "late")
            declare(new, "orders", "bills.new", "late")
            for name, count in (("orders", 40), ("bills", 30), ("late", 20)):
                publish(old.port, name, range(count))
            places = {
                "old.example:5672": f"127.0.0.1:{old.port}",
                "new.example:5672": f"127.0.0.1:{new.port}",
                "gateway.example:8080": f"127.0.0.1:{new.http_port}",
            }
            said = [run(tmp_path, command, places) for command in commands]
            assert ended(new, "in")["moved"] == 20
            assert depths(old) == {"orders": 40, "bills": 30, "late": 0}
            assert depths(new) == {"orders": 0, "bills.new": 0, "late": 20}
    assert "orders: 40" in said[0]
    assert "equal" in said[4] and "not equal" not in said[4]
    assert "70 messages came back: 70 of the move" in said[5]


def depths(running: Running) -> dict[str, int]:
    return {one["name"]: one["messages"] for one in running.asked("/api/queues")}


def run(folder: Path, command: str, places: dict[str, str]) -> str:
    for name, place in places.items():
        command = command.replace(name, place)
    program, *words = shlex.split(command)
    assert program == "amqp-gateway"
    done = completed(words, environment(), folder=folder)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout
