"""Users and their permissions, for administrators."""

from starlette.responses import Response

from gateway.broker.access import Permission, User
from gateway.http import problems
from gateway.http.admin.admin_endpoints import Call, Endpoint, Rank, listed, precondition, respond
from gateway.http.admin.views import (
    PermissionInput,
    PermissionList,
    PermissionView,
    UserInput,
    UserList,
    UserView,
)
from gateway.http.problems import Problem

USERS = "/v1/admin/users"
ONE = USERS + "/{user}"
PERMISSION = ONE + "/permissions/{vhost}"


def show_user(user: User) -> UserView:
    return UserView(name=user.name, tags=list(user.tags), loopback_only=user.loopback_only)


def show_permission(user: str, one: Permission) -> PermissionView:
    return PermissionView(user=user, **one._asdict())


def known(call: Call) -> User:
    user = call.context.broker.access.user(call.names["user"])
    if user is None:
        raise Problem(problems.NOT_FOUND, f"no user '{call.names['user']}'")
    return user


async def list_users(call: Call) -> Response:
    return listed("users", (show_user(one) for one in call.context.broker.access.list_users()))


async def show_one_user(call: Call) -> UserView:
    return show_user(known(call))


async def put_user(call: Call) -> Response:
    access, name, body = call.context.broker.access, call.names["user"], call.body
    new = access.user(name) is None
    if new and body.password is None:
        raise Problem(problems.CONFLICT, f"no user '{name}', and a new one needs a password")
    verifier = None
    if body.password is not None:
        with precondition(problems.ARGUMENT):
            verifier = await call.context.authenticator.passwords.verifier(body.password)

    def put() -> None:
        if new:
            access.add_user(name, verifier or body.password, body.tags or ())
            return
        if body.tags is not None:
            keep_an_administrator(call, body.tags)
            access.set_tags(name, body.tags)
        if verifier is not None:
            access.change_password(name, verifier)

    with precondition(problems.ARGUMENT):
        await call.act(put)
    return respond(show_user(known(call)), 201 if new else 200)


def keep_an_administrator(call: Call, tags: list[str]) -> None:
    """Raises ``Problem`` (409) if this would remove the last administrator."""
    name = call.names["user"]
    others = any(
        "administrator" in one.tags
        for one in call.context.broker.access.list_users()
        if one.name != name
    )
    if not others and "administrator" not in tags:
        raise Problem(problems.CONFLICT, f"'{name}' is the only administrator")


async def delete_user(call: Call) -> None:
    name = known(call).name
    keep_an_administrator(call, [])
    await call.act(lambda: call.context.broker.access.remove_user(name))


async def list_permissions(call: Call) -> Response:
    found = call.context.broker.access.list_permissions()
    return listed("permissions", (show_permission(name, one) for name, one in found))


async def list_permissions_of(call: Call) -> PermissionList:
    name = known(call).name
    found = call.context.broker.access.permissions_of(name)
    return PermissionList(permissions=[show_permission(name, one) for one in found])


def find_permission(call: Call) -> Permission:
    for one in call.context.broker.access.permissions_of(known(call).name):
        if one.vhost == call.vhost:
            return one
    raise Problem(problems.NOT_FOUND, f"no permission in vhost '{call.vhost}'")


async def show_one_permission(call: Call) -> PermissionView:
    return show_permission(call.names["user"], find_permission(call))


async def put_permission(call: Call) -> Response:
    name, body = known(call).name, call.body
    if call.vhost not in call.context.broker.vhosts:
        raise problems.no_vhost(call.vhost)
    access = call.context.broker.access
    new = not access.may_enter(name, call.vhost)
    with precondition(problems.ARGUMENT):
        await call.act(
            lambda: access.set_permissions(name, call.vhost, body.configure, body.write, body.read)
        )
    return respond(show_permission(name, find_permission(call)), 201 if new else 200)


async def delete_permission(call: Call) -> None:
    find_permission(call)
    access = call.context.broker.access
    await call.act(lambda: access.clear_permissions(call.names["user"], call.vhost))


MISSING = (problems.NOT_FOUND,)
ADMIN = Rank.ADMINISTRATOR
REPLACED = {200: "The existing resource was changed"}
ALL = {"configure": ".*", "write": ".*", "read": ".*"}

ENDPOINTS = [
    Endpoint("GET", USERS, list_users, "Users", ADMIN, gives=UserList),
    Endpoint("GET", ONE, show_one_user, "One user", ADMIN, gives=UserView, refusals=MISSING),
    Endpoint("PUT", ONE, put_user, "Create or change a user", ADMIN, takes=UserInput,
             gives=UserView, status=201, also=REPLACED,
             refusals=(problems.CONFLICT, problems.ARGUMENT),
             example={"password": "correct horse", "tags": ["monitoring"]}),
    Endpoint("DELETE", ONE, delete_user, "Delete a user with its permissions", ADMIN, status=204,
             refusals=(problems.NOT_FOUND, problems.CONFLICT)),
    Endpoint("GET", ONE + "/permissions", list_permissions_of, "Permissions of a user", ADMIN,
             gives=PermissionList, refusals=MISSING),
    Endpoint("GET", PERMISSION, show_one_permission, "Permissions of a user in a virtual host",
             ADMIN, gives=PermissionView, refusals=MISSING),
    Endpoint("PUT", PERMISSION, put_permission, "Set the permissions of a user", ADMIN,
             takes=PermissionInput, gives=PermissionView, status=201, also=REPLACED,
             refusals=(problems.NOT_FOUND, problems.ARGUMENT), example=ALL),
    Endpoint("DELETE", PERMISSION, delete_permission, "Remove the permissions of a user", ADMIN,
             status=204, refusals=MISSING),
    Endpoint("GET", "/v1/admin/permissions", list_permissions, "All permissions", ADMIN,
             gives=PermissionList),
]  # fmt: skip
