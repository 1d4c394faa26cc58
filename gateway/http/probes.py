"""The answers of ``/livez``, ``/readyz`` and ``/startupz``, and the endpoints that give them before
FastAPI is there; with parameters they are FastAPI's routes (``health.py``)."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.http.context import Context


class Probe:
    """One of them, as an endpoint for requests without parameters."""

    def __init__(self, context: Context, answer: Callable[[Context], Awaitable[Response]]) -> None:
        self.context = context
        self.answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (await self.answer(self.context))(scope, receive, send)


def probes(context: Context) -> dict[str, Probe]:
    """By their paths."""
    answers = {"/livez": live, "/readyz": ready, "/startupz": started}
    return {path: Probe(context, answer) for path, answer in answers.items()}


async def live(context: Context) -> Response:
    return tell("live", {})


async def ready(context: Context, anew: bool = False) -> Response:
    checks = await look(context, anew)
    if not all(checks.values()):
        return tell("not-ready", checks)
    return tell("ready", checks, round(context.canary.last_seconds * 1000, 3))


async def started(context: Context) -> Response:
    checks = {"publish": True} if context.canary.ever else await look(context)
    return tell("ready" if all(checks.values()) else "not-ready", checks)


async def look(context: Context, anew: bool = False) -> dict[str, bool]:
    """The checks by name; the canary publishes last, and only if all others pass."""
    checks = dict(context.dependencies.ready())
    checks["publish"] = all(checks.values()) and await context.canary.check(anew)
    return checks


def tell(status: str, checks: dict[str, bool], publish_ms: float | None = None) -> Response:
    """A document of the model ``Health``."""
    health: dict[str, Any] = {"status": status, "checks": checks}
    if publish_ms is not None:
        health["publish_ms"] = publish_ms
    return Response(
        json.dumps(health, separators=(",", ":")),
        503 if status == "not-ready" else 200,
        media_type="application/json",
        headers={"cache-control": "no-store"},
    )
