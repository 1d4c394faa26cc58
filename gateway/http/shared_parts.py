"""Parts of ``/openapi.json`` that many operations have, each written once.

Most of the description would be problem responses, repeated by every operation. ``share_parts``
moves each parameter and response that stands more than once below ``components`` and leaves a
reference. Names of the moved parts follow from their content, so that types made of them stay.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

SHORTEST = 100
"""Octets of JSON. A shorter part is hardly longer than the reference to it."""
OWN_MEDIA = "vnd.amqp-gateway."

Part = dict[str, Any]


def share_parts(document: Part) -> None:
    """Share the repeated parameters and responses of the operations of an OpenAPI document. Its
    operations are replaced and not changed: routes keep theirs."""
    operations = [one for methods in document["paths"].values() for one in methods.values()]
    parameters = SharedParts(
        "parameters", [one for operation in operations for one in operation.get("parameters", ())]
    )
    responses = SharedParts(
        "responses", [one for operation in operations for one in operation["responses"].values()]
    )
    for methods in document["paths"].values():
        for method, operation in methods.items():
            made = {
                status: responses.part(one, response_name(status, one))
                for status, one in operation["responses"].items()
            }
            methods[method] = operation | {"responses": made}
            if "parameters" in operation:
                methods[method]["parameters"] = [
                    parameters.part(one, component_name(one["name"]))
                    for one in operation["parameters"]
                ]
    document["components"]["parameters"] = parameters.made
    document["components"]["responses"] = responses.made


class SharedParts:
    """The components of one kind. ``made`` has them by name."""

    def __init__(self, kind: str, parts: Iterable[Part]) -> None:
        self.kind = kind
        self.count = Counter(map(canonical, parts))
        self.names: dict[str, str] = {}
        self.made: Part = {}

    def part(self, part: Part, wanted: str) -> Part:
        """The part, or a reference to it if it stands more than once and is long."""
        text = canonical(part)
        if self.count[text] == 1 or len(text) < SHORTEST:
            return part
        if text not in self.names:
            self.names[text] = free_name(wanted, self.made)
            self.made[self.names[text]] = part
        return {"$ref": f"#/components/{self.kind}/{self.names[text]}"}


def canonical(part: Part) -> str:
    return json.dumps(part, sort_keys=True)


def response_name(status: str, response: Part) -> str:
    """By the type of the problem, or by the media types and schemas of the body."""
    parts = []
    for media, told in response.get("content", {}).items():
        example = told.get("example")
        if media == "application/problem+json" and isinstance(example, dict):
            return component_name(example["type"].rpartition("/")[2])
        schema = told["schema"]
        parts.append(schema_name(schema) or media.rpartition("/")[2].removeprefix(OWN_MEDIA))
    return component_name("-".join(dict.fromkeys(parts)) or "empty") + status


def schema_name(schema: Part) -> str:
    if schema.get("type") == "array":
        return f"{schema_name(schema['items'])}List"
    return str(schema.get("$ref", "")).rpartition("/")[2]


def component_name(text: str) -> str:
    """``too-large`` is ``TooLarge``; case within words stays."""
    words = re.findall(r"[A-Za-z0-9]+", text)
    return "".join(word[0].upper() + word[1:] for word in words)


def free_name(wanted: str, taken: Part) -> str:
    """The wanted name, or with the first number that makes it a new one."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    return name
