"""What a replay would do, without publishing anything."""

import asyncio
from collections.abc import Sequence

from gateway.errors import Refusal
from gateway.http import problems
from gateway.http.problems import Problem
from gateway.http.publish.addresses import Target
from gateway.http.publish.atomic import check_all
from gateway.http.publish.replays.ingest import Ingest, Outcome, Replay, Replayed
from gateway.message import Message

TRIED = 100
"""Messages that are tried in one turn."""

Fresh = list[tuple[int, Target, Message]]
"""Messages that were not published: number in the request, target, and the message."""


async def rehearse(ingest: Ingest, replay: Replay, messages: Sequence[Replayed]) -> Outcome:
    outcome = Outcome(len(messages))
    fresh: Fresh = []
    for index, one in enumerate(messages):
        if ingest.keys.published(replay.scope, one.source):
            outcome.duplicates.append(index)
            continue
        try:
            fresh.append((index, one.target, ingest.checked(replay, one)))
        except Problem as problem:
            outcome.rejected[index] = problem
    if ingest.is_forwarded(replay):
        await look(ingest, replay, fresh, outcome)
    else:
        for at in range(0, len(fresh), TRIED):
            attempt(ingest, replay, fresh[at : at + TRIED], outcome)
            await asyncio.sleep(0)
    outcome.published += [index for index, _, _ in fresh if index not in outcome.rejected]
    return outcome


async def look(ingest: Ingest, replay: Replay, fresh: Fresh, outcome: Outcome) -> None:
    """Whether the targets of an upstream are there, and may be written to."""
    known: dict[Target, Problem | None] = {}
    for index, target, _ in fresh:
        if target not in known:
            known[target] = await problem_of_target(ingest, replay, target)
        problem = known[target]
        if problem is not None:
            outcome.rejected[index] = problem


async def problem_of_target(ingest: Ingest, replay: Replay, target: Target) -> Problem | None:
    await ingest.sender.know(replay.vhost, target)
    ingest.publisher.begin()
    try:
        ingest.sender.check_target(replay.caller, replay.vhost, target)
    except Problem as problem:
        return problem
    except Refusal as refusal:
        return target.refused(refusal)
    finally:
        ingest.publisher.end()
    return None


def attempt(ingest: Ingest, replay: Replay, fresh: Fresh, outcome: Outcome) -> None:
    """Publish them in a transaction that is rolled back."""
    ingest.publisher.begin()
    try:
        client = ingest.publisher.channel(replay.vhost, replay.caller.user).client
        transaction = client.transaction()
        try:
            wrong = check_all(transaction, [message for _, _, message in fresh])
            if not wrong:
                transaction.rollback()
        finally:
            transaction.close()
    except Refusal as refusal:
        for index, target, _ in fresh:
            outcome.rejected[index] = target.refused(refusal)
        return
    finally:
        ingest.publisher.end()
    for at, problem in wrong.items():
        if problem.row is not problems.FULL:  # a replay waits for room
            outcome.rejected[fresh[at][0]] = problem
