"""The document of what each version supports, ``docs/versions.md``, made of what probes find."""

from gateway.adapters.core.support import VersionSupport
from gateway.adapters.registry import VERSIONS
from gateway.operations import DRAFT_LEVELS, LINK_LEVELS

SECOND_READINGS = ("0-9a0-7",)
"""Rows that have the methods of another version."""


def support() -> list[VersionSupport]:
    """All versions, oldest first."""
    names = (name for name in VERSIONS if name not in SECOND_READINGS)
    return [VERSIONS[name].support(name) for name in names]


ROWS = (
    ("what", "made by", "levels", "section"),
    ("---", "---", "---", "---"),
    (
        "temporary and private queue, subscription",
        "0.8a2",
        f"{DRAFT_LEVELS}: 5 to 9 before 0 to 4",
        "3.4.4, and its original server",
    ),
    ("queue, subscription", "0-9a0", f"{DRAFT_LEVELS}: the same", "3.8.8"),
    ("queue", "0-9a6", f"{DRAFT_LEVELS}: the same", '"Message Priorities"'),
    (
        "queue with `x-max-priority`",
        "0-8, 0-9, 0-9-1, HTTP, management of 1.0",
        "as it says; no priority is 0",
        "RabbitMQ",
    ),
    (
        "queue with `priority_levels`",
        "`PUT` of the administration, definitions",
        "as it says, 2 or 10: for clients of 0.8a2, which make no lasting queues",
        "",
    ),
    (
        "any other queue",
        "0-8, 0-9, 0-9-1, HTTP, management of 1.0",
        "none: in order of arrival. Their documents ask for two, RabbitMQ's users for this",
        "RabbitMQ",
    ),
    (
        "node made by attaching, dynamic node, subscription",
        "1.0",
        f"{LINK_LEVELS}; no priority is 4",
        "3.2.1",
    ),
)
LEVELS = [
    "",
    "## Levels of priority",
    "",
    "A queue has the levels that the version gives it which makes it; who uses it later changes",
    "nothing. They are no argument: declaring it again over 0-9-1 finds the same queue.",
    "`priority_levels` in the answers of the administration tells them.",
    "",
    *(f"| {' | '.join(row)} |" for row in ROWS),
]

RULES = [
    "",
    "## Rules of 0-8, 0-9 and 0-9-1",
    "",
    "0-8 and 0-9 are served by their own documents, 0-9-1 as RabbitMQ serves it. Whatever is not",
    "named here is RabbitMQ's way for all three.",
    "",
    "| what | 0-8, 0-9 | 0-9-1 |",
    "| --- | --- | --- |",
    "| open an unknown virtual host | 402 | 530 |",
    "| delete a queue or exchange that does not exist | 404 | succeeds |",
    "| unbind what is not bound | 404 | succeeds |",
    "| declare an exchange that exists with another type | 530, the connection ends | 406 |",
    "| other flags (durable, auto-delete, internal) of what exists | ignored | 406 |",
    "| an empty queue name on a channel that has declared none | 530, the connection ends | 404 |",
    "| bind a queue to the default exchange | adds a key besides the queue's name | 403 |",
    "| `basic.qos` | for the channel, consumers that run included | for each consumer that starts "
    "later |",
    "| `basic.qos` with `global` | for each channel of the connection, one by one | for the "
    "channel |",
    "| channel-max | a count of channels, whatever their numbers | the same |",
    "| arguments of a queue that nobody knows | accepted; the log and `warnings` of the "
    "administration name them | the same |",
    "| a quorum queue | a durable queue of one node, without replicas; a warning says so | "
    "the same |",
]
"""What the broker is told by ``gateway.operations.rules``."""


def markdown(rows: list[VersionSupport]) -> str:
    """The support table as ``docs/versions.md`` has it."""
    lines = [
        "# What each version supports",
        "",
        "Written by `amqp-gateway versions --markdown`, which puts every method to our adapter",
        "and looks at the answer; a test compares. *As server*: what a client may send to us.",
        "*As client*: what a broker may send to us. `refused` means the specification's 540",
        "not-implemented (1.0: amqp:not-implemented), `-` that the specification does not let that",
        "side send it. Of 0.8a2 the commands are put; of 1.0 all composite types: sections of",
        "messages are carried as they are. A client of ours lets the peer begin neither sessions",
        "nor links.",
        *LEVELS,
        *RULES,
    ]
    for row in rows:
        lines += [
            "",
            f"## {row.version}",
            "",
            f"Header: `{row.header}`. Handled in full: {', '.join(row.handled)}. "
            f"Refused: {', '.join(row.refused) or 'nothing'}.",
            "",
            f"| {' | '.join(row.columns)} | as server | as client |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {m.name} | {m.number} | {m.extension} | {m.as_server} | {m.as_client} |"
            for m in row.methods
        ]
    return "\n".join(lines) + "\n"
