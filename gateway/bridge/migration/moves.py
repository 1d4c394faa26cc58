"""All moves of one journal: new ones, those that go on after a restart, and the way back."""

import secrets
from collections.abc import Callable
from typing import NamedTuple

from gateway.bridge.clock import now
from gateway.bridge.migration.journal import Journal, MoveRecord
from gateway.bridge.migration.move import Move, State
from gateway.bridge.migration.settings import MoveSettings
from gateway.bridge.migration.sides import LostSide, Side
from gateway.errors import Condition, GatewayError, Refusal

MOST = 1000
"""Moves that a journal keeps."""

Sides = Callable[[MoveSettings, str], tuple[Side, Side]]
"""Both sides of a move of this name. Raises ``ConfigError``."""


class Counted(NamedTuple):
    """A queue of a dry run. ``None``: its version does not tell."""

    source: str
    destination: str
    messages: int | None
    there: int | None


class Moves:
    """By name. One process at a time has them."""

    def __init__(self, journal: Journal, sides: Sides) -> None:
        self.journal = journal
        self.all: dict[str, Move] = {}
        self._sides = sides
        for record in journal.moves():
            try:
                self._make(record)
            except GatewayError as error:
                self._make_lost(record, str(error))

    def _make(self, record: MoveRecord) -> Move:
        sides = self._sides(MoveSettings.model_validate(record.settings), record.name)
        move = self.all[record.name] = Move(record, self.journal, *sides)
        return move

    def _make_lost(self, record: MoveRecord, error: str) -> None:
        """One whose upstream is not configured any more: it can be shown and forgotten."""
        self.journal.enter(record.name, State.FAILED.value, error)
        settings = MoveSettings.model_validate(record.settings)
        names = (
            settings.source or settings.source_vhost,
            (settings.destination or settings.destination_vhost),
        )
        sides = (LostSide(name, error) for name in names)
        failed = record._replace(state=State.FAILED.value, error=error)
        self.all[record.name] = Move(failed, self.journal, *sides)

    def start(self) -> None:
        """Go on with the moves that ran when the process ended."""
        for move in self.all.values():
            if move.state is State.RUNNING:
                move.start()

    async def close(self) -> None:
        """Stop all; they go on after a restart."""
        for move in self.all.values():
            await move.close()
        self.journal.close()

    def add(self, settings: MoveSettings, name: str = "", reverses: str = "") -> Move:
        """A new move, which does not run yet. Raises ``ConfigError``, and ``Refusal`` if there is
        one of this name, or the journal is full."""
        name = name or f"move-{secrets.token_hex(4)}"
        if name in self.all:
            raise Refusal(Condition.NOT_ALLOWED, f"there is a move {name!r}")
        if len(self.all) >= MOST:
            raise Refusal(Condition.RESOURCE_ERROR, f"the journal has {MOST} moves: forget some")
        self._sides(settings, name)
        given = settings.model_dump(mode="json")
        record = MoveRecord(name, given, State.PAUSED.value, now(), now(), "", reverses)
        self.journal.add(record, ((one.source, one.target) for one in settings.queues))
        return self._make(record)

    def like(self, settings: MoveSettings) -> Move | None:
        """A move between the same queues that is not done."""
        for move in self.all.values():
            given = move.settings
            same = ("source", "destination", "source_vhost", "destination_vhost", "queues")
            if move.state is not State.DONE and all(
                getattr(given, name) == getattr(settings, name) for name in same
            ):
                return move
        return None

    def forget(self, name: str) -> None:
        """Remove a move that does not run. Raises ``Refusal``."""
        move = self.all[name]
        if move.state is State.RUNNING:
            raise Refusal(Condition.PRECONDITION_FAILED, f"the move {name!r} runs: pause it")
        self.journal.forget(name)
        del self.all[name]

    # --- the way back -----------------------------------------------------------------------------

    async def roll_back(self, name: str, *, force: bool = False) -> Move:
        """The move that brings back what is still at the destination of another: the one that has
        begun, or a new one, which does not run yet. Raises ``OSError``, and ``Refusal`` if the
        other runs or, unless ``force``, if messages would come back in another order."""
        forward = self.all[name]
        for move in self.all.values():
            if move.reverses == name and move.state is not State.DONE:
                return move
        if forward.state is State.RUNNING:
            raise Refusal(Condition.PRECONDITION_FAILED, f"the move {name!r} runs: pause it")
        if forward.reverses:
            text = f"the move {name!r} is a rollback itself: move the queues again"
            raise Refusal(Condition.PRECONDITION_FAILED, text)
        settings = forward.settings.reversed()
        _, old = self._sides(settings, name)
        if not force:
            await check_order(old, settings)
        return self.add(settings, f"{name}-back-{secrets.token_hex(2)}", name)

    def came_back(self, back: Move) -> dict[str, int | bool]:
        """Counts of a rollback: messages of the move that it reverses, ``strangers`` that others
        had published there, and how many of the move were ``taken`` by consumers. A message that
        had come twice counts twice."""
        forward, told = self.all.get(back.reverses), back.info()
        moved = 0 if forward is None else forward.info().moved
        return {
            "notes": forward is not None and forward.settings.notes,
            "strangers": told.moved - told.returned,
            "taken": max(0, moved - told.returned),
        }


async def check_order(old: Side, settings: MoveSettings) -> None:
    """Raises ``Refusal`` if an old queue has messages, behind which those that come back would
    stand, and ``OSError``."""
    for pair in settings.queues:
        count = await old.count(pair.target)
        if count:
            text = f"{old.described}: {pair.target}: {count} messages stand before those that come"
            raise Refusal(Condition.PRECONDITION_FAILED, f"{text} back; forced, these go behind")


async def count_queues(settings: MoveSettings, source: Side, destination: Side) -> list[Counted]:
    """A dry run: how many messages a move would find. Raises ``OSError`` or ``Refusal``, also for a
    queue that does not exist."""
    return [
        Counted(
            pair.source,
            pair.target,
            await source.count(pair.source),
            await destination.count(pair.target),
        )
        for pair in settings.queues
    ]
