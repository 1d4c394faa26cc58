"""Shared by the client programs: run checks, print one JSON line for each.

A check is a function that does something with a client and returns what it saw, as plain JSON
values; the pytest side knows what should have been seen. Nothing here knows about AMQP.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import sys
import traceback
import uuid

LARGE = 1024 * 1024 + 17
MANY = 200
SECONDS = 90
"""For a check that is a coroutine."""


def address():
    """Host and port from the command line."""
    return sys.argv[1], int(sys.argv[2])


def unique(prefix="interop"):
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def large_body():
    block = bytes(range(256))
    return (block * (LARGE // 256 + 1))[:LARGE]


def same_large(body):
    digest = hashlib.sha256(large_body()).digest()
    return {"size": len(body), "same": hashlib.sha256(bytes(body)).digest() == digest}


def in_order(bodies):
    """What the `order` check reports: how many came, and whether as they were sent."""
    wanted = [str(number) for number in range(len(bodies))]
    return {"count": len(bodies), "in_order": bodies == wanted}


def done(check):
    """What the check saw."""
    seen = check()
    return asyncio.run(within(seen)) if inspect.iscoroutine(seen) else seen


async def within(seen):
    return await asyncio.wait_for(seen, SECONDS)


def report(name, check):
    try:
        line = {"check": name, "got": done(check)}
    except Exception as error:
        line = {"check": name, "error": repr(error), "where": traceback.format_exc()[-1500:]}
    print(json.dumps(line, default=str), flush=True)


def restart():
    """Ask for the server to be killed and started again, and wait until it is."""
    print(json.dumps({"ask": "restart"}), flush=True)
    line = sys.stdin.readline()
    if line != "restarted\n":
        raise RuntimeError(f"instead of restarting: {line!r}")


def main(*checks):
    """Run the checks named on the command line, or all; each has the name of its function."""
    known = {check.__name__: check for check in checks}
    for name in sys.argv[3:] or known:
        report(name, known[name])
