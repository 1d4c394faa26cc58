"""RabbitMQ's definitions, which are the model itself."""

from typing import Any

from gateway.importing.findings import ImportFailed, Result
from gateway.importing.topology import Topology

LISTS = (
    "users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters",
    "policies", "queues", "exchanges", "bindings",
)  # fmt: skip


def read(value: Any) -> Result:
    """Raises ``ImportFailed``. Entries that cannot be applied are found when they are applied."""
    if not isinstance(value, dict):
        raise ImportFailed("definitions are an object")
    for name in LISTS:
        entries = value.get(name, [])
        if not isinstance(entries, list):
            raise ImportFailed(f"{name} is not a list")
    topology = Topology()
    return Result("rabbitmq", value, topology.findings)
