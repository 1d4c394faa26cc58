"""Settings of a move."""

from typing import Literal

from pydantic import Field

from gateway.config.section import Section


class QueuePair(Section):
    """A queue, and where its messages go."""

    source: str = Field(min_length=1, max_length=255, description="queue that is emptied")
    destination: str = Field(
        "", max_length=255, description="queue or address there; empty: the same name"
    )

    @property
    def target(self) -> str:
        return self.destination or self.source


class MoveOptions(Section):
    """The settings of a move that its caller chooses."""

    source: str = Field("", max_length=1024, description="name of an upstream; empty: this gateway")
    source_vhost: str = Field(
        "/", max_length=255, description="virtual host, if the source is this gateway"
    )
    destination: str = Field(
        "", max_length=1024, description="name of an upstream; empty: this gateway"
    )
    destination_vhost: str = Field(
        "/", max_length=255, description="virtual host, if the destination is this gateway"
    )
    queues: list[QueuePair] = Field(
        min_length=1, max_length=10_000, description="queues that are moved"
    )
    batch: int = Field(
        500, ge=1, le=10_000, description="messages that are under way without a confirm"
    )
    rate: float = Field(0, ge=0, description="most messages per second; 0: no limit")
    grace_seconds: float = Field(
        1, ge=0, le=3600, description="time without a message before an empty queue counts as such"
    )
    wait_seconds: float = Field(
        10,
        ge=0,
        le=3600,
        description="time that a move waits after an interruption, at most, for the messages that "
        "were under way to be back in their queue, before it publishes others",
    )
    retries: int = Field(
        3,
        ge=0,
        le=1000,
        description="further attempts with a message that the destination does not take",
    )
    refused: Literal["stop", "reject"] = Field(
        "stop",
        description="`stop`: the move ends at such a message, which stays at its source; `reject`: "
        "it is rejected at its source, which may dead-letter it",
    )
    notes: bool = Field(
        True, description="whether messages carry the header `x-gateway-move` afterwards"
    )


class MoveSettings(MoveOptions):
    """A move: empties queues of one side into the other. The sides of a command are URLs."""

    versions: tuple[str, str] = Field(
        ("auto", "auto"), description="AMQP versions of both, if they are given by URLs"
    )
    user: str = Field("guest", description="user of this gateway whose permissions it has")
    delay_seconds: float = Field(1, gt=0, description="delay between two attempts")
    attempts: int = Field(
        8, ge=1, description="attempts to open the ends, without a message in between"
    )

    def reversed(self) -> "MoveSettings":
        """The settings of the way back."""
        return self.model_copy(
            update={
                "source": self.destination,
                "source_vhost": self.destination_vhost,
                "destination": self.source,
                "destination_vhost": self.source_vhost,
                "versions": self.versions[::-1],
                "queues": [
                    QueuePair(source=one.target, destination=one.source) for one in self.queues
                ],
            }
        )
