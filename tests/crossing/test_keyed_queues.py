"""Keys of messages are the same in every version that publishes them."""

import pytest

from gateway.adapters import VERSIONS
from gateway.broker.message_keys import key_of
from gateway.message import DIALECTS, Dialect, Message, Properties
from tests.broker.fakes import DIALECT, House, limited
from tests.in_memory import text

assert VERSIONS, "which have registered their dialects"


def message(dialect: Dialect, body: str, properties: Properties) -> Message:
    header = dialect.write(properties)
    return Message(dialect, header, body.encode(), "", "q", dialect.essentials(header))


def test_a_value_of_one_version_replaces_that_of_another() -> None:
    channel, _ = House().channel()
    limited(channel, last_value_key="k")
    able = [
        each
        for name, each in DIALECTS.items()
        if name != DIALECT.name
        and (each.read(each.write(Properties(application={"k": "1"}))).application or {}).get("k")
    ]
    assert {"0-9-1", "1.0", "0-10"} <= {each.name for each in able}
    for dialect in able:
        for key in "12":
            sent = message(dialect, dialect.name + key, Properties(application={"k": key}))
            channel.publish(sent)
    found = [text(seen.message) for seen in channel.browse("q", None, 100)]
    assert found == [able[-1].name + "1", able[-1].name + "2"]


@pytest.mark.parametrize("name", ["0-9-1", "1.0", "0-10"])
def test_the_group_of_jms(name: str) -> None:
    """A property of the message in 1.0, a header elsewhere."""
    dialect = DIALECTS[name]
    given = Properties(application={"JMSXGroupID": "g"})
    if name == "1.0":
        given = Properties(group_id="g")
    assert key_of(message(dialect, "x", given), "JMSXGroupID") == ("text", "g")
    assert key_of(message(dialect, "x", Properties()), "JMSXGroupID") is None
