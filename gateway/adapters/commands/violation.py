"""Violations by a peer: the reply code, and the scope that is closed (document §2.2.10)."""

from gateway.adapters.commands.wire.tables import CODES, REPLIES
from gateway.errors import Condition, Lost

CONDITIONS: dict[int, Condition] = {}
"""Conditions by reply code. Where several share a code, the exact one comes first."""
for _name, _code in CODES.items():
    if REPLIES.get(_name) == _code or _code == REPLIES["message-too-large"]:
        CONDITIONS.setdefault(_code, Condition(_name))
CONDITIONS |= {
    REPLIES["message-not-found"]: Condition.NOT_FOUND,
    REPLIES["client-active"]: Condition.RESOURCE_LOCKED,
    REPLIES["invalid-service"]: Condition.NOT_IMPLEMENTED,
    REPLIES["handle-error"]: Condition.CHANNEL_ERROR,
    REPLIES["invalid-message"]: Condition.PRECONDITION_FAILED,
}

MOST_TEXT = 255


class Violation(Exception):
    """``reply`` is a name in the table of reply codes; ``lost`` is LINK for a handle."""

    def __init__(self, reply: str, text: str, lost: Lost = Lost.CONNECTION) -> None:
        super().__init__(text)
        self.code = REPLIES[reply]
        self.text = text
        self.lost = lost


def condition_of(code: int) -> Condition | None:
    """``None`` for success; codes that are not in RFC 011 are internal errors."""
    if code == REPLIES["reply-success"]:
        return None
    return CONDITIONS.get(code, Condition.INTERNAL_ERROR)


def code_of(condition: Condition | None) -> int:
    return REPLIES["reply-success"] if condition is None else CODES[condition.value]


def reply_text(text: str) -> str:
    """A reply text cut to the length of a short string, between characters and without NUL."""
    raw = text.replace("\0", "").encode("utf-8", "replace")[:MOST_TEXT]
    return raw.decode("utf-8", "ignore")
