"""OpenAPI says all and only what there is, its examples work, and problems have their pages."""

import re
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

from gateway import __version__
from gateway.http.admin.problem_pages import ABOUT, all_rows, markdown
from tests.http.description_words import operations

ROOT = Path(__file__).parents[2]
UNDESCRIBED = {
    "/",
    "/openapi.json",
    "/client/{name}",
    # the same as without the path (RFC 9728)
    "/.well-known/oauth-protected-resource/{path}",
}


async def description(rig: Any) -> dict[str, Any]:
    async with rig.http() as http:
        told: dict[str, Any] = (await http.get("/openapi.json")).json()
    return told


async def test_every_route_is_described(rig: Any) -> None:
    told = await description(rig)
    missing = []
    for route in rig.app.api.routes:
        if not isinstance(route, Route) or route.path in UNDESCRIBED:
            continue
        if route.path.startswith(("/console", "/docs", "/api/health/checks")):
            continue
        known = {method.upper() for method in told["paths"].get(route.path, {})}
        missing += [
            f"{method} {route.path}"
            # OpenAPI 3.1 has no place for QUERY, which is POST by another name here.
            for method in (route.methods or set()) - {"HEAD", "QUERY"} - known
        ]
    assert missing == []


async def test_a_receipt_has_all_known_fields(rig: Any) -> None:
    """And nothing of readers, whichever way it was made."""
    rig.queue("q")
    known = set((await description(rig))["components"]["schemas"]["Receipt"]["properties"])
    async with rig.http() as http:
        for headers in ({}, {"Idempotency-Key": '"one"'}):
            answer = await http.post("/v1/%2F/queues/q/messages", content=b"x", headers=headers)
            assert answer.status_code == 201 and answer.json().keys() == known - {"warnings"}


async def test_both_descriptions_state_the_version(rig: Any) -> None:
    async with rig.http() as http:
        for path in ("/openapi.json", "/asyncapi.json"):
            assert (await http.get(path)).json()["info"]["version"] == __version__


async def test_the_description_is_valid(rig: Any) -> None:
    validator = pytest.importorskip("openapi_spec_validator")
    validator.validate(await description(rig))


async def test_operations_have_unique_names_and_good_references(rig: Any) -> None:
    told = await description(rig)
    names = [operation.told["operationId"] for operation in operations(told)]
    assert sorted(names) == sorted(set(names))
    for kind, name in set(re.findall(r"#/components/(\w+)/([\w-]+)", str(told))):
        assert name in told["components"][kind]
    for operation in operations(told):
        given = {one["name"] for one in operation.parameters("path")}
        assert given == set(re.findall(r"\{(\w+)\}", operation.path)), operation


async def test_every_error_is_a_problem_document(rig: Any) -> None:
    for operation in operations(await description(rig)):
        if operation.path.startswith(("/api/", "/readyz", "/startupz")):
            continue
        for status, response in operation.told["responses"].items():
            if status[0] in "45":
                assert set(response["content"]) == {"application/problem+json"}, operation


# --- problems -------------------------------------------------------------------------------------


def test_problems_are_documented_as_they_are() -> None:
    written = (ROOT / "docs" / "problems.md").read_text()
    assert written == markdown(), (
        "run: python -m gateway.http.admin.problem_pages > docs/problems.md"
    )


def test_every_problem_has_a_text() -> None:
    assert {row.kind for row in all_rows()} <= set(ABOUT)


async def test_problem_types_lead_to_their_pages(rig: Any) -> None:
    async with rig.http(None) as http:
        listed = (await http.get("/problems")).text
        for row in all_rows():
            answer = await http.get(f"/problems/{row.kind}")
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/html")
            assert row.title in answer.text
            assert f"/problems/{row.kind}" in listed
        assert (await http.get("/problems/none")).status_code == 404
