"""HTTP, leases, event streams and the administration before an upstream."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.bridge.test_facade import depth, facade
from tests.http.test_replay import message
from tests.net.running import PATIENCE, Running, until

AUTH = ("guest", "guest")


@pytest.fixture(scope="module")
def front(old: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with facade(tmp_path_factory.mktemp("front"), old.port) as running:
        yield running


def call(running: Running, method: str, path: str, **more: Any) -> httpx.Response:
    url = f"http://127.0.0.1:{running.http_port}{path}"
    if "content" in more:
        more["headers"] = {"content-type": "text/plain"}
    return httpx.request(method, url, auth=AUTH, timeout=PATIENCE, **more)


def made(running: Running, queue: str) -> str:
    answer = call(running, "PUT", f"/api/queues/%2F/{queue}", json={"durable": True})
    assert answer.status_code in (201, 204), answer.text
    return f"/v1/%2F/queues/{queue}"


def test_publish_receive_and_settle(front: Running, old: Running) -> None:
    made(old, "plain")
    path = "/v1/%2F/queues/plain"  # which the facade has not heard of
    for n in range(3):
        answer = call(front, "POST", path + "/messages", content=f"body {n}")
        assert answer.status_code == 201, answer.text
    assert depth(old, "plain") == 3
    received = call(front, "POST", path + "/deliveries", json={"max": 1}).json()
    assert bodies(received) == ["body 0"]
    token = received["deliveries"][0]["token"]
    assert unsettled(old, "plain") == 1
    settled = call(front, "DELETE", f"/v1/%2F/deliveries/{token}")
    assert settled.status_code < 300, settled.text
    until(lambda: unsettled(old, "plain") == 0, "settlement")
    rest = call(front, "POST", path + "/deliveries", json={"max": 5, "mode": "auto"}).json()
    assert bodies(rest)[0] == "body 1"


def bodies(received: Any) -> list[str]:
    return [one["message"]["body"]["text"] for one in received["deliveries"]]


def unsettled(running: Running, queue: str) -> int:
    found = {one["name"]: one for one in running.asked("/api/queues")}
    return int(found[queue]["messages_unacknowledged"])


def test_a_receive_waits(front: Running, old: Running) -> None:
    path = made(front, "waited")
    assert call(front, "POST", path + "/deliveries", json={}).status_code == 204
    with front_client(front) as client:
        asked = {"wait_ms": 5000, "mode": "auto"}
        request = client.build_request("POST", path + "/deliveries", json=asked)
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(client.send(request, auth=AUTH)))
        thread.start()
        until(
            lambda: [q for q in old.asked("/api/consumers") if q["queue"]["name"] == "waited"],
            "consumer",
        )
        call(old, "POST", path + "/messages", content="now")
        thread.join(PATIENCE)
    assert bodies(found[0].json()) == ["now"]


@pytest.mark.parametrize("outcome", ["accept", "reject"])
def test_a_lease_of_a_message_that_was_waited_for(
    outcome: str, front: Running, old: Running
) -> None:
    """The consumer that waited is gone, and its delivery is leased."""
    queue, dead = f"leased-{outcome}", f"dead-{outcome}"
    made(old, dead)
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    body = {"durable": True, "arguments": letters}
    assert call(old, "PUT", f"/api/queues/%2F/{queue}", json=body).status_code == 201
    path = f"/v1/%2F/queues/{queue}"
    found: list[Any] = []
    asked = {"wait_ms": 30_000}
    waiter = threading.Thread(
        target=lambda: found.append(call(front, "POST", path + "/deliveries", json=asked))
    )
    waiter.start()
    until(lambda: queue in {q["queue"]["name"] for q in old.asked("/api/consumers")}, "consumer")
    call(old, "POST", path + "/messages", content="now")
    waiter.join(PATIENCE)
    assert found[0].status_code == 200, found[0].text
    assert bodies(found[0].json()) == ["now"]
    lease = f"/v1/%2F/deliveries/{found[0].json()['deliveries'][0]['token']}"
    if outcome == "accept":
        settled = call(front, "DELETE", lease)
    else:
        settled = call(front, "POST", lease + "/reject", json={})
    assert settled.status_code < 300, settled.text
    until(lambda: unsettled(old, queue) == 0, "settlement")
    assert depth(old, queue) == 0
    until(lambda: depth(old, dead) == (outcome == "reject"), "dead letter")


def test_a_receive_holds_no_more_than_it_answers_with(front: Running, old: Running) -> None:
    path = made(old, "held")
    for n in range(4):
        call(old, "POST", path + "/messages", content=f"body {n}")
    seen: list[str] = []
    while len(seen) < 4:
        received = call(front, "POST", path + "/deliveries", json={"max": 3}).json()
        seen += bodies(received)
        assert unsettled(old, "held") == len(seen)
    assert seen == [f"body {n}" for n in range(4)]


def front_client(front: Running) -> httpx.Client:
    return httpx.Client(base_url=f"http://127.0.0.1:{front.http_port}", timeout=PATIENCE)


@pytest.mark.parametrize(
    ("method", "path", "more", "status"),
    [
        ("POST", "/v1/%2F/queues/missing/messages", {"content": "x"}, 404),
        ("POST", "/v1/%2F/exchanges/missing/messages", {"content": "x"}, 404),
        ("POST", "/v1/%2F/queues/missing/deliveries", {"json": {}}, 404),
        ("GET", "/v1/%2F/queues/missing/events", {}, 404),
        ("GET", "/api/queues/%2F/missing", {}, 404),
        ("GET", "/v1/%2F/queues/there/messages", {}, 501),
    ],
)
def test_refusals(
    front: Running, old: Running, method: str, path: str, more: dict[str, Any], status: int
) -> None:
    made(old, "there")
    answer = call(front, method, path, **more)
    assert answer.status_code == status, answer.text


def test_administration_is_that_of_the_upstream(front: Running, old: Running) -> None:
    assert call(front, "PUT", "/api/exchanges/%2F/news", json={"type": "topic"}).status_code == 201
    made(front, "readers")
    bound = call(front, "POST", "/api/bindings/%2F/e/news/q/readers", json={"routing_key": "a.#"})
    assert bound.status_code == 201, bound.text
    answer = call(front, "POST", "/v1/%2F/exchanges/news/messages?routing_key=a.b", content="hello")
    assert answer.status_code == 201, answer.text
    assert depth(old, "readers") == 1
    missed = call(front, "POST", "/v1/%2F/exchanges/news/messages?routing_key=b", content="hello")
    assert missed.status_code == 409, missed.text
    assert call(front, "DELETE", "/api/queues/%2F/readers").status_code == 204
    assert depth(old, "readers") == -1


@pytest.mark.parametrize("source", ["queues/streamed", "exchanges/amq.fanout"])
def test_an_event_stream(front: Running, old: Running, source: str) -> None:
    made(old, "streamed")
    with front_client(front) as client:
        path = f"/v1/%2F/{source}/events"
        fields = {"accept": "text/event-stream"}
        with client.stream("GET", path, auth=AUTH, headers=fields) as stream:
            lines = stream.iter_lines()
            assert "gateway.open" in next(one for one in lines if one.startswith("event:"))
            answer = call(front, "POST", f"/v1/%2F/{source}/messages", content="seen")
            assert answer.status_code == 201, answer.text
            for line in lines:
                if line.startswith("data:") and '"seen"' in line:
                    assert json.loads(line[5:])["body"] == {"text": "seen"}
                    break


def test_a_replay_into_the_upstream(old: Running, tmp_path: Path) -> None:
    """Each message once, with keys that are saved when the upstream has confirmed."""
    path = "/v1/%2F/replays/again/messages"
    given = {"messages": [message(0, "again"), message(1, "nowhere"), message(2, "again")]}
    with facade(tmp_path, old.port) as front:
        made(old, "again")
        dry = call(front, "POST", f"{path}?dry_run=true", json=given).json()
        assert [one["index"] for one in dry["rejected"]] == [1]
        assert depth(old, "again") == 0
        first = call(front, "POST", path, json=given).json()
        assert (first["attempted"], first["published"]) == (3, 2)
        assert [one["index"] for one in first["rejected"]] == [1]
        front.kill()
        front.start()
        again = call(front, "POST", path, json=given).json()
        assert (again["published"], again["duplicates"]) == (0, [0, 2])
    assert depth(old, "again") == 2
