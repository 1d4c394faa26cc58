"""Logs for people or for machines: one line of text, or one JSON object per line.

What looks like a secret is taken out of every line, whoever wrote it: credentials in headers, in
queries and in addresses. Queries of requests are never logged at all.
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


class TextLines(logging.Formatter):
    """``time LEVEL logger: text key=value ...``, secrets redacted."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        more = " ".join(f"{key}={value}" for key, value in extras(record).items())
        return redact(f"{text} {more}" if more else text)


class JsonLines(logging.Formatter):
    """One object per line with ``time``, ``level``, ``logger``, ``message``, what was given as
    ``extra``, and the trace id when a request is being served."""

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
    """For the whole process; ``form`` is "text" or "json"."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
