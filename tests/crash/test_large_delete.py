"""What is deleted with very much in it is taken apart over several turns of the loop: others are
served meanwhile, and another of its name, made while it is, is whole whenever the process dies."""

from pathlib import Path

import pytest

from gateway.adapters.v0_9.wire import layouts as w
from gateway.broker.vhost import PORTION
from tests.net.running import Running
from tests.net.wire import PERSISTENT, Wire

COUNT = 8 * PORTION
KILLS = 4


def bind(wire: Wire, count: int, start: str) -> None:
    for number in range(count):
        key = f"{start}{number}"
        wire.say(1, w.QueueBind(queue="q", exchange="x", routing_key=key, no_wait=True))


def bound(gateway: Running) -> list[str]:
    found = gateway.asked("/api/queues/%2F/q/bindings")
    return sorted(one["routing_key"] for one in found if one["source"] == "x")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("deleted", ["queue", "exchange"])
def test_killed_while_it_is_being_taken_apart(tmp_path: Path, deleted: str) -> None:
    with Running(tmp_path) as gateway:
        for kill in range(KILLS):
            wire = gateway.wire(1)
            wire.call(1, w.ExchangeDeclare(exchange="x", type="topic", durable=True),
                      w.ExchangeDeclareOk)  # fmt: skip
            wire.declare("q", durable=True)
            bind(wire, COUNT, "old.")
            wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
            wire.publish("q", b"old", PERSISTENT)
            wire.heard(w.BasicAck)
            if deleted == "queue":
                wire.call(1, w.QueueDelete(queue="q"), w.QueueDeleteOk)
                wire.declare("q", durable=True)
            else:
                wire.call(1, w.ExchangeDelete(exchange="x"), w.ExchangeDeleteOk)
                wire.call(1, w.ExchangeDeclare(exchange="x", type="topic", durable=True),
                          w.ExchangeDeclareOk)  # fmt: skip
                wire.call(1, w.QueuePurge(queue="q"), w.QueuePurgeOk)
            # As one that was there before, and one that was not.
            bind(wire, 1, "old.")
            bind(wire, 1, "new.")
            wire.publish("new.0", b"new", PERSISTENT, exchange="x")
            wire.heard(w.BasicAck)
            if kill % 2:
                assert bound(gateway) == ["new.0", "old.0"]
            gateway.kill()
            wire.close()
            gateway.start()
            assert bound(gateway) == ["new.0", "old.0"]
            wire = gateway.wire(1)
            assert wire.declare("q", durable=True).message_count == 1
            assert wire.got("q") == b"new"
            wire.call(1, w.QueueDelete(queue="q"), w.QueueDeleteOk)
            wire.call(1, w.ExchangeDelete(exchange="x"), w.ExchangeDeleteOk)
            wire.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_after_a_purge(tmp_path: Path) -> None:
    """Of what is only in the store, with one message among it that somebody holds."""
    with Running(tmp_path, limits__memory_page=0.000001) as gateway:
        wire, holder = gateway.wire(1), gateway.wire(1)
        wire.declare("q", durable=True)
        wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
        octets = wire.message("q", b"x" * 100, PERSISTENT) * 1000
        for _ in range(8):
            wire.send(octets)
        wire.publish("q", b"last", PERSISTENT)
        while wire.heard(w.BasicAck).delivery_tag < 8001:
            pass
        assert holder.got("q", no_ack=False) is not None
        assert wire.call(1, w.QueuePurge(queue="q"), w.QueuePurgeOk).message_count == 8000
        wire.publish("q", b"new", PERSISTENT)
        wire.heard(w.BasicAck)
        gateway.kill()
        wire.close()
        holder.close()
        gateway.start()
        wire = gateway.wire(1)
        assert wire.declare("q", durable=True).message_count == 2
        assert [wire.got("q"), wire.got("q")] == [b"x" * 100, b"new"]
        wire.close()
