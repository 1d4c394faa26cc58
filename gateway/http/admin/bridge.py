"""Upstreams and shovels."""

from starlette.responses import Response

from gateway.bridge.shovel import Shovel
from gateway.http import problems
from gateway.http.admin.admin_endpoints import Call, Endpoint, Rank, listed
from gateway.http.admin.views import ShovelList, ShovelView, UpstreamList, UpstreamView
from gateway.http.problems import Problem

SHOVELS = "/v1/admin/shovels"
ONE = SHOVELS + "/{shovel}"


async def list_upstreams(call: Call) -> Response:
    bridge = call.context.dependencies.bridge
    found = [] if bridge is None else bridge.upstreams.values()
    return listed("upstreams", (UpstreamView(**one.info()._asdict()) for one in found))


def all_shovels(call: Call) -> dict[str, Shovel]:
    bridge = call.context.dependencies.bridge
    return {} if bridge is None else bridge.shovels


def find_shovel(call: Call) -> Shovel:
    found = all_shovels(call).get(call.names["shovel"])
    if found is None:
        raise Problem(problems.NOT_FOUND, "no shovel of this name")
    return found


async def list_shovels(call: Call) -> Response:
    found = (ShovelView(**one.info()._asdict()) for one in all_shovels(call).values())
    return listed("shovels", found)


async def show_shovel(call: Call) -> ShovelView:
    return ShovelView(**find_shovel(call).info()._asdict())


async def pause_shovel(call: Call) -> None:
    find_shovel(call).pause()


async def resume_shovel(call: Call) -> None:
    find_shovel(call).resume()


MISSING = (problems.NOT_FOUND,)

ENDPOINTS = [
    Endpoint("GET", "/v1/admin/upstreams", list_upstreams, "Upstream brokers", Rank.MONITOR,
             gives=UpstreamList),
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
