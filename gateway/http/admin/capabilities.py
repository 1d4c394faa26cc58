"""Abilities of the upstreams that the caller may see."""

import asyncio
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from gateway.bridge.discovery import Discovery
from gateway.http.access.principal import MONITORS
from gateway.http.admin.admin_endpoints import Call, Endpoint, Rank
from gateway.http.schemas import Shape


class CapabilityQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)

    wait: float = Field(
        5, ge=0, le=60, description="most seconds to wait for probes that are under way"
    )


class AbilitiesView(Shape):
    """Abilities of a broker in the version that the gateway speaks with it."""

    confirms: bool = Field(description="publishes are confirmed one by one")
    transactions: bool
    browsing: bool = Field(description="queues can be read without taking their messages")
    draining: bool = Field(description="a consumer learns that no message is ready")
    counting: bool = Field(description="the number of ready messages is told")
    declaring: bool = Field(description="clients may make queues")
    priorities: bool | None = Field(
        description="queues can deliver messages of higher priority first; null: not found out"
    )
    streams: bool | None = Field(
        description="there are RabbitMQ's stream queues; null: not found out"
    )


class UpstreamCapabilities(Shape):
    name: str
    vhosts: list[str] = Field(description="virtual hosts of the gateway that show its queues")
    state: Literal["probing", "found", "failed", "unknown"]
    version: str = Field(description="AMQP version of the last connection; empty: none")
    product: str
    product_version: str
    abilities: AbilitiesView | None = Field(description="null as long as none were found")
    probed_at: int = Field(description="time of the last probe, ms since 1970; 0: none")
    error: str = Field(description="why the last probe failed; for administrators and monitors")


class Capabilities(Shape):
    upstreams: list[UpstreamCapabilities]


def visible(call: Call) -> list[tuple[Discovery, list[str]]]:
    """The upstreams and the virtual hosts that show them. A user without a tag for monitoring sees
    those behind virtual hosts that it may enter."""
    bridge, access = call.context.dependencies.bridge, call.context.broker.access
    if bridge is None:
        return []
    every = call.tagged(MONITORS)
    found = []
    for name, discovery in bridge.discoveries.items():
        vhosts = [
            vhost
            for vhost, facade in bridge.facades.items()
            if facade.upstream.settings.name == name
            and (every or access.may_enter(call.user, vhost))
        ]
        if every or vhosts:
            found.append((discovery, vhosts))
    return found


def view(discovery: Discovery, vhosts: list[str], monitors: bool) -> UpstreamCapabilities:
    info, found = discovery.upstream.info(), discovery.found
    state: Literal["probing", "found", "failed", "unknown"] = "unknown"
    if discovery.probing:
        state = "probing"
    elif found.error:
        state = "failed"
    elif found.abilities is not None:
        state = "found"
    abilities = found.abilities
    return UpstreamCapabilities(
        name=info.name,
        vhosts=vhosts,
        state=state,
        version=info.version,
        product=info.product,
        product_version=info.product_version,
        abilities=None if abilities is None else AbilitiesView(**abilities._asdict()),
        probed_at=found.at,
        error=found.error if monitors else "",
    )


async def show_capabilities(call: Call) -> Capabilities:
    seen, monitors = visible(call), call.tagged(MONITORS)
    await asyncio.gather(*(discovery.look(call.query.wait) for discovery, _ in seen))
    return Capabilities(upstreams=[view(*one, monitors) for one in seen])


ENDPOINTS = [
    Endpoint("GET", "/v1/capabilities", show_capabilities, "What upstreams can do", Rank.USER,
             gives=Capabilities, query=CapabilityQuery, tag="descriptions",
             text="Found by probing each upstream when somebody asks, at most every ten minutes "
             "(ten seconds after a failure), and again when another broker answers there. A probe "
             "logs in a few times and makes private queues, which end with it."),
]  # fmt: skip
