"""What ``/openapi.json`` says, in a form that tests can hold answers against."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

VERBS = ("get", "put", "post", "delete", "patch", "head", "options")
PROBLEM = "application/problem+json"


@dataclass(frozen=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    told: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.method.upper()} {self.path}"

    def parameters(self, place: str) -> list[dict[str, Any]]:
        return [one for one in self.told.get("parameters", []) if one["in"] == place]

    @property
    def bodies(self) -> dict[str, dict[str, Any]]:
        """Media types and what is said of each."""
        found: dict[str, dict[str, Any]] = self.told.get("requestBody", {}).get("content", {})
        return found

    @property
    def good(self) -> list[str]:
        return [status for status in self.told["responses"] if status.startswith("2")]

    @property
    def streams(self) -> bool:
        """Whether a good answer is an event stream."""
        return any(
            "text/event-stream" in self.told["responses"][status].get("content", {})
            for status in self.good
        )


def resolved(part: Any, document: dict[str, Any]) -> Any:
    """A part with the shared parameters, responses and the like in place of references to them.
    References to schemas stay."""
    if isinstance(part, list):
        return [resolved(one, document) for one in part]
    if not isinstance(part, dict):
        return part
    kind, _, name = str(part.get("$ref", "")).removeprefix("#/components/").partition("/")
    if name and kind != "schemas":
        return resolved(document["components"][kind][name], document)
    return {key: resolved(value, document) for key, value in part.items()}


def operations(document: dict[str, Any]) -> list[Operation]:
    return [
        Operation(method, path, resolved(told, document))
        for path, methods in document["paths"].items()
        for method, told in methods.items()
        if method in VERBS
    ]


def examples(told: dict[str, Any]) -> list[Any]:
    """The examples of one media type."""
    many = [one["value"] for one in told.get("examples", {}).values()]
    return [told["example"], *many] if "example" in told else many


@dataclass
class Schemas:
    """The schemas of a document. Its references stay within it."""

    document: dict[str, Any]
    known: dict[str, Draft202012Validator] = field(default_factory=dict)

    def errors(self, schema: dict[str, Any], value: Any) -> list[str]:
        key = json.dumps(schema, sort_keys=True)
        if key not in self.known:
            whole = {"components": self.document["components"], **schema}
            self.known[key] = Draft202012Validator(whole)
        return [f"{one.json_path}: {one.message}" for one in self.known[key].iter_errors(value)]


def media_type(answer: httpx.Response) -> str:
    kind: str = answer.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower()


def wrong(schemas: Schemas, operation: Operation, answer: httpx.Response) -> Iterator[str]:
    """What is not as the description of the operation has it."""
    responses = operation.told["responses"]
    told = responses.get(str(answer.status_code))
    if told is None:
        yield f"{answer.status_code} is not described: {answer.text[:300]}"
        return
    for name, header in told.get("headers", {}).items():
        if header.get("required") and name.lower() not in answer.headers:
            yield f"no header {name}"
    content = told.get("content", {})
    if not content:
        if answer.content:
            yield f"a body that is not described: {answer.content[:100]!r}"
        return
    given = media_type(answer)
    if given not in content and "*/*" not in content:
        yield f"{given!r} is none of {sorted(content)}"
        return
    schema = content.get(given, content.get("*/*"))["schema"]
    if given == "application/json" or given.endswith("+json"):
        yield from schemas.errors(schema, answer.json())
