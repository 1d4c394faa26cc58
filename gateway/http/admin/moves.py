"""Moves of whole queues."""

from typing import Any, Literal

from pydantic import ConfigDict, Field, field_validator
from starlette.responses import Response

from gateway.bridge.migration.in_gateway import GatewayMoves
from gateway.bridge.migration.move import Move, MoveInfo
from gateway.bridge.migration.moves import count_queues
from gateway.bridge.migration.settings import MoveOptions, MoveSettings, QueuePair
from gateway.errors import Condition, ConfigError, Refusal
from gateway.http import problems
from gateway.http.admin.admin_endpoints import Call, Endpoint, Input, Rank, listed
from gateway.http.problems import Problem
from gateway.http.schemas import Shape
from gateway.strict_json import whole

MOVES = "/v1/admin/moves"
COUNTS = "/v1/admin/move-counts"
ONE = MOVES + "/{move}"


class MoveInput(MoveOptions):
    """Each side is an upstream, or a virtual host of this gateway."""

    model_config = ConfigDict(strict=True, frozen=True, defer_build=True)

    name: str = Field("", pattern=r"^[A-Za-z0-9._~-]{0,64}$", description="empty: one is made up")
    queues: list[QueuePair] = Field(min_length=1, max_length=1000)

    _whole = field_validator("batch", "retries", mode="before")(whole)


class RollbackInput(Input):
    force: bool = Field(False, description="also if messages stand before those that come back")


class MoveQueueView(Shape):
    queue: int
    source: str
    destination: str
    done: bool
    expected: int | None = Field(description="messages at the beginning, if the source tells")
    next: int
    moved: int
    suppressed: int = Field(description="came again, and were not published again")
    flagged: int = Field(description="published again, with the header `x-gateway-move-again`")
    rejected: int
    returned: int = Field(description="messages of the move that this one rolls back")


class MoveView(Shape):
    """A move, with sums over its queues."""

    name: str
    state: Literal["running", "paused", "failed", "done"]
    source: str
    destination: str
    reverses: str = Field(description="name of the move that this one rolls back")
    created: int = Field(description="ms since 1970")
    changed: int = Field(description="time of the last change of state, ms since 1970")
    error: str
    moved: int
    expected: int | None
    suppressed: int
    flagged: int
    rejected: int
    returned: int
    rate: float = Field(description="messages per second")
    queues: list[MoveQueueView]


class MoveList(Shape):
    moves: list[MoveView]


class CountView(Shape):
    source: str
    destination: str
    messages: int | None = Field(description="messages that would be moved, if the source tells")
    there: int | None = Field(description="messages that are at the destination, if it tells")


class CountList(Shape):
    queues: list[CountView]


def view(info: MoveInfo) -> MoveView:
    fields: dict[str, Any] = info._asdict()
    queues = [MoveQueueView(**one._asdict()) for one in info.queues]
    return MoveView(**fields | {"queues": queues})


def moves_of(call: Call) -> GatewayMoves:
    bridge = call.context.dependencies.bridge
    if bridge is None or bridge.moves is None:
        raise Problem(problems.CONFLICT, "this gateway has no bridge")
    return bridge.moves


def find(call: Call) -> Move:
    found = moves_of(call).all.get(call.names["move"])
    if found is None:
        raise Problem(problems.NOT_FOUND, "no move of this name")
    return found


def settings_of(call: Call) -> MoveSettings:
    return MoveSettings(**call.body.model_dump(exclude={"name"}), user=call.user)


def conflict(error: Exception) -> Problem:
    return Problem(problems.CONFLICT, str(error) or type(error).__name__)


async def list_moves(call: Call) -> Response:
    bridge = call.context.dependencies.bridge
    found = {} if bridge is None or bridge.moves is None else bridge.moves.all
    return listed("moves", (view(one.info()) for one in found.values()))


async def show_move(call: Call) -> MoveView:
    return view(find(call).info())


async def make_move(call: Call) -> MoveView:
    try:
        made = moves_of(call).opened().add(settings_of(call), call.body.name)
    except (Refusal, ConfigError) as error:
        raise conflict(error) from None
    made.start()
    return view(made.info())


async def count_move(call: Call) -> CountList:
    settings = settings_of(call)
    try:
        sides = moves_of(call).sides(settings, "count")
        counted = await count_queues(settings, *sides)
    except (OSError, Refusal) as error:
        raise conflict(error) from None
    return CountList(queues=[CountView(**one._asdict()) for one in counted])


async def pause_move(call: Call) -> None:
    await find(call).pause()


async def resume_move(call: Call) -> None:
    find(call).start()


async def forget_move(call: Call) -> None:
    move = find(call)
    try:
        moves_of(call).opened().forget(move.name)
    except Refusal as refusal:
        raise conflict(refusal) from None


async def roll_back_move(call: Call) -> MoveView:
    move = find(call)
    try:
        back = await moves_of(call).opened().roll_back(move.name, force=call.body.force)
    except Refusal as refusal:
        missing = refusal.condition is Condition.NOT_FOUND
        raise (
            Problem(problems.NOT_FOUND, refusal.text) if missing else conflict(refusal)
        ) from None
    except OSError as error:
        raise conflict(error) from None
    back.start()
    return view(back.info())


MISSING = (problems.NOT_FOUND,)
CHANGE = (problems.NOT_FOUND, problems.CONFLICT)
EXAMPLE = {"queues": [{"source": "invoices", "destination": "orders"}]}

ENDPOINTS = [
    Endpoint("GET", MOVES, list_moves, "Moves of queues", Rank.MONITOR, gives=MoveList),
    Endpoint("POST", MOVES, make_move, "Move queues", Rank.ADMINISTRATOR, status=201,
             takes=MoveInput, gives=MoveView, refusals=(problems.CONFLICT,), example=EXAMPLE,
             text="Empties queues of one side into the other, with the permissions of the caller "
             "in this gateway. The move survives a restart; each message arrives at least once."),
    Endpoint("POST", COUNTS, count_move, "What a move would find", Rank.ADMINISTRATOR,
             takes=MoveInput, gives=CountList, refusals=(problems.CONFLICT,), example=EXAMPLE),
    Endpoint("GET", ONE, show_move, "One move", Rank.MONITOR, gives=MoveView, refusals=MISSING),
    Endpoint("DELETE", ONE, forget_move, "Forget a move", Rank.ADMINISTRATOR, status=204,
             refusals=CHANGE, text="It must not run. Messages stay where they are."),
    Endpoint("POST", ONE + "/pause", pause_move, "Pause a move", Rank.ADMINISTRATOR, status=204,
             refusals=MISSING, text="After the batch that is under way."),
    Endpoint("POST", ONE + "/resume", resume_move, "Resume a move", Rank.ADMINISTRATOR, status=204,
             refusals=MISSING, text="One that is paused or has failed."),
    Endpoint("POST", ONE + "/rollback", roll_back_move, "Roll a move back", Rank.ADMINISTRATOR,
             status=201, takes=RollbackInput, gives=MoveView, refusals=CHANGE, optional=True,
             example={"force": False},
             text="Moves what is at the destination back to the source: a move of its own, whose "
             "`returned` counts the messages of the first one."),
]  # fmt: skip
