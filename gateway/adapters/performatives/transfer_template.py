"""Transfers like one before: whole messages on the same link, with other ids and tags.

Most senders write all of their transfers alike. The octets that they share with one that
was read are compared, and only their delivery-ids and delivery-tags are taken out (§2.7.5).
"""

from struct import Struct
from typing import Any, NamedTuple

from gateway.adapters.performatives.wire import layouts as w

PATIENCE = 8
"""So many transfers that are like none before, and another template is tried."""

HANDLE_OCTETS = {0x43: 1, 0x52: 2, 0x70: 5}
"""Octets of a handle by its constructor."""


class Run(NamedTuple):
    """Transfers with ids in a row: the first id, the tags, and where each payload begins and
    ends."""

    first: int
    tags: list[bytes]
    spans: list[tuple[int, int]]


class TransferTemplate:
    """The head of one frame with a transfer. ``unpack`` gives the size of the frame, the octets
    before the id, the id, the octets between it and the tag, the tag, and the octets behind."""

    __slots__ = ("link", "settled", "size", "_unpack", "_before", "_between", "_behind")

    def __init__(self, link: Any, settled: bool, head: bytes, id_at: int, tag_octets: int) -> None:
        """``head``: the frame up to its payload. The id begins at ``id_at``, and two octets lie
        between it and the tag."""
        self.link, self.settled = link, settled
        self.size = size = len(head)
        tag_at = id_at + 6
        behind = size - tag_at - tag_octets
        self._unpack = Struct(f">I{id_at - 4}sI2s{tag_octets}s{behind}s").unpack_from
        self._before = head[4:id_at]
        self._between = head[id_at + 4 : tag_at]
        self._behind = head[size - behind :]

    def run(self, buf: bytes, at: int, end: int, most: int, largest: int) -> Run | None:
        """The frames from ``at`` on that are like it and whole, ``most`` of them at most, and none
        of more than ``largest`` octets. Hot."""
        unpack, before, between, behind = self._unpack, self._before, self._between, self._behind
        size = self.size
        last = end - size
        tags: list[bytes] = []
        spans: list[tuple[int, int]] = []
        following = -1
        while at <= last and most:
            octets, start, number, middle, tag, stop = unpack(buf, at)
            if (
                number != following
                and spans
                or start != before
                or stop != behind
                or middle != between
                or not size <= octets <= largest
                or at + octets > end
            ):
                break
            following = number + 1
            tags.append(tag)
            spans.append((at + size, at + octets))
            at += octets
            most -= 1
        return Run(following - len(spans), tags, spans) if spans else None


def transfer_template(link: Any, record: w.Transfer, head: bytes) -> TransferTemplate | None:
    """The template of this transfer, if it is a whole message with an ordinary tag and an id of
    four octets. ``head``: its frame up to the payload."""
    if (
        record.more
        or record.rcv_settle_mode is not None
        or record.state is not None
        or record.resume
        or record.aborted
        or record.message_format
        or record.delivery_tag is None
        or head[4] != 2
        or head[8:12] != b"\x00\x53\x14\xc0"
    ):
        return None
    id_at = 14 + HANDLE_OCTETS.get(head[14], 0) + 1
    if len(head) < id_at + 6 or head[id_at - 1] != 0x70 or head[id_at + 4] != 0xA0:
        return None
    return TransferTemplate(link, bool(record.settled), head, id_at, len(record.delivery_tag))
