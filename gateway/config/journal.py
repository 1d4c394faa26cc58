"""The journal of what the gateway accepts and forwards."""

from pydantic import Field

from gateway.config.section import Section


class RecordingSettings(Section):
    """Whether some addresses are recorded."""

    vhost: str = Field("*", description="virtual hosts; `*` is any text")
    address: str = Field(
        "*",
        description="addresses there, such as `/exchanges/orders` or `/queues/*`",
    )
    record: bool = Field(True, description="false: these are not recorded")


class JournalSettings(Section):
    """What is recorded: docs/pipeline.md."""

    recording: list[RecordingSettings] = Field(
        [], description="the first that fits an address says whether it is recorded; none: no"
    )
