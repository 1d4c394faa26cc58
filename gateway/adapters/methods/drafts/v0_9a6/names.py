"""Names of 0-9a6 and the broker's names for them."""

TYPES = {
    "fanout": "fanout",
    **dict.fromkeys(["dest-name", "destination", "dest_name", "dest", "direct"], "direct"),
    **dict.fromkeys(["dest-wild", "wildname", "dest_wild", "topic"], "topic"),
    **dict.fromkeys(["property", "prop-test", "prop_test", "prop-name", "prop_name"], "headers"),
    **dict.fromkeys(["matcher", "prop-wild", "prop_wild"], "x-matcher"),
    "selector": "x-selector",
    "lossy": "x-lossy",
}
"""Exchange classes by the names of the document and of its programs."""
NAMES = {
    "direct": "dest-name", "topic": "dest-wild", "fanout": "fanout", "headers": "property",
    "x-matcher": "matcher", "x-selector": "selector", "x-lossy": "lossy",
}  # fmt: skip

OURS = {"queue": "amq.direct", "topic": "amq.topic"}
THEIRS = {ours: theirs for theirs, ours in OURS.items()}
DIRECT = OURS["queue"]
BUILT_IN = {"amq.direct": "direct", "amq.topic": "topic", "amq.fanout": "fanout"}
KEYED = ("direct", "topic")
"""Types whose bindings have a destination."""

RIGHTS = ("active", "write", "read", "passive")
GROUPS = ("basic", "jms", "file", "stream")


def queue_name(domain: str, queue: str) -> str:
    """The broker's name of a queue in a namespace."""
    return f"{domain}:{queue}" if domain else queue
