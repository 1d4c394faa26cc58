"""What a start loads, and in which state it leaves the garbage collector."""

import asyncio
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from gateway.app import Gateway
from gateway.config import read_settings
from gateway.errors import ConfigError
from gateway.store.sqlite import SqliteStore
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


def test_a_start_that_fails_closes_the_store_when_it_has_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first user is written by the store's thread while the ports are opened."""
    writing, closed_within = threading.Event(), []
    write, close = SqliteStore.write, SqliteStore.close

    def slow(self: SqliteStore, batch: Any) -> None:
        writing.set()
        threading.Event().wait(0.2)
        write(self, batch)
        writing.clear()

    def noted(self: SqliteStore) -> None:
        closed_within.append(writing.is_set())
        close(self)

    monkeypatch.setattr(SqliteStore, "write", slow)
    monkeypatch.setattr(SqliteStore, "close", noted)

    async def start(port: int) -> None:
        amqp, http = {"port": port}, {"port": 0}
        settings = read_settings(None, data_dir=tmp_path / "data", amqp=amqp, http=http)
        async with Gateway(settings):
            pass

    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError):
        asyncio.run(start(taken.getsockname()[1]))
    assert closed_within == [False]


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
