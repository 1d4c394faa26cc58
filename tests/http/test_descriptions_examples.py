"""Every example in ``/openapi.json`` is sent to a running gateway and answered as is written there.

Each operation is asked with the parameters that it needs, once with every example of a body; then
once more with the example of every optional parameter. What a request can only have from an answer
(tokens, ids, cursors) is fetched first; what the examples are about is made anew for each.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from tests.http.description_house import Case, House, cases, house_gateway, open_house, request_of
from tests.http.description_words import Operation, Schemas, examples, media_type, operations, wrong
from tests.interop import servers


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    with house_gateway(tmp_path_factory.mktemp("house")) as server:
        yield server


async def ask(house: House, case: Case) -> httpx.Response:
    asked = await request_of(house, case)
    if asked.method == "put":
        # What a PUT without a body makes is not what the furniture is.
        await house.http.delete(asked.url)
    given: dict[str, Any] = {"headers": asked.headers, "content": asked.content}
    if not case.operation.streams:
        return await house.http.request(asked.method, asked.url, **given)
    async with house.http.stream(asked.method, asked.url, **given) as answer:
        if media_type(answer) == "text/event-stream":
            assert [line async for line in until(answer, "event: gateway.open")]
        else:
            await answer.aread()
        return answer


async def until(answer: httpx.Response, wanted: str) -> AsyncIterator[str]:
    """The line that is wanted, if it comes."""
    async for line in answer.aiter_lines():
        if line == wanted:
            yield line
            return


async def try_one(house: House, schemas: Schemas, case: Case) -> list[str]:
    """What went wrong."""
    await house.furnish(case.operation.path)
    service = (
        asyncio.create_task(house.serve()) if case.operation.path.endswith("requests") else None
    )
    try:
        answer = await ask(house, case)
    finally:
        if service is not None:
            service.cancel()
        await house.stack.aclose()
    if not answer.is_success:
        return [f"{case}: {answer.status_code} {answer.text[:300]}"]
    if media_type(answer) == "text/event-stream":
        return []
    return [f"{case}: {one}" for one in wrong(schemas, case.operation, answer)]


GROUPS = ("administration", "RabbitMQ", "messages", "events", "receiving", "access")


def group_of(operation: Operation) -> str:
    tag: str = operation.told["tags"][0]
    return tag if tag in GROUPS else "others"


@pytest.mark.parametrize("group", [*GROUPS, "others"])
async def test_examples_work(gateway: servers.Server, group: str) -> None:
    async with open_house(gateway) as (house, document):
        schemas = Schemas(document)
        chosen = [one for one in operations(document) if group_of(one) == group]
        failed: list[str] = []
        tried = 0
        for operation in chosen:
            for case in cases(operation):
                failed += await try_one(house, schemas, case)
                tried += 1
    assert not failed, "\n".join(failed)
    assert tried >= len(chosen) > 0


async def test_everything_has_an_example(rig: Any) -> None:
    """Every JSON body and every parameter; ``*/*`` is whatever one likes."""
    async with rig.http() as http:
        document = (await http.get("/openapi.json")).json()
    schemas = Schemas(document)
    missing = []
    for operation in operations(document):
        for one in operation.told.get("parameters", []):
            if "example" not in one:
                missing.append(f"{operation} {one['name']}")
            else:
                missing += [
                    f"{operation} {one['name']} {e}"
                    for e in schemas.errors(one["schema"], one["example"])
                ]
        for media, told in operation.bodies.items():
            if media == "*/*":
                continue
            if not examples(told):
                missing.append(f"{operation} {media}")
            for value in examples(told):
                missing += [
                    f"{operation} {media} {e}" for e in schemas.errors(told["schema"], value)
                ]
        for status, response in operation.told["responses"].items():
            for media, told in response.get("content", {}).items():
                for value in examples(told):
                    missing += [
                        f"{operation} {status} {media} {e}"
                        for e in schemas.errors(told["schema"], value)
                    ]
    assert not missing, "\n".join(missing)
