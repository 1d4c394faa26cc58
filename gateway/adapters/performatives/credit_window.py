"""How many deliveries a sender may have under way and unconfirmed on one link.

What is under way lies in the buffers of sockets and in memory until it has its outcome. While all
of it fits into the cache of one processor, small messages cost a sixth less, and large ones up to a
third. So the window is small where it can be: the sender is near, and its messages do not wait for
a disk.
"""

MOST = 1000
"""The window of a sender that is far away, whose messages are durable, or that settles last."""

NEAR = 250
"""The largest window of one that is near. Half of it lasts for longer than a round trip."""

NEAR_OCTETS = 1600 << 10
"""Octets of messages in such a window, while that leaves ``LEAST`` messages."""

LEAST = 16


def near_window(messages: int, octets: int, settled: bool) -> int:
    """The window of a sender that is near, if its last messages have so many octets. Half of it if
    they come settled: then it gets credit before they are published, and two windows are under
    way."""
    window = min(NEAR, NEAR_OCTETS * messages // max(octets, 1))
    return max(LEAST, window >> 1 if settled else window)
