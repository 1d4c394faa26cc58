"""The document of supported methods, ``docs/versions.md``, from the results of probes."""

from importlib import import_module

from gateway.adapters.core.support import VersionSupport
from gateway.adapters.registry import VERSIONS
from gateway.operations import DRAFT_LEVELS, LINK_LEVELS

SECOND_READINGS = ("0-9a0-7",)
"""Rows that have the methods of another version."""


def support() -> list[VersionSupport]:
    """All versions, oldest first."""
    rows = (row for row in VERSIONS.values() if row.name not in SECOND_READINGS)
    return [
        import_module(f"gateway.adapters.{row.family}.support").supported(row.name) for row in rows
    ]


ROWS = (
    ("node", "created by", "levels", "section"),
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
        "the argument's value; no priority is 0",
        "RabbitMQ",
    ),
    (
        "queue with `priority_levels`",
        "`PUT` of the administration, definitions",
        "its value, 2 or 10: for clients of 0.8a2, which create no lasting queues",
        "",
    ),
    (
        "any other queue",
        "0-8, 0-9, 0-9-1, HTTP, management of 1.0",
        "none: in order of arrival, as in RabbitMQ. Their documents require two",
        "RabbitMQ",
    ),
    (
        "node created by attaching, dynamic node, subscription",
        "1.0",
        f"{LINK_LEVELS}; no priority is 4",
        "3.2.1",
    ),
)
LEVELS = [
    "",
    "## Levels of priority",
    "",
    "A queue has the levels of the version that creates it; later users of other versions do",
    "not change them. They are not an argument: a declaration over 0-9-1 matches the same queue.",
    "`priority_levels` in the answers of the administration shows them.",
    "",
    *(f"| {' | '.join(row)} |" for row in ROWS),
]

RULES = [
    "",
    "## Rules of 0-8, 0-9 and 0-9-1",
    "",
    "0-8 and 0-9 follow their own documents, 0-9-1 follows RabbitMQ. Rules that are not listed",
    "here are RabbitMQ's for all three.",
    "",
    "| case | 0-8, 0-9 | 0-9-1 |",
    "| --- | --- | --- |",
    "| open an unknown virtual host | 402 | 530 |",
    "| delete a queue or exchange that does not exist | 404 | succeeds |",
    "| remove a binding that does not exist | 404 | succeeds |",
    "| declare an exchange that exists with another type | 530, the connection ends | 406 |",
    "| declare an exchange that exists with other flags (durable, auto-delete, internal) | "
    "ignored | 406 |",
    "| an empty queue name on a channel that has declared none | 530, the connection ends | 404 |",
    "| bind a queue to the default exchange | adds a key to the queue's name | 403 |",
    "| `basic.qos` | for the channel, including its consumers | for each consumer that starts "
    "later |",
    "| `basic.qos` with `global` | for each channel of the connection, one by one | for the "
    "channel |",
    "| channel-max | limits the number of channels, not their numbers | the same |",
    "| unknown arguments of a queue | accepted; the log and `warnings` of the "
    "administration name them | the same |",
    "| a quorum queue | a durable queue of one node, without replicas; a warning says so | "
    "the same |",
    "| headers of a message with more than 8,192 values, at any depth | 311, the channel ends "
    "(RabbitMQ: no limit) | the same |",
    "| arguments of a method with more than 8,192 values | 506, the connection ends (RabbitMQ: "
    "no limit) | the same |",
]
"""The rules of ``gateway.operations.rules``."""


def markdown(rows: list[VersionSupport]) -> str:
    """The support table as ``docs/versions.md`` has it."""
    lines = [
        "# What each version supports",
        "",
        "Written by `amqp-gateway versions --markdown`, which sends every method to the",
        "gateway's adapter and records the answer; a test compares. *As server*: methods of",
        "clients. *As client*: methods of brokers. `refused` means the specification's 540 not-",
        "implemented (1.0: amqp:not-implemented), `-` that the specification does not let that",
        "side send the method. For 0.8a2 the commands are tried, for 1.0 all composite types;",
        "sections of messages are carried unchanged. As client, the gateway does not let the",
        "peer begin sessions or links.",
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
