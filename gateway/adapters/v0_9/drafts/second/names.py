"""Names of 0-9a6 and what they are here."""

TYPES = {
    "fanout": "fanout",
    **dict.fromkeys(["dest-name", "destination", "dest_name", "dest", "direct"], "direct"),
    **dict.fromkeys(["dest-wild", "wildname", "dest_wild", "topic"], "topic"),
    **dict.fromkeys(["property", "prop-test", "prop-name"], "headers"),
}
"""Exchange classes by the names of the document and of its programs. ``matcher``, ``selector`` and
``lossy`` have no arguments in either and are refused (503), as any unknown class."""
NAMES = {"direct": "dest-name", "topic": "dest-wild", "fanout": "fanout", "headers": "property"}

OURS = {"queue": "amq.direct", "topic": "amq.topic"}
THEIRS = {ours: theirs for theirs, ours in OURS.items()}
DIRECT = OURS["queue"]
BUILT_IN = {"amq.direct": "direct", "amq.topic": "topic", "amq.fanout": "fanout"}

RIGHTS = ("active", "write", "read", "passive")
GROUPS = ("basic", "jms", "file", "stream")
ACKED = frozenset(["jms", "file"])


def queue_name(domain: str, queue: str) -> str:
    """What a queue in a namespace is called."""
    return f"{domain}:{queue}" if domain else queue
