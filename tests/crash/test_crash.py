"""``kill -9`` in the middle of publishing, consuming and committing.

What was confirmed is there in order and once; what was not acknowledged is not lost; a transaction
is there as a whole once it is answered, and as a whole or not at all before.
"""

import random
from pathlib import Path

import pytest

from gateway.adapters.methods.wire import layouts as w
from tests.crash.story import Story, check, consume, furnish, live, publish, transact
from tests.drawing import examples
from tests.net.running import Running
from tests.net.wire import PERSISTENT

KILLS = examples(14, least=3)
JOBS = (publish, consume, transact)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_kill_at_any_moment(tmp_path: Path) -> None:
    chance = random.Random(20)
    story = Story()
    with Running(tmp_path) as gateway:
        furnish(gateway)
        for _ in range(KILLS):
            live(gateway, story, chance, {job: gateway.wire(1) for job in JOBS})
            gateway.start()
            check(gateway, story)
        # The test has seen something happen in its lives.
        assert story.long_lives > KILLS / 4


def test_killed_right_after_the_answer(tmp_path: Path) -> None:
    """Declared, bound, published, purged, deleted: an answer is a promise."""
    with Running(tmp_path) as gateway:
        wire = gateway.wire(1)
        wire.declare("gone", durable=True)
        wire.declare("passing")
        wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
        wire.publish("gone", b"x", PERSISTENT)
        wire.heard(w.BasicAck)
        wire.call(1, w.QueueDelete(queue="gone"), w.QueueDeleteOk)
        wire.declare("kept", durable=True)
        for number in range(3):
            wire.publish("kept", b"old %d" % number, PERSISTENT)
            wire.heard(w.BasicAck)
        wire.call(1, w.QueuePurge(queue="kept"), w.QueuePurgeOk)
        record = w.QueueBind(queue="kept", exchange="amq.topic", routing_key="a.#")
        wire.call(1, record, w.QueueBindOk)
        wire.publish("a.b", b"new", PERSISTENT, exchange="amq.topic")
        wire.heard(w.BasicAck)
        wire.publish("kept", b"transient")
        wire.heard(w.BasicAck)
        gateway.kill()

        gateway.start()
        wire = gateway.wire(1)
        assert wire.got("kept") == b"new"
        assert wire.got("kept") is None
        wire.publish("a.c", b"again", PERSISTENT, exchange="amq.topic")
        assert wire.got("kept") == b"again"
        for queue in ("gone", "passing"):
            wire = gateway.wire(1)
            close = wire.call(1, w.QueueDeclare(queue=queue, passive=True), w.ChannelClose)
            assert close.reply_code == 404
