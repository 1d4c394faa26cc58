"""Descriptions, pages and scripts: validators, compression, and no request that waits for them."""

import asyncio
import gzip
import json
import threading
from typing import Any

import pytest

from gateway.http import api
from gateway.http.admin import asyncapi

PATHS = (
    "/openapi.json",
    "/asyncapi.json",
    "/docs",
    "/docs/swagger-ui-bundle.js",
    "/",
    "/console/main.js",
    "/client/gateway.js",
)
PLAIN = {"accept-encoding": "identity"}
ZIPPED = {"accept-encoding": "br, gzip;q=0.5"}


@pytest.mark.parametrize("path", PATHS)
async def test_what_a_reader_has_is_not_sent_again(rig: Any, path: str) -> None:
    async with rig.http() as http:
        plain, zipped = [await http.get(path, headers=one) for one in (PLAIN, ZIPPED)]
        assert "content-encoding" not in plain.headers
        assert zipped.headers["content-encoding"] == "gzip"
        assert zipped.content == plain.content  # httpx has decoded it
        assert 2 * int(zipped.headers["content-length"]) < int(plain.headers["content-length"])
        assert plain.headers["etag"] != zipped.headers["etag"]
        for asked, answer in ((PLAIN, plain), (ZIPPED, zipped)):
            assert "no-cache" in answer.headers["cache-control"]
            assert "accept-encoding" in answer.headers["vary"].lower()
            tag = answer.headers["etag"]
            assert tag.startswith('"')
            for told in (tag, f'W/"x", W/{tag}', "*"):
                again = await http.get(path, headers=asked | {"if-none-match": told})
                assert (again.status_code, again.content) == (304, b"")
                assert again.headers["etag"] == tag
                assert again.headers["cache-control"] == answer.headers["cache-control"]
            other = await http.get(path, headers=asked | {"if-none-match": '"other"'})
            assert other.status_code == 200


@pytest.mark.parametrize(
    ("given", "zipped"),
    [
        ("gzip", True),
        ("*", True),
        ("br, GZIP ; q=0.001", True),
        ("", False),
        ("br", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000, *", False),
        ("*;q=0", False),
        ("gzip;q=nonsense", True),
    ],
)
async def test_a_coding_is_used_if_it_is_accepted(rig: Any, given: str, zipped: bool) -> None:
    async with rig.http(None) as http:
        answer = await http.get("/client/gateway.js", headers={"accept-encoding": given})
        assert ("content-encoding" in answer.headers) is zipped


async def test_others_are_answered_while_the_description_is_made(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made once, whoever asks for it at the same time."""
    made: list[int] = []
    go_on = threading.Event()
    describe = api.describe

    def slow(of: Any) -> dict[str, Any]:
        made.append(1)
        assert go_on.wait(20)
        return describe(of)

    monkeypatch.setattr(api, "describe", slow)
    async with rig.http() as http:
        first = [asyncio.create_task(http.get("/openapi.json")) for _ in range(3)]
        try:
            await rig.until(lambda: made)
            first[0].cancel()
            assert (await http.get("/livez")).status_code == 200
        finally:
            go_on.set()
        for answer in await asyncio.gather(*first[1:]):
            assert answer.json()["openapi"].startswith("3.1")
    assert made == [1]


async def test_a_tag_is_of_the_content(rig: Any) -> None:
    """Each caller has another document of channels, which changes with them."""
    async with rig.http() as http:
        before = (await http.get("/asyncapi.json")).headers["etag"]
        assert (await http.get("/asyncapi.json")).headers["etag"] == before
        rig.queue("new")
        after = await http.get("/asyncapi.json", headers={"if-none-match": before})
        assert after.status_code == 200 and after.headers["etag"] != before
        assert "private" in after.headers["cache-control"]


async def test_a_large_document_of_channels_is_sent_while_it_is_made(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        rig.queue(f"q{number}")
    async with rig.http() as http:
        whole = (await http.get("/asyncapi.json")).json()
        monkeypatch.setattr(asyncapi, "LARGEST_KEPT", 1000)
        answer = await http.get("/asyncapi.json")
        assert "etag" not in answer.headers
        assert answer.json() == whole


async def test_the_description_is_small(rig: Any) -> None:
    """Nothing that many operations share is written twice."""
    async with rig.http(None) as http:
        answer = await http.get("/openapi.json")
    told = answer.json()
    assert len(json.dumps(told, separators=(",", ":"))) < 450_000
    assert len(gzip.compress(answer.content)) < 60_000
    seen: set[str] = set()
    for methods in told["paths"].values():
        for operation in methods.values():
            for part in (*operation.get("parameters", ()), *operation["responses"].values()):
                text = json.dumps(part, sort_keys=True)
                if "$ref" not in part and len(text) >= 100:
                    assert text not in seen
                    seen.add(text)
