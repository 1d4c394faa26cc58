"""Export and import of definitions in RabbitMQ's JSON.

Nothing is left out silently. Definitions that cannot be applied (parameters, queue types that there
are not), and keys of policies without effect, are reported with the reason, and so is every user
who cannot log in. RabbitMQ's password hashes are kept until the first login with the password,
which makes a SCRAM verifier of it. Our own export carries the verifiers.
"""

import asyncio
import json
import secrets
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from starlette.responses import Response

from gateway import __version__
from gateway.broker.access import (
    TAGS,
    Access,
    Secret,
    User,
    read_rabbit_hash,
    read_user,
    user_record,
)
from gateway.broker.broker import Broker
from gateway.broker.exchanges import Exchange
from gateway.broker.local import TopologyImport
from gateway.broker.policies import OPERATOR_POLICY, POLICY
from gateway.broker.queues import Queue
from gateway.broker.vhost import VirtualHost
from gateway.errors import ConfigError, Refusal
from gateway.http import problems
from gateway.http.admin.admin_endpoints import Call, Endpoint, Rank, act
from gateway.http.admin.policies import (
    COMPONENT,
    PolicyPart,
    export_operator_policies,
    export_policies,
    read_policy,
)
from gateway.http.admin.tables import read_table, write_table
from gateway.http.admin.views import Imported, ImportedUser
from gateway.http.context import Context
from gateway.http.events.durable import PREFIX as JOURNAL_PREFIX
from gateway.http.problems import Problem
from gateway.importing import Document, Finding, ImportFailed, read_topology

RABBITMQ = "3.10.8"
SCRAM = "scram_sha_256"
ADMINISTRATOR = "administrator"
SHA256 = "rabbit_password_hashing_sha256"
"""RabbitMQ's default."""
ITEMS_PER_TURN = 100
POLICIES_PER_TURN = 8
"""A long pattern takes milliseconds to compile."""


class Part(BaseModel):
    """An entry. Unknown members are ignored: they belong to other versions of RabbitMQ."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class VhostPart(Part):
    name: str = Field(min_length=1)


def whole(value: Any) -> Any:
    """In JSON, 4096.0 is an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def no_truth_value(value: Any) -> Any:
    """A ``Literal`` compares by equality, and ``False`` equals 0."""
    if isinstance(value, bool):
        raise ValueError("a truth value is no number")
    return whole(value)


class Verifier(Part):
    """SCRAM-SHA-256 verifier of the gateway's own export; octets in base64."""

    salt: str
    stored_key: str
    server_key: str
    iterations: Annotated[int, BeforeValidator(whole)] = Field(ge=1, le=10_000_000)


class UserPart(Part):
    name: str = Field(min_length=1)
    password: str | None = None
    password_hash: str | None = None
    hashing_algorithm: str | None = None
    tags: list[str] | str = []
    loopback_only: bool = False
    scram_sha_256: Verifier | None = None


class PermissionPart(Part):
    user: str
    vhost: str
    configure: str
    write: str
    read: str


class ExchangePart(Part):
    vhost: str | None = None
    name: str
    type: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: dict[str, Any] = {}


class QueuePart(Part):
    vhost: str | None = None
    name: str = Field(min_length=1)
    durable: bool = True
    auto_delete: bool = False
    arguments: dict[str, Any] = {}
    priority_levels: Annotated[Literal[0, 2, 10], BeforeValidator(no_truth_value)] = 0
    """Ours: of a queue that was made by a version with levels of priority of its own."""


class BindingPart(Part):
    vhost: str | None = None
    source: str
    destination: str
    destination_type: str = "queue"
    routing_key: str = ""
    arguments: dict[str, Any] = {}


class Definitions(Part):
    """RabbitMQ's definitions. Topic permissions and parameters other than operator policies are not
    applied, and reported so."""

    rabbit_version: str | None = None
    rabbitmq_version: str | None = None
    product_name: str | None = None
    product_version: str | None = None
    users: list[UserPart] = []
    vhosts: list[VhostPart] = []
    permissions: list[PermissionPart] = []
    exchanges: list[ExchangePart] = []
    queues: list[QueuePart] = []
    bindings: list[BindingPart] = []
    topic_permissions: list[dict[str, Any]] = []
    parameters: list[dict[str, Any]] = []
    global_parameters: list[dict[str, Any]] = []
    policies: list[PolicyPart] = []


