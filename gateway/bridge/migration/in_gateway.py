"""The moves of a running gateway: between its virtual hosts and its upstreams."""

from pathlib import Path

from gateway.bridge.core_ends import Core
from gateway.bridge.migration.journal import Journal
from gateway.bridge.migration.move import Move
from gateway.bridge.migration.moves import Moves
from gateway.bridge.migration.settings import MoveSettings
from gateway.bridge.migration.sides import CoreSide, RemoteSide, Side
from gateway.bridge.upstream import Upstream
from gateway.errors import Condition, Refusal


class GatewayMoves:
    """``path`` is the journal, which is made by the first move; ``None``: the gateway keeps nothing
    on disk, and has no moves. Raises ``ConfigError`` if the journal cannot be used."""

    def __init__(self, core: Core, upstreams: dict[str, Upstream], path: Path | None) -> None:
        self._core = core
        self._upstreams = upstreams
        self._path = path
        self._moves: Moves | None = None
        if path is not None and path.exists():
            self._moves = Moves(Journal(path), self.sides)

    @property
    def all(self) -> dict[str, Move]:
        return {} if self._moves is None else self._moves.all

    def opened(self) -> Moves:
        """Raises ``Refusal`` and ``ConfigError``."""
        if self._moves is None:
            if self._path is None:
                text = "durable = false: there is no place for the journal of a move"
                raise Refusal(Condition.PRECONDITION_FAILED, text)
            self._moves = Moves(Journal(self._path), self.sides)
        return self._moves

    def start(self) -> None:
        """Go on with the moves that ran when the gateway ended."""
        if self._moves is not None:
            self._moves.start()

    async def close(self) -> None:
        if self._moves is not None:
            await self._moves.close()

    def sides(self, settings: MoveSettings, name: str) -> tuple[Side, Side]:
        """Raises ``Refusal`` for an upstream that is not configured."""
        return (
            self._side(settings.source, settings.source_vhost, settings.user, name),
            self._side(settings.destination, settings.destination_vhost, settings.user, name),
        )

    def _side(self, upstream: str, vhost: str, user: str, name: str) -> Side:
        purpose = f"move {name}"
        if not upstream:
            return CoreSide(self._core, vhost, user, purpose)
        if upstream not in self._upstreams:
            raise Refusal(Condition.NOT_FOUND, f"no upstream is called {upstream!r}")
        return RemoteSide(self._upstreams[upstream], purpose)
