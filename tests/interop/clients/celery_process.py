"""The worker process of the Celery programs, and where it and they find the broker."""

import contextlib
import os
import signal
import subprocess
import sys

from tests.interop.clients import harness
from tests.interop.clients.celery_app import BROKER, QUEUE, app

HOST, PORT = harness.address()
NAME = harness.unique("w") + "@localhost"
app.conf.broker_url = os.environ[BROKER] = f"pyamqp://guest:guest@{HOST}:{PORT}//"
app.conf.task_default_queue = os.environ[QUEUE] = harness.unique("celery")


@contextlib.contextmanager
def worker(*options):
    """A worker of the application, stopped at the end."""
    command = [sys.executable, "-m", "celery", "-A", "tests.interop.clients.celery_app", "worker"]
    command += ["--loglevel=WARNING", "--without-mingle", "-n", NAME, *options]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main(checks, *options):
    """Run the checks named on the command line, or all, beside a worker; leave no queue behind."""
    with worker(*options):
        harness.main(*checks)
    with app.connection() as connection:
        connection.default_channel.queue_delete(app.conf.task_default_queue)
