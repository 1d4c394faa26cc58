"""What all tables of the file have in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the file. Unknown keys are errors: a misspelt limit must not be ignored."""

    model_config = ConfigDict(extra="forbid")
