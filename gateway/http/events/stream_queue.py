"""A stream queue of an upstream as a source: a log that is read without being taken.

Its positions are the offsets of the log, so that a cursor means the same to every gateway before
the upstream. Every reader has a subscription of its own, from its place on, with a prefetch limit:
the upstream waits for a slow reader, which loses nothing while the log is kept.
"""

from bisect import bisect_right
from operator import itemgetter

from gateway.broker.stream_queues import OFFSET, offset_of
from gateway.http.events.cursor import digest_of
from gateway.http.events.rendering import Renderer
from gateway.http.events.sources import Place, Source, SourceName, SourceOwner, Stream
from gateway.message import Message
from gateway.operations import Outcome

MOST_RECORDS = 64
"""Offsets in a row that RabbitMQ may have used for its own records, which nobody gets."""


class StreamQueueSource(Source):
    """``label`` is the name of the source for its one reader. A position of the journal is the
    offset behind the event, and less by the offsets that were no messages (``skipped``)."""

    def __init__(
        self, hub: SourceOwner, vhost: str, name: SourceName, label: str, place: Place
    ) -> None:
        self.skipped: list[tuple[int, int]] = [(0, 0)]
        """From a position on: how many offsets were no messages."""
        self.expected = place.offset
        """The offset of the next message."""
        self.overtaken = False
        super().__init__(hub, vhost, name, place.offset + 1)
        self.digest = digest_of(vhost, label)
        self.epoch = b""
        self.key = self.digest
        self.id_octets = len(self.id_line(0))
        self.renderer = self.make_renderer()
        self.arguments = {OFFSET: place.offset}
        if place.lost:
            self.journal.born -= place.lost

    def place(self, position: int) -> int:
        at = bisect_right(self.skipped, position, key=itemgetter(0)) - 1
        return position + self.skipped[at][1]

    def offset(self, position: int) -> int:
        return self.place(position) - 1

    def id_line(self, position: int) -> bytes:
        return b"id: %b\n" % self.hub.cursors.seal([(self.key, self.place(position))])

    def make_renderer(self) -> Renderer:
        name = self.name
        return Renderer(self.vhost, name.kind, name.name, str(name), self.head, self.digest)

    def renderer_of(self, alias: str) -> Renderer:
        found = super().renderer_of(alias)
        found.instance = self.digest.hex()
        return found

    def pause(self) -> None:
        """Its one reader has left."""
        self.detach()

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        offset = offset_of(message)
        missing = 0 if offset is None else offset - self.expected
        if missing < 0 or self.overtaken:
            if self.channel is not None:
                self.channel.settle(delivery, Outcome.ACCEPT)
            return
        if missing > MOST_RECORDS:
            self.overtaken = True
            for reader in list(self.readers):
                self.end(reader)
            return
        if missing:
            skipped = self.skipped[-1][1] + missing
            self.skipped.append((self.journal.head + 1, skipped))
            while self.skipped[1][0] < self.journal.first:
                del self.skipped[0]
        self.expected += missing + 1
        super().deliver(consumer, delivery, redelivered, message)

    def end(self, reader: Stream) -> None:
        """Its cursor leads behind what it has got, and the next stream tells the gap."""
        reader.close("messages were removed from the stream before they were read", True)
