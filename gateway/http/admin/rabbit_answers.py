"""Errors as RabbitMQ's management answers them: ``{"error": ..., "reason": ...}``."""

import json
from collections.abc import Iterable
from typing import Any

from starlette.responses import Response

from gateway.errors import Condition, Refusal
from gateway.http import problems
from gateway.http.portions import Portioned, array, encoded
from gateway.http.problems import Problem, of_refusal

NODE = "amqp-gateway@localhost"


class Bad(Problem):
    """A bad request. ``reason`` is RabbitMQ's, text or a list."""

    def __init__(self, reason: Any) -> None:
        super().__init__(problems.INVALID, str(reason))
        self.reason = reason


class Missing(Problem):
    """A missing resource, with RabbitMQ's reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(problems.NOT_FOUND, reason)


NOT_THERE = {"error": "Object Not Found", "reason": "Not Found"}


def missing() -> Problem:
    return Problem(problems.NOT_FOUND, "Not Found")


def need_keys(body: dict[str, Any], *names: str) -> None:
    missing = [name for name in names if name not in body]
    if missing:
        raise Bad("[" + ",".join(f"{{key_missing,{name}}}" for name in missing) + "]")


def rabbit_error(error: Problem | Refusal) -> Response:
    """The response to an error, in RabbitMQ's form."""
    if isinstance(error, Refusal):
        if error.condition is Condition.NOT_FOUND:
            return answer(404, {"error": "not_found", "reason": error.text})
        if error.condition is Condition.ACCESS_REFUSED:
            return answer(401, {"error": "not_authorised", "reason": "Access refused."})
        if error.condition is Condition.PRECONDITION_FAILED:
            return answer(400, {"error": "bad_request", "reason": error.text})
        error = of_refusal(error)
    status = error.row.status
    if isinstance(error, Bad):
        return answer(400, {"error": "bad_request", "reason": error.reason})
    if isinstance(error, Missing):
        return answer(404, {"error": "not_found", "reason": error.detail})
    if status == 404:
        return answer(404, NOT_THERE)
    if error.row is problems.SCHEMA or (status == 400 and "not JSON" in error.detail):
        return answer(400, {"error": "bad_request", "reason": "not_json"})
    if status == 401:
        headers = {"www-authenticate": 'Basic realm="RabbitMQ Management"'}
        reason = {"error": "not_authorized", "reason": "Login failed"}
        return answer(401, reason, headers)
    if status == 405:
        reason = {"error": "method_not_allowed", "reason": error.detail}
        return answer(405, reason, error.headers)
    if status == 403:
        return answer(401, {"error": "not_authorised", "reason": error.detail})
    if status == 422:
        return answer(400, {"error": "bad_request", "reason": error.detail})
    headers = dict(error.headers)
    if error.row.retry_after:
        headers["retry-after"] = str(error.retry_after)
    word = "bad_request" if status < 500 else error.row.kind
    return answer(status, {"error": word, "reason": error.detail}, headers)


def answer_list(items: Iterable[Any]) -> Response:
    """A response with a possibly long list."""
    return Portioned(array(map(encoded, items)), {"cache-control": "no-cache"})


def answer(status: int, told: Any, headers: dict[str, str] | None = None) -> Response:
    octets = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
    return Response(
        octets.encode("utf-8", "backslashreplace"),
        status,
        {"cache-control": "no-cache", **(headers or {})},
        "application/json",
    )


problems.SHAPES["/api/"] = rabbit_error
