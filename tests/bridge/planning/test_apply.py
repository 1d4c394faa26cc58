"""``bridge apply`` makes the nodes of a plan at the management of a broker."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gateway.migration_commands.group import bridge
from tests.net.running import Running

DEFINITIONS = {
    "vhosts": [{"name": "/"}],
    "queues": [
        {"name": "planned", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    ],
}


def applied(plan: Path, to: str) -> Result:
    return CliRunner().invoke(bridge, ["apply", "--plan", str(plan), "--to", to])


def test_definitions_are_posted(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(DEFINITIONS))
    with Running(tmp_path / "broker") as broker:
        found = applied(plan, f"http://127.0.0.1:{broker.http_port}")
        assert (found.exit_code, found.output) == (0, "1 requests, 0 refused\n")
        assert "planned" in broker.queues()


class Management(BaseHTTPRequestHandler):
    """Refuses everything below ``/no``."""

    asked: list[tuple[str, str, object]] = []

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append((self.path, self.headers["authorization"], body))
        self.send_response(409 if self.path.startswith("/no") else 201)
        self.send_header("content-length", "4")
        self.end_headers()
        self.wfile.write(b"said")

    def log_message(self, *_: object) -> None:
        """Nothing on standard error."""


def test_each_request_is_sent(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    paths = ("/api/latest/queue/a", "/no/b", "/api/latest/queue/c")
    plan.write_text(json.dumps([{"method": "PUT", "path": p, "body": {"p": p}} for p in paths]))
    with HTTPServer(("127.0.0.1", 0), Management) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            found = applied(plan, f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()
    assert found.exit_code == 1
    assert "PUT /no/b: 409 said" in found.output and "3 requests, 1 refused" in found.output
    assert [(path, body) for path, _, body in Management.asked] == [(p, {"p": p}) for p in paths]
    assert Management.asked[0][1].startswith("Basic ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<addresses/>", "broker.xml"),
        ("nothing", "Expecting value"),
        ('[{"path": "/"}]', "this is no plan"),
        ("[1]", "this is no plan"),
        ("7", "this is no plan"),
    ],
)
def test_what_is_no_plan(tmp_path: Path, text: str, said: str) -> None:
    plan = tmp_path / "plan"
    plan.write_text(text)
    found = applied(plan, "http://127.0.0.1:1")
    assert found.exit_code == 2 and said in found.output


def test_nobody_is_there(tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    plan.write_text(json.dumps(DEFINITIONS))
    assert applied(plan, "http://127.0.0.1:1").exit_code == 2
    assert applied(plan, "http://").exit_code == 2
    assert applied(tmp_path / "none", "http://127.0.0.1:1").exit_code == 2
