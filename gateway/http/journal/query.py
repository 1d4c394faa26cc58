"""Questions to the journal: parameters of the query, and the shape of the answer."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from gateway.http.description import in_queries
from gateway.http.schemas import Shape
from gateway.journal.canonical import BY_NAME, COLUMNS, COSTLY

MOST_ENTRIES = 1000
ARROW = "application/vnd.apache.arrow.stream"
MOST = (1 << 63) - 1


class JournalQuery(BaseModel):
    """A range of positions, with the columns and addresses that are wanted."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    start: Annotated[
        int | None,
        Field(ge=0, le=MOST, description="first position; default: the oldest", examples=[0]),
    ] = None
    end: Annotated[
        int | None,
        Field(ge=0, le=MOST, description="position before which to stop", examples=[17]),
    ] = None
    limit: Annotated[
        int, Field(ge=0, le=MOST_ENTRIES, description="entries; 0 shows only where it ends")
    ] = 100
    address: Annotated[
        str,
        Field(max_length=1024, description="addresses, `*` is any text", examples=["/queues/*"]),
    ] = "*"
    consumer: Annotated[
        str,
        Field(
            max_length=128,
            description="name of a consumer: without `start` reading goes on at its position",
        ),
    ] = ""
    columns: Annotated[
        str,
        Field(
            max_length=1024,
            description="names, separated by commas; default: all but "
            + ", ".join(f"`{name}`" for name in sorted(COSTLY)),
            examples=["pos,address,body"],
        ),
    ] = ""

    def names(self) -> list[str]:
        """Those of the columns. Raises ``ValueError``."""
        if not self.columns:
            return [one.name for one in COLUMNS if one.name not in COSTLY]
        names = self.columns.split(",")
        unknown = [name for name in names if name not in BY_NAME]
        if unknown or len(set(names)) < len(names):
            raise ValueError(f"no column {unknown[0]!r}" if unknown else "a column is named twice")
        return names


JSON_TYPES: dict[str, Any] = {
    "BIGINT": int,
    "INT": int,
    "SMALLINT": int,
    "BOOLEAN": bool,
    "MAP<STRING,STRING>": dict[str, str | None],
    "ARRAY<STRING>": list[str],
}
"""Types of columns in JSON. Others are strings: octets in base64, times as in RFC 3339."""


def _member(name: str) -> tuple[Any, Any]:
    column = BY_NAME[name]
    kind = JSON_TYPES.get(column.type, str)
    if column.type.startswith("ARRAY<STRUCT"):
        kind = list[dict[str, Any]]
    return kind | None, Field(default=None, description=column.description)


MEMBERS: dict[str, Any] = {one.name: _member(one.name) for one in COLUMNS}
JournalEntry: Any = create_model("JournalEntry", __base__=Shape, **MEMBERS)
"""The columns that were asked for."""


class Segments(Shape):
    start: int
    end: int


class JournalPortion(Shape):
    """Entries in the order of their positions. Positions from `start` to `end` (not included) can
    be read; `next` is where to go on."""

    journal: str = Field(description="id of the journal; another one begins at 0 again")
    start: int = Field(examples=[0])
    end: int = Field(examples=[17])
    next: int = Field(examples=[17])
    sealed: list[Segments] = Field(description="positions of the sealed segments, with limit=0")
    entries: list[JournalEntry]


PARAMETERS = in_queries(JournalQuery)
TEXT = (
    "What was accepted or forwarded in the virtual host, of addresses that the caller may read. "
    "Bodies of more than 8 MiB are at `/v1/{vhost}/journal/bodies/{position}`. "
    "An empty portion may have others behind it: go on at `next` until that is `end`. With "
    f"`Accept: {ARROW}` and pyarrow the answer is an Arrow IPC stream. Its messages are as they "
    "came; the position to go on at is in `Amqp-Journal-Next`, the end in `Amqp-Journal-End`, and "
    "the journal in `Amqp-Journal`."
)
