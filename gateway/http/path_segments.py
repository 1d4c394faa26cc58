"""Names in paths: one percent-encoded segment each."""

from functools import lru_cache
from urllib.parse import unquote

from gateway.http import problems
from gateway.http.problems import Problem


@lru_cache(4096)
def decode_segment(segment: str) -> str:
    """One path segment as the name it stands for. Raises ``Problem``."""
    try:
        name = unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise Problem(problems.INVALID, "a name in the path is not UTF-8") from None
    if len(name.encode()) > 255:
        raise Problem(problems.INVALID, "a name in the path is longer than 255 octets")
    return name
