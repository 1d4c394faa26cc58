"""Octets of a peer, shortened for a line that people read."""

PREVIEW = 48
"""Octets that are shown."""


def preview(octets: bytes) -> str:
    """The beginning, as text if it is text."""
    shown = octets[:PREVIEW]
    more = "..." if len(octets) > PREVIEW else ""
    try:
        text = shown.decode()
    except UnicodeDecodeError:
        return shown.hex(" ") + more
    return repr(text) + more if text.isprintable() or not text else shown.hex(" ") + more
