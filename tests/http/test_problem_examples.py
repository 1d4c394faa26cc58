"""The examples on the pages of problems, as commands: they lead to the problem, and out of it."""

import shlex
from typing import Any

import httpx
import pytest

from gateway.http.admin.problem_examples import ADVICE, GATEWAY, Advice
from gateway.http.admin.problem_pages import all_rows

TRIED = {kind: advice for kind, advice in ADVICE.items() if advice.wrong}


async def curl(http: httpx.AsyncClient, command: str) -> httpx.Response:
    """Perform a command with the few options of curl that examples have."""
    program, *words = shlex.split(command)
    assert program == "curl"
    method, url, body, user = "", "", None, ""
    headers: dict[str, str] = {}
    given = iter(words)
    for word in given:
        if word == "-X":
            method = next(given)
        elif word == "-u":
            user = next(given)
        elif word == "-d":
            body = next(given)
            headers.setdefault("Content-Type", "application/x-www-form-urlencoded")
        elif word == "-H":
            name, _, value = next(given).partition(": ")
            headers[name] = value
        else:
            assert word.startswith(GATEWAY) and not url, word
            url = word.removeprefix(GATEWAY)
    method = method or ("GET" if body is None else "POST")
    name, _, password = user.partition(":")
    return await http.request(method, url, content=body, headers=headers, auth=(name, password))


def as_alice(advice: Advice) -> Advice:
    """The user of the test's gateway instead of guest."""
    wrong, mended = (
        tuple(
            line.replace("guest:guest", "alice:wonder")
            .replace("guest:gest", "alice:gest")
            .replace('Amqp-User-Id: "alice"', 'Amqp-User-Id: "mallory"')
            .replace('Amqp-User-Id: "guest"', 'Amqp-User-Id: "alice"')
            for line in lines
        )
        for lines in (advice.wrong, advice.mended)
    )
    return advice._replace(wrong=wrong, mended=mended)


@pytest.mark.parametrize("kind", sorted(TRIED))
async def test_an_example(rig: Any, kind: str) -> None:
    advice = as_alice(TRIED[kind])
    rig.queue("orders", durable=True)
    rig.broker.access.set_tags("alice", ["administrator"])
    async with rig.http(None) as http:
        *before, wrong = [await curl(http, line) for line in advice.wrong]
        assert all(answer.is_success for answer in before), [answer.text for answer in before]
        assert wrong.json()["type"] == f"/problems/{kind}", wrong.text
        for line in advice.mended:
            answer = await curl(http, line)
            assert answer.is_success, (line, answer.text)


def test_every_problem_has_a_fix_and_an_example() -> None:
    assert {row.kind for row in all_rows()} == ADVICE.keys()
    for kind, advice in ADVICE.items():
        assert advice.fix and (advice.wrong or advice.shown), kind


async def test_pages_have_both(rig: Any) -> None:
    async with rig.http(None) as http:
        page = (await http.get("/problems/idempotency-key")).text
    assert "<h2>Fix</h2>" in page and "double quotes" in page
    assert "-H &#x27;Idempotency-Key: &quot;order-42&quot;&#x27;" in page
