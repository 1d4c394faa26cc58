"""The drafts as the engine knows them, and the second reading of 0-9a0's method header."""

from struct import Struct

from gateway.adapters.methods.geometry import Version
from gateway.adapters.methods.wire.tables_0_9a0 import V0_9a0
from gateway.adapters.methods.wire.tables_0_9a6 import V0_9a6

SHORT = "0-9a0-7"
"""0-9a0 as its reference part lists it: class, method, flags and synchtag in 7 octets. The drawing
in the same document has 8, with a revision octet before the flags."""

V0_9a0_7 = V0_9a0._replace(name=SHORT, geometry=V0_9a0.geometry._replace(method=Struct(">BBBI")))

DRAFTS: dict[str, Version] = {"0-9a0": V0_9a0, SHORT: V0_9a0_7, "0-9a6": V0_9a6}


def is_0_9a0(name: str) -> bool:
    """Whether this is 0-9a0, in either reading."""
    return name.startswith("0-9a0")
