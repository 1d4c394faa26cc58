"""Clients that tools make of ``/openapi.json`` work: openapi-python-client, and openapi-typescript
with openapi-fetch. They are made anew for each run."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.interop.servers import INSTALL, PEERS, ROOT, Server

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

CLIENTS = Path(__file__).parent / "clients"
MODULES = PEERS / "npm" / "node_modules"
TOOLS = ("openapi-typescript", "openapi-fetch", "typescript")
LEFT_OUT = (
    # Forms of bodies that it has no code for; the last are batches of CloudEvents.
    "Unsupported content type multipart/mixed",
    "Unsupported content type application/vnd.amqp-gateway.messages+ndjson",
    "Unsupported content type */*",
    "Cannot take allOf a non-object",
    # The reply to a request, which is of any type.
    "Cannot parse response for status code",
)
"""How the lines begin in which openapi-python-client says what it has left out."""


def run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout + done.stderr


def base(gateway: Server) -> str:
    return f"http://{gateway.host}:{gateway.http_port}"


@pytest.fixture
def described(gateway: Server, tmp_path: Path) -> Path:
    """A folder with the description."""
    answer = httpx.get(f"{base(gateway)}/openapi.json", timeout=60, trust_env=False)
    (tmp_path / "openapi.json").write_bytes(answer.content)
    return tmp_path


def test_openapi_python_client(gateway: Server, described: Path) -> None:
    if importlib.util.find_spec("openapi_python_client") is None:
        pytest.skip(f"openapi-python-client is not installed; {INSTALL}")
    (described / "settings.yml").write_text("post_hooks: []\n")
    said = run(
        sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json",
        "--config", "settings.yml", "--meta", "none", "--output-path", "gateway_http",
        folder=described,
    )  # fmt: skip
    assert "will not be generated" not in said, said
    told = [one for one in said.splitlines() if one.startswith(("Unsupported", "Cannot", "Unable"))]
    assert len(told) == said.count("WARNING parsing"), said
    assert [one for one in told if not one.startswith(LEFT_OUT)] == []
    shutil.copy(CLIENTS / "generated.py", described)
    said = run(sys.executable, "generated.py", base(gateway), "generated.py", folder=described)
    assert said.endswith("good\n")


def test_openapi_typescript(gateway: Server, described: Path) -> None:
    if shutil.which("node") is None or not all((MODULES / name).exists() for name in TOOLS):
        pytest.skip(f"node or one of {', '.join(TOOLS)} is not installed; {INSTALL}")
    (described / "node_modules").symlink_to(MODULES)
    (described / "package.json").write_text('{"type": "module"}')
    for name in ("generated.ts", "generated_wrong.ts", "same_types.ts"):
        shutil.copy(CLIENTS / name, described)
    shutil.copy(ROOT / "gateway/http/client/answers.d.ts", described)
    modules = described / "node_modules"
    run(
        "node", modules / "openapi-typescript/bin/cli.js", "openapi.json", "-o", "api.d.ts",
        folder=described,
    )  # fmt: skip
    run(
        "node", modules / "typescript/bin/tsc", "--strict", "--module", "nodenext", "--target",
        "es2022", "--lib", "es2022,dom", "--skipLibCheck", "generated.ts", "generated_wrong.ts",
        "same_types.ts", folder=described,
    )  # fmt: skip
    said = run("node", "generated.js", base(gateway), "generated.ts", folder=described)
    assert said == "good\n"
