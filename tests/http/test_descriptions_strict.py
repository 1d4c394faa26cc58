"""A member of a JSON request that nobody knows is refused by name, and nothing is done."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.http.description_house import Case, House, house_gateway, open_house, request_of
from tests.http.description_words import PROBLEM, examples, media_type, operations
from tests.interop import servers

STRANGE = "durabel"
FREE = ("application/cloudevents", "application/json-seq")
"""Media types of others, who say that strange members are extensions."""


def strict(case: Case) -> bool:
    """Whether the members of the body are ours."""
    path, tag = case.operation.path, case.operation.told["tags"][0]
    if not isinstance(case.body, dict | list) or case.media.startswith(FREE):
        return False
    if case.media == "application/json" and (tag == "messages" or path.endswith("/requests")):
        return False  # the message itself
    # RabbitMQ's shapes have members that mean nothing here.
    return tag != "RabbitMQ" and not path.endswith("/definitions")


def misspelt(body: Any) -> Iterator[tuple[Any, str]]:
    """The body with one member more, at each place where there may be one; with its pointer."""
    if isinstance(body, list):
        yield [{**body[0], STRANGE: True}], f"/0/{STRANGE}"
        return
    yield {**body, STRANGE: True}, f"/{STRANGE}"
    for name in ("messages", "filter"):
        inner = body.get(name)
        if isinstance(inner, list):
            yield {**body, name: [{**inner[0], STRANGE: True}]}, f"/{STRANGE}"
        elif isinstance(inner, dict):
            yield {**body, name: {**inner, STRANGE: True}}, f"/{name}/{STRANGE}"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    with house_gateway(tmp_path_factory.mktemp("strict")) as server:
        yield server


async def refused(house: House, case: Case, body: Any, pointer: str) -> str:
    """What is wrong with the refusal."""
    await house.furnish(case.operation.path)
    asked = await request_of(house, case._replace(body=body))
    answer = await house.http.request(
        asked.method, asked.url, headers=asked.headers, content=asked.content
    )
    await house.stack.aclose()
    return wrong(answer, pointer)


def wrong(answer: httpx.Response, pointer: str) -> str:
    if answer.status_code != 422 or media_type(answer) != PROBLEM:
        return f"{answer.status_code} {answer.text[:300]}"
    document = answer.json()
    if "results" in document:
        document = document["results"][0]["problem"]
    found = [one["pointer"] for one in document.get("errors", [])]
    return (
        "" if found == [pointer] else f"points at {found}, not at {pointer}: {json.dumps(document)}"
    )


async def test_strange_members_are_refused(gateway: servers.Server) -> None:
    failed, tried = [], 0
    async with open_house(gateway) as (house, document):
        for operation in operations(document):
            bodies = operation.bodies.items()
            for media, example in [(name, one) for name, told in bodies for one in examples(told)]:
                case = Case(operation, media, example, None)
                if not strict(case):
                    continue
                for body, pointer in misspelt(case.body):
                    tried += 1
                    text = await refused(house, case, body, pointer)
                    failed += [f"{case}: {text}"] if text else []
    assert not failed, "\n".join(failed)
    assert tried > 20