# --- out ------------------------------------------------------------------------------------------


def members(broker: Broker, vhost: str | None, people: bool) -> Iterator[tuple[str, Any]]:
    """The members of the document: all but exclusive queues and those of event journals, as
    RabbitMQ writes it; of one virtual host without users. Lists that may be long are iterators
    over the present state, so that the document can be written in portions."""
    yield "rabbit_version", RABBITMQ
    yield "rabbitmq_version", RABBITMQ
    yield "product_name", "amqp-gateway"
    yield "product_version", __version__
    if people:
        access = broker.access
        yield "users", map(export_user, access.list_users())
        yield "vhosts", [{"name": name} for name in broker.vhosts]
        yield (
            "permissions",
            ({"user": name, **one._asdict()} for name, one in access.list_permissions()),
        )
        for name in ("topic_permissions", "global_parameters"):
            yield name, []
    hosts = [host for name, host in broker.vhosts.items() if vhost in (None, name)]
    whole = vhost is None
    yield "parameters", export_operator_policies(hosts, whole)
    yield "policies", export_policies(hosts, whole)
    yield "queues", export_queues(hosts, whole)
    yield "exchanges", export_exchanges(hosts, whole)
    yield "bindings", export_bindings(hosts, whole)


def export_queues(hosts: list[VirtualHost], whole: bool) -> Iterator[dict[str, Any]]:
    for host in hosts:
        for one in list(host.queues.values()):
            if not own(one):
                yield (
                    named(whole, host.name, one.name)
                    | {
                        "durable": one.durable,
                        "auto_delete": one.auto_delete,
                        "arguments": write_table(one.arguments),
                    }
                    | own_levels(one)
                )


def own_levels(queue: Queue) -> dict[str, int]:
    """Levels of priority that no argument says."""
    levels = queue.backlog.levels
    said = "x-priority-levels" in queue.arguments
    return {} if said or not levels else {"priority_levels": levels}


def export_exchanges(hosts: list[VirtualHost], whole: bool) -> Iterator[dict[str, Any]]:
    for host in hosts:
        for one in list(host.exchanges.values()):
            if one.name and not one.name.startswith("amq."):
                yield named(whole, host.name, one.name) | {
                    "type": one.type,
                    "durable": one.durable,
                    "auto_delete": one.auto_delete,
                    "internal": one.internal,
                    "arguments": write_table(one.arguments),
                }


def export_bindings(hosts: list[VirtualHost], whole: bool) -> Iterator[dict[str, Any]]:
    for host in hosts:
        for exchange in list(host.exchanges.values()):
            for one in list(exchange.bindings):
                to = one.destination
                if not one.severed and (isinstance(to, Exchange) or not own(to)):
                    yield ({"vhost": host.name} if whole else {}) | {
                        "source": exchange.name,
                        "destination": to.name,
                        "destination_type": "exchange" if one.to_exchange else "queue",
                        "routing_key": one.key,
                        "arguments": write_table(one.arguments),
                    }


async def export_in_portions(
    broker: Broker, vhost: str | None = None, people: bool = True
) -> Response:
    """The document as JSON, a few entries per turn, so that other requests are served in
    between."""
    pieces: list[str] = []
    for name, told in members(broker, vhost, people):
        pieces.append(f'{"," if pieces else "{"}"{name}":')
        if not isinstance(told, Iterator):
            pieces.append(json.dumps(told))
            continue
        before = "["
        while portion := list(islice(told, ITEMS_PER_TURN)):
            pieces += (before, json.dumps(portion)[1:-1])
            before = ","
            await asyncio.sleep(0)
        pieces.append("]" if before == "," else "[]")
    pieces.append("}")
    headers = {"cache-control": "no-store"}
    return Response("".join(pieces), 200, headers, "application/json")


def own(queue: Queue) -> bool:
    """Whether a queue belongs to a connection or to the gateway itself."""
    return queue.owner is not None or queue.name.startswith(JOURNAL_PREFIX)


