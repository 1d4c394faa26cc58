"""Assembles the gateway: the only module that builds all parts and imports all packages."""

import asyncio
import contextlib
import importlib
import logging
import os
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from gateway.adapters.registry import load_engines
from gateway.bridge.bridge import Bridge
from gateway.bridge.core_ends import Core
from gateway.bridge.migration.in_gateway import GatewayMoves
from gateway.broker.access import KINDS as ACCESS
from gateway.broker.broker import Broker
from gateway.broker.journal import RecordingRule
from gateway.broker.memory_store import MemoryStore
from gateway.broker.store import Store
from gateway.config import Settings
from gateway.crossing.crossing import Crossing
from gateway.errors import Condition, ConfigError, StoreError
from gateway.event_loop import freeze
from gateway.http.access.front import admin_plane
from gateway.http.access.protocol import BoundedProtocol, bounded
from gateway.http.app import build
from gateway.http.app import close as close_http
from gateway.http.dependencies import ChannelInfo, ConnectionInfo, HttpDependencies
from gateway.http.direct_protocol import answering
from gateway.http.publish.spool import open_partial_bodies, open_spool
from gateway.http.sealing import KEY_OCTETS, kept_secret
from gateway.inventory.observing import Observing, plan_of
from gateway.journal.keeping import Keeper
from gateway.journal.reader import JournalReader
from gateway.message import cross_with, plainly
from gateway.net.alarms import ResourceMonitor, memory_total
from gateway.net.failures import FailureRecords
from gateway.net.listener import ListenAddress, Listener, listen_http
from gateway.net.listener_rules import rules_of
from gateway.net.loop_turn import LoopTurn
from gateway.net.loopback import is_local_name
from gateway.net.passwords import Passwords
from gateway.net.websocket import AmqpSockets
from gateway.reloading import Prepared, Reloading, prepare
from gateway.sessions.named import NamedSessions
from gateway.sessions.registry import SessionRegistry
from gateway.store.sqlite import SqliteStore

log = logging.getLogger("gateway")

MOVES_FILE = "moves.db"
SECRET_FILE, CROSSING_FILE, DECOY_FILE = "cursor.key", "crossing.key", "login.key"
GOODBYE_SECONDS = 5.0
BROKEN = 70
"""Exit code after an internal error of the store (EX_SOFTWARE of BSD)."""
SWITCH_SECONDS = 0.0005
"""Seconds that the loop may keep the interpreter lock from the store's thread. With Python's
default of 5 ms, a commit beside a busy loop takes several times as long (DESIGN.md, store)."""


