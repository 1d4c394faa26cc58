"""Security settings of Artemis as permissions, and its files of users and roles."""

from collections.abc import Iterator

from gateway.importing.artemis_settings import MOST_SETTINGS, Wildcards
from gateway.importing.documents import Element
from gateway.importing.findings import ImportFailed
from gateway.importing.topology import Topology, any_of

RIGHTS = {
    "send": "write",
    "consume": "read",
    "browse": "read",
    "createDurableQueue": "configure",
    "deleteDurableQueue": "configure",
    "createNonDurableQueue": "configure",
    "deleteNonDurableQueue": "configure",
    "createAddress": "configure",
    "deleteAddress": "configure",
}
TOPICS = r"^amq\.topic$"


def properties(text: str) -> Iterator[tuple[str, str]]:
    """Names and values of a file of properties."""
    for line in text.splitlines():
        plain = line.strip()
        if plain and plain[0] not in "#!":
            name, _, value = plain.partition("=")
            yield name.strip(), value.strip()


def read_access(
    topology: Topology,
    core: Element,
    vhost: str,
    users: str | None,
    roles: str | None,
    wildcards: Wildcards,
) -> None:
    """``users`` and ``roles`` are texts of their files. Raises ``ImportFailed``."""
    settings = [one for each in core.each("security-settings") for one in each.children]
    if len(settings) > MOST_SETTINGS:
        raise ImportFailed(f"there are more than {MOST_SETTINGS} security-settings")
    if users is not None:
        read_users(topology, users)
    if not settings:
        return
    if roles is None or users is None:
        place = settings[0].place
        topology.error(
            place, "permissions are left out: they need artemis-users.properties and "
            "artemis-roles.properties"
        )  # fmt: skip
        return
    holders: dict[str, set[str]] = {}
    for role, names in properties(roles):
        holders.setdefault(role, set()).update(name.strip() for name in names.split(","))
    granted: dict[str, dict[str, list[str]]] = {}
    settings = [
        one
        for one in settings
        if one.name != "security-setting"
        or topology.good(one.place, "match", one.get("match"), True)
    ]
    for one in settings:
        if one.name != "security-setting":
            topology.error(one.place, f"{one.name} is left out: users come from elsewhere")
            continue
        grant(topology, one, holders, granted, wildcards)
    narrower(topology, settings, wildcards)
    for user, rights in granted.items():
        if user in topology.users:
            topology.permit(user, vhost, *(any_of(rights.get(right, [])) for right in ORDER))


ORDER = ("configure", "write", "read")


def grant(
    topology: Topology,
    one: Element,
    holders: dict[str, set[str]],
    granted: dict[str, dict[str, list[str]]],
    wildcards: Wildcards,
) -> None:
    match = one.get("match")
    pattern = wildcards.expression(match)
    for permission in one.each("permission"):
        kind = permission.get("type")
        right = RIGHTS.get(kind)
        if right is None:
            topology.info(permission.place, f"permission '{kind}' of '{match}' is not needed here")
            continue
        for role in permission.get("roles").split(","):
            if role.strip() not in holders:
                topology.info(permission.place, f"nobody has the role '{role.strip()}'")
            for user in holders.get(role.strip(), ()):
                rights = granted.setdefault(user, {})
                rights.setdefault(right, []).append(pattern)
                if right != "configure":
                    rights.setdefault(right, []).append(TOPICS)


def narrower(topology: Topology, settings: list[Element], wildcards: Wildcards) -> None:
    """The most specific setting decides there; permissions here add up."""
    matches = [(one.get("match"), one) for one in settings if one.name == "security-setting"]
    for match, one in matches:
        wider = [m for m, other in matches if other is not one and wildcards.covers(m, match)]
        if wider:
            topology.warn(
                one.place,
                f"'{match}' may allow less than '{wider[0]}' there; here both are allowed",
            )


def read_users(topology: Topology, text: str) -> None:
    for name, password in properties(text):
        if not name:
            continue
        if password.startswith("ENC(") or not password:
            topology.user("", name)
            topology.error("artemis-users.properties", f"user '{name[:100]}' needs a new password")
        else:
            topology.user("", name, password=password)
