"""The JavaScript client of ``gateway/http/client``: in Node, against a gateway that is killed and
started again; its types, held by TypeScript's compiler; and the example page in a browser."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.interop.browser.words import until
from tests.interop.restarts import Restartable, Seen, checks, compare, running
from tests.interop.servers import HOST, INSTALL, PEERS, ROOT, Server, free_ports, start_gateway

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

PACKAGE = ROOT / "gateway" / "http" / "client"
PROGRAM = Path(__file__).parent / "clients" / "javascript_client.mjs"
TYPED = Path(__file__).parent / "clients" / "typed_use.mts"
EXAMPLE = ROOT / "examples" / "publish_and_follow.html"
COMPILER = PEERS / "npm" / "node_modules" / "typescript" / "bin" / "tsc"
STRICT = ("--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom,dom.iterable",
          "--strict", "--noUnusedLocals", "--noUnusedParameters", "--noImplicitReturns",
          "--typeRoots", "nowhere", "--allowJs", "--checkJs", "--declaration",
          "--emitDeclarationOnly", "--rootDir", str(ROOT))  # fmt: skip

SAID = ("hello", "Grüße & <b>bold</b>")
BODIES = [{"text": "text"}, {"base64": "AP8="}, {"json": {"n": 1}}, {"text": "raw"},
          {"text": "once"}]  # fmt: skip
WANTED: dict[str, Any] = {
    "declare": [True, "topic", True],
    "list": [["js.orders", "js/odd #1?"], ["js.shop"], "order.#", 0, {"x-max-length": 100},
             "topic", "guest"],
    "publish": ["accepted disk"] * 5,
    "publish with a key": [True, "accepted"],
    "browse": [5, 2, 3],
    "receive": [BODIES, "Grüße", {"$type": "ubyte", "value": 3}, "accepted", "renewed", True,
                [200, 200], 2, 3, "", 0],
    "batch": [3, 0, 1, [201, 404], "/problems/address-not-found", "address-not-found", 4],
    "problems": [
        [True] * 5,
        ["404 address-not-found refused", "422 schema not-sent", "401 unauthorized not-sent",
         "404 address-not-found refused"],
        "/durabel", True, True, True, True, "TimeoutError",
    ],
    "tokens": [401, 2],
    "follow": [[0, 1, 2, 3, 4, 5], ["fresh", "exact"], True],
    "follow again": [[0, 1, 2, 3, 4, 5], [2, 3, 4, 5]],
    "follow a queue": ["plain text", ["a", "b"]],
    "a stream with troubles": [
        [1, 2],
        [" Bearer old", "c1 Bearer old", "c1 Bearer old", "c1 Bearer old", "c1 Bearer new",
         "c1 Bearer new"],
        ["UnreachableError", "ProblemError", "ProblemError", "ProblemError", "UnreachableError"],
        "StreamClosedError: deleted",
    ],
    "repetitions": ["2 accepted", "1 outcome-unknown", "2 accepted", "1 UnreachableError",
                    "2 UnreachableError", "1 unroutable"],
    "delete": [2, "address-not-found"],
}  # fmt: skip


def needs_node() -> None:
    if shutil.which("node") is None:
        pytest.skip(f"Node is not installed; {INSTALL} (apt-get install nodejs)")


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    """A gateway that comes back on the same ports."""
    folder = tmp_path_factory.mktemp("mortal")

    def start(before: Server | None) -> Server:
        again = () if before is None else ("--http-port", str(before.http_port))
        return start_gateway(folder, port=before.port if before else None, extra=again)

    with running(start) as found:
        yield found


@pytest.fixture(scope="module")
def seen(mortal: Restartable, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    needs_node()
    here = f"http://{HOST}:{mortal.server.http_port}"
    nowhere = f"http://{HOST}:{free_ports(1)[0]}"
    command = ["node", str(PROGRAM), here, nowhere]
    return checks(command, mortal, tmp_path_factory.mktemp("node"))


@pytest.mark.parametrize("check", WANTED)
def test_in_node(seen: Seen, check: str) -> None:
    compare(seen, check, WANTED[check])


def test_its_types_hold_and_are_those_it_is_shipped_with(tmp_path: Path) -> None:
    """The types are written beside the code, and what TypeScript reads is made of them:
    ``tsc gateway/http/client/*.js --allowJs --declaration --emitDeclarationOnly``. A program in
    TypeScript has them."""
    needs_node()
    if not COMPILER.exists():
        pytest.skip(f"TypeScript is not installed; {INSTALL}")
    modules = [str(one) for one in sorted(PACKAGE.glob("*.js"))]
    done = subprocess.run(
        ["node", str(COMPILER), *modules, str(TYPED), *STRICT, "--outDir", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    made = {one.name: one.read_text() for one in (tmp_path / "gateway/http/client").iterdir()}
    assert made == {one.name: one.read_text() for one in PACKAGE.glob("*.d.ts")}


def test_a_page_publishes_and_follows(
    chrome: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``examples/publish_and_follow.html``, from an origin of its own, as CORS allows it."""
    text = EXAMPLE.read_text()
    assert text.count("http://127.0.0.1:8080") > 1
    with ThreadingHTTPServer((HOST, 0), Pages) as pages:
        origin = f"http://{HOST}:{pages.server_address[1]}"
        monkeypatch.setenv("AMQP_GATEWAY_HTTP__ORIGINS", f'["{origin}"]')
        server = start_gateway(tmp_path)
        here = f"http://{HOST}:{server.http_port}"
        Pages.octets = text.replace("http://127.0.0.1:8080", here).encode()
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        page = chrome.new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        try:
            page.goto(f"{origin}/")
            output, lines = page.locator("output"), page.locator("li")
            until(page, lambda: output.inner_text() == "fresh", "the stream is open")
            for number, said in enumerate(SAID, 1):
                page.get_by_label("Say").fill(said)
                page.get_by_role("button", name="Publish").click()
                until(page, lambda: lines.count() == number, said)  # noqa: B023
            assert tuple(lines.all_inner_texts()) == SAID
            assert not wrong
        finally:
            page.close()
            pages.shutdown()
            server.stop()


class Pages(BaseHTTPRequestHandler):
    """Gives the page at every address."""

    octets = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(self.octets)))
        self.end_headers()
        self.wfile.write(self.octets)

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""
