"""Event streams: one message to many readers, against nginx with nchan and against Mercure; and to
one reader against a bare loop."""

import contextlib
import functools
import resource
import statistics
from collections.abc import Callable, Iterator

from benchmarks.drivers import Driver, build
from benchmarks.peers import BARE_HUB, NCHAN_HUB, OURS, Hub, bare, mercure, mercure_hub, nchan
from benchmarks.rows import Row, compare
from benchmarks.rules import Figures, ThirdParties, note_disturbance, undisturbed
from benchmarks.servers import Failed, Missing, Server, gateway
from benchmarks.throughput import started

GROUP = "sse"
READERS = {1: 500.0, 100: 50.0, 1000: 5.0, 5000: 2.0}
"""Readers, and the messages per second at which latency is measured: all three reach it."""
WINDOW = 16
SPARE_FILES = 64


def files() -> int:
    """How many files a child may open; our own limit is raised, and children inherit it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        most = 65_536
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def passage(server: Server, hub: Hub, readers: int, rate: float, seconds: float) -> Figures:
    """`rate` 0: as fast as a window of messages under way allows."""
    driver = Driver(
        "fanout",
        *(server.http_port, hub.stream, hub.post, readers, WINDOW, rate, seconds),
        *(hub.prefix, hub.kind, *hub.headers),
    )
    with contextlib.ExitStack() as stack:
        stack.callback(driver.stop)
        driver.wait_ready()
        third_parties, busy = ThirdParties(), server.cpu()
        found = driver.result()
        busy = server.cpu() - busy
        others = third_parties.busy(busy + found["cpu"])
    events, wanted = found["events"], found["published"] * readers
    if found["refused"]:
        raise Failed(f"{hub.name}: {found['refused']} posts were answered {found['status']}")
    if events != wanted or found["lost_streams"]:
        lost = found["lost_streams"]
        raise Failed(f"{hub.name}: {events:,} of {wanted:,} events; {lost} streams ended")
    found |= {"rate": events / found["seconds"], "p99_ms": found["p99_us"] / 1000}
    found |= {"server_us": busy * 1e6 / events, "driver": found["cpu"] / found["seconds"]}
    return Figures(found, others=others)


def median(runs: list[Figures], name: str) -> float:
    return float(statistics.median(run[name] for run in runs))


class Side:
    """A server and its measurements; ``failed`` is the reason if there are no more."""

    def __init__(self, server: Server | str, hub: Hub) -> None:
        self.server = server
        self.hub = hub
        self.failed = server if isinstance(server, str) else ""
        self.runs: list[Figures] = []

    def run(self, readers: int, rate: float, seconds: float) -> None:
        if self.failed or not isinstance(self.server, Server):
            return
        try:
            one = functools.partial(passage, self.server, self.hub, readers, rate, seconds)
            self.runs.append(undisturbed(one))
        except Failed as why:
            self.failed = str(why)

    def clear(self) -> None:
        self.runs = []
        self.failed = self.server if isinstance(self.server, str) else ""


def make_row(name: str, unit: str, figure: str, ours: Side, theirs: Side) -> Row:
    row = Row(GROUP, name, unit, against=theirs.hub.name)
    row.detail = {side.hub.name: side.runs for side in (ours, theirs)}
    notes = [side.failed for side in (ours, theirs) if side.failed]
    sides = [side for side in (ours, theirs) if side.runs and not side.failed]
    if sides:
        took = [f"{median(side.runs, 'server_us'):.2f}" for side in sides]
        busy = [f"{median(side.runs, 'driver') * 100:.0f}" for side in sides]
        notes.append(f"server {' against '.join(took)} us/event; driver {'/'.join(busy)} %")
    row.note = "; ".join(notes)
    if sides:
        note_disturbance(row, (run for side in sides for run in side.runs))
    found = [[run[figure] for run in side.runs if not side.failed] for side in (ours, theirs)]
    return compare(row, *found)


def rows(wanted: Callable[[str], bool], quick: bool, repeat: int) -> Iterator[Row]:
    ways = [
        (readers, f"{readers} readers, {way}", rate, unit, figure)
        for readers, paced in READERS.items()
        for way, rate, unit, figure in (
            ("delivered", 0.0, "events/s", "rate"),
            (f"p99 at {paced:g} msg/s", paced, "ms", "p99_ms"),
        )
        if wanted(f"{GROUP} {readers} readers {way}")
    ]
    if not ways:
        return
    seconds, most = (0.5 if quick else 3.0), files()
    try:
        build("fanout")
    except (Missing, Failed) as why:
        yield Row(GROUP, "all", note=f"skipped: {why}")
        return
    hubs = (OURS, NCHAN_HUB, mercure_hub(), BARE_HUB)
    events = functools.partial(bare, "bare_events")
    with started(gateway, functools.partial(nchan, most), mercure, events) as servers:
        sides = [Side(server, hub) for server, hub in zip(servers, hubs, strict=True)]
        for readers, name, rate, unit, figure in ways:
            if readers + SPARE_FILES > most:
                yield Row(GROUP, name, note=f"skipped: only {most} files may be open (ulimit -Hn)")
                continue
            measured = sides if readers == 1 else sides[:-1]
            for side in measured:
                side.clear()
            for _ in range(repeat):
                for side in measured:
                    side.run(readers, rate, seconds)
            for theirs in measured[1:]:
                yield make_row(name, unit, figure, sides[0], theirs)
