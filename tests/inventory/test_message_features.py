"""Features of a message that was read from a journal: the same names as in frames."""

from decimal import Decimal

import pytest

from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.inventory.knowledge import knowledge
from gateway.inventory.message_features import features_of
from gateway.inventory.observer import LARGE
from gateway.message import Dialect, Properties

CASES: list[tuple[dict[str, object], Dialect, list[str]]] = [
    ({}, BASIC, []),
    ({"priority": 4}, BASIC, ["priority"]),
    ({"priority": 4}, SECTIONS, []),
    ({"ttl": 0}, BASIC, ["expiration"]),
    ({"creation_time": 5}, BASIC, ["timestamp"]),
    ({"creation_time": 5}, SECTIONS, []),
    ({"app_id": "a", "type": "t", "user_id": b"u"}, BASIC, ["user-id", "app-id", "message-type"]),
    ({"application": {"CC": ["a"], "m": {"x": 1}}}, BASIC, ["cc-and-bcc", "header-map",
                                                          "header-list"]),
    ({"reply_to": "amq.rabbitmq.reply-to.x"}, BASIC, ["direct-reply-to"]),
    ({"annotations": {"x-opt-jms-dest": 1, "mine": 2}, "body_kind": "value", "footer": {"a": 1},
      "group_id": "g"},
     SECTIONS, ["message-group", "footer", "body-value", "jms-annotations",
                "message-annotations"]),
]  # fmt: skip


@pytest.mark.parametrize(("given", "dialect", "wanted"), CASES)
def test_features(given: dict[str, object], dialect: Dialect, wanted: list[str]) -> None:
    found = features_of(Properties(**given), dialect, 10)
    assert sorted(found) == sorted(wanted)
    assert set(found) <= knowledge().keys()


def test_large_messages() -> None:
    assert features_of(Properties(), BASIC, LARGE) == []
    assert features_of(Properties(), BASIC, LARGE + 1) == ["large-message"]


def test_odd_values_are_no_error() -> None:
    odd = Properties(reply_to=("a", "b"), application={1: Decimal(1)}, annotations={5: None})
    assert features_of(odd, SECTIONS, 0) == ["message-annotations"]
