"""SIGHUP: settings are read again, what can change does, and connections that are open stay."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.adapters.methods.wire import layouts as w
from tests.app.test_cli import run
from tests.net.running import PATIENCE, Running, until
from tests.net.test_settings import attached
from tests.net.wire import PERSISTENT, Gone, Wire

QUEUE = "/v1/%2F/queues/orders/messages"
PAGE = "https://app.example"
SECRET = b"a shared secret that is long enough!"


class Reloaded:
    """A gateway with a file of settings; ``reload`` writes another one and waits until it was
    read."""

    def __init__(self, folder: Path, text: str = "") -> None:
        self.file = folder / "gateway.toml"
        self.file.write_text(text)
        self.gateway = Running(folder, "--config", self.file)

    def reload(self, text: str) -> Any:
        """The gateway's report of the reload."""
        before = self.told()["at"]
        self.file.write_text(text)
        os.kill(self.gateway.process.pid, signal.SIGHUP)
        until(lambda: self.told()["at"] > before, "a reload")
        return self.told()

    def told(self) -> Any:
        return self.gateway.asked("/v1/admin/overview")["settings"]

    def metric(self, name: str) -> float:
        lines = self.http("GET", "/metrics").text.splitlines()
        return float(
            next(one for one in lines if one.startswith(f"amqp_gateway_{name} ")).split()[1]
        )

    def http(self, method: str, path: str, **more: Any) -> httpx.Response:
        url = f"http://127.0.0.1:{self.gateway.http_port}{path}"
        more.setdefault("auth", ("guest", "guest"))
        return httpx.request(method, url, timeout=PATIENCE, **more)

    def __enter__(self) -> "Reloaded":
        self.gateway.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.gateway.__exit__(*error)


@pytest.fixture
def rig(tmp_path: Path) -> Any:
    with Reloaded(tmp_path, "log_level = 'info'\n") as made:
        yield made


def test_amqp(rig: Reloaded) -> None:
    early = rig.gateway.wire(1)
    early.declare("orders")
    assert (early.tune.heartbeat, early.tune.channel_max) == (60, 2047)

    told = rig.reload(
        "[amqp]\nheartbeat_seconds = 7\nchannel_max = 3\nmax_message_octets = 10\n"
        "max_connections = 2\n"
    )
    assert told["error"] == ""
    assert "amqp.heartbeat_seconds" in told["changed"]

    late = rig.gateway.wire(1)
    assert (late.tune.heartbeat, late.tune.channel_max) == (7, 3)
    early.publish("orders", b"x" * 11)  # it has the limit that it began with
    assert until(lambda: early.got("orders"), "the message") == b"x" * 11
    with pytest.raises((Gone, ConnectionError)):
        Wire(rig.gateway.port).greeted()  # the third
    late.publish("orders", b"x" * 11)
    assert late.heard(w.ChannelClose).reply_code == 311
    assert early.depth("orders") == 0  # it is still there


def test_queues_by_link(rig: Reloaded) -> None:
    rig.reload("[amqp]\ncreate_queues = false\n")
    assert attached(rig.gateway.wire_1_0(), sends=True) == "amqp:not-found"
    rig.reload("")
    assert attached(rig.gateway.wire_1_0(), sends=True) is None
    assert rig.gateway.queues() == {"newcomer"}


def test_http(rig: Reloaded, tmp_path: Path) -> None:
    from joserfc import jwt
    from joserfc.jwk import OctKey

    (tmp_path / "secret").write_bytes(SECRET)
    claims = {"iss": "https://issuer.example", "aud": "gateway", "exp": time.time() + 600,
              "scope": "publish", "sub": "svc"}  # fmt: skip
    token = jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(SECRET), algorithms=["HS256"])
    bearer: Any = {"headers": {"authorization": f"Bearer {token}"}, "auth": None}
    preflight = {"origin": PAGE, "access-control-request-method": "POST"}
    rig.gateway.wire(1).declare("orders")

    def statuses() -> list[int]:
        return [
            rig.http("POST", QUEUE, content=b"x" * 2000).status_code,
            rig.http("OPTIONS", QUEUE, headers=preflight, auth=None).status_code,
            rig.http("POST", QUEUE, content=b"x", **bearer).status_code,
        ]

    before = statuses()
    assert before[0] == 201
    assert before[1] != 200 and before[1] != 204
    assert before[2] == 401
    rig.reload(
        f"[http]\nmax_body_octets = 1000\norigins = ['{PAGE}']\nlog_requests = true\n"
        "[http.bearer]\nissuer = 'https://issuer.example'\naudience = 'gateway'\n"
        f"secret_file = '{tmp_path / 'secret'}'\nuser = 'guest'\n"
    )
    assert rig.http("OPTIONS", QUEUE, headers=preflight, auth=None).is_success
    assert statuses()[0] == 413
    assert rig.http("POST", QUEUE, content=b"x", **bearer).status_code == 201
    assert "/v1/{vhost}/queues/{queue}/messages" in rig.gateway.log()
    schemes = rig.http("GET", "/openapi.json").json()["components"]["securitySchemes"]
    assert "https://issuer.example" in json.dumps(schemes)

    rig.reload("[http.quota]\nrequests = 3\nrequests_seconds = 3600\n")
    assert statuses()[1:] == before[1:]  # as it was
    many = [rig.http("POST", QUEUE, content=b"x").status_code for _ in range(5)]
    assert 429 in many


