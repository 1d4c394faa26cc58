"""Every error of every route is a problem document, and one that the description has."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from gateway.http.admin.problem_pages import all_rows
from tests.http.description_house import Case, House, cases, house_gateway, open_house, request_of
from tests.http.description_words import (
    PROBLEM,
    VERBS,
    Operation,
    Schemas,
    media_type,
    operations,
    wrong,
)
from tests.interop import servers

KINDS = {row.kind: row for row in all_rows()}
RABBITMQ = "/api/"
HUGE = 10**12
NO_JSON = (b"{", b'{"a": NaN}', b"\xff", b"[" * 50_000, b'{"a":1,"a":2}', b"17")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    with house_gateway(tmp_path_factory.mktemp("errors")) as server:
        yield server


def ours(document: dict[str, Any]) -> list[Operation]:
    return [one for one in operations(document) if not one.path.startswith(RABBITMQ)]


def problem(answer: httpx.Response, *statuses: int) -> str:
    """What is wrong with an answer that shall be a problem of these statuses."""
    if answer.status_code not in statuses:
        return f"{answer.status_code}, not {statuses}: {answer.text[:200]}"
    if media_type(answer) != PROBLEM:
        return f"{answer.status_code} is {media_type(answer)!r}"
    told = answer.json()
    row = KINDS.get(told["type"].removeprefix("/problems/"))
    if row is None or told["status"] != answer.status_code:
        return f"no such problem: {told}"
    if row.kind != "http" and (row.status, row.title) != (told["status"], told["title"]):
        return f"is not as its page says: {told}"
    return ""


async def send(house: House, case: Case, **changed: Any) -> httpx.Response:
    """The example, changed: its fields, its body, who asks. Streams are not read."""
    asked = await request_of(house, case)
    headers = {**asked.headers, **changed.get("headers", {})}
    content = changed.get("content", asked.content)
    auth = changed.get("auth", httpx.USE_CLIENT_DEFAULT)
    request = house.http.build_request(asked.method, asked.url, headers=headers, content=content)
    answer = await house.http.send(request, auth=auth, stream=True)
    if media_type(answer) != "text/event-stream":
        await answer.aread()
    await answer.aclose()
    await house.stack.aclose()
    return answer


async def raw(gateway: servers.Server, head: str) -> httpx.Response:
    """The answer to a head, without a body."""
    reader, writer = await asyncio.open_connection(gateway.host, gateway.http_port)
    writer.write(head.encode("latin-1"))
    async with asyncio.timeout(30):
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = [line.partition(": ") for line in lines[1:] if line]
        fields = [(name, value) for name, _, value in pairs]
        answer = httpx.Response(int(lines[0].split()[1]), headers=fields)
        body = await reader.readexactly(int(answer.headers["content-length"]))
    writer.close()
    return httpx.Response(answer.status_code, headers=fields, content=body)


async def test_a_missing_login_is_reported(gateway: servers.Server) -> None:
    failed, tried = [], 0
    async with open_house(gateway) as (house, document):
        schemas = Schemas(document)
        await house.furnish("")
        for operation in ours(document):
            # Metrics are open to the same machine.
            if operation.told.get("security") == [] or operation.path.startswith("/metrics"):
                continue
            for auth in (None, ("guest", "wrong")):
                answer = await send(house, next(cases(operation)), auth=auth)
                tried += 1
                failed += [f"{operation} {one}" for one in wrong(schemas, operation, answer)]
                failed += [f"{operation} {one}" for one in [problem(answer, 401)] if one]
                assert "www-authenticate" in answer.headers, operation
    assert not failed, "\n".join(failed)
    assert tried > 100


async def test_a_missing_right_is_reported(gateway: servers.Server) -> None:
    """A user without any permission: 403, or what anybody may see."""
    failed, refused = [], 0
    async with open_house(gateway) as (house, document):
        schemas = Schemas(document)
        weak = {"password": "weak", "tags": []}
        await house.do("PUT", "/v1/admin/users/weak", json=weak)
        for operation in ours(document):
            await house.furnish("")
            answer = await send(house, next(cases(operation)), auth=("weak", "weak"))
            if answer.is_success:
                continue
            refused += answer.status_code == 403
            failed += [f"{operation} {one}" for one in wrong(schemas, operation, answer)]
            failed += [f"{operation} {one}" for one in [problem(answer, 403, 404)] if one]
    assert not failed, "\n".join(failed)
    assert refused > 40


async def test_other_methods_are_405(gateway: servers.Server) -> None:
    failed = []
    async with open_house(gateway) as (house, document):
        known: dict[str, set[str]] = {}
        for operation in ours(document):
            known.setdefault(operation.path, set()).add(operation.method)
        for operation in ours(document):
            asked = await request_of(house, next(cases(operation)))
            await house.stack.aclose()
            for method in set(VERBS) - known[operation.path] - {"head", "options"}:
                answer = await house.http.request(method, asked.url)
                text = problem(answer, 405)
                allowed = {
                    one.strip().lower() for one in answer.headers.get("allow", "").split(",")
                }
                # OpenAPI 3.1 has no word for QUERY.
                if allowed - {"head", "options", "query"} != known[operation.path]:
                    text += f" allows {sorted(allowed)}"
                failed += [f"{method} {operation.path}: {text}"] if text else []
    assert not failed, "\n".join(sorted(set(failed)))


async def test_bodies_that_cannot_be_taken(gateway: servers.Server) -> None:
    """Too large is said before anything is read; what is no JSON, or not said to be, is not it."""
    failed, tried = [], 0
    async with open_house(gateway) as (house, document):
        schemas = Schemas(document)
        await house.furnish("")
        for operation in ours(document):
            if not operation.bodies:
                continue
            case = next(cases(operation))
            asked = await request_of(house, case)
            lines = [f"{asked.method.upper()} {asked.url} HTTP/1.1", "Host: localhost"]
            lines += ["Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=", f"Content-Length: {HUGE}"]
            lines += [f"{name}: {value}" for name, value in asked.headers.items()]
            try:
                answers: list[tuple[httpx.Response, tuple[int, ...]]]
                answers = [(await raw(gateway, "\r\n".join([*lines, "", ""])), (413,))]
            except TimeoutError:
                failed.append(f"{operation} waits for a body that is too large")
                continue
            finally:
                await house.stack.aclose()
            own = operation.told["responses"]
            if "415" in own and operation.told["tags"] != ["messages"]:
                kind = {"content-type": "text/plain"}
                answers.append((await send(house, case, headers=kind), (415,)))
            if "422" in own and "*/*" not in operation.bodies and case.media == "application/json":
                answers += [
                    (await send(house, case, content=content), (400, 422)) for content in NO_JSON
                ]
            for answer, statuses in answers:
                tried += 1
                failed += [f"{operation} {one}" for one in wrong(schemas, operation, answer)]
                failed += [f"{operation} {one}" for one in [problem(answer, *statuses)] if one]
    assert not failed, "\n".join(failed)
    assert tried > 60


PATHS = (
    *("/nothing", "/v1", "/v1/", "/v1/nothing", "/v1/%2F", "/v1/%2F/nothing", "/v1/admin/nothing"),
    *("/v1/%2F/queues/orders/nothing", "/v1/%2F/queues//messages", "/v1/%2F/deliveries", "//"),
    *("/v1/%2F/routes/prices/nothing", "/console/nothing", "/client/nothing", "/problems/nothing"),
    *("/.well-known/nothing", "/livez/", "/openapi.json/", "/v1/%ff/queues", "/v1/%2F/queues/%00"),
)


async def test_paths_that_lead_nowhere(gateway: servers.Server) -> None:
    failed = []
    for path in PATHS:
        for method in ("GET", "POST", "PROPFIND"):
            head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
            head += "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\nContent-Length: 0\r\n\r\n"
            text = problem(await raw(gateway, head), 404, 405, 400)
            failed += [f"{method} {path}: {text}"] if text else []
    assert not failed, "\n".join(failed)


async def test_rabbitmq_paths_that_lead_nowhere(gateway: servers.Server) -> None:
    async with open_house(gateway) as (house, _):
        answer = await house.http.get("/api/nothing")
        assert answer.status_code == 404
        assert media_type(answer) in (PROBLEM, "application/json")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET / HTTP/1.1\r\nHost: a\r\nX: " + "x" * 70_000 + "\r\n\r\n", 431),
        ("GET /v1/%2F/queues?" + "x" * 70_000 + " HTTP/1.1\r\nHost: a\r\n\r\n", 431),
        ("GET / HTTP/1.1\r\nHost: a\r\n" + "X: y\r\n" * 300 + "\r\n", 431),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400),
        ("nonsense\r\n\r\n", 400),
    ],
    ids=["field", "target", "fields", "length", "nonsense"],
)
async def test_heads_that_cannot_be_taken(gateway: servers.Server, head: str, status: int) -> None:
    assert problem(await raw(gateway, head), status) == ""


async def test_rabbitmq_gets_its_own_errors(gateway: servers.Server) -> None:
    failed = []
    async with open_house(gateway) as (house, document):
        schemas = Schemas(document)
        await house.furnish("")
        for operation in operations(document):
            if not operation.path.startswith(RABBITMQ):
                continue
            for content, auth in ((None, None), (b"{", ("guest", "guest"))):
                case = next(cases(operation))
                if content is not None and not operation.bodies:
                    continue
                answer = await send(house, case, content=content, auth=auth)
                failed += [f"{operation} {one}" for one in wrong(schemas, operation, answer)]
                if answer.status_code not in (400, 401):
                    failed.append(f"{operation} {answer.status_code}")
                elif not {"error", "reason"} <= json.loads(answer.content).keys():
                    failed.append(f"{operation} {answer.text}")
    assert not failed, "\n".join(failed)
