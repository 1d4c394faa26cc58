"""Upstreams, facades and shovels."""

from starlette.responses import Response

from gateway.bridge.facade import Facade
from gateway.bridge.lanes import Lanes
from gateway.bridge.shovel import Shovel, ShovelInfo
from gateway.http import problems
from gateway.http.admin.admin_endpoints import Call, Endpoint, Rank, listed
from gateway.http.admin.views import (
    FacadeList,
    FacadeView,
    LaneView,
    ShovelList,
    ShovelView,
    UpstreamList,
    UpstreamView,
)
from gateway.http.problems import Problem

SHOVELS = "/v1/admin/shovels"
ONE = SHOVELS + "/{shovel}"


async def list_upstreams(call: Call) -> Response:
    bridge = call.context.dependencies.bridge
    found = [] if bridge is None else bridge.upstreams.values()
    return listed("upstreams", (UpstreamView(**one.info()._asdict()) for one in found))


async def list_facades(call: Call) -> Response:
    bridge = call.context.dependencies.bridge
    if bridge is None:
        return listed("facades", ())
    views = (facade_view(one, bridge.successors.get(name)) for name, one in bridge.facades.items())
    return listed("facades", views)


def facade_view(facade: Facade, successor: Facade | None) -> FacadeView:
    other = None if successor is None else successor.info()
    return FacadeView(
        **facade.info()._asdict(),
        successor="" if other is None else other.upstream,
        successor_state="" if other is None else other.state,
        successor_version="" if other is None else other.version,
        successor_error="" if other is None else other.error,
    )


def all_shovels(call: Call) -> dict[str, Shovel | Lanes]:
    bridge = call.context.dependencies.bridge
    return {} if bridge is None else bridge.shovels


def find_shovel(call: Call) -> Shovel | Lanes:
    found = all_shovels(call).get(call.names["shovel"])
    if found is None:
        raise Problem(problems.NOT_FOUND, "no shovel of this name")
    return found


def view(info: ShovelInfo) -> ShovelView:
    lanes = [LaneView(**one._asdict()) for one in info.lanes]
    return ShovelView(**{**info._asdict(), "lanes": lanes})


async def list_shovels(call: Call) -> Response:
    found = (view(one.info()) for one in all_shovels(call).values())
    return listed("shovels", found)


async def show_shovel(call: Call) -> ShovelView:
    return view(find_shovel(call).info())


async def pause_shovel(call: Call) -> None:
    find_shovel(call).pause()


async def resume_shovel(call: Call) -> None:
    find_shovel(call).resume()


MISSING = (problems.NOT_FOUND,)

ENDPOINTS = [
    Endpoint("GET", "/v1/admin/upstreams", list_upstreams, "Upstream brokers", Rank.MONITOR,
             gives=UpstreamList),
    Endpoint("GET", "/v1/admin/facades", list_facades, "Facades", Rank.MONITOR, gives=FacadeList),
    Endpoint("GET", SHOVELS, list_shovels, "Shovels", Rank.MONITOR, gives=ShovelList),
    Endpoint("GET", ONE, show_shovel, "One shovel", Rank.MONITOR, gives=ShovelView,
             refusals=MISSING),
    Endpoint("POST", ONE + "/pause", pause_shovel, "Pause a shovel", Rank.ADMINISTRATOR,
             status=204, refusals=MISSING,
             text="Both of its connections are closed; messages that are not settled stay at "
             "their source. It runs again after a restart of the gateway."),
    Endpoint("POST", ONE + "/resume", resume_shovel, "Resume a shovel", Rank.ADMINISTRATOR,
             status=204, refusals=MISSING),
]  # fmt: skip
