"""Options of the source: mistakes name the option. Without Spark."""

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra `spark` (pyspark)")
pytestmark = pytest.mark.extras

from gateway.journal.consumers import Consumers  # noqa: E402
from pyspark_amqp.options import OptionError, Options, read_options  # noqa: E402
from pyspark_amqp.places import consumers_of, done, kept_start  # noqa: E402
from tests.net.running import Running  # noqa: E402

GATEWAY = {"gateway": "http://127.0.0.1:1", "user": "u", "password": "p"}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "journal: give either"),
        ({"journal": "/x", "gateway": "http://x"}, "journal: give either"),
        ({"journal": "/x", "adresses": "*"}, "adresses: no such option"),
        ({"journal": "/x", "addresses": "orders"}, "addresses: /queues/NAME"),
        ({"journal": "/x", "startPos": "-1"}, "startPos: a whole number from 0 on"),
        ({"journal": "/x", "maxRowsPerTrigger": "0"}, "maxRowsPerTrigger: a whole number from 1"),
        ({"journal": "/x", "since": "yesterday"}, "since: a time"),
        ({"journal": "/x", "body": "no"}, "body: true or false"),
        ({"journal": "/x", "startingOffsets": "first"}, "startingOffsets: earliest, latest"),
        ({"journal": "/x", "startingOffsets": "latest"}, "consumer: needed"),
        ({"journal": "/x", "consumer": "../x"}, "consumer: letters"),
        ({"gateway": "ftp://x", "token": "t"}, "gateway: http://HOST"),
        ({"gateway": "http://x"}, "user: with gateway give"),
        ({**GATEWAY, "vhost": "a*"}, "vhost: one virtual host"),
        ({**GATEWAY, "largeBodies": "yes"}, "largeBodies: true or false"),
        ({"gateway": "http://x", "user": "u", "passwordFile": "/no"}, "passwordFile: /no: No such"),
    ],
)
def test_mistakes(given: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError) as raised:
        read_options(given)
    assert str(raised.value).startswith(text)


def test_names_have_any_case(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("p w\n")
    given = {"GATEWAY": "http://x/", "USER": "u", "passwordfile": str(secret), "STARTPOS": "7"}
    found = read_options(given)
    assert found == Options(gateway="http://x", user="u", password="p w", start=7, vhost="/")


def test_the_first_offset_of_a_consumer_is_kept(tmp_path: Path) -> None:
    (tmp_path / "gateway.db").touch()
    options = Options(journal=str(tmp_path), consumer="report")
    first = kept_start(options, {"epoch": "e", "pos": 3})
    assert kept_start(options, {"epoch": "e", "pos": 9}) == first == {"epoch": "e", "pos": 3}
    files = list((tmp_path / "journal" / "consumers").iterdir())
    assert [one.name for one in files] == ["report.json"]
    assert json.loads(files[0].read_text()).items() >= first.items()
    done(options, {"epoch": "e", "pos": 12})
    assert kept_start(options, {"epoch": "e", "pos": 20}) == first
    (known,) = consumers_of(options).all()
    assert (known.start, known.position) == (3, 12)


def test_a_consumer_of_a_gateway(tmp_path: Path) -> None:
    with Running(tmp_path, journal__recording="[{}]") as gateway:
        gateway.wire(1).publish("nowhere", b"")
        base = f"http://127.0.0.1:{gateway.http_port}"
        given = {
            "gateway": base,
            "user": "guest",
            "password": "guest",
            "consumer": "late",
            "startingOffsets": "latest",
        }
        options = read_options(given)
        first = kept_start(options, {"epoch": "", "pos": 0})
        done(options, {"epoch": "", "pos": 0})
        assert kept_start(options, {"epoch": "", "pos": 0}) == first
        (known,) = Consumers(gateway.data / "journal").all()
        assert (known.name, known.vhost, known.user) == ("late", "/", "guest")
