"""Steps of a shovel between its ends: rate, property rules."""

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, field_validator

from gateway.config.section import Section
from gateway.selector import Selector

Value = StrictStr | StrictBool | StrictInt | StrictFloat


class RateSettings(Section):
    """How fast a shovel may move messages."""

    messages: float | None = Field(None, gt=0, description="messages per second; unset: no limit")
    octets: float | None = Field(
        None, gt=0, description="octets of headers and bodies per second; unset: no limit"
    )
    burst_seconds: float = Field(
        1, gt=0, description="messages of so many seconds may go at once after a pause"
    )


class DuplicateSettings(Section):
    """How messages are recognised that have come to the destination before."""

    id: str = Field(
        "message_id",
        description="property with another value in each message: `message_id`, `headers.NAME` "
        "or another",
    )
    count: int = Field(
        100_000, ge=1, le=10_000_000, description="ids that are remembered, the last ones"
    )
    seconds: float = Field(86_400, gt=0, description="how long an id is remembered")


class PropertyRuleSettings(Section):
    """Changes of the properties of messages."""

    when: str = Field("", description="selector of the messages that are changed; empty: all")
    rename: dict[str, str] = Field({}, description="new names of properties, by their old ones")
    remove: list[str] = Field([], description="properties that are removed")
    set: dict[str, Value] = Field({}, description="values; `{part}` is a part of the address")

    @field_validator("when")
    @classmethod
    def _when(cls, given: str) -> str:
        if given:
            Selector(given)
        return given
