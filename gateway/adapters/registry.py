"""All versions of AMQP, one row each.

Detection of a client's version, the search for a server's, ``inspect``, ``versions``, the support
tables and the configuration's choices read these rows. A new version is one folder and one row.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import gateway.adapters.commands.content  # these register the dialects of stored messages
import gateway.adapters.methods.content
import gateway.adapters.methods.contents.published
import gateway.adapters.methods.drafts.content
import gateway.adapters.methods.transitional.contents
import gateway.adapters.performatives.content
import gateway.adapters.segments.content  # noqa: F401
from gateway.adapters.commands.wire import tables as commands
from gateway.adapters.contract import Adapter, Authority, Capability, Role
from gateway.adapters.core.trace_lines import HEADER_OCTETS
from gateway.adapters.methods.drafts.versions import DRAFTS
from gateway.adapters.methods.engine import HEADERS
from gateway.adapters.methods.transitional.versions import HEADERS as TRANSITIONAL_HEADERS
from gateway.adapters.methods.transitional.versions import METHODS, REQUESTS
from gateway.adapters.methods.wire.tables import VERSIONS as PUBLISHED
from gateway.adapters.options import Credentials, Limits, Product
from gateway.adapters.performatives.wire import tables as performatives
from gateway.adapters.segments.wire import tables as segments
from gateway.bodies import Spool
from gateway.errors import Condition, Lost, Refusal


class Engine(Protocol):
    """The class of an adapter, and the options that all of them know. mypy checks that each engine
    below keeps this, and the contract of ``Adapter``."""

    @property
    def capabilities(self) -> Capability: ...

    def __call__(
        self,
        version: str,
        role: Role,
        *,
        authority: Authority | None = ...,
        limits: Limits = ...,
        credentials: Credentials | None = ...,
        product: Product = ...,
        external_subject: str | None = ...,
        mechanisms: tuple[str, ...] = ...,
        wake: Callable[[], None] = ...,
        spool: Spool | None = ...,
    ) -> Adapter: ...


Shape = tuple[int | None, ...]
"""The beginning of some octets; ``None`` is any octet."""


def shape(text: str) -> Shape:
    """A shape from hexadecimal digits, with two dots for any octet."""
    digits = text.replace(" ", "")
    pairs = [digits[at : at + 2] for at in range(0, len(digits), 2)]
    return tuple(None if pair == ".." else int(pair, 16) for pair in pairs)


class VersionRow(NamedTuple):
    """One version."""

    name: str
    """As in ``specs/``: "0-9-1"."""
    headers: tuple[bytes, ...]
    """Headers that a client may open with; our client sends the first."""
    first_frame: Shape
    """Beginning of a server's first frame, connection.start or its equivalent; empty if servers
    answer with a header."""
    preference: int
    """Order in which the client role tries the versions, 1 first. 0.8a2 comes last of those with a
    client role: its opening has two octets, and servers that want eight wait for the others."""
    load_engine: Callable[[], Engine]
    """Imports its engine, which takes some milliseconds at the first call."""
    family: str
    """Folder of its engine, its trace and its probe."""
    tls_header: bytes = b""
    """Header with which a client asks for TLS on the same port (1.0 §5.2.1); empty without one."""
    by_choice: bool = False
    """Its headers select it only on a listener that is set to it."""
    silent: bool = False
    """Its servers disconnect without a reply from peers that open with another header."""
    roles: tuple[Role, ...] = (Role.SERVER, Role.CLIENT)

    @property
    def capabilities(self) -> Capability:
        return self.load_engine().capabilities


START = shape("01 0000 00...... 000a 000a")
"""Type, channel, size (no start has 16 MiB), class and method."""

REQUESTED_START = shape("09 0000 00...... ................ ................ ........ 000a 000a")
"""Type, channel, size, identifier of the request, response mark, reserved, class and method."""

START_0_9A6 = shape("01 .. 0000 00...... 0001 0001")
"""Type, any octet, channel, size, class and method."""

START_0_9A0 = shape("01 00 .... 01 01 .. .. ........ 00 09")
"""Type, channel, size, class, method, revision and flags, synchtag, version."""

START_0_9A0_7 = shape("01 00 .... 01 01 .. ........ 00 09")
"""The same with flags alone before the synchtag."""

CHALLENGE = shape(".... 0a")
"""Size, and the number of CONNECTION CHALLENGE (0.8a2)."""


# Engines are imported for the first connection of their family, or by ``load_engines``: together
# they are a tenth of the time that a gateway takes to start.


def _commands() -> Engine:
    from gateway.adapters.commands.engine import Engine as Commands

    return Commands


def _methods() -> Engine:
    from gateway.adapters.methods.engine import Engine as Methods

    return Methods


def _drafts() -> Engine:
    from gateway.adapters.methods.drafts.engine import DraftEngine

    return DraftEngine


def _transitional_engine() -> Engine:
    from gateway.adapters.methods.transitional.engine import Engine as Transitional

    return Transitional


def _segments() -> Engine:
    from gateway.adapters.segments.engine import Engine as Segments

    return Segments


def _performatives() -> Engine:
    from gateway.adapters.performatives.engine import Engine as Performatives

    return Performatives


def _published(name: str, preference: int) -> VersionRow:
    headers = HEADERS.get(name, (PUBLISHED[name].header,))
    return VersionRow(name, headers, START, preference, _methods, "methods")


def _draft(name: str, preference: int, start: Shape) -> VersionRow:
    headers = (DRAFTS[name].header,)
    return VersionRow(
        name, headers, start, preference, _drafts, "methods", by_choice=True, silent=True
    )


def _transitional(name: str, preference: int, start: Shape) -> VersionRow:
    headers = TRANSITIONAL_HEADERS
    return VersionRow(
        name, headers, start, preference, _transitional_engine, "methods", by_choice=True
    )


VERSIONS: Mapping[str, VersionRow] = {
    row.name: row
    for row in (
        VersionRow(
            commands.VERSION, (commands.HEADER,), CHALLENGE, 11, _commands, "commands"
        ),
        _draft("0-9a0", 5, START_0_9A0),
        _draft("0-9a0-7", 6, START_0_9A0_7),
        _draft("0-9a6", 4, START_0_9A6),
        _published("0-8", 7),
        _published("0-9", 3),
        _published("0-9-1", 1),
        _transitional(REQUESTS, 9, REQUESTED_START),
        _transitional(METHODS, 10, START),
        VersionRow(segments.VERSION, (segments.HEADER,), (), 8, _segments, "segments"),
        VersionRow(
            performatives.VERSION, (performatives.HEADER, performatives.SASL_HEADER), (), 2,
            _performatives, "performatives", performatives.TLS_HEADER,
        ),
    )
}  # fmt: skip
"""Versions by name, oldest first."""

ORDERED = tuple(sorted(VERSIONS, key=lambda name: VERSIONS[name].preference))
"""All versions, in the order of their preference."""

PREFERRED: tuple[str, ...] = tuple(name for name in ORDERED if Role.CLIENT in VERSIONS[name].roles)
"""Versions in the order in which the client role tries them."""

HANGING_UP = frozenset(
    name for name, row in VERSIONS.items() if row.silent or name == commands.VERSION
)
"""Versions of 2005, whose servers refuse the headers of others by disconnecting without a reply."""


def opened_by(header: bytes) -> tuple[str, ...]:
    """The versions that our client opens with this header, the one it stands for by default first,
    if any."""
    return tuple(name for name in PREFERRED if header in VERSIONS[name].headers)


def sharing(version: str) -> tuple[str, ...]:
    """The versions that open as this one does, itself included."""
    return opened_by(VERSIONS[version].headers[0])


class HeaderMeanings(NamedTuple):
    """The versions that headers of eight octets select on one listener."""

    versions: Mapping[bytes, str]
    silent: bool
    """Some header selects a version whose servers disconnect without a reply."""


def header_meanings(chosen: Iterable[str] = ()) -> HeaderMeanings:
    """Meanings in which each of the ``chosen`` versions has its headers. All other headers stand
    for the version that needs no choice, or for none."""
    rows = [row for row in VERSIONS.values() if not row.by_choice]
    rows += [VERSIONS[name] for name in chosen]
    versions = {
        header: row.name for row in rows for header in row.headers if len(header) == HEADER_OCTETS
    }
    silent = any(VERSIONS[name].silent for name in versions.values())
    return HeaderMeanings(versions, silent)


def load_engines() -> None:
    """Import the engines of all versions."""
    for row in VERSIONS.values():
        row.load_engine()


def adapter_for(version: str, role: Role, **options: Any) -> Adapter:
    """An adapter for one connection. Options as in the engine's constructor. Raises ``KeyError``
    for an unknown version, and ``Refusal`` for a role that it does not have."""
    row = VERSIONS[version]
    if role not in row.roles:
        text = f"the gateway does not speak {version} as a {role.value} yet"
        raise Refusal(Condition.NOT_IMPLEMENTED, text, Lost.CONNECTION)
    return row.load_engine()(version, role, **options)
