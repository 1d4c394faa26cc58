"""How many frames a connection reads at once, so that other connections have their turn."""

from typing import Protocol

ALL = 1 << 62
"""As many frames as there are."""


class FrameReader(Protocol):
    """The frames of one connection, incoming."""

    most_at_once: int
    """Set by the owner of the connection. So many frames are read one by one at a time: each may
    take some tens of microseconds. Frames that are read in runs count once for each run."""
    unread: bool
    """``receive`` has stopped there. Further octets are kept until ``read_on`` is called."""
