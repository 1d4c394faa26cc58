"""Definitions of a file, applied when the gateway starts."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from gateway.adapters.methods.wire import layouts as w
from tests.app.test_cli import refused, run
from tests.net.running import Running

SALT = b"salt"
HASH = base64.b64encode(SALT + hashlib.sha256(SALT + b"open sesame").digest()).decode()
DEFINITIONS: dict[str, Any] = {
    "users": [
        {
            "name": "carol",
            "password_hash": HASH,
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": [],
        }
    ],
    "vhosts": [{"name": "/"}],
    "permissions": [
        {"user": "carol", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
    ],
    "queues": [{"name": "orders", "vhost": "/", "durable": True, "arguments": {}}],
    "policies": [{"vhost": "/", "name": "ttl", "pattern": "", "definition": {}}],
}


def test_a_gateway_begins_with_the_definitions_of_a_broker(tmp_path: Path) -> None:
    """Its users log in with the passwords they have there; a second start changes nothing."""
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(DEFINITIONS))
    with Running(tmp_path, definitions=file) as running:
        for _ in range(2):
            assert "1 queues, " in running.log()
            assert "not applied: policy 'ttl'" in running.log()
            assert "cannot log in" not in running.log()
            wire = running.wire(1, user="carol", password="open sesame")
            wire.say(1, w.QueueDeclare(queue="orders", passive=True))
            _, answer = wire.hear()
            assert isinstance(answer, w.QueueDeclareOk)
            assert running.queues() == {"orders"}
            assert running.stop() == 0
            running.start()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "No such file"),
        ("{", "not JSON"),
        ('{"queues": [{"vhost": "/"}]}', "queues.0.name"),
    ],
)
def test_a_wrong_file_is_told_in_one_line(tmp_path: Path, text: str | None, told: str) -> None:
    file = tmp_path / "definitions.json"
    if text is not None:
        file.write_text(text)
    settings = tmp_path / "gateway.toml"
    settings.write_text(f'definitions = "{file}"\ndurable = false\n')
    refused(run("serve", "--config", settings, "--amqp-port", "0", "--http-port", "0"), told)
