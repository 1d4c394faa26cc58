"""``/docs``: the description as pages, by Swagger UI; and ``/docs/events``, what ``/asyncapi.json``
says to the caller.

Swagger UI comes with the package ``fastapi-offline``, of which only its static files are used;
pages and scripts around it are ours. Nothing is fetched from other hosts. Like the description, the
pages are for everybody; what they send authenticates.
"""

from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter, Request, Response

from gateway.http import problems
from gateway.http.console import HEADERS, MEDIA, POLICY, scripts_and_styles
from gateway.http.prepared_content import PreparedContent
from gateway.http.problems import Problem

PACKAGE = "fastapi_offline"
SWAGGER = ("swagger-ui-bundle.js", "swagger-ui.css")
NO_TRUSTED_TYPES = "trusted-types 'none'"
SWAGGER_POLICY = POLICY.replace(NO_TRUSTED_TYPES, "trusted-types default dompurify")
"""As strict as the console's, but for one thing: Swagger UI makes HTML of the Markdown in the
description, by the policy that ``swagger.js`` makes."""
PAGES = {"swagger": SWAGGER_POLICY, "events": POLICY}

router = APIRouter(include_in_schema=False)


@cache
def page(name: str) -> PreparedContent:
    octets = (files("gateway.http") / "reference" / f"{name}.html").read_bytes()
    headers = HEADERS | {"content-security-policy": PAGES[name]}
    return PreparedContent(octets, "text/html", headers)


@cache
def assets() -> dict[str, PreparedContent]:
    """Every script and style by name."""
    found = scripts_and_styles("reference")
    # The package is found and not imported: that would make a FastAPI application of its kind.
    package = find_spec(PACKAGE)
    folders = [] if package is None else package.submodule_search_locations or []
    for folder in folders:
        for name in SWAGGER:
            file = Path(folder, "static", name)
            if file.is_file():
                found[name] = PreparedContent(file.read_bytes(), MEDIA[file.suffix], HEADERS)
    return found


@router.get("/docs")
async def show_reference(request: Request) -> Response:
    return await page("swagger").answer(request)


@router.get("/docs/")
async def lead_to_reference() -> Response:
    return Response(status_code=308, headers={"location": "/docs"})


@router.get("/docs/events")
async def show_events(request: Request) -> Response:
    return await page("events").answer(request)


@router.get("/docs/{name}")
async def show_asset(request: Request, name: str) -> Response:
    found = assets().get(name)
    if found is None:
        lacks = name in SWAGGER
        text = f"Swagger UI is not there: install {PACKAGE.replace('_', '-')}" if lacks else ""
        raise Problem(problems.BY_STATUS[404], text or "the reference has no such file")
    return await found.answer(request)
