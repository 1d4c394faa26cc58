"""Abilities of the upstreams, as ``GET /v1/capabilities`` tells them, for each version; and the
rights that it takes to see them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway import __version__
from tests.net.running import PATIENCE, Running, until

VERSIONS = ("0-8", "0-9", "0-9-1", "0-10", "1.0")
UPSTREAM = '[[upstreams]]\nname = "{}"\naddresses = ["amqp://127.0.0.1:{}"]\nversion = "{}"\n'
COMMON = {"confirms": True, "transactions": True, "declaring": True, "priorities": True,
          "streams": False}  # fmt: skip
APART = {
    "browsing": ("0-10", "1.0"),
    "draining": ("1.0",),
    "counting": ("0-8", "0-9", "0-9-1", "0-10"),
}


@pytest.fixture(scope="module")
def front(old: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("front")
    file = folder / "gateway.toml"
    upstreams = [UPSTREAM.format(f"by-{one}", old.port, one) for one in VERSIONS]
    file.write_text("".join(upstreams) + '[[facades]]\nvhost = "shop"\nupstream = "by-0-9-1"\n')
    with Running(folder, "--config", file) as running:
        yield running


def asked(running: Running, user: str = "guest", query: str = "?wait=60") -> httpx.Response:
    url = f"http://127.0.0.1:{running.http_port}/v1/capabilities{query}"
    return httpx.get(url, auth=(user, user), timeout=2 * PATIENCE)


def upstreams(running: Running, user: str = "guest", query: str = "?wait=60") -> dict[str, Any]:
    found = asked(running, user, query).raise_for_status().json()["upstreams"]
    return {one["name"]: one for one in found}


def put(running: Running, path: str, **body: Any) -> None:
    url = f"http://127.0.0.1:{running.http_port}/v1/admin/{path}"
    httpx.put(url, json=body, auth=("guest", "guest"), timeout=PATIENCE).raise_for_status()


def test_abilities_are_found_in_each_version(front: Running, old: Running) -> None:
    found = upstreams(front)
    assert list(found) == [f"by-{version}" for version in VERSIONS]
    for version in VERSIONS:
        one = found[f"by-{version}"]
        assert (one["state"], one["error"]) == ("found", "")
        assert one["version"] == version
        assert one["product"].startswith("amqp-gateway")
        assert one["product_version"] == __version__
        apart = {name: version in able for name, able in APART.items()}
        assert one["abilities"] == COMMON | apart, version
    assert found["by-0-9-1"]["vhosts"] == ["shop"]
    assert old.asked("/api/queues") == []


def test_findings_are_remembered(front: Running) -> None:
    first, again = upstreams(front), upstreams(front)
    times = [[one["probed_at"] for one in found.values()] for found in (first, again)]
    assert times[0] == times[1]


def test_a_user_sees_the_upstreams_of_its_virtual_hosts(front: Running) -> None:
    for user in ("ann", "bob", "eve"):
        put(front, f"users/{user}", password=user, tags=["monitoring"] if user == "eve" else [])
    put(front, "users/ann/permissions/shop", configure="", write="", read=".*")
    seen = upstreams(front, "ann")
    assert list(seen) == ["by-0-9-1"]
    assert seen["by-0-9-1"]["vhosts"] == ["shop"]
    assert upstreams(front, "bob") == {}
    assert len(upstreams(front, "eve")) == len(VERSIONS)
    assert asked(front, "nobody").status_code == 401
    assert asked(front, query="?wait=-1").status_code == 400
    assert asked(front, query="?waits=1").status_code in (400, 422)


def test_a_broker_that_is_away_or_another(tmp_path: Path) -> None:
    with Running(tmp_path / "old") as old:
        port = old.port
    file = tmp_path / "gateway.toml"
    file.write_text(UPSTREAM.format("old", port, "0-9-1") + '[[facades]]\nupstream = "old"\n')
    with Running(tmp_path / "front", "--config", file) as front:
        assert upstreams(front, query="?wait=0")["old"]["state"] == "probing"
        put(front, "users/ann", password="ann", tags=[])
        put(front, "users/ann/permissions/%2F", configure="", write="", read="")
        one = upstreams(front)["old"]
        assert (one["state"], one["abilities"]) == ("failed", None)
        assert "refused" in one["error"]
        assert upstreams(front, "ann")["old"]["error"] == ""
        at = one["probed_at"]
        assert upstreams(front)["old"]["probed_at"] == at, "it was asked again at once"
        with Running(tmp_path / "old", "--amqp-port", port):
            until(lambda: upstreams(front)["old"]["state"] == "found", "the broker was probed")
            assert upstreams(front)["old"]["abilities"]["confirms"] is True
