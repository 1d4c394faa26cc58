"""What a start loads, and in which state it leaves the garbage collector."""

import subprocess
import sys
from pathlib import Path

from tests.net.preloaded import ROOT

STARTED = """
import asyncio, gc, sys
from gateway import event_loop

async def at_once(self):
    from fastapi.openapi.models import OpenAPI
    print(
        gc.isenabled(),
        gc.get_freeze_count() > 10_000,
        OpenAPI.__pydantic_complete__,
        *sys.modules,
        file=sys.stderr,
    )

run = event_loop.run

def run_and_stop(work):
    from gateway import app
    load = app.Gateway.load

    async def load_later(self):
        print("listening", *sys.modules, file=sys.stderr)
        await load(self)

    app.Gateway.load = load_later
    app.Gateway.stopped = at_once
    run(work)

event_loop.run = run_and_stop
from gateway.__main__ import cli
cli(sys.argv[1:], standalone_mode=False)
"""


def test_a_start_leaves_for_later_what_is_needed_later(tmp_path: Path) -> None:
    words = ["serve", "--amqp-port", "0", "--http-port", "0", "--data-dir", str(tmp_path / "data")]
    done = subprocess.run(
        [sys.executable, "-c", STARTED, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    (line,) = (one for one in lines if one.startswith("listening "))
    assert not {"fastapi", "prometheus_client", "scramp", "websockets"} & set(line.split())
    (line,) = (one for one in lines if one.startswith(("True ", "False ")))
    collecting, frozen, described, *loaded = line.split()
    assert (collecting, frozen, described) == ("True", "True", "False")
    assert {"gateway.journal.segments", "fastapi", "scramp", "websockets"} <= set(loaded)
    assert not {"pyarrow", "numpy", "opentelemetry.sdk"} & set(loaded)


def test_only_fastapis_models_are_built_later() -> None:
    code = """
from gateway.http.load_fastapi import load_fastapi
load_fastapi()
from pydantic import BaseModel
from fastapi.openapi.models import OpenAPI
class Own(BaseModel):
    number: int
assert Own.__pydantic_complete__ and not BaseModel.model_config, BaseModel.model_config
assert OpenAPI(openapi="3.1.0", info={"title": "t", "version": "1"}, paths={}).info.title == "t"
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
