"""Base class of the tables of the configuration file, and when a change of a setting counts."""

from enum import Enum
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict

T = TypeVar("T")


class Takes(Enum):
    """The step after which a running gateway uses another value of a setting."""

    RELOAD = "reload"
    """SIGHUP: the settings are read again."""
    START = "start"
    """The process is started again."""


Live = Annotated[T, Takes.RELOAD]
"""Type of a setting whose changes count from the next reload on. Of a table: as a whole."""
AtStart = Annotated[T, Takes.START]
"""Type of a setting that is used when the gateway starts."""


class Section(BaseModel):
    """A table of the file. Unknown keys are errors: a misspelt limit must not be ignored."""

    model_config = ConfigDict(extra="forbid")
