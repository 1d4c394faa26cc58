"""Unmodified clients of AMQP 0-8, 0-9 and 0-9-1: each does its checks, we look at what it saw.

A client program runs once per session; every check it made is a test of its own here.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.interop import peers
from tests.interop.servers import Server, end_group, greets

Run = dict[str, dict[str, Any]]


@pytest.fixture(scope="session")
def programs(
    target: Server, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[peers.Peer], Run]:
    """Run a peer's program against the target, at most once."""
    done: dict[str, Run] = {}

    def run(peer: peers.Peer) -> Run:
        if peer.name not in done:
            if not greets(target.port):
                pytest.fail(
                    f"{target.name} answers nobody any more:\n{target.tail()}", pytrace=False
                )
            done[peer.name] = _run(peer, target, tmp_path_factory)
        return done[peer.name]

    return run


def _run(peer: peers.Peer, target: Server, folders: pytest.TempPathFactory) -> Run:
    scratch = folders.mktemp(peer.name)
    command = [*peer.command(), target.host, str(target.port)]
    outlet, errors = scratch / "stdout", scratch / "stderr"
    ending = "ended"
    with outlet.open("wb") as out, errors.open("wb") as err:
        process = subprocess.Popen(
            command,
            cwd=scratch,
            env=peer.variables(scratch),
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            ending = f"exit status {process.wait(peer.seconds)}"
        except subprocess.TimeoutExpired:
            ending = f"stopped after {peer.seconds:.0f} s"
        finally:
            end_group(process)
    seen: Run = {}
    for line in outlet.read_text(errors="replace").splitlines():
        if line.startswith("{"):
            found = json.loads(line)
            seen[found["check"]] = found
    tail = errors.read_text(errors="replace")[-2000:]
    seen[""] = {"error": f"the program said nothing about it ({ending}); its last words: {tail}"}
    return seen


CASES = [
    pytest.param(peer, check, id=f"{peer.name}-{check}")
    for peer in peers.ALL
    for check in peer.checks
]


@pytest.mark.interop
@pytest.mark.timeout(400)  # the first of a program waits for all of it
@pytest.mark.parametrize(("peer", "check"), CASES)
def test_client(peer: peers.Peer, check: str, programs: Callable[[peers.Peer], Run]) -> None:
    if reason := peer.missing():
        pytest.skip(reason)
    run = programs(peer)
    saw = run.get(check, run[""])
    if "got" not in saw:
        pytest.fail(f"{peer.name}, {check}: {saw['error']}\n{saw.get('where', '')}", pytrace=False)
    assert saw["got"] == peer.checks[check]
