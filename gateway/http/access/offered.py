"""The ways in, as ``/openapi.json`` and ``/asyncapi.json`` tell them."""

from typing import Any

from gateway.http.access.gate import HOST_COOKIE, Gate

SESSION = """A session, made by `POST /v1/session`. What is not GET needs an `Origin` or
`Sec-Fetch-Site` field beside it, as browsers send them; pages of other origins are refused."""
PLAIN_SESSION = "The same over plain http from this machine."
TICKET = """For an `EventSource` that can send no credentials, made by `POST /v1/stream-tickets`:
good for the stream it was made for, once, and then to resume it."""

Schemes = dict[str, dict[str, Any]]
EVERYWHERE = ("basic", "bearer", "session", "plain_session")
"""Every route that asks who asks takes these, if they are offered, but for those below."""
ELSEWHERE = {("post", "/v1/session"): ("basic", "bearer")}


def ways_in(gate: Gate) -> Schemes:
    """Those that this gateway offers, by name, as OpenAPI's security schemes."""
    found: Schemes = {"basic": {"type": "http", "scheme": "basic", "description": "A user."}}
    if gate.bearer is not None:
        found["bearer"] = {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": f"An access token (RFC 9068) of {gate.bearer.settings.issuer}.",
        }
    for name in gate.cookie_names:
        plain = name != HOST_COOKIE
        found["plain_session" if plain else "session"] = {
            "type": "apiKey",
            "in": "cookie",
            "name": name,
            "description": PLAIN_SESSION if plain else SESSION,
        }
    found["ticket"] = {"type": "apiKey", "in": "query", "name": "ticket", "description": TICKET}
    return found


def ways_into(schemes: Schemes, method: str, path: str) -> list[dict[str, list[str]]]:
    """Any one of these opens a route."""
    names = ELSEWHERE.get((method, path), EVERYWHERE)
    if method == "get" and path.endswith("/events"):
        names = (*names, "ticket")
    return [{name: []} for name in names if name in schemes]
