"""The options of the source, checked where they are given. Mistakes name the option."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from gateway.journal.consumers import NAME

MOST = (1 << 63) - 1
EARLIEST, LATEST = "earliest", "latest"


class OptionError(ValueError):
    """An option that cannot be. The text begins with its name."""


class Options(NamedTuple):
    """``journal``: a data directory of a gateway, or a directory of sealed segments. ``gateway``:
    the base URL of a gateway. One of them is given. Positions are commit positions."""

    journal: str = ""
    gateway: str = ""
    user: str = ""
    password: str = ""
    token: str = ""
    vhost: str = "*"
    addresses: tuple[str, ...] = ()
    start: int | None = None
    end: int | None = None
    since: int | None = None
    until: int | None = None
    body: bool = True
    starting: str = EARLIEST
    consumer: str = ""
    most_rows: int | None = None
    most_octets: int | None = None
    fail_on_loss: bool = True
    partitions: int = 4
    sample: float = 1.0
    large_bodies: bool = False


def _text(name: str, value: str) -> str:
    if not value:
        raise OptionError(f"{name}: must not be empty")
    return value


def _flag(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise OptionError(f"{name}: true or false, not {value!r}")
    return value.lower() == "true"


def _number(least: int) -> Callable[[str, str], int]:
    def read(name: str, value: str) -> int:
        if not value.isascii() or not value.isdecimal() or not least <= int(value) <= MOST:
            raise OptionError(f"{name}: a whole number from {least} on, not {value!r}")
        return int(value)

    return read


def _share(name: str, value: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise OptionError(f"{name}: a share from 0 to 1, not {value!r}")
    return found


def _moment(name: str, value: str) -> int:
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise OptionError(f"{name}: a time as in ISO 8601, not {value!r}") from None
    found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return int(found.timestamp() * 1000)


def _patterns(name: str, value: str) -> tuple[str, ...]:
    found = tuple(one.strip() for one in value.split(",") if one.strip())
    for one in found:
        if not one.startswith(("/queues/", "/exchanges/", "*")):
            raise OptionError(f"{name}: /queues/NAME or /exchanges/NAME, not {one!r}")
    return found


def _starting(name: str, value: str) -> str:
    if value in (EARLIEST, LATEST):
        return value
    try:
        found = json.loads(value)
        if set(found) == {"epoch", "pos"} and isinstance(found["pos"], int):
            return json.dumps(found, sort_keys=True)
    except (ValueError, TypeError):
        pass
    text = 'earliest, latest or an offset as {"epoch": …, "pos": …}'
    raise OptionError(f"{name}: {text}, not {value!r}")


def _url(name: str, value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise OptionError(f"{name}: http://HOST:PORT or https://HOST:PORT, not {value!r}")
    return value.rstrip("/")


def _secret(name: str, value: str) -> str:
    try:
        return Path(value).read_text().rstrip("\n")
    except OSError as error:
        raise OptionError(f"{name}: {value}: {error.strerror}") from None


def read_consumer(name: str, value: str) -> str:
    """A name that may be part of a file's. Raises ``OptionError``."""
    if NAME.fullmatch(value) is None:
        raise OptionError(f"{name}: letters, digits, - _ and . only, not {value!r}")
    return value


KNOWN: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "journal": ("journal", _text),
    "gateway": ("gateway", _url),
    "user": ("user", _text),
    "password": ("password", _text),
    "passwordFile": ("password", _secret),
    "token": ("token", _text),
    "vhost": ("vhost", _text),
    "addresses": ("addresses", _patterns),
    "startPos": ("start", _number(0)),
    "endPos": ("end", _number(0)),
    "since": ("since", _moment),
    "until": ("until", _moment),
    "body": ("body", _flag),
    "startingOffsets": ("starting", _starting),
    "consumer": ("consumer", read_consumer),
    "maxRowsPerTrigger": ("most_rows", _number(1)),
    "maxBytesPerTrigger": ("most_octets", _number(1)),
    "failOnDataLoss": ("fail_on_loss", _flag),
    "minPartitions": ("partitions", _number(1)),
    "sample": ("sample", _share),
    "largeBodies": ("large_bodies", _flag),
}
BY_LOWER = {name.lower(): name for name in KNOWN}


def read_options(given: Mapping[str, str]) -> Options:
    """Raises ``OptionError``. Names have any case, as Spark's have."""
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = BY_LOWER.get(key.lower())
        if name is None:
            raise OptionError(f"{key}: no such option; there are {', '.join(KNOWN)}")
        field, read = KNOWN[name]
        found[field] = read(name, str(value))
    options = Options(**found)
    if bool(options.journal) == bool(options.gateway):
        raise OptionError("journal: give either journal (a directory) or gateway (a URL)")
    if options.gateway:
        if not options.token and not (options.user and options.password):
            raise OptionError("user: with gateway give user and password, or token")
        if options.vhost == "*":
            options = options._replace(vhost="/")
        if "*" in options.vhost:
            raise OptionError("vhost: one virtual host, with gateway")
    if options.starting == LATEST and not options.consumer:
        raise OptionError("consumer: needed with startingOffsets=latest")
    return options
