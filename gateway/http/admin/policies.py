"""Policies and operator policies, with RabbitMQ's paths and as parts of definitions."""

from collections.abc import Iterator
from typing import Any

from starlette.responses import Response

from gateway.broker.policies import ALL, OPERATOR_POLICY, POLICY, Policy, make_policy
from gateway.broker.vhost import VirtualHost
from gateway.definitions import PolicyValue
from gateway.http.admin.admin_endpoints import Call
from gateway.http.admin.rabbit_answers import answer, answer_list, missing, need_keys
from gateway.http.admin.topology import readable

COMPONENT = "operator_policy"
"""Operator policies stand among the parameters of definitions, as such a component."""


def read_policy(name: str, given: PolicyValue, operator: bool = False) -> Policy:
    """Refuses (406) a body that is no policy."""
    return make_policy(
        name, given.pattern, given.definition, given.priority, given.apply_to, operator
    )


def show(policy: Policy) -> dict[str, Any]:
    return {
        "pattern": policy.pattern.text,
        "apply-to": policy.apply_to,
        "definition": policy.definition,
        "priority": policy.priority,
    }


def export_policies(hosts: list[VirtualHost], whole: bool) -> Iterator[dict[str, Any]]:
    """For definitions; entries name their virtual host if these are of all."""
    for host in hosts:
        for policy in list(host.policies.by_kind[POLICY].values()):
            yield ({"vhost": host.name} if whole else {}) | {"name": policy.name} | show(policy)


def export_operator_policies(hosts: list[VirtualHost], whole: bool) -> Iterator[dict[str, Any]]:
    for host in hosts:
        for policy in list(host.policies.by_kind[OPERATOR_POLICY].values()):
            yield ({"vhost": host.name} if whole else {}) | {
                "component": COMPONENT,
                "name": policy.name,
                "value": show(policy),
            }


# --- RabbitMQ's paths -----------------------------------------------------------------------------


def kind_of(call: Call) -> str:
    return OPERATOR_POLICY if "/operator-policies" in call.request.url.path else POLICY


def views(call: Call, vhost: str) -> list[dict[str, Any]]:
    policies = call.context.broker.vhosts[vhost].policies.by_kind[kind_of(call)]
    return [
        {"vhost": vhost, "name": name} | show(policy) for name, policy in sorted(policies.items())
    ]


async def rabbit_policies(call: Call) -> Response:
    hosts = [call.vhost] if "vhost" in call.names else call.context.broker.vhosts
    return answer_list(
        one for vhost in list(hosts) if readable(call, vhost) for one in views(call, vhost)
    )


async def rabbit_policy(call: Call) -> dict[str, Any]:
    for one in views(call, call.vhost):
        if one["name"] == call.names["policy"]:
            return one
    raise missing()


async def rabbit_put_policy(call: Call) -> Response:
    """201 or 204 as RabbitMQ; with an answer (201 or 200) if keys have no effect here."""
    need_keys(call.body, "pattern", "definition")
    kind, body = kind_of(call), call.body
    host = call.context.broker.vhosts.get(call.vhost)
    if host is None:
        raise missing()
    policies = host.policies
    policy = make_policy(
        call.names["policy"],
        body["pattern"],
        body["definition"],
        body.get("priority", 0),
        body.get("apply-to", ALL),
        kind == OPERATOR_POLICY,
    )
    new = policy.name not in policies.by_kind[kind]
    await call.act(lambda: policies.put(kind, policy))
    warnings = policy.warnings()
    if warnings:
        return answer(201 if new else 200, {"warnings": warnings})
    return Response(status_code=201 if new else 204)


async def rabbit_delete_policy(call: Call) -> Response:
    host = call.context.broker.vhosts.get(call.vhost)
    kind, name = kind_of(call), call.names["policy"]
    if host is None or name not in host.policies.by_kind[kind]:
        raise missing()
    policies = host.policies
    await call.act(lambda: policies.remove(kind, name))
    return Response(status_code=204)
