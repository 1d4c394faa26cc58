"""All messages of a batch or none of them: looked at first, then published in one turn.

A transaction of the broker holds them back while everything that could refuse one of them is
checked: permissions, routes, and whether a queue that rejects would be full. Nothing else happens
in between, so the checks still hold at commit, and one turn is one batch of the store.
"""

from gateway.broker.local import LocalTransaction
from gateway.errors import Refusal
from gateway.http import problems
from gateway.http.observe.trace import stamp
from gateway.http.problems import Problem, of_refusal
from gateway.http.publish.addresses import Target
from gateway.message import Message

MOST_ATOMIC = 1000
"""Messages of an atomic batch, however many other batches may have: the loop does nothing else from
the first look at a queue to the commit."""


def check_all(transaction: LocalTransaction, messages: list[Message]) -> dict[int, Problem]:
    """Publish all of them into the transaction. The problems by index; none if it can be
    committed, else it has been rolled back."""
    wrong: dict[int, Problem] = {}
    for index, message in enumerate(messages):
        stamp(message)
        try:
            reason = transaction.publish(message)
        except Refusal as refusal:
            wrong[index] = of_refusal(refusal)
            continue
        if reason:
            wrong[index] = problem_of(reason, message)
    if wrong:
        transaction.rollback()
    return wrong


def problem_of(reason: str, message: Message) -> Problem:
    if reason == "full":
        return Problem(problems.FULL, "a queue would be full and rejects new messages")
    if not message.exchange:
        return Problem(problems.NOT_FOUND, f"no queue {message.key!r}")
    return Target(message.exchange, message.key, False).unrouted()
