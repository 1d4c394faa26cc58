"""A broker that records, over a store on disk."""

from pathlib import Path
from typing import Any

from gateway.broker.broker import Broker
from gateway.broker.channel import Channel
from gateway.broker.journal import RecordingRule
from gateway.journal.entries import ALL, Entry, Question
from gateway.journal.tail import Tail
from gateway.operations import DeclareQueue
from gateway.store.sqlite import SqliteStore
from tests.broker.fakes import Heard

EVERYTHING = (RecordingRule("*", "*", True),)


class Recording:
    """A broker with a durable queue ``orders``, and one channel with confirms."""

    def __init__(self, folder: Path, *rules: RecordingRule, **options: Any) -> None:
        self.folder = folder
        self.store = SqliteStore(folder)
        self.broker = Broker(self.store, None, 1_000_000, rules or EVERYTHING)
        self.client = self.broker.attach("/", "guest", "one")
        self.heard = Heard()
        self.count = 0
        self.channel = self.another()
        self.channel.publish_path.select_confirms()
        self.declare("orders")
        self.commit()

    def another(self) -> Channel:
        """A channel more."""
        self.count += 1
        return self.client.channel(self.count, self.heard)

    def declare(self, name: str, **options: Any) -> None:
        self.channel.topology.declare_queue(DeclareQueue(1, None, name, durable=True, **options))

    def commit(self) -> None:
        """One turn and its commit."""
        self.broker.end_turn()
        batch = self.store.take()
        if batch is not None:
            self.store.write(batch)
            self.broker.committed(batch.mark)
        self.broker.end_turn()

    def entries(self, start: int = 0, question: Question = ALL) -> list[Entry]:
        """The entries that a reader beside the gateway finds, from a position on."""
        tail = Tail(self.folder)
        try:
            found: list[Entry] = []
            end = tail.span().end
            while start < end:
                portion = tail.read(start, question)
                found += portion.entries
                assert portion.next > start
                start = portion.next
            return found
        finally:
            tail.close()

    def again(self, *rules: RecordingRule) -> "Recording":
        """The next process, after this one was killed."""
        self.store.abandon()
        return Recording(self.folder, *rules)
