"""Presence: the listeners of sources, as a list or as a stream of arrivals and departures.

A caller sees the listeners of the nodes and routes that it may see, and of a route no more than
its name. Listeners are looked up once per period for all watchers.
"""

import asyncio
from typing import Any, NamedTuple

from gateway.http import problems
from gateway.http.access.principal import Action, Principal
from gateway.http.context import Context
from gateway.http.events.control_events import CloseEvent
from gateway.http.events.stream import EventStream, Options, Resume
from gateway.http.message_json import compact
from gateway.http.problems import Problem
from gateway.http.typed import moment

MOST_SHOWN = 5000
"""Listeners in one answer: the rest is said to be there, and no more."""
PERIOD_SECONDS = 2.0

MOST_WATCHERS = 64
"""Streams of presence at once: each looks through all listeners every period."""

Listener = dict[str, Any]


class Entry(NamedTuple):
    """A listener, its kind, name and the name of the node behind that, and a key that no other
    listener has. Shared by all watchers."""

    place: tuple[str, str, str]
    listener: Listener
    key: bytes


class Presence:
    """The listeners of all virtual hosts."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.hub = context.hub
        self.seen: dict[str, tuple[float, list[Entry]]] = {}

    def shown(
        self, caller: Principal, vhost: str, everything: bool, nodes: bool
    ) -> tuple[dict[bytes, Listener], bool]:
        """Of what the caller may see, all listeners by key, and whether there are more of them than
        are shown. ``nodes``: queues and exchanges may be named."""
        broker = self.context.broker
        known: dict[tuple[str, str, str], bool] = {}
        found: dict[bytes, Listener] = {}
        for place, listener, key in self.look(vhost):
            if place not in known:
                kind, name, behind = place
                known[place] = (nodes or kind == "route") and (
                    everything
                    or (
                        caller.may(Action.PRESENCE, vhost, kind, name)
                        and broker.access.allows(caller.user, vhost, "read", behind)
                    )
                )
            if known[place]:
                if len(found) == MOST_SHOWN:
                    return found, True
                found[key] = listener
        return found, False

    def look(self, vhost: str) -> list[Entry]:
        now = asyncio.get_running_loop().time()
        at, found = self.seen.get(vhost, (-PERIOD_SECONDS, []))
        if now - at >= PERIOD_SECONDS / 2:
            self.seen = {key: one for key, one in self.seen.items() if now - one[0] < 60}
            found = [*self.streams(vhost), *self.consumers(vhost)]
            self.seen[vhost] = now, found
        return found

    def streams(self, vhost: str) -> list[Entry]:
        found = []
        for stream in self.hub.streams:
            if not isinstance(stream, EventStream) or stream.vhost != vhost:
                continue
            for name in stream.names():
                alias = stream.aliases.get(name)
                kind = name.kind if alias is None else "route"
                called = name.name if alias is None else alias.route.name
                listener = {
                    "kind": kind,
                    "name": called,
                    "binding": name.key if alias is None else None,
                    "protocol": "http",
                    "user": stream.user,
                    "stream": stream.identity,
                    "since": moment(int(stream.opened * 1000)),
                }
                found.append(Entry((kind, called, name.name), listener, compact(listener)))
        return found

    def consumers(self, vhost: str) -> list[Entry]:
        """Those of programs. Those of the gateway stand for its streams and receivers."""
        here = self.context.broker.vhosts.get(vhost)
        found = []
        for queue in here.queues.values() if here is not None else ():
            for consumer in queue.consumers:
                if getattr(consumer.origin, "name", "").startswith("HTTP "):
                    continue
                listener = {
                    "kind": "queue",
                    "name": queue.name,
                    "binding": None,
                    "protocol": "amqp",
                    "user": getattr(consumer.origin, "user", ""),
                    "consumer": consumer.tag,
                }
                place = ("queue", queue.name, queue.name)
                found.append(Entry(place, listener, compact(listener)))
        return found


class PresenceStream(EventStream):
    """The listeners at the start (``gateway.open``), then one event for each that comes or goes."""

    def __init__(
        self, presence: Presence, caller: Principal, vhost: str, everything: bool, nodes: bool
    ) -> None:
        hub = presence.hub
        super().__init__(hub, caller, vhost, Options(hub.settings.heartbeat_seconds))
        self.presence = presence
        self.everything = everything
        self.nodes = nodes
        self.there: dict[bytes, Listener] = {}
        self.looked = 0.0

    def open(self) -> None:
        """Raises ``Problem``."""
        self.hub.admit(self.user, self.vhost, ())
        if sum(isinstance(one, PresenceStream) for one in self.hub.streams) >= MOST_WATCHERS:
            raise Problem(problems.QUOTA, f"{MOST_WATCHERS} streams of presence are open already")
        self.there, more = self.look()
        shown = list(self.there.values())
        self.announce(Resume.fresh, subscriptions=shown, truncated=more)
        self.hub.enter(self, self.vhost, [], returning=False)
        self.looked = asyncio.get_running_loop().time()

    def look(self) -> tuple[dict[bytes, Listener], bool]:
        return self.presence.shown(self.caller, self.vhost, self.everything, self.nodes)

    def tick(self, now: float, wall: float) -> None:
        super().tick(now, wall)
        if self.writing_since is not None or self.finished or now - self.looked < PERIOD_SECONDS:
            return
        self.looked = now
        broker = self.hub.broker
        if self.vhost not in broker.vhosts or not broker.access.may_enter(self.user, self.vhost):
            self.end(CloseEvent(reason="no permission in the virtual host", reconnect=False))
            return
        before = self.there
        self.there, _ = self.look()
        for change, some, others in (
            ("left", before, self.there),
            ("joined", self.there, before),
        ):
            for key in [key for key in some if key not in others]:
                told = {"change": change, "subscription": some[key]}
                self.pending.append(b"data: " + compact(told) + b"\n\n")
        if self.pending:
            self.wake()
