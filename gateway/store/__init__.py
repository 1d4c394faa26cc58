"""The durable store: topology and messages in one SQLite database, one group commit per batch.

``SqliteStore`` implements the port ``gateway.broker.store.Store``; ``open_records`` gives command
line tools access to records while a gateway runs.
"""

from gateway.store.records import RecordBook, open_records
from gateway.store.sqlite import SqliteStore

__all__ = ["RecordBook", "SqliteStore", "open_records"]
