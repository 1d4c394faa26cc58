"""Which methods of the class-and-method family are supported, found out by trying."""

from gateway.adapters.contract import Role
from gateway.adapters.core.support import (
    AnyUser,
    Support,
    VersionSupport,
    answers,
    connect,
    shown,
    summary,
    understood,
)
from gateway.adapters.methods.drafts.engine import DraftEngine
from gateway.adapters.methods.drafts.versions import DRAFTS
from gateway.adapters.methods.engine import HEADERS, Engine
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.unimplemented import complete
from gateway.adapters.options import Credentials
from gateway.operations import BeginSession, Open

CHANNEL = 1


AnyEngine = Engine | DraftEngine


def pair(version: str) -> tuple[AnyEngine, AnyEngine]:
    """A server and a client with an open channel between them."""
    engine = DraftEngine if version in DRAFTS else Engine
    server = engine(version, Role.SERVER, authority=AnyUser())
    client = engine(version, Role.CLIENT, credentials=Credentials("guest", "guest"))
    client.send(Open("open", "/", "guest"))
    connect(client, server)
    client.send(BeginSession(CHANNEL, "begin"))
    connect(client, server)
    return server, client


def understands(engine: AnyEngine, method: Method) -> bool:
    """Whether the method, with empty arguments, is answered by anything but not-implemented."""
    frames = engine.frames
    channel = 0 if method.name.startswith("connection.") else CHANNEL
    if method.name == "channel.open":
        channel = CHANNEL + 1
    payload = engine.writer.head_of(method) + method.write(method.record())
    return understood(engine.receive(frames.frame(frames.method, channel, payload)))


def tried(version: str, method: Method) -> Support:
    """One method, put to both roles."""
    found = answers(
        method.from_client,
        method.from_server,
        lambda at: understands(pair(version)[at], method),
    )
    number = f"{method.number >> 16}, {method.number & 0xFFFF}"
    return Support(method.name, number, method.extension, *found)


def supported(name: str) -> VersionSupport:
    """All methods of a version."""
    version = DRAFTS[name] if name in DRAFTS else complete(name)
    methods = tuple(tried(version.name, version.methods[n]) for n in sorted(version.methods))
    headers = (version.header, *HEADERS.get(version.name, ())[1:])
    return summary(version.name, ", ".join(map(shown, headers)), methods)
