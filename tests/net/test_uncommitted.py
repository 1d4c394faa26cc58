"""The store's batches are shared: no connection fills one so that all others wait for it."""

import re
import threading
from pathlib import Path

import pytest

from gateway.adapters.methods.wire import layouts as w
from gateway.broker.broker import Broker
from gateway.net.uncommitted import MOST_MESSAGES, MOST_OCTETS, Uncommitted
from gateway.store import SqliteStore
from gateway.store.batch import Gathered
from tests.broker.fakes import Heard, declare, put
from tests.net.running import Running, until
from tests.net.wire import PERSISTENT, Wire

COUNT = 60_000
READ = 256 << 10
"""Octets that the loop gives to a connection at once."""
SLACK = 100
"""Messages of the other one."""


def write(store: SqliteStore, broker: Broker) -> None:
    batch = store.take()
    assert batch is not None
    store.write(batch)
    broker.committed(batch.mark)


@pytest.mark.parametrize("octets", [0, 2 * MOST_OCTETS // MOST_MESSAGES])
def test_a_share_is_full_until_half_of_it_is_written(tmp_path: Path, octets: int) -> None:
    store = SqliteStore(tmp_path, synchronous="off")
    broker = Broker(store)
    channel = broker.attach("/", "guest", "test").channel(1, Heard())
    declare(channel, "q", durable=True)
    freed: list[int] = []
    share = Uncommitted(broker, lambda: freed.append(store.mark))
    portion = MOST_MESSAGES // 4 if not octets else MOST_MESSAGES // 8
    for number in range(4):
        put(channel, *["x"] * portion, durable=True)
        share.add(portion, octets * portion)
        assert not share.full, number
        if number == 1:
            first = store.take()
    put(channel, "x", durable=True)
    share.add(1, octets)
    assert share.full and not freed
    assert isinstance(first, Gathered)
    store.write(first)
    broker.committed(first.mark)
    assert share.full, "one more than half is still waiting"
    write(store, broker)
    assert not share.full and len(freed) == 1
    # Nothing is left over: a full share more can come.
    put(channel, *["x"] * 10, durable=True)
    share.add(10, 0)
    write(store, broker)
    assert share._messages == share._octets == 0
    store.abandon()


def test_batches_are_bounded_and_others_get_between(tmp_path: Path) -> None:
    """One publishes a great many durable messages without waiting for anything; another one's
    confirm waits for a batch that holds a share of them at most."""
    with Counted(tmp_path) as gateway:
        greedy, modest = gateway.wire(1), gateway.wire(1)
        greedy.declare("many", durable=True)
        modest.declare("few", durable=True)
        modest.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
        one = greedy.message("many", b"x" * 16, PERSISTENT)

        def push() -> None:
            for _ in range(COUNT // 1000):
                greedy.send(one * 1000)

        def all_there() -> bool:
            ask(modest)
            return modest.depth("many") == COUNT

        pushing = threading.Thread(target=push)
        pushing.start()
        while pushing.is_alive():
            ask(modest)
        pushing.join()
        until(all_there, "all of them")
        batches = [int(size) for size in re.findall(r"batch of (\d+)", gateway.log())]
    assert sum(batches) >= COUNT
    one_read = READ // len(one)
    assert max(batches) <= MOST_MESSAGES + one_read + SLACK, sorted(batches)[-5:]


def ask(wire: Wire) -> None:
    wire.publish("few", b"y", PERSISTENT)
    wire.heard(w.BasicAck)


class Counted(Running):
    module = "tests.net.batch_sizes"