def test_failed_logins(rig: Reloaded) -> None:
    def wrong() -> int:
        return rig.http("GET", "/v1/admin/overview", auth=("nobody", "x")).status_code

    assert {wrong() for _ in range(5)} == {401}
    rig.reload("[http]\nfailures = 2\nfailure_seconds = 3600\n")
    assert 429 in {wrong() for _ in range(5)}


def test_resources_and_log(rig: Reloaded) -> None:
    assert rig.metric("blocked") == 0
    rig.reload("log_format = 'json'\nlog_level = 'debug'\n[limits]\nmemory_high = 0.000001\n")
    until(lambda: rig.metric("blocked") == 1, "the alarm")
    lines = [line for line in rig.gateway.log().splitlines() if line.startswith("{")]
    assert any("memory alarm" in json.loads(line)["message"] for line in lines)
    rig.reload("")
    until(lambda: rig.metric("blocked") == 0, "the end of the alarm")


def test_definitions_and_hosts(rig: Reloaded, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    queue = {"name": "made", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    file.write_text(json.dumps({"queues": [queue]}))
    text = f"definitions = '{file}'\nvhosts = ['/', 'more']\n"
    rig.reload(text)
    assert "made" in rig.gateway.queues()
    assert "more" in {one["name"] for one in rig.gateway.asked("/api/vhosts")}
    file.write_text(json.dumps({"queues": [queue, {**queue, "name": "another"}]}))
    assert rig.reload(text)["changed"] == []  # the file has
    assert {"made", "another"} <= rig.gateway.queues()
    file.write_text("{")
    assert str(file) in rig.reload(text)["error"]


@pytest.mark.extras
def test_journal(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="sealing needs the extra `journal` (pyarrow)")
    recording = "[[journal.recording]]\naddress = '*'\n"
    with Reloaded(tmp_path, recording) as rig:
        wire = rig.gateway.wire(1)
        wire.declare("orders", durable=True)
        wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
        for _ in range(3):
            wire.publish("orders", b"kept", PERSISTENT)
            wire.heard(w.BasicAck)
        segments = rig.gateway.data / "journal"
        assert list(segments.glob("*.parquet")) == []
        told = rig.reload(f"[journal]\nsegment_messages = 1\n{recording}")
        assert told["changed"] == ["journal.segment_messages"]
        until(lambda: list(segments.glob("*.parquet")), "a segment")


def test_a_wrong_file_changes_nothing(rig: Reloaded, tmp_path: Path) -> None:
    early = rig.gateway.wire(1)
    wrong = "[amqp]\nheartbeat_seconds = 7\nframe_maxx = 1\n[http]\nmax_body_octets = 0\n"
    told = rig.reload(wrong)
    assert told["changed"] == []
    checked = run("check", str(rig.file))
    for text in told["error"].split("; "):
        assert text.replace(" ", "") in "".join((checked.stdout + checked.stderr).split())
    lines = [one for one in rig.gateway.log().splitlines() if "cannot be used" in one]
    assert len(lines) == 1
    assert told["error"] in lines[0]
    assert (rig.metric("settings_reload_failures_total"), rig.metric("settings_reloads_total")) == (
        1,
        1,
    )
    assert rig.metric("settings_last_reload_successful") == 0
    assert rig.gateway.wire(1).tune.heartbeat == 60
    early.declare("orders")  # it goes on

    told = rig.reload("[amqp]\nheartbeat_seconds = 7\n")
    assert (told["error"], told["changed"]) == ("", ["amqp.heartbeat_seconds"])
    assert rig.metric("settings_last_reload_successful") == 1
    assert rig.metric("settings_last_reload_timestamp_seconds") == pytest.approx(told["at"])


def test_what_needs_a_restart(rig: Reloaded, tmp_path: Path) -> None:
    told = rig.reload(
        "[amqp]\nheartbeat_seconds = 7\n[admin]\nport = 0\n[crossing]\nmode = 'natural'\n"
        "[[upstreams]]\nname = 'old'\naddresses = ['amqp://127.0.0.1:1']\n"
    )
    assert told["needs_restart"] == ["admin.port", "crossing.mode", "upstreams"]
    assert told["changed"] == ["amqp.heartbeat_seconds"]
    (line,) = (one for one in rig.gateway.log().splitlines() if "needs a restart" in one)
    assert line.endswith("changed, needs a restart: admin.port, crossing.mode, upstreams")
    # They are still other than those in use.
    assert rig.reload(rig.file.read_text())["needs_restart"] == told["needs_restart"]


def test_options_of_the_command_line_win_as_before(rig: Reloaded) -> None:
    """The ports and the directory are options here, and other ones stand in the file."""
    told = rig.reload("data_dir = '/nowhere'\n[amqp]\nport = 1\n")
    assert told["needs_restart"] == []
