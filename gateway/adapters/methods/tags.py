"""How the dialects of field tables differ: which tag stands for which kind of value."""

from typing import NamedTuple

from gateway.adapters.core.allowance import MOST_VALUES, Allowance


class FieldError(ValueError):
    """The octets are not a field table, or a value cannot be written as a field."""


class TooManyValues(FieldError):
    """Nothing is wrong with a table but how much it holds."""

    def __init__(self) -> None:
        super().__init__(f"more than {MOST_VALUES} values in a field table")


ALLOWANCE = Allowance(TooManyValues)
"""Values in the tables and arrays of one message that is published, or of one method."""


class AsciiString(str):
    """A long string with tag ``c`` (Qpid)."""


class WideString(str):
    """A long string with tag ``C`` (Qpid)."""


class Tags(NamedTuple):
    """Where the dialects differ: the tag for a kind of value, ``""`` if there is none."""

    name: str
    integer: str = "l"  # signed, 64 bits
    ulong: str = ""  # unsigned, 64 bits
    short: str = "s"  # signed, 16 bits
    short_string: str = ""
    octets: str = "x"
    narrow: bool = False  # S I D T F V and nothing else


RABBITMQ = Tags("rabbitmq")
QPID = Tags("qpid-java")
SPEC_0_9_1 = Tags("spec-0-9-1", integer="L", ulong="l", short="U", short_string="s")
SPEC_0_8 = Tags("spec-0-8", integer="", short="", octets="", narrow=True)

DIALECTS = {tags.name: tags for tags in (RABBITMQ, QPID, SPEC_0_9_1, SPEC_0_8)}
