"""The journals of durable event sources are addresses of the one journal."""

from pathlib import Path

import httpx

from gateway.journal.entries import ALL, Entry
from gateway.journal.tail import Tail
from tests.net.running import PATIENCE, Running, until

SOURCE = "/v1/%2F/exchanges/amq.topic/events?binding=k.%23&journal=durable"
LOGIN = ("guest", "guest")


def of_source(data: Path) -> list[Entry]:
    tail = Tail(data)
    try:
        question = ALL._replace(wanted=lambda vhost, address: "?binding=" in address)
        return tail.read(0, question).entries
    finally:
        tail.close()


def test_a_durable_source_is_an_address(tmp_path: Path) -> None:
    with Running(tmp_path) as gateway:
        base = f"http://127.0.0.1:{gateway.http_port}"
        with httpx.stream("GET", base + SOURCE, auth=LOGIN, timeout=PATIENCE) as stream:
            assert stream.status_code == 200
            for number in range(3):
                url = f"{base}/v1/%2F/exchanges/amq.topic/messages"
                answer = httpx.post(
                    url,
                    params={"routing_key": "k.x"},
                    content=b"%d" % number,
                    auth=LOGIN,
                    timeout=PATIENCE,
                )
                assert answer.status_code == 201, answer.text
        until(lambda: len(of_source(gateway.data)) == 3, "entries")
        gateway.kill()
        found = of_source(gateway.data)
        assert [one.pos for one in found] == [0, 1, 2]
        assert [one.offset for one in found] == [1, 2, 3]
        assert {one.address for one in found} == {"/exchanges/amq.topic?binding=k.%23"}
        assert [one.message.body for one in found] == [b"0", b"1", b"2"]
        gateway.start()
