"""A Celery worker of several processes: ETA, revoking, rates, queues by command, recovery."""

import datetime
import pathlib
import tempfile
import time

from celery.exceptions import TaskRevokedError

from tests.interop.clients import celery_process, harness
from tests.interop.clients.celery_app import add, app, note, size, sleep, when
from tests.interop.clients.celery_process import NAME

WAIT = 60
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="celery-"))


def until(seen, what):
    """The first truth, tried for again and again."""
    deadline = time.monotonic() + WAIT
    while not (found := seen()):
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.1)
    return found


def ask(method, *arguments):
    """What the worker answers by remote control, as soon as it does."""
    inspector = lambda: app.control.inspect([NAME], timeout=5)  # noqa: E731
    return until(lambda: getattr(inspector(), method)(*arguments), method)[NAME]


def eta():
    """It is delivered at once, kept by the worker, and acknowledged when its time has come."""
    at = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2)
    ran = when.apply_async(eta=at).get(timeout=WAIT)
    return {"early": ran < at.timestamp()}


def revoked():
    """One that waits for its time never runs; one that runs is stopped."""
    waiting = note.apply_async((str(FOLDER), "never"), countdown=3600)
    until(lambda: ask("scheduled"), "scheduled")
    app.control.revoke(waiting.id)
    running = sleep.delay(str(FOLDER), "running")
    until(lambda: (FOLDER / "running").exists(), "running")
    app.control.revoke(running.id, terminate=True, signal="SIGKILL")
    try:
        running.get(timeout=WAIT)
    except TaskRevokedError:
        stopped = True
    revoked = until(lambda: set(ask("revoked")) >= {waiting.id, running.id}, "revoked")
    return {"known": revoked, "stopped": stopped, "ran": (FOLDER / "never").exists()}


def rate():
    """A rate set by remote control; what waits for it is done all the same."""
    said = app.control.rate_limit(add.name, "20/s", [NAME], reply=True, timeout=15)
    results = [add.delay(number, 1) for number in range(10)]
    total = sum(result.get(timeout=WAIT) for result in results)
    free = app.control.rate_limit(add.name, "0", [NAME], reply=True, timeout=15)
    words = [answer for one in said + free for answer in one.values()]
    return {"total": total, "said": [sorted(word) for word in words]}


def other_queue():
    """A queue that the worker is told to take tasks from, and not any more."""
    queue = harness.unique("celery-other")
    app.control.add_consumer(queue, destination=[NAME], reply=True, timeout=15)
    result = add.apply_async((1, 2), queue=queue).get(timeout=WAIT)
    names = [one["name"] for one in ask("active_queues")]
    app.control.cancel_consumer(queue, destination=[NAME], reply=True, timeout=15)
    left = [one["name"] for one in ask("active_queues")]
    with app.connection() as connection:
        connection.default_channel.queue_delete(queue)
    return {
        "result": result,
        "taken": queue in names,
        "left": left == [app.conf.task_default_queue],
    }


def large():
    return {"size": size.delay("x" * (3 << 20)).get(timeout=WAIT)}


def commanded(command):
    """Ask the worker until it does the command: it refuses while processes are starting or busy."""
    said: list[dict[str, dict[str, str]]] = []

    def done():
        said[:] = command(1, [NAME], reply=True, timeout=15)
        return any("ok" in one[NAME] for one in said)

    try:
        until(done, command.__name__)
    except TimeoutError as problem:
        raise TimeoutError(f"{problem}: {said}") from None
    return [sorted(one[NAME]) for one in said]


def prefetch():
    """Quality of service changes while consuming."""
    said = commanded(app.control.pool_grow) + commanded(app.control.pool_shrink)
    result = add.delay(1, 1).get(timeout=WAIT)
    return {"said": said, "result": result}


def recovery():
    """The server dies: the worker connects again, and does what it held and what is sent then."""
    note.apply_async((str(FOLDER), "held"), countdown=8)
    until(lambda: ask("scheduled"), "scheduled")
    harness.restart()
    with app.connection() as connection:  # what went into the old one might be lost
        note.apply_async((str(FOLDER), "after"), connection=connection)
    files = [FOLDER / "held", FOLDER / "after"]
    until(lambda: all(file.exists() for file in files), "the tasks")
    until(lambda: all(file.read_text() for file in files), "their words")
    return {"done": sorted(file.name for file in files), "again": files[0].read_text()}


CHECKS = (eta, revoked, rate, other_queue, large, prefetch, recovery)

celery_process.main(CHECKS, "--pool=prefork", "--concurrency=2")
