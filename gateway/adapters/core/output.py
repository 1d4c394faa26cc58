"""Output of a connection: pieces that gather until the owner of the socket takes them."""

JOIN_BELOW = 64 * 1024
"""Less output than this is joined into one piece."""

MOST_OCTETS = 8 << 20
"""Octets of messages waiting to be written that are enough for one turn."""


def take(pending: list[bytes]) -> list[bytes]:
    """Empty ``pending``; its pieces, joined if they are small."""
    if len(pending) > 1 and sum(map(len, pending)) < JOIN_BELOW:
        taken = [b"".join(pending)]
    else:
        taken = pending[:]
    pending.clear()
    return taken


def no_op() -> None:
    """The default of a callback that its owner has not set."""
