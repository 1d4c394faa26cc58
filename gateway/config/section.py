"""Base class of the tables of the configuration file."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the file. Unknown keys are errors: a misspelt limit must not be ignored."""

    model_config = ConfigDict(extra="forbid")