class Gateway:
    """A running gateway: ``async with Gateway(settings) as gateway: await gateway.stopped()``."""

    def __init__(self, settings: Settings, reread: Callable[[], Settings] | None = None) -> None:
        """``reread`` reads the settings again; ``None``: there is nothing to read."""
        self.settings = settings
        self.reloading = Reloading(settings, reread or settings.model_copy, self._use)
        self.amqp_port = 0
        self.amqps_port: int | None = None
        self.more_ports: list[int] = []
        """Bound ports of ``amqp.listeners``, in their order."""
        self.http_port = 0
        self.admin_port: int | None = None
        self.store = open_store(settings)
        try:
            self.spool = open_spool(settings)
            self.registry = SessionRegistry(
                settings.amqp.create_queues,
                open_partial_bodies(settings, self.spool),
                NamedSessions(settings.limits.of_sessions()),
            )
            self.broker = self._broker()
            key, crossing = secret(settings, CROSSING_FILE), settings.crossing
        except BaseException:
            self.store.close()
            raise
        self.crossing = Crossing(key, crossing.mode, crossing.fidelity)
        cross_with(self.crossing)
        self.keeper: Keeper | None = None
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def _broker(self) -> Broker:
        settings = self.settings
        if isinstance(self.store, SqliteStore):
            self.store.report = log.error
        rules = [
            RecordingRule(one.vhost, one.address, one.record) for one in settings.journal.recording
        ]
        limits = settings.limits.of_broker(memory_total())
        broker = Broker(self.store, limits, int(time.time() * 1000), rules)
        broker.state.report = log.error
        broker.state.warn = log.warning
        make_vhosts(broker, settings.vhosts)
        broker.access.decoy_key = secret(settings, DECOY_FILE)
        broker.access.removed = self.registry.user_removed
        return broker

    async def __aenter__(self) -> "Gateway":
        try:
            prepared, backlog = prepare(self.settings), self.settings.limits.store_backlog_octets
            self.turn = LoopTurn(self.broker, self.store, backlog)
            try:
                await self._start(prepared)
            except BaseException:
                await self.turn.drain()  # the store is not closed while its thread writes
                self.turn.close()
                raise
        except BaseException:
            self.store.close()
            raise
        return self

    async def _start(self, prepared: Prepared) -> None:
        settings = self.settings
        amqp = settings.amqp
        self._turns = 0
        self.turn.on_pressure = lambda pressed: self._hold()
        self.turn.on_broken = end_process
        self.watch = ResourceMonitor(
            self.broker,
            memory_high=settings.limits.memory_high,
            disk_free=settings.limits.disk_free_octets,
            data_dir=settings.data_dir if settings.durable else None,
        )
        self.passwords = Passwords(
            self.broker.access,
            time.time,
            settings.http,
            FailureRecords(self.store, self.turn.begin, self.turn.end),
            self._turn,
        )
        self.listener = Listener(
            self.turn,
            self.broker,
            self.registry,
            settings=amqp,
            passwords=self.passwords,
            spool=self.spool,
            context=prepared.context,
        )
        self.broker.templates = {name: dict(one) for name, one in amqp.templates.items()}
        web = listen_http(settings.http.host, settings.http.port)
        admin = None
        try:
            if settings.admin.port is not None:
                admin = listen_http(settings.admin.host, settings.admin.port)
            self.bridge = self._bridge()
            self.observers = [Observing(plan_of(one)) for one in settings.observe]
            self._web = build(self._http_dependencies())
            await self._load(prepared)
            self._listen()
            await self._observe()
        except ConfigError:
            web.close()
            if admin is not None:
                admin.close()
            raise
        self.http_port = web.getsockname()[1]
        http = settings.http
        self._sockets = AmqpSockets(self._web, self.listener, http.origins, http.raw_nodes)
        protocol = answering(bounded(http), self._web)
        self._servers = [HttpServer(self._serving(self._sockets, protocol))]
        self._tasks = [
            asyncio.create_task(self._every_second()),
            asyncio.create_task(self._servers[0].serve(sockets=[web])),
        ]
        if admin is not None:
            self.admin_port = admin.getsockname()[1]
            self._servers.append(HttpServer(self._serving(admin_plane(self._web), bounded(http))))
            self._tasks.append(asyncio.create_task(self._servers[1].serve(sockets=[admin])))
        self.turn.begin()
        self.turn.end()
        if isinstance(self.store, SqliteStore):
            journal = self.broker.state.journal
            self.keeper = Keeper(journal, settings.journal, settings.data_dir, self._turn)
            self._tasks.append(asyncio.create_task(self.keeper.run()))
        self.bridge.start()

    async def _observe(self) -> None:
        """Open the proxies before old brokers. Raises ``ConfigError``."""
        for number, observer in enumerate(self.observers):
            try:
                await observer.__aenter__()
            except ConfigError:
                for opened in self.observers[:number]:
                    await opened.__aexit__()
                raise
            plan = observer.plan
            log.info("observing %s on %s:%d", plan.upstream, plan.host, observer.port)

    async def _load(self, prepared: Prepared) -> None:
        """Apply the file of definitions, if there is one. Raises ``ConfigError``."""
        if prepared.definitions is None:
            return
        from gateway.http.admin.definition_import import load_definitions

        definitions, (given, read) = prepared.settings.definitions, prepared.definitions
        for one in read.findings:
            level = logging.INFO if one.severity == "info" else logging.WARNING
            log.log(level, "definitions: %s: %s", one.place or definitions, one.text)
        loaded = await load_definitions(self._web.state.context, given)
        log.info(
            "definitions of %s: %d queues, %d exchanges, %d bindings, %d permissions",
            definitions, loaded.queues, loaded.exchanges, loaded.bindings, loaded.permissions,
        )  # fmt: skip
        for reason in loaded.not_applied:
            log.warning("definitions: not applied: %s", reason)
        for user in loaded.users:
            if user.login == "locked":
                log.warning("definitions: user %r cannot log in: %s", user.name, user.note)

    def _bridge(self) -> Bridge:
        settings = self.settings
        core = Core(self.broker, self._turn, lambda: self._publishers_held)
        limits = settings.amqp.limits()
        bridge = Bridge(
            core, settings.upstreams, settings.shovels, settings.facades, limits, self.spool
        )
        for facade in bridge.upstream_facades:
            facade.on_full = self._hold
        journal = settings.data_dir / MOVES_FILE if settings.durable else None
        bridge.moves = GatewayMoves(core, bridge.upstreams, journal)
        return bridge

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """A turn, or a part of the one around it: what is done in both is in one batch of the
        store."""
        self._turns += 1
        if self._turns == 1:
            self.turn.begin()
        try:
            yield
        finally:
            self._turns -= 1
            if not self._turns:
                self.turn.end()

    def _listen(self) -> None:
        """Open all AMQP ports."""
        amqp, listen = self.settings.amqp, self.listener.listen
        detect = "never" if self.listener.context is None else "detect"
        rules = rules_of(amqp)
        self.amqp_port = listen(ListenAddress(amqp.host, amqp.port, detect, rules))
        if amqp.tls.port is not None:
            there = ListenAddress(amqp.host, amqp.tls.port, "always", rules._replace(name="amqps"))
            self.amqps_port = listen(there)
        for one in amqp.listeners:
            tls = "always" if one.tls_only else detect
            there = ListenAddress(one.host or amqp.host, one.port, tls, rules_of(amqp, one))
            self.more_ports.append(listen(there))

    def _serving(self, app: ASGIApp, protocol: type[BoundedProtocol]) -> uvicorn.Config:
        http = self.settings.http
        return uvicorn.Config(
            app,
            http=protocol,
            ws=cast(Any, websocket_protocol),
            ws_per_message_deflate=False,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=bool(http.trusted_proxies),
            forwarded_allow_ips=http.trusted_proxies,
            timeout_graceful_shutdown=int(GOODBYE_SECONDS),
        )

    def _http_dependencies(self) -> HttpDependencies:
        return HttpDependencies(
            broker=self.broker,
            begin_turn=self.turn.begin,
            end_turn=self.turn.end,
            connections=self._connections,
            channels=self._channels,
            sessions=self.registry.named,
            close_connection=self._close_connection,
            settings=self.settings.http,
            routes=self.settings.routes,
            admin_apart=self.settings.admin.port is not None,
            spool=self.spool,
            secret=secret(self.settings, SECRET_FILE),
            ready=self._ready,
            passwords=self.passwords,
            bridge=self.bridge,
            observers=self.observers,
            crossing=self.crossing,
            figures=self._figures,
            journal=self._open_journal if self.settings.durable else None,
            journal_settings=self.settings.journal,
            last_reload=lambda: self.reloading.last,
        )

    def _open_journal(self) -> JournalReader:
        return JournalReader(self.settings.data_dir, self.settings.journal.directory)

    def _figures(self) -> dict[str, float]:
        return {
            "spool_octets": self.spool.octets,
            "store_commits_total": self.turn.commits,
            "store_commit_seconds_total": self.turn.commit_seconds,
            "memory_octets": self.watch.memory_used,
            "memory_limit_octets": self.watch.memory_limit,
            "journal_failures_total": 0 if self.keeper is None else self.keeper.failures,
            "settings_reloads_total": self.reloading.reloads,
            "settings_reload_failures_total": self.reloading.failures,
            "settings_last_reload_successful": not self.reloading.last.error,
            "settings_last_reload_timestamp_seconds": self.reloading.last.at,
        }

    def _connections(self) -> list[ConnectionInfo]:
        infos = []
        for session in self.registry:
            octets_in, octets_out = session.meter()
            infos.append(
                ConnectionInfo(
                    id=session.number,
                    address=session.address,
                    version=session.adapter.version,
                    product=session.peer.product,
                    product_version=session.peer.product_version,
                    platform=session.peer.platform,
                    user=session.user,
                    vhost=session.vhost,
                    channels=len(session.channels),
                    state="open" if session.opened else "opening",
                    since=int(session.since * 1000),
                    octets_in=octets_in,
                    octets_out=octets_out,
                    local=session.local,
                    name=session.peer.name,
                    mechanism=session.peer.mechanism,
                    properties=session.peer.properties,
                )
            )
        return infos

    def _channels(self) -> list[ChannelInfo]:
        return [
            ChannelInfo(
                connection=session.number,
                number=number,
                confirm=channel.publish_path.confirms is not None,
                transactional=channel.transactions.own is not None,
                consumers=len(channel.window.consumers),
                unacknowledged=len(channel.window.unsettled),
                prefetch=channel.consumer_limit,
                global_prefetch=channel.window.limit,
            )
            for session in self.registry
            for number, channel in session.channels.items()
        ]

    def _close_connection(self, number: int, reason: str) -> bool:
        session = self.registry.find(number)
        if session is None:
            return False
        session.close(Condition.CONNECTION_FORCED, reason)
        return True

    def _ready(self) -> dict[str, bool]:
        return {
            "amqp": any(opened.fileno() >= 0 for opened in self.listener.sockets),
            "store": self.turn.failing is None,
        }

    # --- while it runs --------------------------------------------------------------------------

    async def _every_second(self) -> None:
        """Once a second: heartbeats, alarms, and changes of users by the command line."""
        blocked: dict[str, str | None] = {}
        while True:
            await asyncio.sleep(1)
            self.turn.begin()
            self.listener.tick(time.monotonic())
            try:
                self.watch.look()
                if isinstance(self.store, SqliteStore) and self.store.changed_elsewhere():
                    self.broker.access.reload(self.store.records(*ACCESS))
            except (OSError, StoreError) as error:
                # A disk error must not stop heartbeats for good.
                log.error("cannot check the free disk space: %s", error)
            self.bridge.note_blocked()
            reasons = {vhost: self.broker.blocked_in(vhost) for vhost in self.broker.vhosts}
            if reasons != blocked:
                blocked = reasons
                self.listener.announce()
            self._hold()
            self.turn.end()

    @property
    def _publishers_held(self) -> bool:
        return self.turn.pressed or self.broker.blocked is not None

    def _hold(self) -> None:
        self.listener.hold(self._publishers_held)
        for facade in self.bridge.facades.values():
            self.listener.hold_vhost(facade.vhost, facade.host.outbound.full)

    def stop(self) -> None:
        """Request a shutdown; ``stopped`` returns."""
        self._stop.set()

    async def _use(self, prepared: Prepared) -> None:
        """Have all parts derive again what they derived from settings, after these have changed.
        Connections that are open keep the limits and the certificate they began with. Raises
        ``ConfigError`` if definitions cannot be applied."""
        settings, limits = self.settings, self.settings.limits
        if self.listener.context is not None:
            self.listener.context = prepared.context
        self.listener.limits = settings.amqp.limits()
        for upstream in self.bridge.upstreams.values():
            upstream.limit(self.listener.limits)
        self.broker.templates = {name: dict(one) for name, one in settings.amqp.templates.items()}
        self.broker.state.limits = limits.of_broker(memory_total())
        self.registry.create_queues = settings.amqp.create_queues
        self.registry.named.limit(limits.of_sessions())
        self.registry.partials.limit(
            limits.staged_octets, limits.staged_items, limits.staged_seconds * 1000
        )
        self.spool.limit(limits.large_octets, limits.spool_octets)
        self.turn.backlog = limits.store_backlog_octets
        self.watch.limit(limits.memory_high, limits.disk_free_octets)
        self.passwords.failures.allow(settings.http.failures, settings.http.failure_seconds)
        self._sockets.origins = frozenset(settings.http.origins)
        if self.keeper is not None:
            self.keeper.take_settings()
        await self._web.load()
        for take_settings in self._web.state.context.on_reload:
            take_settings()
        with self._turn():
            make_vhosts(self.broker, settings.vhosts)
        await self._load(prepared)

    async def load(self) -> None:
        """Load what was left out of the start, so that no connection and no request waits for it: a
        thread does the imports."""
        await self._web.load()
        await asyncio.to_thread(import_rest)

    async def stopped(self) -> None:
        """Wait until a shutdown is requested."""
        await self._stop.wait()

    async def __aexit__(self, *_: object) -> None:
        for observer in self.observers:
            await observer.__aexit__()
        await self.bridge.close()
        await close_http(self._web)
        for one in self._servers:
            one.should_exit = True
        await self.listener.close("the gateway is shutting down", GOODBYE_SECONDS)
        await asyncio.wait(self._tasks[1 : 1 + len(self._servers)], timeout=GOODBYE_SECONDS * 2)
        for task in self._tasks:
            task.cancel()
        if self.keeper is not None:
            await self.keeper.close()
        await self.turn.drain()
        self.turn.close()
        self.store.close()
        cross_with(plainly)  # another user of this process has no key for capsules


