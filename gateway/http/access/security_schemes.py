"""Authentication schemes, as described in ``/openapi.json`` and ``/asyncapi.json``."""

from typing import Any

from gateway.http.access.authenticator import HOST_COOKIE, Authenticator

SESSION = """A session, made by `POST /v1/session`. Methods other than GET need an `Origin` or
`Sec-Fetch-Site` field, as sent by browsers; pages of other origins are refused."""
PLAIN_SESSION = "The same over plain http from this machine."
TICKET = """For an `EventSource` that can send no credentials, made by `POST /v1/stream-tickets`:
good for the stream it was made for, once, and then to resume it."""

Schemes = dict[str, dict[str, Any]]
EVERYWHERE = ("basic", "bearer", "session", "plain_session")
"""Schemes of every authenticated route, if they are offered, except the routes below."""
ELSEWHERE = {("post", "/v1/session"): ("basic", "bearer")}


def security_schemes(authenticator: Authenticator) -> Schemes:
    """The schemes of this gateway by name, as OpenAPI security schemes."""
    found: Schemes = {"basic": {"type": "http", "scheme": "basic", "description": "A user."}}
    if authenticator.bearer is not None:
        found["bearer"] = {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": f"An access token (RFC 9068) of {authenticator.bearer.settings.issuer}.",
        }
    for name in authenticator.cookie_names:
        plain = name != HOST_COOKIE
        found["plain_session" if plain else "session"] = {
            "type": "apiKey",
            "in": "cookie",
            "name": name,
            "description": PLAIN_SESSION if plain else SESSION,
        }
    found["ticket"] = {"type": "apiKey", "in": "query", "name": "ticket", "description": TICKET}
    return found


def requirements(schemes: Schemes, method: str, path: str) -> list[dict[str, list[str]]]:
    """The alternative security requirements of a route."""
    names = ELSEWHERE.get((method, path), EVERYWHERE)
    if method == "get" and path.endswith("/events"):
        names = (*names, "ticket")
    return [{name: []} for name in names if name in schemes]
