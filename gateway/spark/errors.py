"""The errors of reading and writing with Spark.

    SparkSourceError
    ├── OptionRefused       an option, alone or with others, cannot work
    ├── SchemaRefused       a schema asks for what the table does not have
    ├── CheckpointRefused   a checkpoint is not one of ours, or has an unknown version
    ├── DataLoss            messages that the query should read no longer exist
    ├── Away                a queue or a broker is away, and may come back
    ├── OutcomesUnknown     the topics do not say how transactions ended
    ├── BodyUnreadable      a body is damaged or cannot be decompressed
    └── NotReady            Spark or this machine lacks something

Errors of the network and of servers are the client's (``gateway.client.errors``). Error texts never hold secrets,
because the texts reach the driver's log and Spark's web pages.
"""

from __future__ import annotations


class SparkSourceError(Exception):
    """The base class of the errors of this package."""


class OptionRefused(SparkSourceError, ValueError):
    """An option, alone or with others, cannot work."""


class SchemaRefused(SparkSourceError, ValueError):
    """A schema asks for what the table does not have."""


class CheckpointRefused(SparkSourceError, ValueError):
    """A checkpoint is not one of ours, or has a version that this build does not know."""


class OutcomesUnknown(SparkSourceError):
    """The topics of a broker do not say how its transactions ended."""


class DataLoss(SparkSourceError):
    """Messages that the query should read no longer exist.

    :param queue: topic, broker and queue number, for people.
    :param first: the first missing offset.
    :param end: the offset after the last missing one, None if nobody saw how far the queue went.
    :param reason: what happened, as far as known.
    """

    def __init__(self, queue: str, first: int, end: int | None, reason: str) -> None:
        super().__init__(queue, first, end, reason)
        self.queue = queue
        self.first = first
        self.end = end
        self.reason = reason

    @property
    def count(self) -> int | None:
        """The number of missing offsets; None if the number is unknown."""
        return None if self.end is None else max(self.end - self.first, 0)

    @property
    def what(self) -> str:
        """The missing offsets, for people."""
        if self.end is None:
            return f"offsets from {self.first} on, as far as there were any,"
        return f"offsets {self.first} to {self.end - 1}"

    def __str__(self) -> str:
        return (
            f"queue {self.queue}: {self.what} cannot be read: {self.reason}. Nothing was skipped. To go on without "
            f"them set failOnDataLoss=false, which warns of each range that is missing"
        )


class Away(SparkSourceError):
    """A queue or a broker that the query should read is away, and may come back.

    :param what: the queue or the broker, for people.
    :param reason: what is wrong, as far as known.
    """

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(what, reason)
        self.what = what
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.what} is away: {self.reason}. Start the query again when it is back"


class BodyUnreadable(SparkSourceError):
    """A body is damaged or cannot be decompressed."""

    def __init__(self, queue: str, queue_offset: int, reason: str) -> None:
        super().__init__(queue, queue_offset, reason)
        self.queue = queue
        self.queue_offset = queue_offset
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"queue {self.queue}, offset {self.queue_offset}: the body {self.reason}. mode=permissive gives null "
            f"instead, with the reason in the column bodyError when the schema names it"
        )


class NotReady(SparkSourceError, RuntimeError):
    """Spark or this machine lacks something."""
