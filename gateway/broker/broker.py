"""The broker: virtual hosts, users, the turn of the loop, and alarms.

One thread, no clock, no sockets: ``now`` is set from outside before each turn, ``end_turn`` is
called after it, and ``committed`` when the store has made a batch safe.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator

from gateway.broker.access import Access
from gateway.broker.branches import Branches, restore_branches
from gateway.broker.client import Client
from gateway.broker.counters import (
    BindingSnapshot,
    BranchSnapshot,
    BrokerSnapshot,
    ConsumerSnapshot,
    ExchangeSnapshot,
    QueueSnapshot,
    Totals,
    VhostSnapshot,
)
from gateway.broker.journal import RecordingRule
from gateway.broker.limits import Limits as Limits
from gateway.broker.long_operations import unanswered
from gateway.broker.names import check_name
from gateway.broker.publish_path import PublishPath
from gateway.broker.recovery import TOPOLOGY, restore_topology
from gateway.broker.snapshots import (
    VhostCount,
    consumer_snapshots,
    exchange_snapshot,
    queue_snapshot,
)
from gateway.broker.state import BrokerState
from gateway.broker.store import Store
from gateway.broker.vhost import VirtualHost
from gateway.errors import Condition, Lost, Refusal
from gateway.message import Table
from gateway.operations.rules import RABBITMQ, VersionRules

DEFAULT_VHOST = "/"
FIRST_USER = "guest"
"""Made with this name as its password in an empty store, for this machine only."""

URL_HINTS = {
    "": ": the URL ends with a slash, so its vhost is empty; end it with /%2F or no slash",
    "%2F": ": the URL names / encoded twice; write /%2F once",
    "%2f": ": the URL names / encoded twice; write /%2F once",
}
"""Virtual hosts that nobody means, but clients make of URLs."""

REASONS = {"memory": "low on memory", "disk": "low on disk"}


class Broker:
    """The door to the broker. ``blocked`` tells publishers why they are held back."""

    def __init__(
        self,
        store: Store,
        limits: Limits | None = None,
        now: int = 0,
        recording: Iterable[RecordingRule] = (),
    ) -> None:
        """``recording`` says which addresses are in the journal."""
        self.state = BrokerState(store, limits or Limits(), now, recording)
        self.access = Access(store)
        self.access.changed = self._forget_rights
        self.vhosts: dict[str, VirtualHost] = {}
        self.facades: dict[str, VirtualHost] = {}
        """Those of the virtual hosts whose queues live on an upstream."""
        self.templates: dict[str, Table] = {}
        """Arguments of queues, by the name that a declaration may give for them."""
        self.confirming: dict[PublishPath, None] = {}
        self._safe = store.mark - 1
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._unwritten: deque[tuple[int, Callable[[], None]]] = deque()
        """Marks, and callbacks for when those batches are safe, and when they are written."""
        self.alarms: dict[str, None] = {}
        self._past = Totals()
        self._branches: dict[VirtualHost, Branches] = {}
        self._leaving: list[VirtualHost] = []
        """Virtual hosts that are deleted, and are being taken apart."""
        self._recover()

    def _recover(self) -> None:
        records = list(self.state.store.records(*TOPOLOGY))
        for kind, key, _ in records:
            if kind == "vhost":
                self.vhosts[key[0]] = VirtualHost(key[0], self.state)
        restore_topology(self.vhosts, records)
        restore_branches(records, self.vhosts, self.branches)
        # Only now: a message that has expired meanwhile may have to go to a queue that came later,
        # and those that a branch has settled are not in their queues.
        for vhost in self.vhosts.values():
            for queue in vhost.queues.values():
                queue.sweep()
        if not self.vhosts:
            self.create_vhost(DEFAULT_VHOST)
        if not self.access.list_users():
            self.access.add_user(FIRST_USER, FIRST_USER, ("administrator",), loopback_only=True)
            for name in self.vhosts:
                self.access.set_permissions(FIRST_USER, name, ".*", ".*", ".*")

    # --- connections and virtual hosts ----------------------------------------------------------

    def attach(self, vhost: str, user: str, name: str, rules: VersionRules = RABBITMQ) -> Client:
        """A connection of an authenticated user begins to use a virtual host."""
        found = self.vhosts.get(vhost)
        if found is None:
            told = f"vhost {vhost} not found{URL_HINTS.get(vhost, '')}"
            raise Refusal(rules.unknown_vhost, told, Lost.CONNECTION)
        if not self.access.may_enter(user, vhost):
            raise Refusal(
                Condition.NOT_ALLOWED,
                f"access to vhost '{vhost}' refused for user '{user}'",
                Lost.CONNECTION,
            )
        client = Client(self, found, user, name, rules)
        found.clients[client] = None
        return client

    def create_vhost(self, name: str) -> VirtualHost:
        """Make sure that it exists. The first user may use it if it is still as it was made."""
        found = self.vhosts.get(name)
        if found is None:
            check_name("name of the virtual host", name)
            found = self.vhosts[name] = VirtualHost(name, self.state)
            self.state.store.save("vhost", (name,), {})
            first = self.access.user(FIRST_USER)
            if first is not None and first.loopback_only:
                self.access.set_permissions(FIRST_USER, name, ".*", ".*", ".*")
        return found

    def adopt_vhost(self, vhost: VirtualHost) -> None:
        """Use this one, which was made elsewhere, in place of an empty one of its name. Refuses
        (406) to replace one with contents."""
        old = self.create_vhost(vhost.name)
        if old.queues or old.bindings or old.clients:
            text = f"vhost '{vhost.name}' has queues or bindings of its own"
            raise Refusal(Condition.PRECONDITION_FAILED, text)
        self.vhosts[vhost.name] = self.facades[vhost.name] = vhost

    def branches(self, vhost: VirtualHost) -> Branches:
        """Those of distributed transactions in a virtual host."""
        found = self._branches.get(vhost)
        if found is None:
            found = self._branches[vhost] = Branches(vhost)
        return found

    def delete_vhost(self, name: str) -> None:
        """Delete with its contents: they cannot be found any more, and are removed in portions.
        Clients still attached lose their channels; the caller closes their connections first.
        Refuses with 404."""
        vhost = self.vhosts.get(name)
        if vhost is None:
            raise Refusal(Condition.NOT_FOUND, f"no vhost '{name}'")
        if vhost.outbound is not None:
            raise Refusal(Condition.NOT_ALLOWED, f"vhost '{name}' is a facade of an upstream")
        for client in list(vhost.clients):
            client.close()
        del self.vhosts[name]
        for user in self.access.permissions_in(name):
            self.access.clear_permissions(user, name)
        for topic in self.access.topics.all(vhost=name):
            self.access.topics.clear(topic.user, name)
        branches = self._branches.pop(vhost, None)
        if branches is not None:
            branches.close()
        vhost.forget()
        self._leaving.append(vhost)
        self.state.long_operations.begin(self._taking_apart(vhost), unanswered, atomic=False)

    def _taking_apart(self, vhost: VirtualHost) -> Iterator[None]:
        yield from vhost.emptying()
        self._leaving.remove(vhost)
        self._past = self._past.plus(vhost.totals())

    def _forget_rights(self) -> None:
        for vhost in self.vhosts.values():
            for client in vhost.clients:
                client.forget_rights()

    # --- the turn -------------------------------------------------------------------------------

    def end_turn(self) -> None:
        """Send the confirms that are due, coalesced, and call back those that wait no longer."""
        self.state.begin_turn()
        self.state.journal.record_gathered()
        store = self.state.store
        clean = 0 if store.dirty and not store.patient else store.mark
        if self._waiting and clean:
            self._run(self._waiting, clean)
        if self._unwritten and not store.dirty:
            self._run(self._unwritten, clean)
        for path in list(self.confirming):
            confirms = path.confirms
            if confirms is None or confirms.tell(self._safe, clean, path.listener.confirm):
                self.confirming.pop(path, None)

    def committed(self, mark: int) -> None:
        """Batches up to ``mark`` are safe; never the one that is still gathering."""
        self._safe = max(self._safe, min(mark, self.state.store.mark - 1))
        self.state.journal.committed(mark)
        self._run(self._waiting, 0)
        self._run(self._unwritten, 0)

    def when_safe(self, callback: Callable[[], None]) -> None:
        """Call back when all that was done so far is safe: now, if it is. Entries of transient
        messages in the journal are not waited for."""
        store = self.state.store
        mark = store.mark if store.dirty and not store.patient else store.mark - 1
        if mark <= self._safe and not self._waiting:
            callback()
        else:
            self._waiting.append((mark, callback))

    def when_written(self, callback: Callable[[], None]) -> None:
        """Call back when all that was done so far is written."""
        store = self.state.store
        self._unwritten.append((store.mark if store.dirty else store.mark - 1, callback))

    def _run(self, waiting: deque[tuple[int, Callable[[], None]]], clean: int) -> None:
        """``clean`` is the gathering batch if it holds nothing: then only those before count."""
        while waiting:
            mark, callback = waiting[0]
            needed = mark - 1 if mark == clean else mark
            if needed > self._safe:
                return
            waiting.popleft()
            callback()

    # --- alarms ---------------------------------------------------------------------------------

    @property
    def blocked(self) -> str | None:
        """Why publishers are held back, or ``None``."""
        if not self.alarms:
            return None
        return " & ".join(REASONS.get(kind, f"{kind} failing") for kind in sorted(self.alarms))

    def blocked_in(self, vhost: str) -> str | None:
        """Why publishers of one virtual host are held back, or ``None``."""
        found = self.vhosts.get(vhost)
        return self.blocked or (None if found is None else found.blocked)

    @property
    def topology_alone_is_safe(self) -> bool:
        """While the store fails, whether it lacks nothing but messages: an answer about topology
        would wait for them as long as the disk is full, and a client that declares its queue before
        it drains it would never begin."""
        return "store" in self.alarms and self.state.store.changed <= self._safe

    def alarm(self, kind: str, raised: bool) -> None:
        """Something ("memory", "disk", "store") is short, or is so no more."""
        if raised:
            self.alarms[kind] = None
        else:
            self.alarms.pop(kind, None)

    # --- snapshots ------------------------------------------------------------------------------

    def _chosen(self, vhost: str | None) -> Iterator[VirtualHost]:
        for name, found in list(self.vhosts.items()):
            if vhost is None or name == vhost:
                yield found

    def each_queue(self, vhost: str | None = None) -> Iterator[QueueSnapshot]:
        """By name within a virtual host. The caller may pause: queues that have gone meanwhile are
        left out, and each is as it is when it is asked for. The same holds for the others."""
        for v in self._chosen(vhost):
            for name in sorted(v.queues):
                queue = v.queues.get(name)
                if queue is not None:
                    yield queue_snapshot(queue)

    def each_consumer(self, vhost: str | None = None) -> Iterator[ConsumerSnapshot]:
        for v in self._chosen(vhost):
            for queue in list(v.queues.values()):
                yield from consumer_snapshots(queue)

    def each_exchange(self, vhost: str | None = None) -> Iterator[ExchangeSnapshot]:
        for v in self._chosen(vhost):
            for name in sorted(v.exchanges):
                e = v.exchanges.get(name)
                if e is not None:
                    yield exchange_snapshot(v.name, e)

    def each_binding(self, vhost: str | None = None) -> Iterator[BindingSnapshot]:
        for v in self._chosen(vhost):
            for e in list(v.exchanges.values()):
                for b in list(e.bindings):
                    if b in e.bindings and not b.severed:
                        yield BindingSnapshot(
                            v.name, e.name, b.destination.name, b.to_exchange, b.key,
                            dict(b.arguments),
                        )  # fmt: skip

    def each_branch(self, vhost: str | None = None) -> Iterator[BranchSnapshot]:
        """Those in doubt."""
        for v in self._chosen(vhost):
            for branch in self.branches(v).in_doubt:
                yield branch.snapshot()

    def prepared_branches(self, vhost: str) -> int:
        """How many wait for their coordinator."""
        v = self.vhosts.get(vhost)
        found = [] if v is None else self.branches(v).in_doubt
        return sum(not branch.decided for branch in found)

    def vhosts_counting(
        self, names: Iterable[str] | None = None
    ) -> Generator[None, None, list[VhostSnapshot]]:
        """Virtual hosts, by default all, added up in steps: there may be many queues."""
        names = self.vhosts if names is None else names
        counts = [VhostCount(self.vhosts[name]) for name in names]
        found: list[VhostSnapshot] = []
        for count in counts:
            one = yield from count.steps()
            found.append(one)
        return found

    def counting(self) -> Generator[None, None, BrokerSnapshot]:
        """The whole broker, likewise."""
        past = self._past
        leaving = [VhostCount(vhost) for vhost in self._leaving]
        vhosts = yield from self.vhosts_counting()
        totals = past
        for vhost in vhosts:
            totals = totals.plus(vhost.totals)
        for count in leaving:
            totals = totals.plus((yield from count.steps()).totals)
        return BrokerSnapshot(
            vhosts=vhosts,
            clients=sum(v.clients for v in vhosts),
            channels=sum(len(c.channels) for v in self.vhosts.values() for c in v.clients),
            queues=sum(v.queues for v in vhosts),
            exchanges=sum(v.exchanges for v in vhosts),
            consumers=sum(v.consumers for v in vhosts),
            ready=sum(v.ready for v in vhosts),
            unsettled=sum(v.unsettled for v in vhosts),
            octets=self.state.octets,
            totals=totals,
            blocked=self.blocked,
        )

    def snapshot(self) -> BrokerSnapshot:
        """The same at once."""
        steps = self.counting()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: BrokerSnapshot = end.value
                return found
