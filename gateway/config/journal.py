"""The journal of accepted and forwarded messages."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from gateway.config.section import AtStart, Live, Section


class RecordingSettings(Section):
    """Whether some addresses are recorded."""

    vhost: str = Field("*", description="virtual hosts; `*` is any text")
    address: str = Field(
        "*",
        description="addresses there, such as `/exchanges/orders` or `/queues/*`",
    )
    record: bool = Field(True, description="false: these are not recorded")
    keep_seconds: float | None = Field(
        None, gt=0, description="time after which entries of these go; unset: as of all"
    )
    keep_octets: int | None = Field(
        None, ge=0, description="octets of bodies above which the oldest entries of an address go"
    )

    @model_validator(mode="after")
    def check(self) -> Self:
        if not self.record and (self.keep_seconds is not None or self.keep_octets is not None):
            raise ValueError("record = false keeps nothing: leave keep_seconds and keep_octets out")
        return self


class JournalSettings(Section):
    """The addresses that the journal records, and for how long: docs/pipeline.md."""

    recording: AtStart[list[RecordingSettings]] = Field(
        [], description="the first that fits an address says whether it is recorded; none: no"
    )
    directory: AtStart[Path | None] = Field(
        None, description="directory of the sealed segments; unset: `journal` in the data directory"
    )
    seal: AtStart[bool] = Field(
        True, description="move older entries into Parquet files (needs the extra `journal`)"
    )
    segment_messages: Live[int] = Field(
        65_536, ge=1, description="entries in the store from which on they are sealed"
    )
    segment_octets: Live[int] = Field(
        64 << 20, ge=1024, description="octets of entries that a segment has at most, or one entry"
    )
    seal_seconds: Live[float] = Field(
        300, gt=0, description="time after which entries are sealed, however few they are"
    )
    keep_seconds: Live[float] = Field(
        604_800, gt=0, description="time after which entries are removed, a segment at a time"
    )
    keep_octets: Live[int] = Field(
        4 << 30, ge=0, description="octets of segments and entries above which the oldest go"
    )

    @model_validator(mode="after")
    def check(self) -> Self:
        if not self.seal and any(one.keep_octets is not None for one in self.recording):
            raise ValueError("keep_octets of an address needs sealing, and seal is false")
        return self
