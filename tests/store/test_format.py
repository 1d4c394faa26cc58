"""Files of every format there has been open for ever. The fixtures are never written anew:

``format-1.db.gz`` was written by the first version of the store.

``format-2.sql`` is what a gateway of format 2 had after clients of 0-9-1 and HTTP: queues with
priorities, limits and dead letters, a user, a second virtual host, a message in two queues, one
that was rejected, and one whose body is the file 2 in ``large``.
"""

import gzip
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import gateway.adapters.registry  # noqa: F401  (the forms of messages)
from gateway.broker.broker import Broker
from gateway.broker.channel import Channel
from gateway.broker.store import Depth
from gateway.journal.entries import NOBODY
from gateway.operations import Outcome, Xid
from gateway.store import SqliteStore
from gateway.store.schema import FORMAT
from gateway.values import Seconds
from tests.app.test_cli import refused, run, serve
from tests.broker.fakes import Heard
from tests.journal.recording import Recording
from tests.store.samples import message, same

X = Xid(1, b"x")

FIXTURES = Path(__file__).parent / "fixtures"


def fill(store: SqliteStore) -> None:
    """What is in the fixture of format 1."""
    store.save("vhost", ("/",), {})
    store.save("queue", ("/", "orders"), {"durable": True, "arguments": {"x-t": Seconds(7)}})
    shared = message(b"shared " * 200)
    store.append(1, 1, message(b"first", notes={"x-death": [{"time": Seconds(9)}]}), None, True)
    store.append(1, 2, shared, 1_700_000_000_000, True)
    store.append(2, 5, shared, None, True)
    store.delivered(1, 1)


def test_format_1(tmp_path: Path) -> None:
    file = FIXTURES / "format-1.db.gz"
    (tmp_path / "gateway.db").write_bytes(gzip.decompress(file.read_bytes()))
    store = SqliteStore(tmp_path, synchronous="off")
    assert store.depths() == {1: Depth(2, 1407, 1, 2, 1), 2: Depth(1, 1401, 5, 5, 0)}
    fresh = SqliteStore(tmp_path / "fresh", synchronous="off")
    fill(fresh)
    assert store.records() == fresh.records()
    for queue in (1, 2):
        for old, new in zip(store.read(queue, 0, 9), fresh.read(queue, 0, 9), strict=True):
            assert (old.position, old.expires) == (new.position, new.expires)
            assert same(old.message, new.message)
    store.remove(1, 2)
    store.close()
    fresh.abandon()


LARGE = b"0123456789abcdef" * 131072
SHARED = b"shared " * 300


def with_format_2(directory: Path) -> Broker:
    """A broker on the fixture."""
    with sqlite3.connect(directory / "gateway.db") as old:
        old.executescript((FIXTURES / "format-2.sql").read_text())
        old.execute(f"PRAGMA application_id={0x414D5147}")
        old.execute("PRAGMA user_version=2")
    old.close()
    (directory / "large").mkdir()
    (directory / "large" / "2").write_bytes(LARGE)
    return Broker(SqliteStore(directory, synchronous="off"))


def turn(broker: Broker) -> None:
    """What was done is on disk."""
    store = broker.state.store
    assert isinstance(store, SqliteStore)
    broker.end_turn()
    while (batch := store.take()) is not None:
        store.write(batch)
        broker.committed(batch.mark)


def reopened(broker: Broker, directory: Path) -> Broker:
    """Its store is closed without anything more, and opened again."""
    assert isinstance(broker.state.store, SqliteStore)
    broker.state.store.abandon()
    return Broker(SqliteStore(directory, synchronous="off"))


def held(channel: Channel, queue: str) -> list[tuple[bytes, bool]]:
    """Ready messages, and whether they are marked; they are ready again."""
    found = []
    while (got := channel.fetch(queue)) is not None:
        found.append((bytes(got.message.body[:]), got.redelivered))
    channel.settlements.settle(0, True, Outcome.RELEASE)
    return found


