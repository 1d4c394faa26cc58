"""The commands ``publish``, ``consume``, ``browse``, ``status`` and ``top``."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.http.fields import string
from gateway.message_commands import guess, quoted
from tests.app.test_cli import refused, run
from tests.net.preloaded import ROOT
from tests.net.running import Running


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("gateway")) as running:
        yield running


def ask(
    gateway: Running, *arguments: object, text: str | None = None
) -> subprocess.CompletedProcess[str]:
    return run(*arguments, text=text, url=f"http://127.0.0.1:{gateway.http_port}")


def bodies(gateway: Running, queue: str) -> list[str]:
    """Those of all messages, which are taken."""
    return ask(gateway, "consume", queue).stdout.splitlines()


def test_a_message_goes_there_and_back(gateway: Running) -> None:
    done = ask(gateway, "publish", "a/b", "hello", "--declare")
    assert (done.returncode, done.stdout) == (0, "published 1 message to a/b\n"), done
    done = ask(gateway, "publish", "a/b", '{"a": 1}', "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["durability"] == "disk"
    shown = ask(gateway, "browse", "a/b")
    assert shown.returncode == 0
    assert "hello" in shown.stdout and "application/json" in shown.stdout
    assert "2 shown" in shown.stdout
    first, *more = ask(gateway, "browse", "a/b", "--json", "--limit", 1).stdout.splitlines()
    assert json.loads(first)["message"]["body"] == {"text": "hello"} and not more
    done = ask(gateway, "consume", "a/b", "--count", 1)
    assert (done.returncode, done.stdout) == (0, "hello\n")
    done = ask(gateway, "consume", "a/b", "--json")
    assert json.loads(done.stdout)["message"]["body"] == {"json": {"a": 1}}
    done = ask(gateway, "consume", "a/b")
    assert (done.returncode, done.stdout) == (1, "")


def test_metadata(gateway: Running) -> None:
    given = ("--property", "who=Änn", "-p", 'odd %="x\\=', "--subject", 'new "x"', "--id", "m-1")
    more = ("--priority", 3, "--ttl", 100_000, "--transient", "--content-type", "text/csv")
    done = ask(gateway, "publish", "meta", "a,b", "--declare", *given, *more)
    assert done.returncode == 0, done
    message = json.loads(ask(gateway, "consume", "meta", "--json").stdout)["message"]
    assert message["properties"] == {"who": "Änn", "odd %": '"x\\='}
    assert message["subject"] == 'new "x"' and message["id"] == "m-1"
    assert message["priority"] == 3 and message["content_type"] == "text/csv"
    assert message["durable"] is False


def test_lines_and_files(gateway: Running, tmp_path: Path) -> None:
    lines = "".join(f"line {number}\n" for number in range(250))
    done = ask(gateway, "publish", "lines", "--lines", "--declare", text=lines)
    assert done.stdout == "published 250 messages to lines\n"
    done = ask(gateway, "publish", "lines", "--lines", "--declare", text="last")
    assert done.returncode == 0
    assert "101 shown" in ask(gateway, "browse", "lines", "--limit", 101).stdout
    assert bodies(gateway, "lines") == [*lines.splitlines(), "last"]
    file = tmp_path / "body"
    file.write_text("from a file\n")
    assert ask(gateway, "publish", "lines", "--file", file).returncode == 0
    assert ask(gateway, "publish", "lines", text="from a pipe").returncode == 0
    assert bodies(gateway, "lines") == ["from a file", "", "from a pipe"]


def test_exchanges_and_messages_that_nobody_takes(gateway: Running) -> None:
    assert ask(gateway, "publish", "amq.direct", "x", "-x", "-k", "none").returncode == 1
    done = ask(gateway, "publish", "amq.direct", "x", "--exchange", "--key", "none")
    assert done.returncode == 1 and done.stdout == ""
    assert "exchange 'amq.direct'" in done.stderr and "routing key 'none'" in done.stderr
    done = ask(gateway, "publish", "nowhere", "x")
    assert done.returncode == 1 and "no queue 'nowhere'" in done.stderr
    assert "--declare makes the queue" in done.stderr


def test_what_cannot_be_printed_stays_in_its_queue(gateway: Running) -> None:
    lines = "one\ntwo\nthree\n"
    assert ask(gateway, "publish", "kept", "--lines", "--declare", text=lines).returncode == 0
    for options in ("", "--json"):
        command = f"{sys.executable} -m gateway consume kept {options} > /dev/full"
        environment = {**os.environ, "AMQP_GATEWAY_URL": f"http://127.0.0.1:{gateway.http_port}"}
        done = subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, timeout=60, env=environment
        )
        assert done.returncode == 1, done
        assert "No space left" in done.stderr and "Traceback" not in done.stderr
    assert bodies(gateway, "kept") == lines.splitlines()


def test_a_consumer_waits(gateway: Running) -> None:
    assert ask(gateway, "publish", "late", "first", "--declare").returncode == 0
    environment = {**os.environ, "AMQP_GATEWAY_URL": f"http://127.0.0.1:{gateway.http_port}"}
    waiting = subprocess.Popen(
        [sys.executable, "-m", "gateway", "consume", "late", "--count", "2", "--wait", "50"],
        stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    try:
        assert waiting.stdout is not None and waiting.stdout.readline() == "first\n"
        assert waiting.poll() is None
        assert ask(gateway, "publish", "late", "second").returncode == 0
        assert waiting.stdout.readline() == "second\n"
        assert waiting.wait(60) == 0
    finally:
        waiting.kill()
        waiting.communicate()


def test_status(gateway: Running) -> None:
    assert ask(gateway, "publish", "status", "x", "--declare").returncode == 0
    done = ask(gateway, "status")
    assert done.returncode == 0, done
    assert ": ready" in done.stdout and "status" in done.stdout
    found = json.loads(ask(gateway, "status", "--json").stdout)
    (queue,) = (one for one in found["queues"] if one["name"] == "status")
    assert queue["ready"] == 1 and found["health"]["status"] == "ready"
    assert "more queues" in ask(gateway, "status", "--queues", 0).stdout
    done = ask(gateway, "top", "--rounds", 2, "--interval", 0.2)
    assert done.returncode == 0 and ": ready" in done.stdout


def test_mistakes(gateway: Running, tmp_path: Path) -> None:
    refused(ask(gateway, "consume", "absent"), "404 no queue 'absent'")
    refused(ask(gateway, "browse", "absent"), "404 no queue 'absent'")
    refused(ask(gateway, "consume", "x", "--vhost", "no"), "404 no virtual host 'no'")
    refused(ask(gateway, "status", "--password", "no"), "401 Unknown user or wrong password")
    refused(ask(gateway, "publish", "q", "x", "--key", "k"), "--key needs --exchange")
    refused(ask(gateway, "publish", "q", "x", "--file", "f"), "not both")
    refused(ask(gateway, "publish", "q", "--file", tmp_path / "none"), "No such file")
    refused(ask(gateway, "publish", "q", "x", "-p", "name"), "write name=value")
    refused(ask(gateway, "publish", "q", "x", "--lines", "--id", "1"), "one message")
    refused(ask(gateway, "publish", "q", "x", "--priority", 256), "priority")
    refused(run("status", url="http://127.0.0.1:1"), "http://127.0.0.1:1", "--url")
    refused(run("status", url="nonsense"), "nonsense")


@pytest.mark.parametrize(
    ("text", "written"),
    [("plain", '"plain"'), ('a "b" \\', '"a \\"b\\" \\\\"'), ("ä%\n", '%"%c3%a4%25%0a"')],
)
def test_quoted(text: str, written: str) -> None:
    assert quoted(text) == written
    assert string("amqp-subject", written.encode()) == text


def test_guess() -> None:
    assert guess(b"[1]") == "application/json"
    assert guess(b"[1") == guess(b"") == "text/plain; charset=utf-8"
    assert guess(b"\xff") == "application/octet-stream"
    assert guess(b"[" * 100_000) == "text/plain; charset=utf-8"


def test_the_commands_of_the_guide(gateway: Running) -> None:
    guide = (ROOT / "docs" / "cli.md").read_text()
    block = guide.partition("```sh\n")[2].partition("```")[0]
    commands = [shlex.split(line) for line in block.splitlines()]
    assert len(commands) == 4
    for program, *words in commands:
        assert program == "amqp-gateway"
        done = ask(gateway, *words)
        assert done.returncode == 0, (words, done)
