"""Transfers like one before: a whole message on the same link, with another id and tag.

Most senders write all of their transfers alike. The octets that it shares with one that
was read are compared, and only its delivery-id and delivery-tag are taken out (§2.7.5).
"""

from struct import Struct
from typing import Any

from gateway.adapters.performatives.wire import layouts as w

PATIENCE = 8
"""So many transfers that are like none before, and another template is tried."""

HANDLE_OCTETS = {0x43: 1, 0x52: 2, 0x70: 5}
"""Octets of a handle by its constructor."""


class TransferTemplate:
    """The head of one transfer. ``unpack`` gives the octets before the id, the id, the octets
    between it and the tag, the tag, and the octets behind."""

    __slots__ = ("channel", "link", "settled", "size", "unpack", "before", "between", "behind")

    def __init__(
        self, channel: int, link: Any, settled: bool, head: bytes, id_at: int, tag_octets: int
    ) -> None:
        """``head``: the performative. The id begins at ``id_at``, and two octets lie between it and
        the tag."""
        self.channel, self.link, self.settled = channel, link, settled
        self.size = len(head)
        tag_at = id_at + 6
        behind = self.size - tag_at - tag_octets
        self.unpack = Struct(f">{id_at}sI2s{tag_octets}s{behind}s").unpack_from
        self.before = head[:id_at]
        self.between = head[id_at + 4 : tag_at]
        self.behind = head[self.size - behind :]


def transfer_template(
    channel: int, link: Any, record: w.Transfer, head: bytes
) -> TransferTemplate | None:
    """The template of this transfer, if it is a whole message with an ordinary tag and an id of
    four octets."""
    if (
        record.more
        or record.rcv_settle_mode is not None
        or record.state is not None
        or record.resume
        or record.aborted
        or record.message_format
        or record.delivery_tag is None
        or head[:4] != b"\x00\x53\x14\xc0"
    ):
        return None
    id_at = 6 + HANDLE_OCTETS.get(head[6], 0) + 1
    if len(head) < id_at + 6 or head[id_at - 1] != 0x70 or head[id_at + 4] != 0xA0:
        return None
    return TransferTemplate(
        channel, link, bool(record.settled), head, id_at, len(record.delivery_tag)
    )
