"""Import of definitions in RabbitMQ's JSON.

Nothing is left out silently. Definitions that cannot be applied (parameters, queue types that there
are not), and keys of policies without effect, are reported with the reason, and so is every user
who cannot log in. RabbitMQ's password hashes are kept until the first login with the password,
which makes a SCRAM verifier of it.
"""

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from gateway.broker.access import (
    RABBIT_SHA256,
    TAGS,
    Access,
    Secret,
    User,
    read_rabbit_hash,
    read_user,
)
from gateway.broker.local import TopologyImport
from gateway.broker.policies import OPERATOR_POLICY, POLICY
from gateway.broker.topic_permissions import TopicPermission
from gateway.broker.vhost import VirtualHost
from gateway.definitions import (
    BindingPart,
    Definitions,
    ExchangePart,
    PermissionPart,
    PolicyPart,
    QueuePart,
    TopicPermissionPart,
    UserPart,
    VhostPart,
)
from gateway.errors import Refusal
from gateway.http import problems
from gateway.http.admin.admin_endpoints import act
from gateway.http.admin.policies import COMPONENT, read_policy
from gateway.http.admin.tables import read_table
from gateway.http.admin.views import Imported, ImportedUser
from gateway.http.context import Context
from gateway.http.problems import Problem

ADMINISTRATOR = "administrator"
ITEMS_PER_TURN = 100
POLICIES_PER_TURN = 8
"""A long pattern takes milliseconds to compile."""
PERMISSIONS_PER_TURN = 4
"""Each has three patterns."""


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
                PERMISSIONS_PER_TURN,
            )
            await self.each(
                "",
                given.topic_permissions,
                self.topic_permission,
                lambda one: f"topic permission of '{one.user}' in vhost '{one.vhost}'",
                PERMISSIONS_PER_TURN,
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
            algorithm = one.hashing_algorithm or RABBIT_SHA256
            rabbit_hash = read_rabbit_hash(one.password_hash, algorithm)
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

    def topic_permission(self, one: TopicPermissionPart) -> None:
        self.virtual_host(one.vhost)
        if self.access.user(one.user) is None:
            raise Problem(problems.NOT_FOUND, f"there is no user '{one.user}'")
        self.access.topics.set(
            TopicPermission(one.user, one.vhost, one.exchange, one.write, one.read)
        )

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


def adopt(access: Access, user: User) -> None:
    """Take a user with its verifier."""
    for part in (user.verifier.salt, user.verifier.stored_key, user.verifier.server_key):
        if not part:
            raise Problem(problems.ARGUMENT, "the verifier is incomplete")
    access.adopt(user)


async def load_definitions(context: Context, given: Definitions) -> Imported:
    """Import definitions when the gateway starts."""
    return await Import(context, "", given).run()
