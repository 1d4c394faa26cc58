"""Files of every format there has been open for ever. The fixtures are never written anew:

``format-1.db.gz`` was written by the first version of the store.
"""

import gzip
import sys
from pathlib import Path

from gateway.broker.store import Depth
from gateway.store import SqliteStore
from gateway.values import Seconds
from tests.store.samples import message, same

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


def write_fixture(directory: Path) -> None:
    """How the fixture was made, for the format that comes next."""
    store = SqliteStore(directory)
    fill(store)
    store.close()
    octets = gzip.compress((directory / "gateway.db").read_bytes(), 9, mtime=0)
    (directory / "format.db.gz").write_bytes(octets)


if __name__ == "__main__":
    write_fixture(Path(sys.argv[1]))
