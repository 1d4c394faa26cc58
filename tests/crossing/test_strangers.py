"""Proton and pamqp, independent implementations, read converted messages."""

from typing import Any

import pamqp.commands
import pytest

from gateway.adapters.methods import types as fields
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.wire.layouts import BasicProperties, write_basic_properties
from gateway.adapters.performatives.sections import part, pieces
from gateway.crossing.natural import to_sections
from gateway.values import Short
from tests import in_memory
from tests.crossing.messages import to_basic
from tests.needs import package

proton = package("python-qpid-proton", "proton")

pytestmark = pytest.mark.interop


def test_nested_headers_are_an_annotation_with_full_types() -> None:
    header = fields.write_table({"t": {"a": [Short(1), {"b": None}]}, "n": 1})
    octets, _ = to_sections(
        BASIC.read(write_basic_properties(BasicProperties(headers=header))), b"", "x", "k"
    )
    found = proton.Message()
    found.decode(octets + b"\x00\x53\x75\xa0\x00")
    assert found.annotations["x-opt-gateway-headers"] == {"t": {"a": [1, {"b": None}]}}
    assert found.properties == {"n": 1}


def test_proton_reads_messages_of_pamqp() -> None:
    written = pamqp.commands.Basic.Properties(
        content_type="text/plain", headers={"n": 5, "s": "x"}, delivery_mode=2, priority=3,
        correlation_id="c", reply_to="q", expiration="60000", message_id="m", message_type="t",
        user_id="u", app_id="a",
    )  # fmt: skip
    octets, body = to_sections(BASIC.read(written.marshal()), b"hello", "x", "k")
    found = proton.Message()
    found.decode(in_memory.joined(pieces(octets, body)))
    assert (found.id, found.correlation_id, found.reply_to, found.ttl) == ("m", "c", "q", 60.0)
    assert (found.durable, found.priority, found.content_type) == (True, 3, "text/plain")
    assert found.properties == {"n": 5, "s": "x"} and bytes(found.body) == b"hello"
    assert found.subject == "t" and found.annotations["x-opt-app-id"] == "a"
    assert (found.annotations["x-exchange"], found.annotations["x-routing-key"]) == ("x", "k")


MAP = bytes.fromhex("0000000f 00000001 0161 31 0000000000000001")
LIST = bytes.fromhex("0000000d 00000001 31 0000000000000001")


@pytest.mark.parametrize(
    ("body", "octets", "word", "kind"),
    [
        ("text", b"text", "string", "text/plain"),
        ({"a": 1}, MAP, "map", "amqp/map"),
        ([1], LIST, "list", "amqp/list"),
        (7, None, "value", "application/vnd.amqp-gateway.amqp"),
    ],
)
def test_pamqp_reads_messages_of_proton(body: Any, octets: Any, word: str, kind: str) -> None:
    sent = proton.Message(body=body, id="m", properties={"n": proton.ulong(5)}, durable=True)
    header, payload = to_basic(*part(sent.encode()))
    found = pamqp.commands.Basic.Properties()
    found.unmarshal(int.from_bytes(header[:2], "big"), header[2:])
    assert found.message_id == "m" and found.delivery_mode == 2 and found.content_type == kind
    assert found.headers is not None
    assert found.headers["n"] == 5 and found.headers["x-amqp10-body"] == word
    if octets is not None:
        assert payload == octets
    else:
        again = proton.Message()
        again.decode(payload)
        assert again.body == body