def named(whole: bool, vhost: str, name: str) -> dict[str, Any]:
    return {"name": name, "vhost": vhost} if whole else {"name": name}


def export_user(user: User) -> dict[str, Any]:
    """``password_hash`` is that of RabbitMQ, or empty: RabbitMQ then makes a user who cannot log in
    by password."""
    record = user_record(user)
    exported = {
        "name": user.name,
        "password_hash": record.get("password_hash", ""),
        "hashing_algorithm": record.get("hashing_algorithm", SHA256),
        "tags": list(user.tags),
        "limits": {},
        "loopback_only": user.loopback_only,
    }
    if user.rabbit_hash is None:
        keys = ("salt", "stored_key", "server_key", "iterations")
        exported[SCRAM] = {key: record[key] for key in keys}
    return exported


# --- in -------------------------------------------------------------------------------------------


class Import:
    """One document on its way in, from a user or "". ``only`` is the virtual host that a part of
    RabbitMQ's document stands for, which then needs no name in its entries."""

    def __init__(
        self, context: Context, user: str, given: Definitions, only: str | None = None
    ) -> None:
        self.context = context
        self.user_name = user
        self.broker = context.broker
        self.access: Access = self.broker.access
        self.given = given
        self.only = only
        self.not_applied: list[str] = []
        self.users: list[ImportedUser] = []
        self.secret: Secret = ""
        """Of the user at hand."""
        kinds = ("vhosts", "permissions", "policies", "exchanges", "queues", "bindings")
        self.done = dict.fromkeys(kinds, 0)

    async def run(self) -> Imported:
        given = self.given
        if self.only is None:
            await self.each("vhosts", given.vhosts, self.vhost, lambda one: f"vhost '{one.name}'")
            for user in given.users:
                self.secret = await self.secret_of(user)
                await self.each("", [user], self.user, lambda one: f"user '{one.name}'")
            await self.each(
                "permissions",
                given.permissions,
                self.permission,
                lambda one: f"permission of '{one.user}' in vhost '{one.vhost}'",
            )
        await self.policies()
        await self.each("exchanges", given.exchanges, self.exchange, self.title("exchange"))
        await self.each("queues", given.queues, self.queue, self.title("queue"))
        await self.each(
            "bindings",
            given.bindings,
            self.binding,
            lambda one: (
                f"binding from '{one.source}' to '{one.destination}' in vhost '{self.host_of(one)}'"
            ),
        )
        self.leave_out()
        await act(self.context, lambda: None)  # all of it is on disk
        return Imported(users=self.users, not_applied=self.not_applied, **self.done)

    def host_of(self, one: Any) -> str:
        return self.only if self.only is not None else one.vhost or "/"

    def title(self, kind: str) -> Callable[[Any], str]:
        return lambda one: f"{kind} '{one.name}' in vhost '{self.host_of(one)}'"

    async def each(
        self,
        kind: str,
        items: list[Any],
        apply: Callable[[Any], None],
        title: Callable[[Any], str],
        most: int = ITEMS_PER_TURN,
    ) -> None:
        """Apply them a few per turn, so that others are served in between."""
        dependencies = self.context.dependencies
        hosts = self.broker.vhosts.values()
        portion = min((host.policies.portion(most) for host in hosts), default=1)
        for start in range(0, len(items), portion):
            dependencies.begin_turn()
            try:
                for one in items[start : start + portion]:
                    try:
                        apply(one)
                    except (Refusal, Problem, ValueError) as error:
                        self.not_applied.append(f"{title(one)}: {error}")
                    else:
                        if kind:
                            self.done[kind] += 1
            finally:
                dependencies.end_turn()
            await asyncio.sleep(0)

    def vhost(self, one: VhostPart) -> None:
        self.broker.create_vhost(one.name)

    async def secret_of(self, one: UserPart) -> Secret:
        """The verifier of a new password, computed in a thread; an unusable password is returned
        as it is, to be refused."""
        if one.scram_sha_256 is not None:
            return ""
        password = one.password
        if password is None:
            if self.access.user(one.name) is not None:
                return ""
            password = secrets.token_urlsafe(32)
        try:
            return await self.context.authenticator.passwords.verifier(password)
        except Refusal:
            return password

    def user(self, one: UserPart) -> None:
        tags = one.tags.split(",") if isinstance(one.tags, str) else one.tags
        wanted = [tag for tag in (tag.strip() for tag in tags) if tag]
        for tag in wanted:
            if tag not in TAGS:
                self.not_applied.append(f"tag '{tag}' of user '{one.name}': it means nothing here")
        good = [tag for tag in wanted if tag in TAGS]
        known = self.access.user(one.name)
        if ADMINISTRATOR not in good and self.is_last_administrator(one.name):
            good.append(ADMINISTRATOR)
            told = f"user '{one.name}' stays an administrator: there is no other"
            self.not_applied.append(told)
        if one.scram_sha_256 is not None:
            record = one.scram_sha_256.model_dump() | {
                "tags": good,
                "loopback_only": one.loopback_only,
            }
            adopt(self.access, read_user(one.name, record))
            login, note = "password", "taken over with its SCRAM-SHA-256 verifier"
        elif one.password is not None:
            if known is None:
                self.access.add_user(one.name, self.secret, good)
            else:
                self.access.set_tags(one.name, good)
                self.access.change_password(one.name, self.secret)
            login, note = "password", ""
        elif known is not None:
            self.access.set_tags(one.name, good)
            login, note = "kept", "it has the password it had here; a hash was ignored"
        else:
            made = self.access.add_user(one.name, self.secret, good)
            login, note = self.take_hash(made, one)
        self.users.append(ImportedUser(name=one.name, login=login, note=note))

    def is_last_administrator(self, name: str) -> bool:
        users = self.access.list_users()
        return [user.name for user in users if ADMINISTRATOR in user.tags] == [name]

    def take_hash(self, made: User, one: UserPart) -> tuple[str, str]:
        """Keep RabbitMQ's hash of a new user: how the user can log in, and a note."""
        if not one.password_hash:
            return "locked", "set a password: the document has none"
        try:
            rabbit_hash = read_rabbit_hash(one.password_hash, one.hashing_algorithm or SHA256)
        except Refusal as refusal:
            return "locked", f"set a password: {refusal.text}"
        adopt(self.access, made._replace(rabbit_hash=rabbit_hash))
        return "password", (
            "RabbitMQ's hash was taken over: the first login sends the password itself (PLAIN, "
            "AMQPLAIN or HTTP), later ones may use SCRAM-SHA-256"
        )

    def permission(self, one: PermissionPart) -> None:
        self.virtual_host(one.vhost)
        self.access.set_permissions(one.user, one.vhost, one.configure, one.write, one.read)

    def virtual_host(self, name: str) -> VirtualHost:
        found = self.broker.vhosts.get(name)
        if found is None:
            raise Problem(problems.NOT_FOUND, "there is no such virtual host")
        return found

    def topology(self, one: ExchangePart | QueuePart | BindingPart) -> TopologyImport:
        vhost = self.virtual_host(self.host_of(one))
        return TopologyImport(self.broker, vhost, self.user_name)

    async def policies(self) -> None:
        """Before queues and exchanges, which follow them from the beginning."""
        title = self.title("policy")
        few = POLICIES_PER_TURN
        await self.each("policies", self.given.policies, self.policy, title, few)
        await self.each("policies", self.operators(), self.operator_policy, title, few)
        if self.done["policies"]:
            with self.context.dependencies.turn():
                for host in self.broker.vhosts.values():
                    host.policies.reapply()

    def operators(self) -> list[PolicyPart]:
        """Operator policies among the parameters."""
        found = []
        for one in self.given.parameters:
            if one.get("component") == COMPONENT:
                try:
                    given = {"vhost": one.get("vhost"), "name": one.get("name")}
                    found.append(PolicyPart.model_validate(dict(one.get("value", {})) | given))
                except (ValidationError, TypeError, ValueError):
                    self.not_applied.append(f"operator policy '{one.get('name')}': misshaped")
        return found

    def policy(self, one: PolicyPart) -> None:
        self.put_policy(POLICY, one)

    def operator_policy(self, one: PolicyPart) -> None:
        self.put_policy(OPERATOR_POLICY, one)

    def put_policy(self, kind: str, one: PolicyPart) -> None:
        host = self.virtual_host(self.host_of(one))
        policy = read_policy(one.name, one, kind == OPERATOR_POLICY)
        host.policies.put(kind, policy, reapply=False)
        title = self.title("policy")(one)
        self.not_applied += [f"{title}: {text}" for text in policy.warnings()]

    def exchange(self, one: ExchangePart) -> None:
        if one.name.startswith("amq.") or not one.name:
            return  # every virtual host has them
        self.topology(one).declare_exchange(
            one.name,
            one.type,
            durable=one.durable,
            auto_delete=one.auto_delete,
            internal=one.internal,
            arguments=read_table(one.arguments),
        )

    def queue(self, one: QueuePart) -> None:
        self.topology(one).declare_queue(
            one.name,
            durable=one.durable,
            auto_delete=one.auto_delete,
            arguments=read_table(one.arguments),
            levels=one.priority_levels,
        )

    def binding(self, one: BindingPart) -> None:
        if not one.source:
            return  # the default exchange is bound to every queue by itself
        topology = self.topology(one)
        if one.destination_type not in ("queue", "exchange"):
            raise Problem(problems.ARGUMENT, f"no destination type '{one.destination_type}'")
        topology.bind(
            one.destination,
            one.source,
            one.routing_key,
            read_table(one.arguments),
            one.destination_type == "exchange",
        )

    def leave_out(self) -> None:
        """Report everything that has no meaning here."""
        left = self.not_applied
        others = [one for one in self.given.parameters if one.get("component") != COMPONENT]
        for kind, entries in (
            ("parameter", others),
            ("global parameter", self.given.global_parameters),
        ):
            left += [f"{kind} '{one.get('name')}': not supported" for one in entries]
        left += [
            f"topic permission of '{one.get('user')}' in vhost '{one.get('vhost')}': not supported"
            for one in self.given.topic_permissions
        ]


