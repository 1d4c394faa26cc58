"""Message ids made here: UUID version 7 (RFC 9562 §5.7), sortable by time."""

import os


def uuid7(now: int) -> str:
    """A new id; ``now`` is ms since 1970."""
    noise = int.from_bytes(os.urandom(10), "big")
    value = (now & 0xFFFFFFFFFFFF) << 80 | 0x7000 << 64 | 0x8000 << 48
    value |= (noise >> 64 & 0x0FFF) << 64 | noise & 0x3FFFFFFFFFFFFFFF
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
