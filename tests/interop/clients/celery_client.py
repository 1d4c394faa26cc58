"""A Celery application: a worker process, tasks, retries, chains, remote control; rpc results."""

from celery import chain, group

from tests.interop.clients import celery_process
from tests.interop.clients.celery_app import add, app, fail, twice

WAIT = 45


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
    replies: dict = {}
    for seconds in (1, 5, 15):
        replies = app.control.inspect(timeout=seconds).ping() or {}
        if replies:
            break
    return {"pongs": [reply["ok"] for reply in replies.values() if "ok" in reply]}


CHECKS = (task, many, chained, failing, retried, countdown, control)

celery_process.main(CHECKS, "--pool=solo")
