"""Modes of the addresses of a facade that is being migrated."""

from typing import Literal

from pydantic import Field, field_validator
from starlette.responses import Response

from gateway.bridge.modes.address import AddressInfo, Kind
from gateway.bridge.modes.cutover import ModeChanges
from gateway.bridge.modes.mode import Mode, Share
from gateway.errors import Refusal
from gateway.http import problems
from gateway.http.admin.admin_endpoints import Call, Endpoint, Input, Rank, listed
from gateway.http.problems import Problem
from gateway.http.schemas import Shape
from gateway.strict_json import whole

MODES = "/v1/admin/facades/{facade}/modes"
ModeName = Literal["old-only", "shadow", "mirror", "new-primary", "new-only"]
Name = str


class ModeInput(Input):
    """A mode for queues and exchanges, which change to it in their order."""

    mode: ModeName
    queues: list[Name] = Field([], max_length=1000)
    exchanges: list[Name] = Field([], max_length=1000)
    percent: int = Field(
        0,
        ge=0,
        le=100,
        description="keys (group-id, or routing key) whose publishes go to the "
        "broker that is not the primary one, and are brought over",
    )
    users: list[Name] = Field([], max_length=100, description="users whose publishes do")

    consumers: list[Name] = Field(
        [],
        max_length=100,
        description="users and client ids whose consumers are at the broker that is not the "
        "primary one; in `old-only` and `new-only`",
    )
    keys: int = Field(
        0,
        ge=0,
        le=100,
        description="keys, in percent, whose messages go to the other broker and are consumed "
        "there: every consumer is at both; without the other three",
    )

    _whole = field_validator("percent", "keys", mode="before")(whole)


class AddressView(Shape):
    """A queue or an exchange with a mode of its own."""

    kind: Kind
    name: str
    mode: ModeName
    target: ModeName | Literal[""] = Field(description="mode that it is changing to; empty: none")
    since: int = Field(description="time of the last change, ms since 1970")
    percent: int = Field(description="keys whose publishes go to the other broker")
    users: list[str] = Field(description="users whose publishes do")
    consumers: list[str] = Field(description="clients whose consumers are at the other broker")
    keys: int = Field(description="keys whose messages are consumed at the other broker")
    opened: bool = Field(description="with `keys`: consumers are at both brokers")
    held: int = Field(description="publishes that wait for the end of the change")
    moved: int = Field(description="messages that were moved from one broker to the other")
    brought: int = Field(description="messages brought over that had arrived at the other broker")
    supplied: int = Field(description="messages brought to consumers at the other broker")
    copied: int = Field(description="copies that the other broker has confirmed")
    copies_lost: int = Field(description="copies that it has not")
    copies_held: int = Field(description="copies there whose messages are not settled")
    compared: int = Field(description="copies that were compared with their messages")
    differences: dict[str, int] = Field(description="of these: by class, as `bridge verify` has")
    error: str


class AddressList(Shape):
    modes: list[AddressView]


def changes_of(call: Call) -> ModeChanges:
    bridge = call.context.dependencies.bridge
    found = None if bridge is None else bridge.modes.get(call.names["facade"])
    if found is None:
        text = f"no facade with a successor has the virtual host {call.names['facade']!r}"
        raise Problem(problems.NOT_FOUND, text)
    return found


def view(info: AddressInfo) -> AddressView:
    lists = {"users": list(info.users), "consumers": list(info.consumers)}
    return AddressView(**{**info._asdict(), **lists})


async def list_modes(call: Call) -> Response:
    return listed("modes", map(view, changes_of(call).infos()))


async def change_modes(call: Call) -> AddressList:
    changes, body = changes_of(call), call.body
    places: list[tuple[Kind, str]] = [("queue", name) for name in body.queues]
    places += [("exchange", name) for name in body.exchanges]
    if not places or any(not name or len(name.encode()) > 255 for _, name in places):
        raise Problem(problems.INVALID, "queues or exchanges should have names")
    share = Share(body.percent, tuple(body.users), tuple(body.consumers), body.keys)
    try:
        await call.act(lambda: changes.request(places, Mode(body.mode), share))
    except Refusal as refusal:
        raise Problem(problems.CONFLICT, refusal.text) from None
    wanted = set(places)
    found = [one for one in changes.infos() if (one.kind, one.name) in wanted]
    return AddressList(modes=list(map(view, found)))


MISSING = (problems.NOT_FOUND,)

ENDPOINTS = [
    Endpoint("GET", MODES, list_modes, "Modes of addresses", Rank.MONITOR, gives=AddressList,
             refusals=MISSING, text="Of a facade with a successor. Addresses that are not listed "
             "are `old-only`."),
    Endpoint("POST", MODES, change_modes, "Change the mode of addresses", Rank.ADMINISTRATOR,
             status=202, takes=ModeInput, gives=AddressList,
             refusals=(problems.NOT_FOUND, problems.CONFLICT),
             example={"mode": "new-primary", "queues": ["orders"]},
             text="Changes one address after the other. `target` is empty when it is done; `error` "
             "says why it was not. Clients stay connected."),
]  # fmt: skip
