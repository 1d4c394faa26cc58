"""What each version supports, found out by trying.

Every method of a version is put to an adapter of ours in both roles, on an open channel. It counts
as refused if the adapter answers with not-implemented (540); anything else, an argument it does not
like included, shows that the method is known and handled. The same is done with the types of 1.0
(``v1_0.tried``) and the commands of 0.8a2 (``v0_8a.tried``). Nothing here is a list that could go
stale.
"""

from typing import NamedTuple

from gateway.adapters.base import Adapter, Answer, Role
from gateway.adapters.options import Credentials
from gateway.adapters.v0_8a import tried as v0_8a
from gateway.adapters.v0_8a.wire import tables as commands
from gateway.adapters.v0_9 import Engine
from gateway.adapters.v0_9.drafts.engine import DraftEngine
from gateway.adapters.v0_9.drafts.versions import DRAFTS
from gateway.adapters.v0_9.engine import HEADERS
from gateway.adapters.v0_9.geometry import Method, Version
from gateway.adapters.v0_9.unimplemented import complete
from gateway.adapters.v0_9.wire.tables import VERSIONS
from gateway.adapters.v1_0 import tried as v1_0
from gateway.adapters.v1_0.wire.tables import HEADER, SASL_HEADER, TLS_HEADER, VERSION
from gateway.errors import Condition
from gateway.operations import (
    DRAFT_LEVELS,
    LINK_LEVELS,
    BeginSession,
    Closed,
    Done,
    Open,
    Operation,
    SessionLost,
)

CHANNEL = 1


class MethodSupport(NamedTuple):
    """How a method of one version is treated. A role is "yes", "refused" (with not-implemented),
    or "-" if the specification lets the other side not send it."""

    name: str
    number: str
    extension: str
    """Whose it is, if it is not in the standard; of a type of 1.0, its section."""
    as_server: str
    as_client: str


class VersionSupport(NamedTuple):
    """One version as a row."""

    version: str
    header: str
    handled: tuple[str, ...]
    """Classes of which every method is handled; parts of 1.0."""
    refused: tuple[str, ...]
    """Classes or single methods that are refused."""
    methods: tuple[MethodSupport, ...]
    columns: tuple[str, str, str] = ("method", "number", "extension")


class _Anyone:
    """An authority that lets everybody in: nothing is behind it."""

    def password(self, user: str, password: str, answer: Answer) -> None:
        answer(True)

    def scram(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        return bytes(16), bytes(32), bytes(32), 4096

    def proved(self, user: str, right: bool, answer: Answer) -> None:
        answer(right)

    def anonymous(self) -> None:
        return None

    def external(self, subject: str) -> None:
        return None


def pair(version: str) -> tuple[Engine, Engine]:
    """A server and a client with an open channel between them."""
    engine = DraftEngine if version in DRAFTS else Engine
    server = engine(version, Role.SERVER, authority=_Anyone())
    client = engine(version, Role.CLIENT, credentials=Credentials("guest", "guest"))
    client.send(Open("open", "/", "guest"))
    carry(client, server)
    client.send(BeginSession(CHANNEL, "begin"))
    carry(client, server)
    return server, client


def carry(client: Engine, server: Engine) -> None:
    """Let them talk until both are silent; requests are granted."""
    while True:
        asked = _moved(client, server)
        for operation in asked:
            if isinstance(operation, (Open, BeginSession)):
                server.send(Done(getattr(operation, "channel", 0), operation.token))
        if not _moved(server, client) and not asked and not client.pending:
            return


def _moved(source: Adapter, target: Adapter) -> list[Operation]:
    octets = b"".join(source.output())
    return target.receive(octets) if octets else []


def understands(engine: Engine, method: Method) -> bool:
    """Whether the method, with empty arguments, is answered by anything but not-implemented."""
    frames = engine.frames
    channel = 0 if method.name.startswith("connection.") else CHANNEL
    if method.name == "channel.open":
        channel = CHANNEL + 1
    payload = engine.head_of(method) + method.write(method.record())
    octets = frames.frame(frames.method, channel, payload)
    return not any(
        isinstance(operation, Closed | SessionLost)
        and operation.condition is Condition.NOT_IMPLEMENTED
        for operation in engine.receive(octets)
    )


def tried(version: str, method: Method) -> MethodSupport:
    """One method, put to both roles."""
    answers = []
    for at, sent in enumerate((method.from_client, method.from_server)):
        known = sent and understands(pair(version)[at], method)
        answers.append("-" if not sent else "yes" if known else "refused")
    number = f"{method.number >> 16}, {method.number & 0xFFFF}"
    return MethodSupport(method.name, number, method.extension, *answers)


def supported(version: Version) -> VersionSupport:
    """All methods of a version."""
    methods = tuple(tried(version.name, version.methods[n]) for n in sorted(version.methods))
    classes = list(dict.fromkeys(method.name.split(".")[0] for method in methods))
    bad = [m.name for m in methods if "refused" in (m.as_server, m.as_client)]
    whole = {
        group
        for group in classes
        if all(m.name in bad for m in methods if m.name.startswith(group + "."))
    }
    touched = {name.split(".")[0] for name in bad}
    return VersionSupport(
        version.name,
        ", ".join(
            shown(header) for header in (version.header, *HEADERS.get(version.name, (b"",))[1:])
        ),
        tuple(group for group in classes if group not in touched),
        tuple(
            [group for group in classes if group in whole]
            + [name for name in bad if name.split(".")[0] not in whole]
        ),
        methods,
    )


def shown(header: bytes) -> str:
    """A protocol header as the documents write it."""
    return " ".join([header[:4].decode(), *map(str, header[4:])])


def support() -> list[VersionSupport]:
    """All versions, oldest first."""
    drafts = [DRAFTS["0-9a0"], DRAFTS["0-9a6"]]
    methods = [supported(version) for version in (*drafts, *map(complete, VERSIONS))]
    return [supported_0_8a(), *methods, supported_1_0()]


def supported_0_8a() -> VersionSupport:
    """All commands of 0.8a2. Some fields are refused: ``docs/0-8a2.md``."""
    rows = v0_8a.tried(_Anyone())
    groups = dict.fromkeys(row.name.split(".")[0] for row in rows)
    bad = [row.name for row in rows if "refused" in (row.as_server, row.as_client)]
    return VersionSupport(
        commands.VERSION,
        " ".join(map(str, commands.HEADER)),
        tuple(group for group in groups if not any(n.startswith(f"{group}.") for n in bad)),
        (*bad, "transfer out of band"),
        tuple(
            MethodSupport(row.name, str(row.number), row.section, row.as_server, row.as_client)
            for row in rows
        ),
        ("command", "type", "section"),
    )


PARTS = {"2": "transport", "3": "messaging", "4": "transactions", "5": "security"}
"""Parts of the specification of 1.0 that have composite types."""


def supported_1_0() -> VersionSupport:
    """All composite types of 1.0 that are not sections of messages."""
    rows = v1_0.tried()
    refused = [row.name for row in rows if row.as_server == "refused"]
    missing = {row.section[0] for row in rows if row.as_server == "refused"}
    if not v1_0.distributed():
        refused.append("distributed transactions")
        missing.add("4")
    headers = (HEADER, SASL_HEADER, TLS_HEADER)
    return VersionSupport(
        VERSION,
        ", ".join(shown(header) for header in headers),
        tuple(name for part, name in PARTS.items() if part not in missing),
        tuple(refused),
        tuple(
            MethodSupport(row.name, f"{row.code:#04x}", row.section, row.as_server, row.as_client)
            for row in rows
        ),
        ("type", "code", "section"),
    )


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
