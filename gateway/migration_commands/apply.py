"""``amqp-gateway bridge apply``: makes the nodes of a plan at the new broker."""

import json
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from gateway.administration import fail, out
from gateway.migration_commands.options import ToPassword, password_of_side

TIMEOUT_SECONDS = 30
REASON = 200
"""Characters of an answer that are shown."""

PlanFile = Annotated[Path, typer.Option("--plan", help="What `bridge plan --output` has written.")]
Management = Annotated[
    str, typer.Option("--to", help="http://host:port of the new broker's management.")
]
Login = Annotated[str, typer.Option(help="User there.")]


class Step(NamedTuple):
    """A request to the management of the new broker."""

    method: str
    path: str
    body: Any


def steps_of(text: str) -> list[Step]:
    """Those of a plan for RabbitMQ or Broker-J. Raises ``ValueError`` for anything else."""
    if text.lstrip().startswith("<"):
        raise ValueError("Artemis is told by its broker.xml: put the plan there")
    plan = json.loads(text)
    if isinstance(plan, dict):
        return [Step("POST", "/api/definitions", plan)]
    try:
        return [Step(one["method"], one["path"], one["body"]) for one in plan]
    except (TypeError, KeyError):
        raise ValueError("this is no plan") from None


def apply(
    plan: PlanFile, to: Management, user: Login = "guest", to_password_file: ToPassword = None
) -> None:
    """Make the nodes of a plan at a RabbitMQ or Broker-J, over its management.

    A node that is there already is left or updated, as the broker does. Exits with 1 if a request
    was refused; the others are performed nevertheless."""
    import httpx

    from gateway.net.tls import https_context

    try:
        steps = steps_of(plan.read_text("utf-8"))
    except OSError as error:
        fail(f"{plan}: {error.strerror}")
    except ValueError as error:
        fail(f"{plan}: {error}")
    password = password_of_side(to_password_file, "TO")
    refused = 0
    try:
        with httpx.Client(
            base_url=to,
            auth=(user, password),
            timeout=TIMEOUT_SECONDS,
            trust_env=False,
            verify=https_context(to),
        ) as client:
            for step in steps:
                answer = client.request(step.method, step.path, json=step.body)
                if answer.is_error:
                    refused += 1
                    said = f"{answer.status_code} {answer.text[:REASON].strip()}"
                    out.print(f"{step.method} {step.path}: {said}", highlight=False, markup=False)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        fail(f"{to}: {error}")
    out.print(f"{len(steps)} requests, {refused} refused", highlight=False, markup=False)
    if refused:
        raise typer.Exit(1)
