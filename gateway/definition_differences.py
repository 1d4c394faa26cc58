"""The differences of two documents of definitions, entry by entry.

Defaults that one of them leaves out are no difference, nor is the order of entries. Passwords are
not compared: each gateway salts them anew.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel

from gateway.definitions import Definitions

ROOT = "/"
SECRETS = frozenset({"password", "password_hash", "hashing_algorithm", "scram_sha_256"})


class Difference(NamedTuple):
    """``sign``: "+" only in the first document, "-" only in the second, "~" in both, unlike.
    ``first`` and ``second`` have the members that are unlike."""

    sign: str
    kind: str
    name: str
    first: dict[str, Any] | None = None
    second: dict[str, Any] | None = None


Entry = dict[str, Any]
Name = Callable[[Entry], str]


def in_vhost(*members: str) -> Name:
    return lambda one: " ".join([*(str(one[name]) for name in members), f"in {one['vhost']}"])


def binding_name(one: Entry) -> str:
    ends = f"{one['source']} -> {one['destination_type']} {one['destination']}"
    arguments = json.dumps(one["arguments"], sort_keys=True) if one["arguments"] else ""
    return f"{ends} by '{one['routing_key']}' {arguments}".rstrip() + f" in {one['vhost']}"


def parameter_name(one: Entry) -> str:
    return f"{one.get('component')} {one.get('name')} in {one['vhost']}"


def topic_permission_name(one: Entry) -> str:
    return f"{one['user']} at {one['exchange']} in {one['vhost']}"


KINDS: dict[str, Name] = {
    "vhosts": lambda one: str(one["name"]),
    "users": lambda one: str(one["name"]),
    "permissions": in_vhost("user"),
    "topic_permissions": topic_permission_name,
    "policies": in_vhost("name"),
    "parameters": parameter_name,
    "exchanges": in_vhost("name"),
    "queues": in_vhost("name"),
    "bindings": binding_name,
}
"""Lists of definitions, and the names that tell their entries apart."""


def differences(first: Definitions, second: Definitions) -> Iterator[Difference]:
    """All differences, in the order in which definitions depend on each other."""
    for kind, name_of in KINDS.items():
        ours, theirs = (
            {name_of(one): one for one in map(plain, getattr(document, kind))}
            for document in (first, second)
        )
        for name in sorted({*ours, *theirs}):
            if name not in theirs:
                yield Difference("+", kind, name, ours[name])
            elif name not in ours:
                yield Difference("-", kind, name, None, theirs[name])
            elif ours[name] != theirs[name]:
                one, other = ours[name], theirs[name]
                unlike = [key for key in {**one, **other} if one.get(key) != other.get(key)]
                yield Difference(
                    "~",
                    kind,
                    name,
                    {key: one.get(key) for key in unlike},
                    {key: other.get(key) for key in unlike},
                )


def plain(one: BaseModel | Entry) -> Entry:
    """An entry with its defaults, and without values that cannot be compared."""
    found = one.model_dump(by_alias=True) if isinstance(one, BaseModel) else dict(one)
    if "vhost" in found or not isinstance(one, BaseModel):
        found["vhost"] = found.get("vhost") or ROOT
    tags = found.get("tags")
    if tags is not None:
        words = tags.split(",") if isinstance(tags, str) else tags
        found["tags"] = sorted(word for word in words if word)
    return {key: value for key, value in found.items() if key not in SECRETS}
