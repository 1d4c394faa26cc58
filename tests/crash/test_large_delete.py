"""What is deleted with very much in it is taken apart over several turns of the loop: others are
served meanwhile, and another of its name, made while it is, is whole whenever the process dies."""

from pathlib import Path

import pytest

from gateway.adapters.methods import types as fields
from gateway.adapters.methods.wire import layouts as w
from gateway.broker.vhost import PORTION
from gateway.store.writer import DROPPED_ROWS
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
@pytest.mark.parametrize("how", ["purged", "one is held", "deleted"])
def test_killed_while_messages_are_being_removed(tmp_path: Path, how: str) -> None:
    """Some of them are only in the store, which removes them in portions."""
    many = DROPPED_ROWS // 1000 + 8
    with Running(tmp_path, limits__memory_page=0.000001) as gateway:
        wire, holder = gateway.wire(1), gateway.wire(1)
        wire.declare("q", durable=True)
        wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
        octets = wire.message("q", b"x" * 100, PERSISTENT) * 1000
        for _ in range(many):
            wire.send(octets)
        while wire.heard(w.BasicAck).delivery_tag < 1000 * many:
            pass
        held = how == "one is held"
        if held:
            assert holder.got("q", no_ack=False) is not None
        if how == "deleted":
            gone = wire.call(1, w.QueueDelete(queue="q"), w.QueueDeleteOk).message_count
            wire.declare("q", durable=True)
        else:
            gone = wire.call(1, w.QueuePurge(queue="q"), w.QueuePurgeOk).message_count
        assert gone == 1000 * many - held
        wire.publish("q", b"new", PERSISTENT)
        wire.heard(w.BasicAck)
        gateway.kill()
        wire.close()
        holder.close()
        for _ in range(2):
            gateway.start()
            wire = gateway.wire(1)
            assert wire.declare("q", durable=True).message_count == 1 + held
            wire.close()
            gateway.kill()
        gateway.start()
        wire = gateway.wire(1)
        assert [wire.got("q") for _ in range(1 + held)] == [b"x" * 100] * held + [b"new"]
        wire.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_while_messages_go_to_the_dead_letter_exchange(tmp_path: Path) -> None:
    """None of them is lost, and the queue does not come back."""
    many, letters = 20, {"x-dead-letter-exchange": "letters", "x-dead-letter-on-delete": True}
    arguments = fields.write_table(letters)
    with Running(tmp_path) as gateway:
        wire = gateway.wire(1)
        wire.call(1, w.ExchangeDeclare(exchange="letters", type="fanout", durable=True),
                  w.ExchangeDeclareOk)  # fmt: skip
        wire.declare("dead", durable=True)
        wire.call(1, w.QueueBind(queue="dead", exchange="letters"), w.QueueBindOk)
        wire.declare("q", durable=True, arguments=arguments)
        wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
        octets = wire.message("q", b"x" * 100, PERSISTENT) * 1000
        for _ in range(many):
            wire.send(octets)
        while wire.heard(w.BasicAck).delivery_tag < 1000 * many:
            pass
        wire.call(1, w.QueueDelete(queue="q"), w.QueueDeleteOk)
        gateway.kill()
        wire.close()
        gateway.start()
        wire = gateway.wire(1)
        moved = 0
        while moved < 1000 * many:
            moved = wire.declare("dead", durable=True).message_count
        assert moved == 1000 * many
        assert wire.declare("q", durable=True).message_count == 0
        wire.close()