def end_process(error: BaseException) -> None:
    """Exit at once. Messages that are not on disk were not confirmed, and the supervisor starts a
    new process. A graceful shutdown would try to write changes that cannot be written."""
    log.critical("the gateway ends: %s", error)
    logging.shutdown()
    os._exit(BROKEN)


def import_rest() -> None:
    """Import what the first connections of some kinds need."""
    load_engines()
    for name in ("anyio._backends._asyncio", "gateway.net.websocket_frames", "scramp"):
        importlib.import_module(name)


def websocket_protocol(*given: Any, **named: Any) -> Any:
    """The protocol of a new WebSocket, in place of its class, whose imports take a thirtieth of a
    start."""
    from gateway.net.websocket_frames import FrameByFrame

    return FrameByFrame(*given, **named)


class HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers: the process stops all listeners together."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def open_store(settings: Settings) -> Store:
    """The durable store in the data directory, or the volatile one. Raises ``ConfigError``."""
    if not settings.durable:
        return MemoryStore()
    try:
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        return SqliteStore(settings.data_dir)
    except (OSError, StoreError) as error:
        raise ConfigError(f"data_dir {settings.data_dir}: {error}") from None


def secret(settings: Settings, name: str) -> bytes:
    """The key that seals cursors or capsules. It is stored, so that they survive a restart."""
    if not settings.durable:
        return secrets.token_bytes(KEY_OCTETS)
    return kept_secret(settings.data_dir / name)


