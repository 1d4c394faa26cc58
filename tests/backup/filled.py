"""A data directory with all that one may have, and what is read from one."""

from pathlib import Path

from gateway.bodies import Body, Spool
from gateway.operations import Outcome
from tests.journal.recording import Recording
from tests.store.samples import message
from tests.test_bodies import spooled


class Filled(Recording):
    """Records, and has messages in rows, in files and in blocks."""

    def publish(self, *bodies: Body) -> None:
        """In one batch."""
        for body in bodies:
            self.channel.publish(message(body, b"", "", "orders"))
        self.commit()

    def fill(self, mark: bytes = b"") -> list[bytes]:
        """The bodies that were published: the large ones are in files, the others in a block."""
        spool = Spool(str(self.folder))
        large = [mark + b"%d" % number * 100_000 for number in range(3)]
        small = [mark + b"%d" % number * 8_000 for number in range(20)]
        self.publish(*(spooled(spool, octets) for octets in large))
        self.publish(*small)
        return large + small

    def bodies(self) -> list[bytes]:
        """Those in the queue; they stay."""
        found = []
        while (got := self.channel.fetch("orders")) is not None:
            found.append(bytes(got.message.body[:]))
        self.channel.settlements.settle(0, True, Outcome.RELEASE)
        return found

    def empty(self) -> None:
        """Consume all, and trim the journal."""
        while (got := self.channel.fetch("orders")) is not None:
            self.channel.settlements.settle(got.delivery, False, Outcome.ACCEPT)
        self.commit()
        journal = self.broker.state.journal
        end = journal.next
        journal.remove(0, end - 1)
        self.commit()
        journal.trim(end)
        self.commit()

    def recorded(self) -> list[bytes]:
        """The bodies in the journal."""
        return [bytes(one.message.body[:]) for one in self.entries()]

    def files(self) -> set[str]:
        """Of large bodies and of blocks."""
        return {
            f"{folder}/{file.name}"
            for folder in ("large", "blocks")
            if (self.folder / folder).is_dir()
            for file in (self.folder / folder).iterdir()
        }


def segments_of(data: Path) -> Path:
    return data / "journal"
