"""Listings of the C++ broker of Qpid."""

import pytest

from gateway.importing import Document, ImportFailed, Result, read_topology
from tests.importing.samples import arguments, bindings, by_name, imported, told


def listing(text: str) -> Result:
    return read_topology([Document("x", text.encode())])


HEAD = "Queue Name   Attributes\n=======================\n"


def test_a_listing_of_everything() -> None:
    result = imported("qpid-config.txt")
    assert result.format == "qpid-cpp"
    assert arguments(result, "hello") == {
        "x-max-length": 5, "x-overflow": "drop-head", "x-dead-letter-exchange": "dlx",
        "x-dead-letter-on-delete": True,
    }  # fmt: skip
    assert arguments(result, "lv") == {
        "x-last-value-key": "qpid.LVQ_key", "x-auto-delete-timeout": 5000,
    }  # fmt: skip
    assert arguments(result, "grp") == {"x-group-key": "g"}
    assert set(by_name(result, "exchanges")) == {"shop", "dlx"}
    assert by_name(result, "exchanges")["shop"]["arguments"] == {"alternate-exchange": "dlx"}
    assert bindings(result) == {
        ("shop", "queue", "hello", "price.#"), ("amq.match", "queue", "hello", "h"),
    }  # fmt: skip
    assert "line 6: queue '42bd0d6e:0.0' is exclusive" in told(result, "warning")


def test_objects_of_the_management() -> None:
    result = imported("qmf.json", vhost="v")
    assert result.format == "qpid-cpp"
    assert arguments(result, "hello") == {
        "x-max-length": 5, "x-overflow": "drop-head", "x-dead-letter-exchange": "dlx",
        "x-dead-letter-on-delete": True,
    }  # fmt: skip
    assert bindings(result) == {("shop", "queue", "hello", "price.#")}
    assert {one["vhost"] for one in result.definitions["queues"]} == {"v"}
    assert not result.findings


def test_columns_of_qpid_stat() -> None:
    result = listing(
        "Queues\n"
        "  queue      dur  autoDel  excl  msg   msgIn\n"
        "  ==========================================\n"
        "  orders     Y                      0     0\n"
        "  mine            Y        Y        0     0\n"
        "  passing         Y                 0     0\n"
        "Exchanges\n"
        "  exchange   type    dur  bind\n"
        "  ==============================\n"
        "  amq.topic  topic   Y      1\n"
        "  shop       fanout  Y      1\n"
        "  odd        xml     Y      1\n"
    )
    queues = by_name(result, "queues")
    assert set(queues) == {"orders", "passing"}
    assert (queues["orders"]["durable"], queues["passing"]["durable"]) == (True, False)
    assert queues["passing"]["auto_delete"]
    assert set(by_name(result, "exchanges")) == {"shop"}
    assert "no type 'xml'" in told(result, "error")


@pytest.mark.parametrize(
    ("line", "wanted", "text"),
    [
        ("q --durable --max-queue-size=9",
         {"x-max-length-bytes": 9, "x-overflow": "reject-publish"}, ""),
        ("q --max-queue-size=9 --limit-policy=flow-to-disk", {}, "paged to the disk"),
        ("q --max-queue-count=many", {"x-overflow": "reject-publish"}, "is no number"),
        ("q --argument x-qpid-priorities=10", {"x-priority-levels": 10}, ""),
        ("q --file-size=24 --flow-stop-size=1", {}, ""),
        ("q --argument odd=1", {}, "odd has no equal"),
        ("q --odd", {}, "'--odd' has no equal"),
        ("q --limit-policy='open", {}, ""),
    ],
)  # fmt: skip
def test_options(line: str, wanted: dict[str, object], text: str) -> None:
    result = listing(HEAD + line)
    assert arguments(result, "q") == wanted
    assert text in told(result)


def test_bindings_that_cannot_be_read() -> None:
    result = listing(
        HEAD + "q\nQueue 'q'\n  bind [k] => amq.topic {'a': open('x')}\n  bind [k => x\n"
    )
    assert "arguments of a binding are left out" in told(result, "error")
    assert "not a binding" in told(result, "error")
    assert not bindings(result)


@pytest.mark.parametrize("text", ["", "hello", "Total Queues: 5\n", "[]", "{}", "bind [x] => y"])
def test_something_else(text: str) -> None:
    with pytest.raises(ImportFailed):
        read_topology([Document("x", text.encode())], "qpid-cpp")