def make_vhosts(broker: Broker, names: Iterable[str]) -> None:
    for name in names:
        if name not in broker.vhosts:
            broker.create_vhost(name)


@contextlib.asynccontextmanager
async def on_signals(gateway: Gateway) -> AsyncIterator[None]:
    """Shut down gracefully on SIGINT and SIGTERM; read the settings again on SIGHUP."""
    loop = asyncio.get_running_loop()
    handlers = {
        signal.SIGINT: gateway.stop,
        signal.SIGTERM: gateway.stop,
        signal.SIGHUP: gateway.reloading.request,
    }
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


async def serve(settings: Settings, reread: Callable[[], Settings]) -> None:
    """Run until a signal. ``reread`` reads the settings again. Raises ``ConfigError`` if the
    gateway cannot start."""
    async with Gateway(settings, reread) as gateway, on_signals(gateway):
        amqp, http = settings.amqp, settings.http
        log.info("AMQP on %s:%d", amqp.host, gateway.amqp_port)
        if gateway.amqps_port is not None:
            log.info("AMQP over TLS on %s:%d", amqp.host, gateway.amqps_port)
        for one, port in zip(amqp.listeners, gateway.more_ports, strict=True):
            meaning = f"1 1 0 9 is {one.header_0_9}"
            if one.header_0_10 is not None:
                meaning += f" and 1 1 0 10 is {one.header_0_10}"
            log.info("AMQP on %s:%d, where %s", one.host or amqp.host, port, meaning)
        log.info("HTTP on http://%s:%d/", http.host, gateway.http_port)
        if gateway.admin_port is not None:
            log.info("administration on http://%s:%d/", settings.admin.host, gateway.admin_port)
        users = gateway.broker.access.list_users()
        if users and all(one.loopback_only for one in users) and not is_local_name(amqp.host):
            names = ", ".join(one.name for one in users)
            log.warning(
                "other machines can connect, and nobody can log in from there: %s may only come "
                "from this machine; `amqp-gateway user add NAME` adds a user",
                names,
            )
        log.info("data in %s", settings.data_dir if settings.durable else "memory only")
        sys.setswitchinterval(SWITCH_SECONDS)
        await gateway.load()
        freeze()
        await gateway.stopped()
        log.info("stopping")
