"""The Celery application of the interop test; the worker process loads it too."""

import os
import pathlib
import time

from celery import Celery

BROKER = "INTEROP_BROKER"
QUEUE = "INTEROP_QUEUE"

app = Celery("interop", broker=os.environ.get(BROKER), backend="rpc://")
app.conf.update(
    broker_connection_retry_on_startup=False,
    result_expires=60,
    task_default_queue=os.environ.get(QUEUE, "interop-celery"),
    task_queue_max_priority=10,
    worker_prefetch_multiplier=1,
    task_acks_late=True,
)


@app.task
def add(left, right):
    return left + right


@app.task
def fail(words):
    raise ValueError(words)


@app.task(bind=True, max_retries=2)
def twice(self, value):
    """Ask to be run again once, then answer."""
    if self.request.retries == 0:
        raise self.retry(countdown=0.2)
    return {"value": value, "retries": self.request.retries}


@app.task
def size(text):
    return len(text)


@app.task
def when():
    """When it was run."""
    return time.time()


@app.task(bind=True)
def note(self, folder, text):
    """Leave a file behind, and say whether this is not the first try."""
    pathlib.Path(folder, text).write_text(str(bool(self.request.delivery_info["redelivered"])))


@app.task
def sleep(folder, name):
    """Say that it has begun, and do not end."""
    pathlib.Path(folder, name).touch()
    time.sleep(600)
