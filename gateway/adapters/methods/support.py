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
from gateway.adapters.methods.transitional.engine import Engine as TransitionalEngine
from gateway.adapters.methods.transitional.versions import HEADERS as TRANSITIONAL_HEADERS
from gateway.adapters.methods.transitional.versions import REVISIONS, Carried
from gateway.adapters.methods.unimplemented import complete
from gateway.adapters.options import Credentials
from gateway.operations import BeginSession, Open

CHANNEL = 1
ENGINES: dict[str, type[DraftEngine | TransitionalEngine]] = {
    **dict.fromkeys(DRAFTS, DraftEngine),
    **dict.fromkeys(REVISIONS, TransitionalEngine),
}
MORE_HEADERS = {**HEADERS, **dict.fromkeys(REVISIONS, TRANSITIONAL_HEADERS)}
"""All headers of the versions that have several."""
FIRST_FREE = 100
"""Identifier of a request that was not used before."""


AnyEngine = Engine | DraftEngine | TransitionalEngine


def pair(version: str) -> tuple[AnyEngine, AnyEngine]:
    """A server and a client with an open channel between them."""
    engine = ENGINES.get(version, Engine)
    server = engine(version, Role.SERVER, authority=AnyUser())
    client = engine(version, Role.CLIENT, credentials=Credentials("guest", "guest"))
    client.send(Open("open", "/", "guest"))
    connect(client, server)
    client.send(BeginSession(CHANNEL, "begin"))
    connect(client, server)
    return server, client


def understands(engine: AnyEngine, method: Method) -> bool:
    """Whether the method, with empty arguments, is answered by anything but not-implemented."""
    channel = 0 if method.name.startswith("connection.") else CHANNEL
    if method.name == "channel.open":
        channel = CHANNEL + 1
    return understood(engine.receive(_frame(engine, channel, method)))


def _frame(engine: AnyEngine, channel: int, method: Method) -> bytes:
    """A method with empty arguments."""
    if isinstance(engine, TransitionalEngine):
        carried = Carried(False, FIRST_FREE, 0, 0) if engine.requests else None
        payload = method.prefix + method.write(method.record())
        return engine.frames.method_frame(channel, carried, payload)
    payload = engine.writer.head_of(method) + method.write(method.record())
    return engine.frames.frame(engine.frames.method, channel, payload)


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
    tables = {**DRAFTS, **REVISIONS}
    version = tables[name] if name in tables else complete(name)
    methods = tuple(tried(version.name, version.methods[n]) for n in sorted(version.methods))
    headers = (version.header, *MORE_HEADERS.get(version.name, ())[1:])
    return summary(version.name, ", ".join(map(shown, headers)), methods)
