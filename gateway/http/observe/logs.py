"""Log formats: lines of text, or one JSON object per line.

Secrets are redacted in every line: credentials in headers, in queries and in addresses. Queries of
requests are never logged. Control characters, which peers may put into names and reasons, are
escaped, so that a peer can neither forge a line nor control the terminal of a reader.
"""

import json
import logging
import re
from datetime import UTC, datetime
from typing import Any, TextIO

from gateway.http.observe.trace import CURRENT

HIDDEN = "[redacted]"
SECRETS = (
    re.compile(r"(?i)(\b(?:basic|bearer)\s+)[A-Za-z0-9+/=._~-]{6,}"),
    re.compile(
        r"(?i)(\b(?:password|passwd|secret|ticket|access_token|refresh_token|token|api_key|cookie|"
        r"authorization)[\"']?\s*[=:]\s*[\"']?)(?!(?:basic|bearer)\s)[^\s\"'&,;}]{3,}"
    ),
    re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/:@]+:)[^\s/@]+(?=@)"),
)
OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def redact(text: str) -> str:
    for pattern in SECRETS:
        text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    return text


UNSEEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Control characters, line separators, lone surrogates, and characters that are invisible or change
the direction of text."""


def escaped(text: str) -> str:
    """The text in one line, with invisible characters escaped as in Python."""
    return UNSEEN.sub(lambda found: ascii(found[0])[1:-1], text)


class TextLines(logging.Formatter):
    """``time LEVEL logger: text key=value ...``, secrets redacted. A traceback follows in indented
    lines, which cannot be mistaken for entries."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()
        record.asctime = self.formatTime(record)
        text = self.formatMessage(record)
        more = " ".join(f"{key}={value}" for key, value in extras(record).items())
        lines = [escaped(f"{text} {more}" if more else text)]
        if record.exc_info:
            lines += self.formatException(record.exc_info).split("\n")
        if record.stack_info:
            lines += self.formatStack(record.stack_info).split("\n")
        return redact("\n    ".join([lines[0], *map(escaped, lines[1:])]))


class JsonLines(logging.Formatter):
    """One object per line with ``time``, ``level``, ``logger``, ``message``, the members of
    ``extra``, and the trace id within a request."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        told: dict[str, Any] = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        for key, value in extras(record).items():
            told[key] = redact(value) if isinstance(value, str) else value
        trace = CURRENT.get()
        if trace is not None:
            told.setdefault("trace_id", trace.id)
        if record.exc_info:
            told["exception"] = redact(self.formatException(record.exc_info))
        return json.dumps(told, default=lambda value: redact(str(value)))


def extras(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in OWN}


def set_up(level: str, form: str = "text", stream: TextIO | None = None) -> None:
    """Configure logging for the process. ``form`` is "text" or "json"."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
