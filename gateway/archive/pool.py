"""The engine without Spark: processes of this machine, which do the same for each bundle."""

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from gateway.archive.reading import ArchiveError, Bundle
from gateway.archive.writing import Plan, Summary, transcode_bundle

ATTEMPTS = 4
"""Times that bundles are begun whose process has died."""


def transcode_locally(
    bundles: list[Bundle],
    plan: Plan,
    workers: int = 0,
    done: Callable[[Bundle, Summary], None] = lambda bundle, summary: None,
) -> list[Summary]:
    """The summaries of all bundles. ``done`` is called as each is complete. ``workers``: as many as
    processors if 0. Raises ``OSError``, and ``ArchiveError`` if processes die again and again."""
    workers = min(workers or len(os.sched_getaffinity(0)), max(1, len(bundles)))
    left = {bundle.number: bundle for bundle in bundles}
    found: dict[int, Summary] = {}
    for _ in range(ATTEMPTS):
        if workers == 1 and not found:
            for bundle in list(left.values()):
                found[bundle.number] = transcode_bundle(bundle, plan)
                done(left.pop(bundle.number), found[bundle.number])
            break
        _round(left, found, plan, workers, done)
        if not left:
            break
    if left:
        text = f"{len(left)} parts of the archive ended the process that read them"
        raise ArchiveError(f"{text}; the first is {next(iter(left.values())).parts[0].path}")
    return [found[number] for number in sorted(found)]


def _round(
    left: dict[int, Bundle],
    found: dict[int, Summary],
    plan: Plan,
    workers: int,
    done: Callable[[Bundle, Summary], None],
) -> None:
    """Go through the rest, until it is done or a process has died."""
    context = multiprocessing.get_context("spawn")
    largest_first = sorted(left.values(), key=lambda one: -one.octets)
    try:
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            futures: dict[Future[Summary], Bundle] = {
                pool.submit(transcode_bundle, bundle, plan): bundle for bundle in largest_first
            }
            for future in as_completed(futures):
                bundle = futures[future]
                found[bundle.number] = future.result()
                del left[bundle.number]
                done(bundle, found[bundle.number])
    except BrokenProcessPool:
        return
