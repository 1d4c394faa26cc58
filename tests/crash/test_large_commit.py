"""A large commit takes several turns of the loop: others are served meanwhile, what follows on its
channel waits, and whenever the process dies all of it is there or nothing."""

from pathlib import Path

import pytest

from gateway.adapters.methods.wire import layouts as w
from gateway.broker.long_operations import PORTION
from tests.net.running import Running
from tests.net.wire import PERSISTENT

COUNT = 12 * PORTION
KILLS = 6


def test_order_around_a_large_commit(tmp_path: Path) -> None:
    with Running(tmp_path) as gateway:
        wire, other = gateway.wire(1, 2), gateway.wire(1)
        wire.declare("q", durable=True)
        wire.call(1, w.TxSelect(), w.TxSelectOk)
        octets = wire.message("q", b"x", PERSISTENT) * COUNT
        wire.send(octets)
        wire.call(2, w.QueueDeclare(queue="q", passive=True), w.QueueDeclareOk)
        # All in one write: the commit, what depends on it, another transaction, the end.
        wire.say(1, w.TxCommit())
        wire.say(1, w.QueueDeclare(queue="q", passive=True))
        wire.publish("q", b"rolled back", PERSISTENT)
        wire.say(1, w.TxRollback())
        wire.publish("q", b"last", PERSISTENT)
        wire.say(1, w.TxCommit())
        wire.say(1, w.ChannelClose(200, "", 0, 0))
        served = 0
        while other.declare("q", durable=True).message_count < COUNT:
            served += 1
        assert served > 0, "others are served meanwhile"
        wire.heard(w.TxCommitOk)
        assert wire.heard(w.QueueDeclareOk).message_count == COUNT
        wire.heard(w.TxRollbackOk)
        wire.heard(w.TxCommitOk)
        wire.heard(w.ChannelCloseOk)
        assert other.declare("q", durable=True).message_count == COUNT + 1


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_in_the_middle_of_a_large_commit(tmp_path: Path) -> None:
    with Running(tmp_path) as gateway:
        ends: list[int] = []
        for _ in range(KILLS):
            wire, other = gateway.wire(1), gateway.wire(1)
            other.declare("q", durable=True)
            other.call(1, w.QueuePurge(queue="q"), w.QueuePurgeOk)
            wire.call(1, w.TxSelect(), w.TxSelectOk)
            octets = wire.message("q", b"x", PERSISTENT) * PORTION
            for _ in range(COUNT // PORTION):
                wire.send(octets)
            wire.say(1, w.TxCommit())
            while other.got("q", no_ack=False) is None:
                pass  # the first portion is not in yet
            gateway.kill()
            wire.close()
            other.close()
            gateway.start()
            wire = gateway.wire(1)
            ends.append(wire.declare("q", durable=True).message_count)
            wire.close()
        assert set(ends) <= {0, COUNT}, "a part of a transaction"
        assert 0 in ends, "no kill came in the middle"
