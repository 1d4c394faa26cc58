"""A large message that is published over RabbitMQ's path is read in steps.

Steps are counted in octets given to ``json.loads`` at once, and in pauses as in test_portions.
"""

import base64
import json
from typing import Any

import pytest

from gateway.http import portions
from gateway.http.admin import admin_endpoints, rabbit_messages
from tests.http.test_admin_rabbit import PUBLISH, message
from tests.http.test_portions import STEPS, Pauses

LARGE = 3 << 20
WINDOW = 64 * 1024


class Read:
    """Stands in for ``json.loads``."""

    def __init__(self) -> None:
        self.real = json.loads
        self.most = 0

    def __call__(self, text: Any, **given: Any) -> Any:
        self.most = max(self.most, len(text))
        return self.real(text, **given)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    made = Read()
    monkeypatch.setattr(json, "loads", made)

    def never(takes: Any) -> Any:
        raise AssertionError("a large body is validated at once")

    monkeypatch.setattr(admin_endpoints, "reader_of", never)
    return made


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    made = Pauses()
    monkeypatch.setattr(portions, "clock", made.clock)
    monkeypatch.setattr(portions, "asyncio", made)
    return made


TEXT = 'line\n\u00e9\U0001f600"' * (LARGE // 12)
OCTETS = bytes(range(256)) * (LARGE // 256)


@pytest.mark.parametrize(
    ("payload", "encoding", "body"),
    [
        (TEXT, "string", TEXT.encode()),
        (base64.b64encode(OCTETS).decode(), "base64", OCTETS),
        ("\ud800" * 20000, "string", ("\ud800" * 20000).encode("utf-8", "surrogatepass")),
    ],
    ids=["text", "base64", "surrogates"],
)
@pytest.mark.parametrize("escaped", [True, False])
async def test_a_large_payload_is_read_in_steps(
    rig: Any, read: Read, pauses: Pauses, payload: str, encoding: str, body: bytes, escaped: bool
) -> None:
    rig.queue("q")
    told = message(payload=payload, payload_encoding=encoding, properties={"headers": {"a": "b"}})
    sent = json.dumps(told, ensure_ascii=escaped).encode("utf-8", "backslashreplace")
    async with rig.http() as http:
        answer = await http.post(PUBLISH, content=sent)
        assert (answer.status_code, answer.json()) == (200, {"routed": True})
        assert read.most <= WINDOW + 2
        # It is gone over three times: whether it is UTF-8, whether it is JSON, and what it says.
        assert pauses.count >= 2 * (len(sent) // WINDOW) // STEPS
        got = rig.channel.fetch("q", True)
        assert got.message.body[:] == body
        assert got.message.properties.application == {"a": "b"}


async def test_large_headers_are_refused_before_they_are_read(rig: Any, read: Read) -> None:
    rig.queue("q")
    for headers in (
        {f"h{n}": n for n in range(120_000)},
        {"a": [1] * 600_000},
        {"a": "x" * 1_500_000},
    ):
        async with rig.http() as http:
            answer = await http.post(PUBLISH, json=message(properties={"headers": headers}))
            assert answer.status_code == 413 and answer.json()["error"] == "bad_request"
            assert read.most <= rabbit_messages.MOST_AROUND
    assert rig.depth("q")[0] == 0


async def test_headers_of_some_size_go_with_a_payload_of_any(rig: Any) -> None:
    rig.queue("q")
    headers = {f"h{n}": "x" * 20 for n in range(4000)} | {"f": 1.5, "n": -(2**40), "l": [True]}
    async with rig.http() as http:
        answer = await http.post(PUBLISH, json=message(properties={"headers": headers}))
        assert answer.json() == {"routed": True}
        assert rig.channel.fetch("q", True).message.properties.application == headers


FILL = "x" * 100_000
DEEP = json.loads("[" * 40 + "]" * 40)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b'{"payload":"' + FILL.encode() + b'"', "not_json"),
        (b'["' + FILL.encode() + b'"]', "not_json"),
        (b'"' + FILL.encode() + b'"', "not_json"),
        (b'{"payload":"\xff' + FILL.encode() + b'"}', "not_json"),
        (b'{"payload":"' + FILL.encode() + b'","payload":""}', "not_json"),
        (
            json.dumps(message(payload=FILL, properties={"headers": {"a": DEEP}})).encode(),
            "the body is nested more than 32 deep",
        ),
        (
            json.dumps({"payload": FILL}).encode(),
            "[{key_missing,routing_key},{key_missing,properties},{key_missing,payload_encoding}]",
        ),
        (json.dumps(message(payload=[FILL])).encode(), "payload_not_string"),
        (
            json.dumps(message(payload=FILL, payload_encoding="hex")).encode(),
            ["unsupported_encoding", "hex"],
        ),
        (
            json.dumps(message(payload="@" + FILL, payload_encoding="base64")).encode(),
            ["not_base64", "@" + "x" * 63 + "..."],
        ),
    ],
)
async def test_errors_in_a_large_document(rig: Any, sent: bytes, reason: Any) -> None:
    rig.queue("q")
    async with rig.http() as http:
        answer = await http.post(PUBLISH, content=sent)
        assert answer.status_code == 400, answer.text
        assert answer.json() == {"error": "bad_request", "reason": reason}