def test_format_2(tmp_path: Path) -> None:
    broker = with_format_2(tmp_path)
    assert sorted(broker.vhosts) == ["/", "second"]
    alice = broker.access.user("alice")
    assert alice is not None and alice.tags == ("monitoring",)
    assert broker.access.permissions_of("alice")[0].write == "shop"
    channel = broker.attach("/", "guest", "old").channel(1, Heard())
    wanted = {
        "orders": [b"priority 1", b"priority 0", SHARED, b"rejected"],
        "copies": [b"priority 0", b"priority 3", b"priority 1", SHARED],
        "dead": [b"priority 3"],
        "large": [LARGE],
    }
    for name, bodies in wanted.items():
        assert held(channel, name) == [(body, False) for body in bodies]
    dead = channel.fetch("dead")
    assert dead is not None and dead.message.added_headers is not None
    assert dead.message.added_headers["x-death"][0]["queue"] == "orders"
    other = broker.attach("second", "guest", "old").channel(1, Heard())
    assert held(other, "other") == [(b'{"order": 17}', False)]
    queue = broker.vhosts["/"].queues["orders"]
    assert queue.limits.max_priority == 3 and queue.has_dead_letter_exchange
    assert queue.refuses_when_full is False
    channel.settlements.settle(0, True, Outcome.RELEASE)
    # and it is one of today: a branch takes part of it, and survives
    branches = broker.branches(broker.vhosts["/"])
    channel.select_branches()
    mine = channel.needed_branches()
    mine.start(X)
    for name in ("orders", "large"):
        got = channel.fetch(name)
        assert got is not None
        channel.settlements.settle(got.delivery, False, Outcome.ACCEPT)
        channel.publish(got.message.routed_as("shop", "order.again", got.message.essentials))
    mine.end(X)
    _, steps = branches.prepare(X, "guest")
    assert not list(steps)
    turn(broker)
    broker = reopened(broker, tmp_path)
    branches = broker.branches(broker.vhosts["/"])
    assert branches.recover("guest") == [X]
    _, steps = branches.commit(X, "guest", False)
    assert not list(steps)
    turn(broker)
    channel = broker.attach("/", "guest", "new").channel(1, Heard())
    moved = [b"priority 1", LARGE]
    assert [body for body, _ in held(channel, "copies")] == [*wanted["copies"], *moved]
    assert [body for body, _ in held(channel, "orders")] == [
        b"priority 1", b"priority 0", SHARED, b"rejected", LARGE
    ]  # fmt: skip
    assert held(channel, "large") == []
    reopened(broker, tmp_path).state.store.abandon()  # type: ignore[attr-defined]
    now = sqlite3.connect(tmp_path / "gateway.db")
    assert now.execute("PRAGMA user_version").fetchone() == (FORMAT,)
    now.close()


def test_format_4(tmp_path: Path) -> None:
    """A journal with a row for each entry: its entries stand in blocks, and it goes on."""
    data = tmp_path / "data"
    data.mkdir()
    file = FIXTURES / "format-4.db.gz"
    (data / "gateway.db").write_bytes(gzip.decompress(file.read_bytes()))
    recording = Recording(data)
    for body in (b"next", b"x" * 20_000):
        recording.channel.publish(message(body, b"", "", "more"))
    recording.commit()
    found = recording.again().entries()
    assert [one.pos for one in found] == list(range(47))
    bodies = [bytes(one.message.body[:]) for one in found]
    assert bodies[:5] == [b"first", b"second", b"shared" * 500, b"of a source", b"noted"]
    assert bodies[5:] == [*(b"%d" % number for number in range(40)), b"next", b"x" * 20_000]
    assert [one.size for one in found] == [len(body) for body in bodies]
    orders, more = "/queues/orders", "/queues/more"
    addresses = [orders, more, orders, "/exchanges/amq.topic?binding=k", *[orders, orders, more]]
    assert [one.address for one in found[:7]] == addresses
    offsets = {name: [one.offset for one in found if one.address == name] for name in addresses}
    assert offsets == {orders: list(range(23)), more: list(range(23)), addresses[3]: [1]}
    assert {one.stamp for one in found} == {1_000_000}
    assert found[4].message.added_headers == {"x-note": [1]}
    assert found[3].message.key == "k" and found[3].publisher == NOBODY
    assert {one.publisher.connection for one in found} == {"one", ""}
    assert {one.message.exchange for one in found} == {"", "amq.topic"}


def test_a_later_format(tmp_path: Path) -> None:
    """Is refused in a line, and left as it is: the gateway that wrote it can be used again."""
    fill(store := SqliteStore(tmp_path / "data"))
    store.close()
    file = tmp_path / "data" / "gateway.db"
    with closing(sqlite3.connect(file)) as later:
        later.execute(f"PRAGMA user_version={FORMAT + 1}")
    octets = file.read_bytes()
    for command in (serve(tmp_path), ["user", "list", "--data-dir", tmp_path / "data"]):
        wanted = f"store format {FORMAT + 1}; this gateway knows formats up to {FORMAT}"
        refused(run(*command), wanted, "use the newer gateway")
    assert file.read_bytes() == octets


def write_fixture(directory: Path) -> None:
    """How the fixture was made, for the format that comes next."""
    store = SqliteStore(directory)
    fill(store)
    store.close()
    octets = gzip.compress((directory / "gateway.db").read_bytes(), 9, mtime=0)
    (directory / "format.db.gz").write_bytes(octets)


if __name__ == "__main__":
    write_fixture(Path(sys.argv[1]))
