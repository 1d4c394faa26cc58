"""The store piece by piece: gathering, marks, reading, sharing, failures, locks, records."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from gateway.bodies import Spool
from gateway.broker.store import Depth, Store
from gateway.errors import LocalError, StoreError, Unstorable
from gateway.message import Essentials
from gateway.store import SqliteStore, open_records, writer
from gateway.store.rows import Packer, Unpacker
from gateway.store.schema import FORMAT
from gateway.values import Seconds
from tests.store.samples import message, same
from tests.test_bodies import spooled


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    made = SqliteStore(tmp_path, synchronous="off")
    yield made
    made.abandon()


def commit(store: SqliteStore) -> None:
    batch = store.take()
    assert batch is not None
    store.write(batch)


def positions(store: SqliteStore, queue: int, start: int = 0, limit: int = 1000) -> list[int]:
    return [kept.position for kept in store.read(queue, start, limit)]


def rows(store: SqliteStore, table: str) -> int:
    found: int = store.reader.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return found


def reopened(store: SqliteStore) -> SqliteStore:
    store.close()
    return SqliteStore(store.directory, synchronous="off")


def test_it_is_a_store(store: SqliteStore) -> None:
    port: Store = store
    assert (port.mark, port.pending_octets) == (1, 0)


def test_a_message_comes_back_as_it_was(store: SqliteStore) -> None:
    notes = {"x-death": [{"count": 3, "time": Seconds(5)}]}
    sent = message(b"\0body", b"7", "ex", "schlüssel\udcff", notes)
    store.append(9, 4, sent, 1234, True)
    store = reopened(store)
    [kept] = store.read(9, 0, 10)
    assert (kept.position, kept.expires) == (4, 1234)
    assert same(kept.message, sent) and kept.message is not sent
    assert kept.message.added_headers is not None
    assert type(kept.message.added_headers["x-death"][0]["time"]) is Seconds
    assert kept.message.essentials.priority == 7
    assert store.depths() == {9: Depth(1, 6, 4, 4, 0)}
    store.abandon()


def test_notes_are_those_of_the_moment(store: SqliteStore) -> None:
    sent = message(notes={"n": [1]})
    store.append(1, 1, sent, None, True)
    assert sent.added_headers is not None
    sent.added_headers["n"].append(2)
    commit(store)
    assert store.read(1, 0, 1)[0].message.added_headers == {"n": [1]}


def test_an_expiry_beyond_all_times_is_kept(store: SqliteStore) -> None:
    store.append(1, 1, message(), 1 << 70, True)
    commit(store)
    assert store.read(1, 0, 1)[0].expires == (1 << 63) - 1


def test_messages_removed_in_their_batch_cost_nothing(store: SqliteStore) -> None:
    store.append(1, 1, message(b"12345"), None, True)
    assert (store.dirty, store.pending_octets) == (True, 5)
    store.remove(1, 1)
    assert (store.dirty, store.pending_octets) == (False, 0)
    assert store.take() is None and store.mark == 1


def test_marks_count_batches(store: SqliteStore) -> None:
    for mark in (1, 2, 3):
        assert store.mark == mark
        store.append(1, mark, message(), None, True)
        batch = store.take()
        assert batch is not None and batch.mark == mark
        store.write(batch)


def test_batches_are_written_once_and_in_order(store: SqliteStore) -> None:
    store.append(1, 1, message(), None, True)
    first = store.take()
    store.append(1, 2, message(), None, True)
    second = store.take()
    assert first and second
    with pytest.raises(LocalError):
        store.write(second)
    store.write(first)
    with pytest.raises(LocalError):
        store.write(first)
    store.write(second)
    assert rows(store, "messages") == 2


def test_removing_during_the_write_waits_for_the_next_batch(store: SqliteStore) -> None:
    store.append(1, 1, message(), None, True)
    batch = store.take()
    assert batch is not None
    store.remove(1, 1)
    assert store.dirty and positions(store, 1) == []
    store.write(batch)
    assert positions(store, 1) == [] and rows(store, "messages") == 1
    commit(store)
    assert positions(store, 1) == [] and rows(store, "messages") == 0


def test_pending_octets_fall_when_a_batch_is_written(store: SqliteStore) -> None:
    store.append(1, 1, message(b"x" * 100), None, True)
    batch = store.take()
    store.append(1, 2, message(b"x" * 7), None, True)
    assert batch is not None and store.pending_octets == 107
    store.write(batch)
    assert store.read(1, 0, 5) and store.pending_octets == 7
    commit(store)
    assert store.take() is None and store.pending_octets == 0


def test_reading_merges_all_layers_in_order(store: SqliteStore) -> None:
    for position in (1, 2, 3, 4):
        store.append(1, position, message(), None, True)
    commit(store)
    store.append(1, 5, message(), None, False)
    commit(store)
    store.append(1, 6, message(), None, True)
    store.remove(1, 2)
    assert store.take() is not None
    store.append(1, 7, message(), None, True)
    store.remove(1, 4)
    assert positions(store, 1) == [1, 3, 5, 6, 7]
    assert positions(store, 1, 3, 3) == [3, 5, 6]
    assert positions(store, 1, 6, 1) == [6]
    assert positions(store, 1, 1, 0) == [] == positions(store, 2)


def test_queues_do_not_touch(store: SqliteStore) -> None:
    last, other = (1 << 40) - 1, (1 << 23) - 1
    store.append(1, last, message(), None, True)
    store.append(2, 0, message(), None, True)
    store.append(other, last, message(), None, True)
    commit(store)
    assert (positions(store, 1), positions(store, 2)) == ([last], [0])
    store.purge(2)
    commit(store)
    assert (positions(store, 1), positions(store, 2)) == ([last], [])
    with pytest.raises(StoreError, match="no more positions"):
        store.append(1, last + 1, message(), None, True)
    with pytest.raises(StoreError, match="out of range"):
        store.append(other + 1, 1, message(), None, True)
    store = reopened(store)
    assert list(store.depths()) == [1, other]
    store.abandon()


def test_reading_while_another_thread_writes(store: SqliteStore) -> None:
    held: list[int] = []
    following = 0
    with ThreadPoolExecutor(1) as pool:
        writing: Future[None] | None = None
        for turn in range(400):
            for _ in range(turn % 7):
                following += 1
                store.append(1, following, message(b"%d" % following), None, turn % 3 > 0)
                held.append(following)
            for _ in range(min(len(held), turn % 5)):
                store.remove(1, held.pop(turn % len(held)))
            if writing is None or writing.done():
                batch = store.take()
                writing = pool.submit(store.write, batch) if batch is not None else None
            found = store.read(1, 0, 10_000)
            assert [kept.position for kept in found] == held
            assert all(kept.message.body == b"%d" % kept.position for kept in found)


def test_purging_leaves_later_messages(store: SqliteStore) -> None:
    for position in (1, 2):
        store.append(1, position, message(b"abc"), None, position == 1)
    store.delivered(1, 2)
    commit(store)
    assert store.take() is None
    store.append(1, 3, message(b"abc"), None, True)
    store.purge(1)
    assert store.pending_octets == 0
    store.append(1, 4, message(b"d"), None, True)
    assert positions(store, 1) == [4]
    store = reopened(store)
    assert store.depths() == {1: Depth(1, 2, 4, 4, 0)}
    store.abandon()


def test_ranges_go_without_being_read(store: SqliteStore) -> None:
    for position in range(1, 101):
        store.append(1, position, message(b"abc"), None, position % 2 == 0)
    commit(store)
    store.append(1, 101, message(b"abc"), None, True)
    unpacked: list[bytes] = []
    real = store.unpacker.message
    waiting = store.pending_octets
    store.unpacker.message = lambda head, body: unpacked.append(head) or real(head, body)  # type: ignore[func-returns-value, method-assign]
    store.remove_ranges(1, [(1, 49), (52, 101)])
    assert not unpacked and store.pending_octets == waiting - 3
    assert positions(store, 1, 52) == [] and not unpacked, "hidden rows are not gone through"
    assert positions(store, 1) == [50, 51]
    store.append(1, 60, message(b"again"), None, True)
    assert positions(store, 1) == [50, 51, 60]
    commit(store)
    assert positions(store, 1) == [50, 51, 60]
    store = reopened(store)
    assert positions(store, 1) == [50, 60]
    store.abandon()


def test_files_of_large_bodies_go_with_their_range(store: SqliteStore, tmp_path: Path) -> None:
    spool = Spool(str(tmp_path))
    for position in (1, 2, 3):
        store.append(1, position, message(spooled(spool, b"large")), None, True)
    commit(store)
    directory = store.directory / "large"
    assert len(list(directory.iterdir())) == 3
    store.remove_ranges(1, [(1, 2)])
    commit(store)
    assert len(list(directory.iterdir())) == 1
    assert positions(store, 1) == [3]


def test_dropped_messages_are_removed_in_portions(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "DROPPED_ROWS", 10)
    for queue in (1, 2):
        for position in range(1, 36):
            store.append(queue, position, message(b"abc"), None, queue == 1 or position > 5)
    store.delivered(1, 30)
    commit(store)
    store.append(1, 36, message(b"never written"), None, True)
    for queue in (1, 2):
        store.drop(queue)
    portions = 0
    before = 70
    while store.dirty:
        commit(store)
        left = rows(store, "messages") + rows(store, "paged.paged")
        assert before - left <= 10
        before = left
        portions += 1
        assert portions < 20
    assert before == 0 and portions >= 8
    assert store.take() is None
    store = reopened(store)
    assert store.depths() == {} and not rows(store, "queues")
    store.abandon()


def test_a_crash_leaves_dropped_messages_to_the_next_start(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "DROPPED_ROWS", 10)
    for position in range(1, 36):
        store.append(7, position, message(b"abc"), None, True)
    commit(store)
    store.drop(7)
    commit(store)
    store.abandon()
    store = SqliteStore(store.directory, synchronous="off")
    assert store.depths()[7].messages == 25
    store.drop(7)
    while store.dirty:
        commit(store)
    assert not rows(store, "messages")
    store.abandon()


def test_a_full_disk_leaves_dropped_messages_to_the_next_start(store: SqliteStore) -> None:
    store.append(7, 1, message(b"abc"), None, True)
    commit(store)
    told: list[str] = []
    store.report = told.append
    store.drop(7)

    class Full:
        """A connection that cannot delete messages."""

        def __init__(self, real: sqlite3.Connection) -> None:
            self.real = real

        def __getattr__(self, name: str) -> object:
            return getattr(self.real, name)

        def execute(self, sql: str, *given: object) -> object:
            if "LIMIT" in sql:
                raise sqlite3.OperationalError("database or disk is full")
            return self.real.execute(sql, *given)  # type: ignore[arg-type]

    store.writer.connection = Full(store.writer.connection)  # type: ignore[assignment]
    commit(store)
    assert len(told) == 1
    commit(store)
    assert not store.dirty, "it is not tried for ever"


def test_records_under_a_key_are_forgotten_at_once(store: SqliteStore) -> None:
    keys = [("/", "x", "queue", "q", "a"), ("/", "x", "queue", "q", "b"), ("/", "x", "queue", "qq")]
    others = [("/", "x", "exchange", "q", "a"), ("/", "x2", "queue", "q", "a"), ("/", "x")]
    for key in (*keys, *others):
        store.save("binding", key, {})
    store.save("queue", keys[0], {})
    commit(store)
    store.save("binding", ("/", "x", "queue", "q", "c"), {})
    store.save("binding", keys[1], {"saved": "before"})
    store.forget_under("binding", ("/", "x", "queue", "q"))
    store.save("binding", keys[0], {"saved": "behind"})
    for _ in range(2):
        kept = {key: value for _, key, value in store.records("binding")}
        assert kept == {**dict.fromkeys((keys[2], *others), {}), keys[0]: {"saved": "behind"}}
        assert [key for _, key, _ in store.records("queue")] == [keys[0]]
        commit(store) if store.dirty else None
    store = reopened(store)
    assert len(store.records("binding")) == 5
    store.abandon()


def test_paged_messages_do_not_survive(store: SqliteStore) -> None:
    store.append(1, 1, message(), None, False)
    store.append(1, 2, message(), None, True)
    store.append(2, 1, message(), None, False)
    commit(store)
    assert positions(store, 1) == [1, 2] and positions(store, 2) == [1]
    store.remove(2, 1)
    commit(store)
    assert positions(store, 2) == []
    store = reopened(store)
    assert positions(store, 1) == [2] and list(store.depths()) == [1]
    store.abandon()


def test_a_large_body_for_many_queues_is_stored_once(store: SqliteStore) -> None:
    large, small = message(b"L" * 5000), message(b"s")
    for queue in range(1, 6):
        store.append(queue, 1, large, None, True)
        store.append(queue, 2, small, None, True)
        store.append(queue, 3, message(b"L" * 5000), None, True)
    commit(store)
    assert [rows(store, table) for table in ("messages", "shares", "bodies")] == [10, 5, 1]
    store = reopened(store)
    assert store.depths()[3] == Depth(3, 10004, 1, 3, 0)
    for queue in range(1, 6):
        assert [len(k.message.body) for k in store.read(queue, 0, 9)] == [5000, 1, 5000]
        assert rows(store, "bodies") == 1
        store.remove(queue, 1) if queue % 2 else store.purge(queue)
        commit(store)
    assert (rows(store, "shares"), rows(store, "bodies")) == (0, 0)
    store.abandon()


def test_delivered_marks(store: SqliteStore) -> None:
    for position in range(1, 6):
        store.append(1, position, message(b"", b""), None, True)
    store.delivered(1, 3)
    store.delivered(1, 2)
    store.delivered(2, 8)
    commit(store)
    store.delivered(1, 3 + 1)
    assert store.dirty
    store.remove(1, 5)
    store = reopened(store)
    assert store.depths() == {1: Depth(4, 0, 1, 4, 4)}
    store.delivered(1, 9)
    store = reopened(store)
    # positions after 4 are given out again: they have not been delivered
    assert store.depths() == {1: Depth(4, 0, 1, 4, 4)}
    assert rows(store, "queues") == 1
    store.abandon()


@pytest.mark.parametrize("count", [1, 2, 3, 7, 1500, 1536, 2047, 2048, 2049, 5000])
def test_batches_of_any_size(store: SqliteStore, count: int) -> None:
    for position in range(count):
        store.append(position % 3, position, message(b"%d" % position), None, True)
    commit(store)
    assert rows(store, "messages") == count
    for position in range(0, count, 2):
        store.remove(position % 3, position)
    commit(store)
    assert rows(store, "messages") == count // 2
    for position in range(1, count, 2):
        store.remove(position % 3, position)
    if store.dirty:
        commit(store)
    assert rows(store, "messages") == 0


# --- failures -----------------------------------------------------------------------------------


def test_a_full_disk_can_be_retried(store: SqliteStore) -> None:
    connection = store.writer.connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages + 2}").fetchone()
    large = message(b"x" * 100_000)
    for queue in (1, 2):
        store.append(queue, 1, large, None, True)
    store.append(1, 2, message(b"y" * 100_000), None, True)
    batch = store.take()
    assert batch is not None
    for _ in range(2):
        with pytest.raises(StoreError, match="cannot write: database or disk is full"):
            store.write(batch)
        assert positions(store, 1) == [1, 2] and rows(store, "messages") == 0
    assert store.pending_octets == 300_000
    connection.execute("PRAGMA max_page_count=1000000").fetchone()
    store.write(batch)
    assert [rows(store, t) for t in ("messages", "shares", "bodies")] == [1, 2, 1]
    assert positions(store, 1) == [1, 2]


def test_a_batch_written_in_doubt_may_be_written_again(store: SqliteStore) -> None:
    for queue in (1, 2):
        store.append(queue, 1, message(b"a"), None, True)
    shared = message(b"S" * 2000)
    store.append(1, 2, shared, None, True)
    store.append(2, 2, shared, None, True)
    batch = store.take()
    assert batch is not None
    store.writer.write(batch)
    store.writer.write(batch)
    assert [rows(store, t) for t in ("messages", "shares", "bodies")] == [2, 2, 1]


def test_close_reports_a_failure_and_lets_go(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, synchronous="off")
    pages = store.writer.connection.execute("PRAGMA page_count").fetchone()[0]
    store.writer.connection.execute(f"PRAGMA max_page_count={pages}").fetchone()
    store.append(1, 1, message(b"x" * 100_000), None, True)
    with pytest.raises(StoreError, match="full"):
        store.close()
    store.close()
    again = SqliteStore(tmp_path, synchronous="off")
    assert again.depths() == {}
    again.close()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "gateway.db").write_bytes(b"not a database " * 1000)
    with pytest.raises(StoreError, match="damaged or not a database: restore it"):
        SqliteStore(tmp_path)
    (tmp_path / "gateway.db").unlink()
    SqliteStore(tmp_path, synchronous="off").close()


def test_a_damaged_database(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, synchronous="off")
    for position in range(1000):
        store.append(1, position, message(b"x" * 100), None, True)
    store.close()
    file = tmp_path / "gateway.db"
    octets = bytearray(file.read_bytes())
    octets[8192:] = b"\xa5" * (len(octets) - 8192)
    file.write_bytes(octets)
    with pytest.raises(StoreError, match="damaged"):
        SqliteStore(tmp_path, synchronous="off")


def test_a_damaged_row_costs_one_message(store: SqliteStore) -> None:
    told: list[str] = []
    store.report = told.append
    for position in (1, 2, 3):
        store.append(1, position, message(body=b"%d" % position), None, True)
    commit(store)
    execute = store.writer.connection.execute
    execute("UPDATE messages SET head = x'00' WHERE id = (1 << 40) + 2")
    for _ in range(2):
        assert [kept.position for kept in store.read(1, 0, 2)] == [1, 3]
    assert len(told) == 1
    assert told[0].startswith("message 2 of queue number 1 is skipped: a stored message")


def test_a_large_body_whose_file_is_gone_costs_one_message(
    store: SqliteStore, tmp_path: Path
) -> None:
    spool = Spool(str(tmp_path))
    for position in (1, 2):
        store.append(1, position, message(body=spooled(spool, b"x" * 4096)), None, True)
    commit(store)
    next(store.large_files.directory.iterdir()).unlink()
    assert len(store.read(1, 0, 10)) == 1


def test_unstorable_messages_are_refused_before_they_are_gathered(store: SqliteStore) -> None:
    store.append(1, 1, message(), None, True)
    odd = message()
    odd.exchange = "x" * 70_000
    unsayable = message(notes={"x": object()})
    for bad in (odd, unsayable):
        with pytest.raises(Unstorable):
            store.append(1, 2, bad, None, True)
    commit(store)
    assert [kept.position for kept in store.read(1, 0, 10)] == [1]
    assert not store.dirty


def test_a_record_that_cannot_be_written_costs_one_message(store: SqliteStore) -> None:
    store.append(1, 1, message(), None, True)
    odd = message()
    store.append(1, 2, odd, None, True)
    store.append(2, 1, message(), None, True)
    odd.exchange = "x" * 70_000  # behind the back of whoever looks at what is put
    commit(store)
    assert [kept.position for kept in store.read(1, 0, 10)] == [1]
    assert [kept.position for kept in store.read(2, 0, 10)] == [1]


def test_a_header_that_cannot_be_read_any_more_is_kept_as_it_is() -> None:
    head = Packer().head(message(header=b"4"), None, None)[:-1] + b"?"
    found, _ = Unpacker().message(head, b"body")
    assert (found.header, found.body) == (b"?", b"body")
    assert found.essentials == Essentials(durable=True)


def test_a_message_of_an_unknown_dialect() -> None:
    head = Packer().head(message(), None, None).replace(b"store-sample", b"none-of-ours")
    with pytest.raises(StoreError, match="unknown dialect 'none-of-ours'"):
        Unpacker().message(head, b"")


def test_a_foreign_database_is_left_alone(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "gateway.db")
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(StoreError, match="not one of a gateway"):
        SqliteStore(tmp_path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    SqliteStore(tmp_path, synchronous="off").close()
    connection = sqlite3.connect(tmp_path / "gateway.db")
    connection.execute(f"PRAGMA user_version={FORMAT + 1}")
    connection.close()
    with pytest.raises(
        StoreError, match=f"format {FORMAT + 1}; this gateway knows formats up to {FORMAT}"
    ):
        SqliteStore(tmp_path)


def test_a_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot use"):
        SqliteStore(tmp_path / "file" / "below")


# --- who else is there --------------------------------------------------------------------------


def test_a_directory_belongs_to_one(store: SqliteStore) -> None:
    with pytest.raises(StoreError, match="another gateway uses this data directory .process"):
        SqliteStore(store.directory)
    again = reopened(store)
    again.close()


def test_records_of_some_kinds(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    for kind in ("user", "queue", "idempotency"):
        store.save(kind, ("a",), {"n": 1})
        store.save(kind, ("b",), {"n": 2})
    commit(store)
    store.forget("user", ("a",))  # waits to be written
    store.save("idempotency", ("c",), {"n": 3})
    assert store.records("user") == [("user", ("b",), {"n": 2})]
    assert [kind for kind, _, _ in store.records("user", "queue")] == ["queue", "queue", "user"]
    assert [key for _, key, _ in store.records("idempotency")] == [("a",), ("b",), ("c",)]
    assert store.records("nothing") == []
    assert len(store.records()) == 6
    store.close()


def test_records(store: SqliteStore) -> None:
    store.save("queue", ("/", "q"), {"durable": True, "arguments": {"x": Seconds(1)}})
    store.save("user", ("ann",), {"n": 1})
    assert [kind for kind, _, _ in store.records()] == ["queue", "user"]
    commit(store)
    store.save("user", ("ann",), {"n": 2})
    store.forget("queue", ("/", "q"))
    expected = [("user", ("ann",), {"n": 2})]
    assert store.records() == expected
    assert store.take() is not None
    assert store.records() == expected
    store = reopened(store)
    assert store.records() == expected
    store.abandon()


def test_a_tool_changes_users_while_a_gateway_runs(store: SqliteStore) -> None:
    store.save("user", ("ann",), {"n": 1})
    commit(store)
    assert not store.changed_elsewhere()
    with open_records(store.directory) as book:
        assert book.records() == [("user", ("ann",), {"n": 1})]
    assert not store.changed_elsewhere()
    with open_records(store.directory) as book:
        book.save("user", ("bob",), {"n": 2})
        book.forget("user", ("ann",))
    assert store.changed_elsewhere() and not store.changed_elsewhere()
    assert store.records() == [("user", ("bob",), {"n": 2})]


def test_a_tool_that_fails_changes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), open_records(tmp_path / "new") as book:
        book.save("user", ("bob",), {})
        raise ZeroDivisionError
    with open_records(tmp_path / "new") as book:
        assert book.records() == []


def test_a_tool_in_another_process(store: SqliteStore) -> None:
    script = (
        "import sys; from gateway.store import open_records\n"
        "with open_records(sys.argv[1]) as book: book.save('user', ('eve',), {})"
    )
    store.append(1, 1, message(), None, True)
    commit(store)
    subprocess.run([sys.executable, "-c", script, str(store.directory)], check=True, timeout=20)
    assert store.changed_elsewhere()
    store.append(1, 2, message(), None, True)
    commit(store)
    assert store.records() == [("user", ("eve",), {})] and positions(store, 1) == [1, 2]


def test_tidying_empties_the_log(store: SqliteStore) -> None:
    store.append(1, 1, message(), None, True)
    commit(store)
    assert store.read(1, 0, 1)
    store.tidy()
    left = store.writer.connection.execute("PRAGMA wal_checkpoint").fetchone()
    assert left[1] == left[2]
    assert positions(store, 1) == [1]


def test_tidying_gives_space_back(store: SqliteStore) -> None:
    for position in range(20):
        store.append(1, position, message(b"x" * 50_000), None, True)
    commit(store)
    store.tidy()
    full = (store.directory / "gateway.db").stat().st_size
    store.purge(1)
    commit(store)
    store.tidy()
    assert full > 1_000_000 > (store.directory / "gateway.db").stat().st_size
