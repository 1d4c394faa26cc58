"""Transfers that are like one before them but for their message id and their body."""

from gateway.adapters.segments.essentials import ID_OCTETS, place_of_id
from gateway.adapters.segments.frame_format import CLOSING_BODY, HEAD, HEAD_OCTETS


class TransferTemplate:
    """What transfers have in common with one that has come: all octets up to the body but the
    message id, which most publishers set anew for each message."""

    __slots__ = ("before", "header", "behind", "behind_at", "size")

    def __init__(self, data: bytes, at: int, stop: int, middle: int, header: bytes) -> None:
        """The transfer begins ``at``, its header frame at ``stop``, that of its body at
        ``middle``."""
        place = stop + HEAD_OCTETS + place_of_id(header)
        if place == stop + HEAD_OCTETS:
            place = behind = middle
        else:
            behind = place + ID_OCTETS
        self.before = data[at:place]
        self.header = stop + HEAD_OCTETS - at
        """Where the header begins."""
        self.behind = data[behind:middle]
        self.behind_at = behind - at
        self.size = middle - at

    def run(
        self, data: bytes, at: int, limit: int, max_body: int
    ) -> tuple[list[tuple[bytes, bytes]], int]:
        """Header and body of the whole transfers from there on that have it, and where these end.
        Hot."""
        content = []
        end, head, unpack = len(data), HEAD_OCTETS, HEAD.unpack_from
        before, behind, behind_at = self.before, self.behind, self.behind_at
        header_at, size = self.header, self.size
        track, channel = HEAD.unpack_from(before)[2:]
        closing = b""
        body_size = 0
        while data.startswith(before, at) and data.startswith(behind, at + behind_at):
            middle = at + size
            if not closing or not data.startswith(closing, middle):
                if end - middle < head:
                    break
                kind, body_size, body_track, body_channel = unpack(data, middle)
                if (
                    kind != CLOSING_BODY
                    or body_track != track
                    or body_channel != channel
                    or not head <= body_size <= limit
                    or body_size - head > max_body
                ):
                    break
                closing = data[middle : middle + head]
            last = middle + body_size
            if last > end:
                break
            content.append((data[at + header_at : middle], data[middle + head : last]))
            at = last
        return content, at
