"""Class dtx of 0-8, 0-9 and the drafts: a branch is started by one identifier, a short string."""

from gateway.errors import Unwritable
from gateway.operations import StartBranch, Xid

TEXT = ("utf-8", "surrogateescape")
"""How the short strings of records stand for octets."""


def xid_of(identifier: str) -> Xid:
    """The xid by which a coordinator knows the branch."""
    return Xid(0, identifier.encode(*TEXT))


def identifier_of(op: StartBranch) -> str:
    """Raises ``Unwritable`` for another xid, and for branches that exist."""
    if op.join or op.resume or op.xid.format or op.xid.branch_id:
        raise Unwritable("dtx.start begins a transaction by one identifier")
    return op.xid.global_id.decode(*TEXT)
