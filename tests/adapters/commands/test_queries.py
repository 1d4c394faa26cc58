"""What a query may cost (handle.query, §3.5.11): a hard selector looks at few messages in a turn,
and the answer says where to go on."""

from gateway.adapters.commands.wire import layouts as w
from gateway.selector.like import EFFORT, LONGEST_TEXT, MOST_STEPS
from tests.adapters.commands.harness import VHOST, Harness, Nobody
from tests.adapters.commands.test_serving import entered
from tests.broker.fakes import message

HARD = " OR ".join([f"t LIKE '%_{'a' * 40}b%'"] * 50).encode()
MANY = 60


def test_a_hard_selector_is_answered_in_parts() -> None:
    harness = Harness()
    harness.queue("test")
    peer = entered(harness)
    client = harness.broker.attach(VHOST, "guest", "writer")
    channel = client.channel(1, Nobody())
    for _ in range(MANY):
        channel.publish(message("x", "test", application={"t": "a" * 16_000}))
    channel.publish(message("found", "test", application={"t": "a" * 41 + "b"}))
    asked, start, found = 0, 0, b""
    while not found:
        before = EFFORT.steps
        (answer,) = peer.says(w.HandleQuery(1, start, "", HARD))
        assert isinstance(answer, w.HandleIndex)
        assert EFFORT.steps - before <= 2 * MOST_STEPS + LONGEST_TEXT
        found, asked = answer.message_list, asked + 1
        assert found or start < answer.message_nbr < MANY, "it goes on where it ended"
        start = answer.message_nbr
    assert found == str(MANY).encode() and asked >= 5
