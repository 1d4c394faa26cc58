"""Which methods of the class-and-method family are supported, found out by trying."""

from gateway.adapters.contract import Adapter, Role
from gateway.adapters.core.support import AnyUser, Support, VersionSupport, shown
from gateway.adapters.methods.drafts.engine import DraftEngine
from gateway.adapters.methods.drafts.versions import DRAFTS
from gateway.adapters.methods.engine import HEADERS, Engine
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.unimplemented import complete
from gateway.adapters.options import Credentials
from gateway.errors import Condition
from gateway.operations import BeginSession, Closed, Done, Open, Operation, SessionLost

CHANNEL = 1


AnyEngine = Engine | DraftEngine


def pair(version: str) -> tuple[AnyEngine, AnyEngine]:
    """A server and a client with an open channel between them."""
    engine = DraftEngine if version in DRAFTS else Engine
    server = engine(version, Role.SERVER, authority=AnyUser())
    client = engine(version, Role.CLIENT, credentials=Credentials("guest", "guest"))
    client.send(Open("open", "/", "guest"))
    carry(client, server)
    client.send(BeginSession(CHANNEL, "begin"))
    carry(client, server)
    return server, client


def carry(client: AnyEngine, server: AnyEngine) -> None:
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


def understands(engine: AnyEngine, method: Method) -> bool:
    """Whether the method, with empty arguments, is answered by anything but not-implemented."""
    frames = engine.frames
    channel = 0 if method.name.startswith("connection.") else CHANNEL
    if method.name == "channel.open":
        channel = CHANNEL + 1
    payload = engine.writer.head_of(method) + method.write(method.record())
    octets = frames.frame(frames.method, channel, payload)
    return not any(
        isinstance(operation, Closed | SessionLost)
        and operation.condition is Condition.NOT_IMPLEMENTED
        for operation in engine.receive(octets)
    )


def tried(version: str, method: Method) -> Support:
    """One method, put to both roles."""
    answers = []
    for at, sent in enumerate((method.from_client, method.from_server)):
        known = sent and understands(pair(version)[at], method)
        answers.append("-" if not sent else "yes" if known else "refused")
    number = f"{method.number >> 16}, {method.number & 0xFFFF}"
    return Support(method.name, number, method.extension, *answers)


def supported(name: str) -> VersionSupport:
    """All methods of a version."""
    version = DRAFTS[name] if name in DRAFTS else complete(name)
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