def adopt(access: Access, user: User) -> None:
    """Take a user with its verifier."""
    for part in (user.verifier.salt, user.verifier.stored_key, user.verifier.server_key):
        if not part:
            raise Problem(problems.ARGUMENT, "the verifier is incomplete")
    access.adopt(user)


async def export_definitions(call: Call) -> Response:
    return await export_in_portions(call.context.broker)


async def import_definitions(call: Call) -> Imported:
    return await Import(call.context, call.user, call.body).run()


def read_definitions(file: Path, source: str = "auto") -> tuple[Definitions, list[Finding]]:
    """A file of any format that can be imported, and what has no equal here. Raises
    ``ConfigError``."""
    try:
        read = read_topology([Document(file.name, file.read_bytes())], source)
        return Definitions.model_validate_json(json.dumps(read.definitions)), read.findings
    except OSError as error:
        raise ConfigError(f"definitions: {file}: {error.strerror}") from None
    except ImportFailed as error:
        raise ConfigError(f"definitions: {file}: {error}") from None
    except ValidationError as error:
        first, *_ = error.errors()
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"definitions: {file}: {where}: {first['msg']}") from None


async def load_definitions(context: Context, given: Definitions) -> Imported:
    """Import definitions when the gateway starts."""
    return await Import(context, "", given).run()


PATH = "/v1/admin/definitions"
EXAMPLE = {
    "vhosts": [{"name": "/"}],
    "queues": [
        {"name": "orders", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    ],
}

ENDPOINTS = [
    Endpoint("GET", PATH, export_definitions, "Definitions, in RabbitMQ's format",
             Rank.ADMINISTRATOR, gives=Definitions,
             text="Topology without exclusive queues, users and permissions. RabbitMQ can import "
             "it; the users then need new passwords. `scram_sha_256` holds the password verifiers: "
             "treat the document as a secret."),
    Endpoint("POST", PATH, import_definitions, "Import definitions, also RabbitMQ's",
             Rank.ADMINISTRATOR, takes=Definitions, gives=Imported, example=EXAMPLE,
             limit=lambda context: context.settings.max_body_octets,
             text="Adds missing definitions and deletes nothing. The answer has the result for "
             "each user, and names everything that was not applied."),
]  # fmt: skip
