"""A Celery application: a worker process, tasks, retries, chains, remote control; rpc results."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys

import harness

HOST, PORT = harness.address()
os.environ["INTEROP_BROKER"] = f"pyamqp://guest:guest@{HOST}:{PORT}//"
os.environ["INTEROP_QUEUE"] = harness.unique("celery")

from celery import chain, group  # noqa: E402
from celery_app import add, app, fail, twice  # noqa: E402

WAIT = 45


@contextlib.contextmanager
def worker():
    command = [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "--pool=solo"]
    command += ["--loglevel=WARNING", "--without-mingle", "-n", harness.unique("w") + "@localhost"]
    here = pathlib.Path(__file__).parent
    process = subprocess.Popen(command, cwd=here, stdout=sys.stderr)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def task():
    return {"result": add.delay(2, 3).get(timeout=WAIT)}


def many():
    results = group(add.s(number, number) for number in range(50))().get(timeout=WAIT)
    return {"sum": sum(results)}


def chained():
    return {"result": chain(add.s(1, 2), add.s(3), add.s(4))().get(timeout=WAIT)}


def failing():
    try:
        fail.delay("on purpose").get(timeout=WAIT)
    except ValueError as error:
        return {"raised": str(error)}
    return {"raised": None}


def retried():
    return twice.delay("x").get(timeout=WAIT)


def countdown():
    return {"result": add.apply_async((1, 1), countdown=0.5, priority=7).get(timeout=WAIT)}


def control():
    """Remote control goes through a fanout exchange and a reply queue."""
    replies = {}
    for seconds in (1, 5, 15):
        replies = app.control.inspect(timeout=seconds).ping() or {}
        if replies:
            break
    return {"pongs": [reply["ok"] for reply in replies.values() if "ok" in reply]}


CHECKS = (task, many, chained, failing, retried, countdown, control)

with worker():
    harness.main({check.__name__: check for check in CHECKS})
with app.connection() as connection:
    connection.default_channel.queue_delete(os.environ["INTEROP_QUEUE"])
