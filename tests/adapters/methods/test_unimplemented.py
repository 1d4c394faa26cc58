"""Methods that are answered with not-implemented: the tables know no more of them than the engine
needs, and what describes or tries them gets their arguments elsewhere."""

import subprocess
import sys

import pytest

from gateway.adapters.methods.support import tried
from gateway.adapters.methods.trace import Reader
from gateway.adapters.methods.unimplemented import complete
from gateway.adapters.methods.wire.tables import VERSIONS
from gateway.errors import Condition
from tests.adapters.methods.closes import connection_dies
from tests.talk import Talk, frame

every_version = pytest.mark.parametrize("version", VERSIONS)


@every_version
def test_methods_without_a_layout_are_those_that_the_engine_refuses(version: str) -> None:
    """The generator's list and the engine's answers are the same."""
    rows = [tried(version, method) for method in complete(version).methods.values()]
    refused = {row.name for row in rows if "refused" in (row.as_server, row.as_client)}
    assert refused == {m.name for m in VERSIONS[version].methods.values() if not m.implemented}
    assert {row.name for row in rows if "yes" in (row.as_server, row.as_client)}.isdisjoint(refused)


@every_version
def test_all_others_have_one(version: str) -> None:
    table = VERSIONS[version]
    assert set(table.by_record.values()) == {m for m in table.methods.values() if m.implemented}
    for record, method in table.by_record.items():
        assert method.read(method.write(record()), 0)[0] == record()


@pytest.mark.parametrize("arguments", [b"", b"\xff" * 3, bytes(40)])
def test_arguments_do_not_matter(arguments: bytes) -> None:
    talk = Talk("0-9").opened(1)
    row = VERSIONS["0-9"].by_name["message.consume"]
    words = talk.sends(frame(1, 1, row.prefix + arguments))
    close = connection_dies(talk, words, 540, Condition.NOT_IMPLEMENTED)
    assert close.reply_text == "NOT_IMPLEMENTED - message.consume is not implemented"


def test_they_are_described_with_their_arguments() -> None:
    row = complete("0-9").by_name["message.consume"]
    record = row.record(queue="q", exclusive=True, filter=b"\x01kt\x01")
    octets = frame(1, 7, row.prefix + row.write(record))
    assert [line.text for line in Reader("0-9").frames(octets)] == [
        "message.consume queue='q' exclusive=True filter={'k': True}",
    ]


def test_a_field_that_there_is_not() -> None:
    with pytest.raises(TypeError, match=r"message\.ok has no field requeue"):
        complete("0-9").by_name["message.ok"].record(requeue=True)


def test_a_gateway_that_serves_does_not_load_them() -> None:
    script = (
        "import sys, gateway.app\n"
        "print([name for name in sys.modules if 'unimplemented' in name or name.endswith('.trace')"
        " and 'adapters' in name or name.startswith('gateway.inspect')])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
