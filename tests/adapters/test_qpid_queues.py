"""Arguments of queues as Qpid names them."""

from typing import Any

import pytest

from gateway.adapters.core.qpid_queues import qpid_arguments, queue_arguments
from gateway.broker.limits import read_queue_arguments
from gateway.errors import Condition, Refusal
from gateway.message import Table

CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"qpid.max_count": 5}, {"x-max-length": 5, "x-overflow": "reject-publish"}),
    ({"qpid.max_size": "500"}, {"x-max-length-bytes": 500, "x-overflow": "reject-publish"}),
    (
        {"qpid.max_count": 5, "qpid.policy_type": "ring"},
        {"x-max-length": 5, "x-overflow": "drop-head"},
    ),
    (
        {"qpid.max_count": 5, "qpid.policy_type": "self_destruct"},
        {"x-max-length": 5, "x-overflow": "self-destruct"},
    ),
    ({"qpid.max_count": 5, "qpid.policy_type": "flow_to_disk"}, {}),
    ({"qpid.policy_type": "ring"}, {}),
    ({"qpid.priorities": 10}, {"x-priority-levels": 10}),
    ({"x-qpid-priorities": "300"}, {"x-priority-levels": 10}),
    ({"qpid.last_value_queue_key": "ticker"}, {"x-last-value-key": "ticker"}),
    ({"qpid.last_value_queue": 1}, {"x-last-value-key": "qpid.LVQ_key"}),
    ({"qpid.last_value_queue": "false"}, {}),
    (
        {"qpid.last_value_queue": True, "qpid.last_value_queue_key": "k"},
        {"x-last-value-key": "k"},
    ),
    ({"qpid.group_header_key": "g"}, {"x-group-key": "g", "x-group-sticky": True}),
    ({"qpid.group_header_key": "g", "qpid.shared_msg_group": 1}, {"x-group-key": "g"}),
    ({"qpid.auto_delete_timeout": 30}, {"x-auto-delete-timeout": 30_000}),
    ({"x-qpid-maximum-message-ttl": 100}, {"x-message-ttl": 100}),
    ({"qpid.browse-only": 1}, {"x-browse-only": True}),
    ({"no-local": "true"}, {"x-no-local": True}),
    ({"qpid.max_size": b"500"}, {"x-max-length-bytes": 500, "x-overflow": "reject-publish"}),
    ({"qpid.max_count": "0", "qpid.max_size": 0}, {"x-overflow": "reject-publish"}),
    ({"qpid.max_count": None, "qpid.auto_delete_timeout": 0}, {"x-overflow": "reject-publish"}),
    ({"qpid.file_count": 8}, {}),
    ({"x-max-length": 7}, {}),
]


@pytest.mark.parametrize("given, added", CASES)
def test_names_of_the_broker_are_added(given: Table, added: Table) -> None:
    assert queue_arguments(given) == {**given, **added}


@pytest.mark.parametrize("given", [given for given, added in CASES if added])
def test_our_client_says_the_same(given: Table) -> None:
    """Another gateway understands what ours makes of the broker's names."""
    ours = {name: value for name, value in queue_arguments(given).items() if name not in given}
    again = queue_arguments(qpid_arguments(ours))
    kept = {name: value for name, value in again.items() if name in ours}
    assert ours == kept or ours == {"x-overflow": "reject-publish"}


@pytest.mark.parametrize(
    "name",
    ["qpid.max_count", "qpid.max_size", "qpid.priorities", "qpid.auto_delete_timeout"],
)
@pytest.mark.parametrize("value", [-1, 3.14159, "foo", "2222222.22222", "-3", True, [1]])
def test_the_broker_refuses_what_is_no_number(name: str, value: Any) -> None:
    with pytest.raises(Refusal) as refusal:
        read_queue_arguments(queue_arguments({name: value}), "queue 'q'")
    assert refusal.value.condition is Condition.PRECONDITION_FAILED


def test_names_of_the_broker_go_first() -> None:
    given: Table = {"qpid.max_count": 5, "x-max-length": 7, "x-overflow": "drop-head"}
    assert queue_arguments(given) == given
