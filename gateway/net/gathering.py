"""Writes pieces of output to a transport, joined or gathered."""

import asyncio

JOIN_BELOW = 1 << 16
"""Output smaller than this many octets is joined into one write; larger output is not copied."""
LARGE_PIECE = 2048
"""Average octets per piece above which pieces are not joined."""
MOST_PIECES = 512
"""Pieces in one gathering write."""


def write(transport: asyncio.WriteTransport, pieces: list[bytes]) -> int:
    """Join small pieces; write large ones in a gathering write, which costs less than copying them.
    A gathering write has a bounded number of pieces, for the kernel and uvloop. Returns the number
    of octets."""
    size = sum(map(len, pieces))
    if len(pieces) == 1:
        transport.write(pieces[0])
    elif size <= JOIN_BELOW or size < LARGE_PIECE * len(pieces):
        transport.write(b"".join(pieces))
    elif len(pieces) <= MOST_PIECES:
        transport.writelines(pieces)
    else:
        for at in range(0, len(pieces), MOST_PIECES):
            transport.write(b"".join(pieces[at : at + MOST_PIECES]))
    return size
