"""What the store cannot do costs a message, or the process, and never all messages behind it."""

import sqlite3
from pathlib import Path

import pytest

from gateway.adapters.methods.wire import layouts as w
from gateway.app import BROKEN
from gateway.store.plain import write_plain
from tests.crash.broken import POISON
from tests.net.running import PATIENCE, Running
from tests.net.wire import PERSISTENT, Gone


class Breaking(Running):
    module = "tests.crash.broken"


def test_a_bug_of_the_writer_ends_the_process_and_the_next_one_is_well(tmp_path: Path) -> None:
    with Breaking(tmp_path) as gateway:
        wire = gateway.wire(1)
        wire.declare("q", durable=True)
        wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
        wire.publish("q", b"safe", PERSISTENT)
        wire.heard(w.BasicAck)
        wire.publish("q", POISON, PERSISTENT)
        with pytest.raises((Gone, ConnectionError)):
            wire.heard(w.BasicAck)
        assert gateway.process.wait(PATIENCE) == BROKEN
        assert "a bug of the writer's" in gateway.log()
        gateway.log_file.unlink()  # the traceback was meant to be there

        gateway.start()
        wire = gateway.wire(1)
        wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
        wire.publish("q", b"after", PERSISTENT)
        wire.heard(w.BasicAck)
        assert wire.got("q") == b"safe"
        assert wire.got("q") == b"after"


def test_dead_letters_through_a_name_from_before_the_limit(tmp_path: Path) -> None:
    """The exchange of 70,000 characters that stopped the store of all virtual hosts."""
    far = "x" * 70_000
    with Running(tmp_path) as gateway:
        gateway.stop()
        with sqlite3.connect(gateway.data / "gateway.db") as database:
            exchange = {"type": "fanout", "auto_delete": False, "internal": False, "arguments": {}}
            plain = {"x-message-ttl": 0, "x-dead-letter-exchange": far}
            queue = {"lanes": {"0": 1000}, "auto_delete": False, "arguments": plain}
            for kind, key, value in (
                ("exchange", ["/", far], exchange),
                ("queue", ["/", "q"], queue),
                ("queue", ["/", "dead"], {**queue, "lanes": {"0": 1001}, "arguments": {}}),
                ("binding", ["/", far, "queue", "dead", "", ""], {"arguments": {}}),
            ):
                row = (kind, write_plain(key), write_plain(value))
                database.execute("INSERT INTO records VALUES (?, ?, ?)", row)
        database.close()
        gateway.start()
        wire = gateway.wire(1)
        wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
        wire.publish("q", b"gone on", PERSISTENT)
        wire.heard(w.BasicAck)
        wire.declare("other", durable=True)
        wire.publish("other", b"well", PERSISTENT)
        wire.heard(w.BasicAck)
        assert wire.got("dead") is None
        assert wire.got("other") == b"well"
        assert "too long to be stored" in gateway.log()
